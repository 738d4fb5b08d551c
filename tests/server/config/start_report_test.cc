// Tests of the log lines of a start: the values in effect, and why each `auto` has its value.
#include "config/start_report.h"

#include <catch2/catch.hpp>

#include <algorithm>

namespace ebbtide {
namespace TEST_FILE {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// A server with a password and no `auto`.
struct Start {
  Config config;
  Settings engine;
  StartFacts facts;

  Start() {
    config.threads = 2;
    config.console = false;
    config.bind = {"127.0.0.1"};
    config.metrics_bind = "127.0.0.1";
    config.engine.memory_budget = kGiB;
    config.engine.background_threads = 1;
    config.engine.tree.memtable_size = 64 << 20;
    engine = config.engine;
    engine.dir = "/data";
    facts = {.version = "1.2.3",
             .port = 6379,
             .pid = 42,
             .loops = 2,
             .memory_bytes = 4 * kGiB,
             .memory_source = "the machine's memory",
             .cores_source = "8 processors",
             .password_required = true};
  }
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> out;
    for (const StartLine& line : start_report(config, engine, facts)) out.push_back((line.warning ? "! " : "") + line.text);
    return out;
  }
  [[nodiscard]] bool says(const std::string& line) const {
    const auto all = lines();
    return std::find(all.begin(), all.end(), line) != all.end();
  }
};

TEST_CASE("no setting is auto: the start logs one line, with port, directory, process, loops and memory") {
  Start start;
  CHECK(start.lines() == std::vector<std::string>{"ebbtide 1.2.3 starts: port 6379, dir /data, pid 42, 2 event loops, memory "
                                                  "budget 1024MiB (memtables of 64MiB, page cache: the rest)"});
  start.config.unixsocket = "/run/ebbtide.sock";
  start.config.console = true;
  start.facts.tls_port = 6380;
  start.facts.admin_port = 9736;
  start.facts.loops = 1;
  start.engine.block_cache = 256 << 20;
  CHECK(start.lines() == std::vector<std::string>{
                             "ebbtide 1.2.3 starts: port 6379, TLS port 6380, dir /data, unixsocket /run/ebbtide.sock, pid 42, "
                             "1 event loop, memory budget 1024MiB (memtables of 64MiB, page cache: 256MiB), metrics and "
                             "console at port 9736"});
}

TEST_CASE("memory budget is auto: the start logs that it is half of the machine's memory, or the minimum") {
  Start start;
  start.config.engine.memory_budget = 0;
  start.engine.memory_budget = 2 * kGiB;
  CHECK(start.says("storage.memory_budget 2048 MiB: half of the machine's memory"));
  start.facts.memory_bytes = kGiB;
  CHECK(start.says("storage.memory_budget 2048 MiB: the minimum, since less than half of it is in the machine's memory"));
}

TEST_CASE("memtables are larger than a quarter of the budget: the start logs the size in effect") {
  Start start;
  start.config.engine.tree.memtable_size = 512 << 20;
  start.engine.tree.memtable_size = 256 << 20;
  CHECK(start.says("tree.memtable_size 512MiB: 256MiB, a quarter of the budget, is used"));
}

TEST_CASE("thread settings are auto: the start logs how many threads run, and how that follows from the processors") {
  Start start;
  start.config.threads = 0;
  start.config.engine.background_threads = 0;
  start.engine.background_threads = 2;
  CHECK(start.says("server.threads 2: chosen for 8 processors"));
  CHECK(start.says("storage.background_threads 2: a quarter of 8 processors, at least 1"));
}

TEST_CASE("clients need no password: the last line of the start says so, as a warning if other machines reach the port") {
  Start start;
  start.facts.password_required = false;
  CHECK(start.lines().back().starts_with("no password is set"));
  start.config.bind = {"*"};
  start.config.protected_mode = false;
  CHECK(start.lines().back().starts_with("! "));
}

}  // namespace TEST_FILE
}  // namespace ebbtide
