// Tests of policies in a database. The manifest has Garnering's number of levels: a restart keeps it, and a change to another
// policy resets it. The costs of each policy equal those in the simulator.
#include <engine/db.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

#include "base/background_pool.h"
#include "base/clock.h"
#include "base/random.h"
#include "io/memory_fs.h"
#include "policy/registry.h"
#include "tools/inspect.h"
#include "tools/simulate.h"

namespace ebbtide {
namespace TEST_FILE {

class Tree {
 public:
  explicit Tree(PolicySettings policy) {
    settings_.dir = "db";
    settings_.databases = 1;
    settings_.tree.memtable_size = 16 << 10;
    settings_.tree.policy = std::move(policy);
    open();
  }
  void open() {
    Components components;
    components.fs = &fs_;
    components.clock = &clock_;
    components.background = &pool_;
    auto db = Db::open(settings_, components);
    if (!db.is_ok()) FAIL(db.status().to_string());
    db_ = std::move(db).value();
  }
  void settle() {
    while (pool_.run_one()) {
    }
  }
  void close() {
    settle();
    REQUIRE(db_->close().is_ok());
    db_.reset();
  }
  void write(int kilobytes) {
    for (int i = 0; i < kilobytes; ++i) {
      std::string value(1000, '\0');  // random bytes, so it is as large in a table as in memory
      for (char& c : value) c = static_cast<char>(random_.next());
      WriteBatch batch;
      batch.put(0, "key" + std::to_string(random_.uniform(1'000'000)), value);
      REQUIRE(db_->commit(batch).is_ok());
      db_->write_log();
      settle();  // each memtable is a separate flush
    }
    REQUIRE(db_->flush(0).is_ok());
    settle();
  }
  void set_policy(PolicySettings policy) {
    settings_.tree.policy = std::move(policy);
    REQUIRE(db_->set_tree_settings(0, settings_.tree).is_ok());
  }
  /// Returns the line that ebbtide-inspect prints for the closed database's tree.
  std::string tree_line() {
    const std::string text = inspect_tree(fs_, "db").text;
    const std::size_t at = text.find(" flushes=");
    REQUIRE(at != std::string::npos);
    return text.substr(at, text.find('\n', at) - at);
  }

