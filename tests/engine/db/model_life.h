// The life of a database with one option set: random operations, flushes, compactions, clock steps, new settings, open views,
// clean restarts and kills. Every result is compared with a model.
#pragma once

#include <functional>
#include <iterator>

#include "engine/db/layouts.h"
#include "engine/db/model.h"
#include "engine/db/model_states.h"

namespace ebbtide {

// The states that lives of an option set reach. At least 66 of 80 lives reach each state. So seven lives with any seeds all miss
// a given state only once in a hundred thousand times. Range tombstones across files occur in at most half of the lives of any
// set, and three levels in none of the sets with few or large levels.
constexpr States kShallow =
    kAllStates & ~states(State::kRangeTombstoneAcross, State::kWholeDrop, State::kThreeLevels, State::kFileChosen);
constexpr States kDeep = kShallow | states(State::kThreeLevels);
constexpr States kTiled = kShallow | states(State::kWholeDrop);
constexpr States kCompressed = kShallow & ~states(State::kPartialDrop);  // compressed tables have fewer pages

struct OptionSet {
  const char* name;
  void (*change)(Settings&);
  States reaches = kShallow;
  bool changes_policy = false;  ///< true: the policy changes while the tree is in use
  bool disturbs = false;        ///< true: the disk is slow, and the clock is changed
};

inline const OptionSet kOptionSets[] = {
    {"defaults", [](Settings&) {}},
    {"tiny memtable, oldest tombstones first",
     [](Settings& s) {
       s.tree.file_choice = FileChoice::kOldest;
       s.tree.memtable_size = 16 << 10;
     },
     kDeep | states(State::kFileChosen)},
    {"huge memtable", [](Settings& s) { s.tree.memtable_size = 16 << 20; }},
    {"no filters", [](Settings& s) { s.tree.filter_bits_per_key = 0; }},
    {"leveling, T = 2",
     [](Settings& s) {
       s.tree.policy.name = "leveling";
       s.tree.policy.parameters["size_ratio"] = 2;
       s.tree.memtable_size = 16 << 10;
     },
     kDeep},
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
       s.tree.memtable_size = 16 << 10;
     }},
    {"tiering, T = 2",
     [](Settings& s) {
       s.tree.policy = {"tiering", {{"size_ratio", 2}}};
       s.tree.memtable_size = 16 << 10;
     },
     kDeep},
    {"tiering, T = 4, small files",
     [](Settings& s) {
       s.tree.policy = {"tiering", {}};
       s.tree.memtable_size = 16 << 10;
       s.tree.file_size = 64 << 10;
     },
     kDeep},
    {"lazy leveling, T = 3",
     [](Settings& s) {
       s.tree.policy = {"lazy_leveling", {{"size_ratio", 3}}};
       s.tree.memtable_size = 16 << 10;
     },
     kDeep},
    {"K-LSM, T = 6, two runs",
     [](Settings& s) {
       s.tree.policy = {"klsm", {}};
       s.tree.memtable_size = 16 << 10;
       s.tree.file_size = 64 << 10;
     }},
    {"K-LSM, T = 4, three runs, then one, tiles of 8",
     [](Settings& s) {
       s.tree.policy = {"klsm", {{"size_ratio", 4}, {"runs", 1}, {"runs_0", 3}}};
       s.tree.memtable_size = 16 << 10;
       s.tree.pages_per_tile = 8;
     },
     kTiled},
    {"garnering, T = 2, c = 0.5",
     [](Settings& s) {
       s.tree.policy = {"garnering", {{"scaling_ratio", 0.5}, {"level0_runs", 2}}};
       s.tree.memtable_size = 16 << 10;
       s.tree.file_size = 64 << 10;
     },
     kDeep},
    {"bigtable",
     [](Settings& s) {
       s.tree.policy = {"bigtable", {}};
       s.tree.memtable_size = 16 << 10;
     }},
    {"constant, one run",
     [](Settings& s) {
       s.tree.policy = {"constant", {{"k", 1}}};
       s.tree.memtable_size = 16 << 10;
     }},
    {"exploring, small files",
     [](Settings& s) {
       s.tree.policy = {"exploring", {}};
       s.tree.memtable_size = 16 << 10;
       s.tree.file_size = 64 << 10;
     }},
    {"concurrent, k = 4",
     [](Settings& s) {
       s.tree.policy = {"concurrent", {{"k", 4}}};
       s.tree.memtable_size = 16 << 10;
     }},
    {"binomial, k = 3, monkey",
     [](Settings& s) {
       s.tree.policy = {"binomial", {{"k", 3}}};
       s.tree.filter_allocation = FilterAllocation::kMonkey;
       s.tree.memtable_size = 16 << 10;
     }},
    {"policies that change", [](Settings& s) { s.tree.memtable_size = 16 << 10; }, kDeep, true},
    {"a slow disk, and a clock that jumps an hour either way", [](Settings& s) { s.tree.memtable_size = 16 << 10; }, kDeep, false,
     true},
    {"lz4", [](Settings& s) { s.tree.compression = s.tree.compression_last_level = Compression::kLz4; }, kCompressed},
    {"lz4, zstd below",
     [](Settings& s) {
       s.tree.compression = Compression::kLz4;
       s.tree.compression_last_level = Compression::kZstd;
     },
     kCompressed},
    {"tiles of 8", [](Settings& s) { s.tree.pages_per_tile = 8; }, kTiled},
    {"tiles of 64, tiny files",
     [](Settings& s) {
       s.tree.pages_per_tile = 64;
       s.tree.file_size = 64 << 10;
       s.tree.memtable_size = 32 << 10;
     },
     kTiled},
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
       s.tree.memtable_size = 16 << 10;
     },
     kDeep | states(State::kFileChosen)},
    {"round robin, small files",
     [](Settings& s) {
       s.tree.file_choice = FileChoice::kRoundRobin;
       s.tree.file_size = 64 << 10;
       s.tree.memtable_size = 16 << 10;
     },
     kDeep | states(State::kFileChosen)},
    // New sets stand at the end, since the fuzz corpus names option sets by their numbers.
    {"min_latency, k = 3",
     [](Settings& s) {
       s.tree.policy = {"min_latency", {{"k", 3}}};
       s.tree.memtable_size = 16 << 10;
     }},
    {"K-LSM, T = 1024, up to 1,023 runs, 100 on the last level",
     [](Settings& s) {
       s.tree.policy = {"klsm", {{"size_ratio", 1024}, {"runs", 1023}, {"last_runs", 100}}};
       s.tree.memtable_size = 16 << 10;
     }},
};

