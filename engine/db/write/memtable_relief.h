// Freezes memtables before they are full, and flushes resting ones, if the log is too large or memtables take too much memory.
//
// The log keeps every segment that has an operation of a memtable. A tree that is rarely written to must not keep the whole log. Memory
// is divided by MemoryBudget (memory_budget.h), which also chooses the memtables.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include <engine/types.h>
#include "base/mutex.h"
#include "db/trees/tree_registry.h"
#include "db/write/memory_budget.h"

namespace ebbtide {

/// One caller of relieve_log() at a time; any thread may call relieve_memory().
class MemTableRelief {
 public:
  struct Env {
    TreeRegistry* trees = nullptr;
    MemoryBudget* budget = nullptr;
    std::uint64_t most_log_bytes = 0;  ///< a larger log is shortened
    std::function<std::uint64_t()> empty_memtable_bytes;
    std::function<std::uint64_t()> log_bytes;            ///< of all segments
    std::function<std::uint64_t()> pending_piece_bytes;  ///< of these, pieces of batches that are not committed
    std::function<void(SeqNum)> give_up_pieces_before;   ///< gives up such batches that began before the seq
    std::function<FileNum(SeqNum)> oldest_needed;        ///< the oldest segment with operations from the seq on
    std::function<void(const TreePtr&)> hurry;           ///< flushes all frozen memtables of the tree; the commit mutex is held
  };

  explicit MemTableRelief(Env env) : env_(std::move(env)) {}

  /// If the log is too large: flushes the memtables that keep its oldest segment.
  void relieve_log() EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);
  /// If memtables take too much memory: flushes those that the budget chooses.
  void relieve_memory() EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);

 private:
  const Env env_;
};

}  // namespace ebbtide
