// The range tombstones of a memtable: they arrive one by one, and are asked for all the time.
//
// Fragmenting all of them anew at each insertion would make n insertions cost O(n^2). Instead the set is a small log-structured
// store of its own: the newest few lie unsorted in a log that readers scan; a full log becomes a fragmented run; four runs of one
// size become one of the next. So an insertion costs O(log n) amortised, a read asks a handful of runs, newest first, and
// n/kLogSlots + ... runs ever existed.
//
// What a reader walks is immutable but for the log, whose slots are filled once, in order. A run that was merged away and the
// state that named it stay until the set goes, because readers announce themselves nowhere: about log4(n) times the memory of one
// run of all, counted by memory_bytes().
#pragma once

#include <atomic>
#include <cstddef>
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
  /// The newest cover of `key` with seq <= view_seq: seq and birth, or false. One load while the set is empty.
  bool newest_cover(Bytes key, SeqNum view_seq, FragmentedRangeTombstones::Cover* out) const;
  /// All of them, fragmented; never null. Built when asked for and kept until the next insertion: O(n log n) then, and takes a
  /// lock.
  [[nodiscard]] SharedTombstones snapshot() const;

  [[nodiscard]] bool empty() const { return state_.load(std::memory_order_acquire) == nullptr; }
  [[nodiscard]] std::size_t size() const { return size_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Run;
  struct State;
  void roll_log(const State& full) REQUIRES(mutex_);
  std::shared_ptr<const Run> make_run(std::vector<const RangeTombstone*> members) REQUIRES(mutex_);

  std::atomic<const State*> state_{nullptr};  ///< null = empty
  std::atomic<std::size_t> size_{0};
  std::atomic<std::size_t> memory_bytes_{0};

  Mutex mutex_;                                                    // writers
  std::deque<RangeTombstone> all_ GUARDED_BY(mutex_);              // never moves: the logs point here
  std::vector<std::unique_ptr<State>> states_ GUARDED_BY(mutex_);  // every state ever published, the current one last

  mutable Mutex snapshot_mutex_;  // one builder at a time; never held together with mutex_ while building
  mutable SharedTombstones snapshot_ GUARDED_BY(snapshot_mutex_);
  mutable std::size_t snapshot_size_ GUARDED_BY(snapshot_mutex_) = 0;
};

}  // namespace ebbtide
