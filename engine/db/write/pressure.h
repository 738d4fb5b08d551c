// Computes the write pressure: how far flushes and compactions are behind, as one number. Pure functions.
//
// Four sources cause pressure; the pressure is the largest of the four:
//   memtables   Frozen memtables wait to be flushed. Writes slow down when these use half of their share of memory, and stop when
//               they use all of it. Writes also slow down when seven eighths of the budget are used, and stop when all of it is,
//               as long as a flush would make room.
//   runs        Level 0 has more runs than the policy's first limit. The second limit stops writes.
//   pending     Compactions have more pending bytes than each of these: half of the data, 64 full memtables, two full levels 0,
//               and the bytes that merges process in kDebtMs at the measured rate. This never stops writes: merging levels that a
//               burst has enlarged costs less than a slowdown for each merge during the burst, and these levels are merged soon.
//   deadline    Delete deadlines need more than kDeadlineSlows of the measured rate of merges. This never stops writes.
#pragma once

#include <cstdint>
#include <vector>

#include "db/write/memory_budget.h"

namespace ebbtide {

/// The reason why writes are delayed.
enum class StallReason : std::uint8_t { kNone, kMemTable, kRuns, kPendingBytes, kDeadline };
inline constexpr std::size_t kStallReasons = 5;

/// The inputs of the pressure at one moment.
struct WriteLoad {
  struct Tree {
    int runs = 0;                          ///< runs of level 0
    int inherited_runs = 0;                ///< how many of `runs` an earlier policy left
    int slowdown_runs = 0, stop_runs = 0;  ///< writes slow down if `runs` is above the first, and stop once it reaches the second
    bool compactions_fail = false;         ///< true if the tree's last compaction failed
    std::uint64_t pending_bytes = 0;       ///< compaction debt
    std::uint64_t data_bytes = 0;          ///< bytes of the tree's tables
    double level0_bytes = 0;               ///< capacity of level 0
  };
  std::vector<Tree> trees;              ///< empty while compactions are paused
  double merge_bytes_per_ms = 0;        ///< measured rate of merges; 0 = unknown
  std::uint32_t deadline_permille = 0;  ///< fraction of merge_bytes_per_ms that delete deadlines need, in thousandths
  std::uint64_t memtable_size = 0;
  std::uint64_t memory_budget = 0, charged_bytes = 0;
  MemoryUse memory;
};

struct Pressure {
  std::uint32_t permille = 0;  ///< 0 = none, 1000 = writes stop
  StallReason reason = StallReason::kNone;
  bool stuck = false;          ///< true if a tree is at its limit of runs and its compactions fail, so that the stop cannot end
  bool out_of_memory = false;  ///< true if the budget is used up and no flush makes room: writes that add data are refused
};
Pressure pressure_of(const WriteLoad& load);

}  // namespace ebbtide
