// If the log is too large, or memtables use too much memory, freezes memtables before they are full and flushes them. Small
// frozen memtables that wait are flushed with them.
//
// The log keeps every segment that has an operation of a memtable. So a tree that is rarely written to could keep the whole log.
// MemoryBudget (memory_budget.h) divides the memory, and chooses the memtables to flush.
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

/// Flushes memtables early. One caller of relieve_log() at a time; any thread may call relieve_memory().
class MemTableRelief {
 public:
  struct Env {
    TreeRegistry* trees = nullptr;
    MemoryBudget* budget = nullptr;
    std::function<std::uint64_t()> most_log_bytes;  ///< returns the log size above which memtables are flushed to shorten the log
    std::function<std::uint64_t()> empty_memtable_bytes;
    std::function<std::uint64_t()> log_bytes;  ///< returns the bytes of all segments
    /// Returns how many of log_bytes() are in pieces of batches that are not committed.
    std::function<std::uint64_t()> pending_piece_bytes;
    std::function<void(SeqNum)> give_up_pieces_before;  ///< abandons the pieces of uncommitted batches that began before the seq
    std::function<FileNum(SeqNum)> oldest_needed;       ///< returns the oldest segment with operations from the seq on
    std::function<void(const TreePtr&)> hurry;  ///< flushes all frozen memtables of the tree; called with the commit mutex held
  };

  explicit MemTableRelief(Env env) : env_(std::move(env)) {}

  /// If the log is too large, flushes the memtables that need its oldest segment.
  void relieve_log() EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);
  /// If memtables use too much memory, flushes the memtables that the budget chooses.
  void relieve_memory() EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);

 private:
  const Env env_;
};

}  // namespace ebbtide
