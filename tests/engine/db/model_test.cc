// The model test: the same kinds of random operations against an ordered map, under many option sets, with flushes, compactions,
// clock steps, clean restarts and kills in between. A failure prints the option set and the seed that repeat it.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>

#include "engine/db/model.h"
#include "support/planted.h"

using namespace ebbtide;

namespace {

struct OptionSet {
  const char* name;
  void (*change)(Settings&);
  bool changes_policy = false;  ///< while the tree is in use
};

const OptionSet kOptionSets[] = {
    {"defaults", [](Settings&) {}},
    {"tiny memtable", [](Settings& s) { s.memtable_size = 16 << 10; }},
    {"huge memtable", [](Settings& s) { s.memtable_size = 16 << 20; }},
    {"no filters", [](Settings& s) { s.tree.filter_bits_per_key = 0; }},
    {"leveling, T = 2",
     [](Settings& s) {
       s.tree.policy.name = "leveling";
       s.tree.policy.parameters["size_ratio"] = 2;
       s.memtable_size = 16 << 10;
     }},
    {"leveling, T = 10",
     [](Settings& s) {
       s.tree.policy.name = "leveling";
       s.tree.policy.parameters["size_ratio"] = 10;
     }},
    {"one_leveling, one run", [](Settings& s) { s.tree.policy.parameters["level0_runs"] = 1; }},
    {"one_leveling, eight runs, T = 3",
     [](Settings& s) {
       s.tree.policy.parameters["level0_runs"] = 8;
       s.tree.policy.parameters["size_ratio"] = 3;
       s.memtable_size = 16 << 10;
     }},
    {"tiering, T = 2",
     [](Settings& s) {
       s.tree.policy = {"tiering", {{"size_ratio", 2}}};
       s.memtable_size = 16 << 10;
     }},
    {"tiering, T = 4, small files",
     [](Settings& s) {
       s.tree.policy = {"tiering", {}};
       s.memtable_size = 16 << 10;
       s.tree.file_size = 64 << 10;
     }},
    {"lazy leveling, T = 3",
     [](Settings& s) {
       s.tree.policy = {"lazy_leveling", {{"size_ratio", 3}}};
       s.memtable_size = 16 << 10;
     }},
    {"K-LSM, T = 6, two runs",
     [](Settings& s) {
       s.tree.policy = {"klsm", {}};
       s.memtable_size = 16 << 10;
       s.tree.file_size = 64 << 10;
     }},
    {"K-LSM, T = 4, three runs, then one, tiles of 8",
     [](Settings& s) {
       s.tree.policy = {"klsm", {{"size_ratio", 4}, {"runs", 1}, {"runs_0", 3}}};
       s.memtable_size = 16 << 10;
       s.tree.pages_per_tile = 8;
     }},
    {"garnering, T = 2, c = 0.5",
     [](Settings& s) {
       s.tree.policy = {"garnering", {{"scaling_ratio", 0.5}, {"level0_runs", 2}}};
       s.memtable_size = 16 << 10;
       s.tree.file_size = 64 << 10;
     }},
    {"bigtable",
     [](Settings& s) {
       s.tree.policy = {"bigtable", {}};
       s.memtable_size = 16 << 10;
     }},
    {"constant, one run",
     [](Settings& s) {
       s.tree.policy = {"constant", {{"k", 1}}};
       s.memtable_size = 16 << 10;
     }},
    {"exploring, small files",
     [](Settings& s) {
       s.tree.policy = {"exploring", {}};
       s.memtable_size = 16 << 10;
       s.tree.file_size = 64 << 10;
     }},
    {"concurrent, k = 4",
     [](Settings& s) {
       s.tree.policy = {"concurrent", {{"k", 4}}};
       s.memtable_size = 16 << 10;
     }},
    {"binomial, k = 3, monkey",
     [](Settings& s) {
       s.tree.policy = {"binomial", {{"k", 3}}};
       s.tree.filter_allocation = FilterAllocation::kMonkey;
       s.memtable_size = 16 << 10;
     }},
    {"policies that change", [](Settings& s) { s.memtable_size = 16 << 10; }, true},
    {"lz4", [](Settings& s) { s.tree.compression = s.tree.compression_last_level = Compression::kLz4; }},
    {"lz4, zstd below",
     [](Settings& s) {
       s.tree.compression = Compression::kLz4;
       s.tree.compression_last_level = Compression::kZstd;
     }},
    {"tiles of 8", [](Settings& s) { s.tree.pages_per_tile = 8; }},
    {"tiles of 64, tiny files",
     [](Settings& s) {
       s.tree.pages_per_tile = 64;
       s.tree.file_size = 64 << 10;
       s.memtable_size = 32 << 10;
     }},
    {"tiles of 3, one-page cache, always",
     [](Settings& s) {
       s.tree.pages_per_tile = 3;
       s.block_cache = 4096;
       s.fsync = FsyncMode::kAlways;
     }},
    {"tiny log segments", [](Settings& s) { s.wal_segment_size = 64 << 10; }},
    {"most tombstones first",
     [](Settings& s) {
       s.tree.file_choice = FileChoice::kMostTombstones;
       s.memtable_size = 16 << 10;
     }},
    {"round robin, small files",
     [](Settings& s) {
       s.tree.file_choice = FileChoice::kRoundRobin;
       s.tree.file_size = 64 << 10;
       s.memtable_size = 16 << 10;
     }},
};

struct Reached {
  bool tombstones = false, range_tombstones = false, records = false, restarted = false, killed = false;
};

/// No promise, one that is never near, and two that merges have to hurry for.
Millis random_deadline(std::uint64_t dice) {
  constexpr Millis kDeadlines[] = {0, 24ull * 3600 * 1000, 60'000, 5'000};
  return kDeadlines[dice % std::size(kDeadlines)];
}

void run(const OptionSet& set, std::uint64_t seed, int operations, Reached* reached) {
  Harness h;
  set.change(h.settings);
  h.settings.tree.stamp = static_cast<StampMode>(seed % 3);
  h.settings.tree.delete_deadline = random_deadline(seed);
  h.open();
  ModelDriver driver(h, seed, 400);
  Random& random = driver.random();
  for (int i = 0; i < operations; ++i) {
    const auto dice = random.uniform(1000);
    if (dice < 700) {
      driver.write();
    } else if (dice < 900) {
      driver.check_get();
    } else if (dice < 920) {
      driver.check_scan();
    } else if (dice < 930) {
      driver.check_stamps();
    } else if (dice < 950) {
      h.pool.run_one();
    } else if (dice < 960) {
      h.settle();
    } else if (dice < 970) {
      demand_ok(h.db->flush(0), "flush");
    } else if (dice < 973) {
      demand_ok(h.db->compact(0, {}), "compact");
    } else if (dice < 985) {
      h.advance(random.uniform(20'000));
    } else if (dice < 990 && random.one_in(3)) {
      TreeSettings tree = h.settings.tree;
      tree.pages_per_tile = 1 + static_cast<std::uint32_t>(random.uniform(64));
      tree.delete_deadline = random_deadline(random.uniform(4));
      if (tree.filter_allocation == FilterAllocation::kMonkey)
        tree.filter_bits_per_key = static_cast<double>(random.uniform(4) * 5);
      if (set.changes_policy) {
        const char* const names[] = {"one_leveling", "leveling", "tiering",   "lazy_leveling", "klsm",        "garnering",
                                     "bigtable",     "constant", "exploring", "concurrent",    "min_latency", "binomial"};
        tree.policy = {names[random.uniform(std::size(names))], {}};
      }
      demand_ok(h.db->set_tree_settings(0, tree), "new settings");
    } else if (dice < 993) {
      driver.change_views();
      driver.check_views();
    } else if (dice < 996 && random.one_in(3)) {
      driver.close_views();
      h.reopen();
      reached->restarted = true;
      driver.check_everything();
    } else if (random.one_in(3)) {
      driver.close_views();
      const SeqNum durable = driver.durable();
      h.crash(CrashMode::kEverything, seed);
      h.open();
      reached->killed = true;
      driver.check_recovered(durable);
    }
    const auto info = *h.db->tree_info(0);
    for (const RunInfo& r : info.runs) {
      reached->tombstones |= r.tombstones != 0;
      reached->range_tombstones |= r.range_tombstones != 0;
    }
    reached->records |= info.records != 0;
  }
  driver.check_everything();
  h.settle();
  driver.check_everything();
  driver.check_views();
  driver.close_views();
  for (DatabaseId d = 0; d < ModelDriver::kDatabases; ++d) h.verify(d);
  h.reopen();
  driver.check_everything();
}

}  // namespace

TEST_CASE("model: random operations give a map's answers under every option set", "[long]") {
  const char* env = std::getenv("EBBTIDE_MODEL_ROUNDS");
  const int rounds = env != nullptr ? std::atoi(env) : 7;
  const char* first = std::getenv("EBBTIDE_SEED");
  const std::uint64_t first_seed = first != nullptr ? std::strtoull(first, nullptr, 10) : 1000;
  for (const OptionSet& set : kOptionSets) {
    Reached reached;
    for (int round = 0; round < rounds; ++round) {
      const std::uint64_t seed = first_seed + static_cast<std::uint64_t>(round);
      INFO("option set \"" << set.name << "\", seed " << seed);
      run(set, seed, 5000, &reached);
    }
    INFO("option set \"" << set.name << "\" must reach the states that it is there for");
    CHECK(reached.tombstones);
    CHECK(reached.range_tombstones);
    CHECK(reached.records);
    CHECK(reached.restarted);
    CHECK(reached.killed);
  }
}

// --- planted bugs (support/planted.h)

namespace {

/// A short run under the option set of that name.
void run_some(const char* name) {
  const auto* const set = std::find_if(std::begin(kOptionSets), std::end(kOptionSets),
                                       [name](const OptionSet& s) { return std::string(s.name) == name; });
  REQUIRE(set != std::end(kOptionSets));
  Reached reached;
  run(*set, 1000, 2000, &reached);
}

}  // namespace

TEST_CASE("planted: a tombstone that a merge drops too early is found by the model", "[planted]") {
  must_catch(PlantedBug::kDropTombstoneEarly, [] { run_some("leveling, T = 2"); });
}

TEST_CASE("planted: a range delete that leaves the key at its start is found by the model", "[planted]") {
  must_catch(PlantedBug::kRangeLeavesItsStart, [] { run_some("leveling, T = 2"); });
}

TEST_CASE("planted: a page that the cache has of another file is found by the model", "[planted]") {
  must_catch(PlantedBug::kReadStalePage, [] { run_some("leveling, T = 2"); });
}