 private:
  MemoryFileSystem fs_;
  SimulatedClock clock_;
  ManualPool pool_;
  Settings settings_;
  std::unique_ptr<Db> db_;
  Random random_{5};
};

TEST_CASE("Garnering has grown levels: a restart keeps their number, and a change of policy resets it", "[policy]") {
  Tree tree({"garnering", {{"size_ratio", 2}, {"scaling_ratio", 1}, {"level0_runs", 1}}});
  tree.write(400);  // 25 memtables; levels of 2, 4, 8 and 16 memtables
  tree.close();
  const std::string grown = tree.tree_line();
  INFO(grown);
  REQUIRE(grown.find(" levels=") != std::string::npos);
  const int levels = std::stoi(grown.substr(grown.find(" levels=") + 8));
  CHECK(levels >= 3);
  CHECK(levels <= 5);
  tree.open();
  tree.write(20);
  tree.close();
  CHECK(tree.tree_line().find(" levels=" + std::to_string(levels)) != std::string::npos);
  tree.open();
  tree.set_policy({"one_leveling", {{"level0_runs", 1}}});
  tree.write(60);
  tree.close();
  CHECK(tree.tree_line().find(" levels=") == std::string::npos);
}

// --- Engine against simulator. Flushes are like the simulator's: all of one size, of new keys, spread evenly over the existing
// keys (multiples of the golden ratio are even, however many are taken). The engine decides by bytes, so its tables' metadata
// counts; a flush has about 30 entries.

#ifdef EBBTIDE_PLANTED_BUGS  // under sanitizers
constexpr std::uint64_t kFlushes = 300;
#else
constexpr std::uint64_t kFlushes = 3000;
#endif

constexpr std::uint64_t kFile = 128 << 10;  // used by policies that move single files; the runs of other policies are one file

bool goes_by_file(const PolicySettings& policy) { return make_policy(policy).value()->by_file(); }

struct Measured {
  double write_amp = 0, avg_runs = 0, flush_bytes = 0;
  std::uint64_t max_runs = 0;
};

Settings steady(const PolicySettings& policy) {
  Settings settings;
  settings.dir = "db";
  settings.databases = 1;
  settings.tree.memtable_size = 16 << 10;
  settings.wal_segment_size = 64 << 10;
  settings.tree.policy = policy;
  settings.tree.file_size = goes_by_file(policy) ? kFile : std::uint64_t{1} << 30;
  settings.tree.compression = settings.tree.compression_last_level = Compression::kNone;
  settings.tree.filter_bits_per_key = 0;
  settings.tree.delete_deadline = 0;
  return settings;
}

Measured measure(const PolicySettings& policy, std::uint64_t flushes) {
  MemoryFileSystem fs;
  SimulatedClock clock;
  ManualPool pool;
  Components components;
  components.fs = &fs;
  components.clock = &clock;
  components.background = &pool;
  auto opened = Db::open(steady(policy), components);
  REQUIRE(opened.is_ok());
  const std::unique_ptr<Db> db = std::move(opened).value();
  const std::string value(500, 'v');
  Measured out;
  std::uint64_t done = 0, written = 0, runs_sum = 0;
  for (std::uint64_t i = 1; done < flushes; ++i) {
    char key[17];
    std::snprintf(key, sizeof key, "%016llx", static_cast<unsigned long long>(i * 0x9e3779b97f4a7c15u));
    WriteBatch batch;
    batch.put(0, Bytes(key, 12), value);
    if (!db->commit(batch).is_ok()) FAIL("a write is refused");
    db->write_log();
    ++written;
    if (!pool.run_one()) continue;
    pool.run_all();
    const auto info = db->tree_info(0);
    if (info->memtable_entries == written) continue;  // no memtable was full, since other work came first
    written = info->memtable_entries;
    ++done;
    std::uint64_t runs = 0;
    for (const RunInfo& run : info->runs) runs += run.files != 0 ? 1 : 0;
    runs_sum += runs;
    out.max_runs = std::max(out.max_runs, runs);
  }
  const Stats stats = db->stats();
  CHECK(stats.flushes == flushes);
  CHECK(stats.bounds_broken == 0);
  const auto flushed = static_cast<double>(stats.flush_bytes_written);
  out.write_amp = (flushed + static_cast<double>(stats.compaction_bytes_written)) / flushed;
  out.avg_runs = static_cast<double>(runs_sum) / static_cast<double>(flushes);
  out.flush_bytes = flushed / static_cast<double>(flushes);
  REQUIRE(db->close().is_ok());
  return out;
}

SimulationSample simulated(const PolicySettings& policy, std::uint64_t flushes, double flush_bytes) {
  SimulationSettings settings;
  settings.policy = policy;
  settings.as_engine = true;
  settings.file_size = kFile / flush_bytes;
  if (goes_by_file(policy)) settings.cells = 1024;
  const auto samples = simulate(settings, std::vector<std::uint64_t>{flushes}, nullptr);
  if (!samples.is_ok()) FAIL(samples.status().to_string());
  return samples->back();
}

// Catch2's option -s shows the figures of engine/docs/policies.md.
TEST_CASE("each policy runs in the engine: bytes written and runs are as in the simulator", "[policy]") {
  const std::vector<PolicySettings> policies = {
      {"leveling", {{"size_ratio", 5}}},
      {"one_leveling", {}},
      {"tiering", {}},
      {"lazy_leveling", {}},
      {"klsm", {}},
      {"garnering", {}},
      {"bigtable", {{"k", 10}}},
      {"constant", {{"k", 40}}},
      {"exploring", {{"k", 8}}},
      {"concurrent", {{"k", 10}}},
      {"min_latency", {{"k", 6}}},
      {"binomial", {{"k", 6}}},
  };
  REQUIRE(policies.size() == all_policies().size());
  double leveling = 0;
  for (const PolicySettings& policy : policies) {
    INFO(policy.name);
    const Measured engine = measure(policy, kFlushes);
    const SimulationSample simulator = simulated(policy, kFlushes, engine.flush_bytes);
    INFO("write amplification " << engine.write_amp << ", simulated " << simulator.write_amp << "; runs " << engine.avg_runs
                                << ", simulated " << simulator.avg_runs << "; a flush has " << engine.flush_bytes << " bytes");
    CHECK(engine.write_amp == Approx(simulator.write_amp).epsilon(0.1));
    CHECK(engine.avg_runs == Approx(simulator.avg_runs).epsilon(0.1));
    CHECK(engine.max_runs <= simulator.max_runs + 1);
    if (policy.name == "leveling") {
      leveling = engine.write_amp;
    } else {  // each costs another amount than leveling
      CHECK(std::abs(engine.write_amp / leveling - 1) > 0.05);
    }
  }
}

}  // namespace TEST_FILE
}  // namespace ebbtide
