// Runs one merge policy on the engine for many small flushes, each of which waits for its merges: what papers/mao.py compares with
// the simulator (Mao's thesis, sections 3.4 and 3.5).
//
// Keys are random and written once, so an output is as large as its inputs together. Bytes are those of tables, data and metadata.
//
// Prints `progress: TEXT` lines and one line `figure: {...}` with rows [flushes, bytes written / bytes flushed, runs].
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <engine/db.h>
#include "bench/engines/data.h"
#include "bench/engines/measure.h"

namespace {

using namespace ebbtide;
using namespace ebbtide::bench;

constexpr int kMoments = 60;  // evenly spaced on a logarithmic scale
constexpr int kLooks = 2;     // after a flush

struct Parameters {
  std::string policy = "binomial", dir;
  std::vector<std::string> parameters;
  std::uint64_t flushes = 3'000;
  std::uint64_t entries = 64;  // of a flush
  std::size_t value_bytes = 240;

  [[nodiscard]] std::uint64_t flush_bytes() const { return entries * (Key::kBytes + value_bytes); }
  [[nodiscard]] std::uint64_t data_bytes() const { return flushes * flush_bytes(); }
};

void check(const Status& status) {
  if (!status.is_ok()) die("ebbtide: " + status.to_string());
}

Settings settings_of(const Parameters& p) {
  Settings settings;
  settings.dir = p.dir;
  settings.fsync = FsyncMode::kNo;
  settings.tree.memtable_size = p.flush_bytes();
  settings.block_cache = std::uint64_t{8} << 20;
  settings.memory_budget = std::uint64_t{512} << 20;
  settings.background_threads = 1;
  settings.tree.policy.name = p.policy;
  settings.tree.policy.parameters = parameters_of(p.parameters);
  settings.tree.compression = settings.tree.compression_last_level = Compression::kNone;
  settings.tree.filter_bits_per_key = 0;
  settings.tree.file_size = std::uint64_t{4} << 30;
  return settings;
}

void run(const Parameters& p) {
  auto opened = Db::open(settings_of(p), Components{});
  check(opened.status());
  const auto db = std::move(opened).value();
  const Values values(p.value_bytes);
  std::vector<std::vector<double>> rows;
  double runs_sum = 0;
  std::uint64_t next = 0;
  double moment = 4;
  const double step = std::pow(static_cast<double>(p.flushes) / moment, 1.0 / kMoments);
  Progress progress(p.policy);
  for (std::uint64_t flush = 1; flush <= p.flushes; ++flush) {
    WriteBatch batch;
    for (std::uint64_t i = 0; i < p.entries; ++i, ++next) batch.put(0, Key::scattered(next).view(), values.at(next));
    check(db->commit(batch));
    check(db->flush(0));
    wait_for_rest(kLooks, [&] { return db->stats().compactions_running != 0; });
    const auto info = db->tree_info(0);
    check(info.status());
    const Stats stats = db->stats();
    if (stats.flushes != flush) die(std::to_string(stats.flushes) + " flushes instead of " + std::to_string(flush));
    const auto runs = static_cast<double>(info->runs.size());
    runs_sum += runs;
    if (static_cast<double>(flush) >= moment || flush == p.flushes) {
      const auto flushed = static_cast<double>(stats.flush_bytes_written);
      rows.push_back(
          {static_cast<double>(flush), (flushed + static_cast<double>(stats.compaction_bytes_written)) / flushed, runs});
      moment = std::max(moment * step, static_cast<double>(flush + 1));
    }
    progress.at(flush, p.flushes);
  }
  JsonLine().add("rows", rows).add("avg_runs", runs_sum / static_cast<double>(p.flushes)).print();
  check(db->close());
}

}  // namespace

int main(int argc, char** argv) {
  Parameters p;
  CLI::App app{"One policy of ./dev bench paper mao, whose --help explains more"};
  app.add_option("--policy", p.policy, "name of a merge policy");
  app.add_option("--set", p.parameters, "NAME=NUMBER: a parameter of the policy")->delimiter(',');
  app.add_option("--flushes", p.flushes)->check(CLI::Range(std::uint64_t{10}, std::uint64_t{1'000'000}));
  app.add_option("--entries", p.entries, "entries of a flush")->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}));
  app.add_option("--value-bytes", p.value_bytes)->check(CLI::Range(std::size_t{8}, std::size_t{60'000}));
  app.add_option("--dir", p.dir, "directory for the database, removed at the end");
  CLI11_PARSE(app, argc, argv);
  in_empty_dir(&p.dir, 4 * p.data_bytes() + (std::uint64_t{1} << 28), [&] { run(p); });
  return 0;
}
