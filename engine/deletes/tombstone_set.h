// The range tombstones of a memtable. Writers add them one by one while readers query them.
//
// Fragmenting all of them at each insertion would make n insertions cost O(n^2). Instead the set is a small log-structured store.
// The newest few are in an unsorted log that readers scan. A full log becomes a fragmented run; four runs of one size become one
// of the next, up to 16,384. So an insertion costs O(log n) amortised, and a read asks a handful of runs, newest first.
//
// An iterator asks the runs one by one (runs()). Only the log, of bounded length, is fragmented for it.
//
// Readers see only immutable data, and the log, whose slots are filled once, in order. Readers are not counted, so merged runs
// and old states stay until the set is destroyed. They take about log4(n) times the memory of one run of everything;
// memory_bytes() counts it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "deletes/range_tombstone.h"

namespace ebbtide {

/// Thread-safe; readers take no lock.
class TombstoneSet {
 public:
  TombstoneSet();
  ~TombstoneSet();
  TombstoneSet(const TombstoneSet&) = delete;
  TombstoneSet& operator=(const TombstoneSet&) = delete;

  /// Adds one; every read that begins after the return sees it. An empty range (start >= end) adds nothing.
  void insert(RangeTombstone tombstone);
  /// Finds the newest cover of `key` with seq <= view_seq: seq and birth, or false. One load if the set is empty.
  bool newest_cover(Bytes key, SeqNum view_seq, FragmentedRangeTombstones::Cover* out) const;
  /// All tombstones as O(log n) sets that may overlap. For iterators: takes no lock and fragments only the log. The sets outlive
  /// the TombstoneSet.
  [[nodiscard]] std::vector<SharedTombstones> runs() const;
  /// All tombstones as one newly fragmented set; never null. O(n log n): for a flush.
  [[nodiscard]] SharedTombstones fragment_all() const;

  [[nodiscard]] bool empty() const { return state_.load(std::memory_order_acquire) == nullptr; }
  [[nodiscard]] std::size_t size() const { return size_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }
  /// How many tombstones insert(), runs() and fragment_all() have fragmented so far; a tombstone counts each time.
  [[nodiscard]] std::uint64_t fragmented() const { return fragmented_.load(std::memory_order_relaxed); }

 private:
  struct Run;
  struct State;
  void roll_log(const State& full) REQUIRES(mutex_);
  std::shared_ptr<const Run> make_run(std::vector<const RangeTombstone*> members) REQUIRES(mutex_);

  std::atomic<const State*> state_{nullptr};  ///< null = empty
  std::atomic<std::size_t> size_{0};
  std::atomic<std::size_t> memory_bytes_{0};
  mutable std::atomic<std::uint64_t> fragmented_{0};

  Mutex mutex_;                                                    // writers
  std::deque<RangeTombstone> all_ GUARDED_BY(mutex_);              // never moves: the logs point here
  std::vector<std::unique_ptr<State>> states_ GUARDED_BY(mutex_);  // every state ever published, the current one last
};

}  // namespace ebbtide