/// Returns no deadline, a deadline that is never near, or one of two deadlines that merges have to hurry for.
inline Millis random_deadline(std::uint64_t dice) {
  constexpr Millis kDeadlines[] = {0, 24ull * 3600 * 1000, 60'000, 5'000};
  return kDeadlines[dice % std::size(kDeadlines)];
}

inline Partitioning random_partitioning(std::uint64_t dice) { return static_cast<Partitioning>(dice % 3); }

/// Makes the disk slow: each write and each sync takes a while.
inline void slow_down(Harness& h) {
  constexpr Millis kCallTakes = 50;
  h.watch->on_call = [&h](const FileCall& call) {
    if (call.op == FileOp::kWrite || call.op == FileOp::kSync) h.clock.advance(kCallTakes);
  };
}

/// Runs while `goes_on` returns true, then checks everything, also after a restart. `seed` is for choices that are not made step
/// by step. `second`: as for BasicModelDriver.
template <typename Choices, typename Source>
void live(const OptionSet& set, std::uint64_t seed, Source source, const std::function<bool()>& goes_on, Reached* reached,
          DatabaseId second = 1) {
  constexpr Millis kHour = 3'600'000;
  Harness h;
  set.change(h.settings);
  h.settings.tree.stamp = static_cast<StampMode>(seed % 3);
  h.settings.tree.delete_deadline = random_deadline(seed);
  h.settings.tree.partitioning = random_partitioning(seed / 3 + static_cast<std::uint64_t>(&set - kOptionSets));
  h.open();
  if (set.disturbs) slow_down(h);
  BasicModelDriver<Choices, Source> driver(h, source, 400, second);
  Choices& random = driver.random();
  StatesOfLife states;
  std::uint64_t operations = 0;
  while (goes_on()) {
    if (set.disturbs && random.one_in(50)) h.clock.set_wall(h.clock.wall_ms() + (random.one_in(2) ? kHour : -kHour));
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
      tree.partitioning = random_partitioning(tree.pages_per_tile);
      if (tree.filter_allocation == FilterAllocation::kMonkey)
        tree.filter_bits_per_key = static_cast<double>(random.uniform(4) * 5);
      if (set.changes_policy) tree.policy = small_policies()[random.uniform(small_policies().size())];
      demand_ok(h.db->set_tree_settings(0, tree), "new settings");
      if (is_index_tree(second) && tree.pages_per_tile % 2 == 0) demand_ok(h.db->set_tree_settings(second, tree), "new settings");
    } else if (dice < 993) {
      driver.change_views();
      driver.check_views();
    } else if (dice < 996 && random.one_in(3)) {
      driver.close_views();
      h.reopen();
      states.reopened();
      states.note(State::kRestarted);
      driver.check_everything();
    } else if (random.one_in(3)) {
      driver.close_views();
      const SeqNum durable = driver.durable();
      h.crash(CrashMode::kEverything, seed);
      h.open();
      if (set.disturbs) slow_down(h);
      states.reopened();
      states.note(State::kKilled);
      driver.check_recovered(durable);
    }
    states.look(h, driver.model(), dice >= 930, driver.has_views());
    ++operations;
  }
  driver.check_everything();
  h.settle();
  driver.check_everything();
  driver.check_views();
  driver.close_views();
  for (const DatabaseId d : {DatabaseId{0}, second}) h.verify(d);
  h.reopen();
  driver.check_everything();
  reached->add_life(states.found(), operations);
}

}  // namespace ebbtide
