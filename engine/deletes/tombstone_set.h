// The range tombstones of a memtable. Writers add them one by one while readers query them.
//
// If each insertion fragmented all tombstones, n insertions would take O(n^2). Instead the set is a small log-structured store.
// The newest few tombstones are in an unsorted list (the log) that readers scan. A full log becomes a run: tombstones in
// fragments (range_tombstone.h). Four runs of one size become one of the next size, up to 16,384 tombstones and 4 MiB of
// bounds. So an insertion takes O(log n) amortised, and a read searches a handful of runs, newest first. All runs share the
// bounds' bytes.
//
// An iterator searches the runs one by one (runs()). Only the log, whose length is bounded, is fragmented for an iterator.
//
// Readers see immutable data, and the log, whose slots are filled once, in order. Readers are not counted, so replaced runs and
// old states stay in memory until the set is destroyed. All runs together, without the bounds, take about log4(n) times the
// memory of one run of all tombstones; memory_bytes() includes replaced runs and old states.
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

  /// Adds a tombstone. Every read that begins after insert() has returned sees the tombstone. An empty range (start >= end) adds
  /// nothing.
  void insert(RangeTombstone tombstone);
  /// Finds the newest tombstone with seq <= view_seq that covers `key`. Sets `out` to its seq and birth; returns false if no
  /// tombstone does. Costs one load if the set is empty.
  bool newest_cover(Bytes key, SeqNum view_seq, FragmentedRangeTombstones::Cover* out) const;
  /// All tombstones as O(log n) sets that may overlap. Takes no lock and fragments only the log. The returned sets may outlive
  /// the TombstoneSet. For iterators.
  [[nodiscard]] std::vector<SharedTombstones> runs() const;
  /// All tombstones as one newly fragmented set; never null. O(n log n). For flushes.
  [[nodiscard]] SharedTombstones fragment_all() const;

  [[nodiscard]] bool empty() const { return state_.load(std::memory_order_acquire) == nullptr; }
  [[nodiscard]] std::size_t size() const { return size_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }
  /// Number of tombstones that insert(), runs() and fragment_all() have fragmented so far. A tombstone counts each time that it
  /// is fragmented.
  [[nodiscard]] std::uint64_t fragmented() const { return fragmented_.load(std::memory_order_relaxed); }

 private:
  struct Run;
  struct State;
  void roll_log(const State& full) REQUIRES(mutex_);
  std::shared_ptr<const Run> make_run(std::vector<const RangeTombstone*> members, int size_class) REQUIRES(mutex_);

  std::atomic<const State*> state_{nullptr};  ///< null = empty
  std::atomic<std::size_t> size_{0};
  std::atomic<std::size_t> memory_bytes_{0};
  mutable std::atomic<std::uint64_t> fragmented_{0};

  Mutex mutex_;                                                    // held by a writer
  std::deque<RangeTombstone> all_ GUARDED_BY(mutex_);              // a deque: its elements never move, and logs point to them
  std::vector<std::unique_ptr<State>> states_ GUARDED_BY(mutex_);  // all states so far, since readers may use them; newest last
};

}  // namespace ebbtide
