// The write pressure: how far flushes and compactions are behind, as one number. Pure.
//
// Four sources raise it; the largest counts:
//   memtables   Frozen memtables wait to be flushed. Half of their share of memory begins the slowdown, all of it stops writes. So do
//               the last eighth of the budget and its end, as long as a flush would make room.
//   runs        The youngest level has more runs than the policy's first limit. The second limit stops writes.
//   pending     Compactions have bytes pending: more than half of the data, more than 64 memtables, and more than merges did in
//               kDebtMs. This never stops writes. Levels that a burst has swollen cost less to merge than a slowdown for each merge on
//               the way, and are merged soon after.
//   deadline    Delete deadlines need more than kDeadlineSlows of the measured rate of merges. This never stops writes.
#pragma once

#include <cstdint>
#include <vector>

#include "db/write/memory_budget.h"

namespace ebbtide {

/// Why writes are delayed.
enum class StallReason : std::uint8_t { kNone, kMemTable, kRuns, kPendingBytes, kDeadline };
inline constexpr std::size_t kStallReasons = 5;

/// The inputs of the pressure at one moment.
struct WriteLoad {
  struct Tree {
    int runs = 0;                          ///< of its youngest level
    int inherited_runs = 0;                ///< the part of `runs` left by an earlier policy
    int slowdown_runs = 0, stop_runs = 0;  ///< limits of its policy
    bool compactions_fail = false;         ///< the last one has failed
    std::uint64_t pending_bytes = 0;       ///< compaction debt
    std::uint64_t data_bytes = 0;          ///< of its tables
  };
  std::vector<Tree> trees;              ///< none while compactions are paused
  double merge_bytes_per_ms = 0;        ///< measured; 0 = unknown
  std::uint32_t deadline_permille = 0;  ///< part of the measured rate that delete deadlines need
  std::uint64_t memtable_size = 0;
  std::uint64_t memory_budget = 0, charged_bytes = 0;
  MemoryUse memory;
};

struct Pressure {
  std::uint32_t permille = 0;  ///< 0 = none, 1000 = writes stop
  StallReason reason = StallReason::kNone;
  bool stuck = false;          ///< a tree is at its limit of runs and its compactions fail: the stop does not end by itself
  bool out_of_memory = false;  ///< the budget is spent and no flush makes room: writes that add data are refused
};
Pressure pressure_of(const WriteLoad& load);

}  // namespace ebbtide
