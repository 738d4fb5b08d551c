// A life of a database under one of the option sets: random operations, flushes, compactions, clock steps, new settings, open
// views, clean restarts and kills, with a model beside it that every answer is compared with.
#pragma once

#include <functional>
#include <iterator>

#include "engine/db/layouts.h"
#include "engine/db/model.h"

namespace ebbtide {

struct OptionSet {
  const char* name;
  void (*change)(Settings&);
  bool changes_policy = false;  ///< while the tree is in use
  bool disturbs = false;        ///< the disk takes its time, and somebody sets the clock
};

inline const OptionSet kOptionSets[] = {
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
    {"a slow disk, and a clock that jumps an hour either way", [](Settings& s) { s.memtable_size = 16 << 10; }, false, true},
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
    {"min_latency, k = 3",  // behind the rest: the fuzz corpus names sets by their numbers
     [](Settings& s) {
       s.tree.policy = {"min_latency", {{"k", 3}}};
       s.memtable_size = 16 << 10;
     }},
};

struct Reached {
  bool tombstones = false, range_tombstones = false, records = false, restarted = false, killed = false;
  bool three_levels = false, three_runs = false, whole_drops = false, partial_drops = false, deadline_merges = false;
  std::uint64_t operations = 0;
};

/// No promise, one that is never near, and two that merges have to hurry for.
inline Millis random_deadline(std::uint64_t dice) {
  constexpr Millis kDeadlines[] = {0, 24ull * 3600 * 1000, 60'000, 5'000};
  return kDeadlines[dice % std::size(kDeadlines)];
}

inline Partitioning random_partitioning(std::uint64_t dice) { return static_cast<Partitioning>(dice % 3); }

/// What an option set that disturbs brings: each write and each sync takes a while.
inline void slow_down(Harness& h) {
  constexpr Millis kCallTakes = 50;
  h.watch->on_call = [&h](const FileCall& call) {
    if (call.op == FileOp::kWrite || call.op == FileOp::kSync) h.clock.advance(kCallTakes);
  };
}

/// Goes on for as long as `goes_on` says, then checks everything, also after a restart. `seed` is that of what is not chosen step
/// by step.
template <typename Choices, typename Source>
void live(const OptionSet& set, std::uint64_t seed, Source source, const std::function<bool()>& goes_on, Reached* reached) {
  constexpr Millis kHour = 3'600'000;
  Harness h;
  set.change(h.settings);
  h.settings.tree.stamp = static_cast<StampMode>(seed % 3);
  h.settings.tree.delete_deadline = random_deadline(seed);
  h.settings.tree.partitioning = random_partitioning(seed / 3 + static_cast<std::uint64_t>(&set - kOptionSets));
  h.open();
  if (set.disturbs) slow_down(h);
  BasicModelDriver<Choices, Source> driver(h, source, 400);
  Choices& random = driver.random();
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
      if (set.disturbs) slow_down(h);
      reached->killed = true;
      driver.check_recovered(durable);
    }
    const auto info = *h.db->tree_info(0);
    for (const RunInfo& r : info.runs) {
      reached->tombstones |= r.tombstones != 0;
      reached->range_tombstones |= r.range_tombstones != 0;
    }
    reached->records |= info.records != 0;
    reached->three_runs |= info.runs.size() >= 3;
    reached->three_levels |= !info.runs.empty() && info.runs.back().level >= 2;
    if (dice >= 950 && dice < 985) {  // after background work
      const Stats stats = h.db->stats();
      reached->whole_drops |= stats.pages_dropped_full != 0;
      reached->partial_drops |= stats.pages_dropped_partial != 0;
      for (const ReasonInfo& merges : stats.merges_by_reason) {
        reached->deadline_merges |= merges.reason == "deadline" && merges.jobs != 0;
      }
    }
    ++reached->operations;
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

}  // namespace ebbtide
