#include "config/start_report.h"

#include "config/exposure.h"

namespace ebbtide {
namespace {

/// Returns the line that names the ports, the directory and the memory.
std::string first_line(const Config& config, const Settings& engine, const StartFacts& facts) {
  std::string line = "ebbtide " + facts.version + " starts: port " + std::to_string(facts.port);
  if (facts.tls_port != 0) line += ", TLS port " + std::to_string(facts.tls_port);
  line += ", dir " + engine.dir;
  if (!config.unixsocket.empty()) line += ", unixsocket " + config.unixsocket;
  line +=
      ", pid " + std::to_string(facts.pid) + ", " + std::to_string(facts.loops) + " event loop" + (facts.loops == 1 ? "" : "s");
  line += ", memory budget " + std::to_string(engine.memory_budget >> 20) + "MiB (memtables of " +
          format_size(engine.tree.memtable_size) +
          ", page cache: " + (engine.block_cache == 0 ? "the rest" : format_size(engine.block_cache)) + ")";
  if (facts.admin_port != 0) {
    line += std::string(", metrics") + (config.console ? " and console" : "") + " at port " + std::to_string(facts.admin_port);
  }
  return line;
}

}  // namespace

std::vector<StartLine> start_report(const Config& config, const Settings& engine, const StartFacts& facts) {
  std::vector<StartLine> lines;
  const auto add = [&lines](std::string text) { lines.push_back({false, std::move(text)}); };
  add(first_line(config, engine, facts));
  if (config.engine.memory_budget == 0) {
    const std::uint64_t budget = engine.memory_budget;
    add("storage.memory_budget " + std::to_string(budget >> 20) + " MiB: " +
        (budget > facts.memory_bytes / 2 ? "the minimum, since less than half of it is in " : "half of ") + facts.memory_source);
  }
  if (engine.tree.memtable_size < config.engine.tree.memtable_size) {
    add("tree.memtable_size " + format_size(config.engine.tree.memtable_size) + ": " + format_size(engine.tree.memtable_size) +
        ", a quarter of the budget, is used");
  }
  if (config.threads == 0) add("server.threads " + std::to_string(facts.loops) + ": chosen for " + facts.cores_source);
  if (config.engine.background_threads == 0) {
    add("storage.background_threads " + std::to_string(engine.background_threads) + ": a quarter of " + facts.cores_source +
        ", at least 1");
  }
  const Exposure exposure = exposure_of(config, facts.password_required, facts.port);
  if (!exposure.line.empty()) lines.push_back({exposure.warning, exposure.line});
  return lines;
}

}  // namespace ebbtide
