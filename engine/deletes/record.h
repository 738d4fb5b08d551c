// Records are secondary range tombstones: each deletes every key whose current entry has its delete key D in [lo, hi).
//
// A record names no sort key. It stays beside the entries that it covers until merges and page drops have removed all of them.
// Until then every reader that finds an entry checks here whether it is covered:
//
//   1. The reader finds the newest version of a key in its view, then tests that version. If it is covered, the key is absent.
//      The search never goes on to an older version, or the delete would bring that back.
//   2. A record covers a version v if lo <= v.D < hi and v.seq < record.seq. A reader at view_seq uses records up to view_seq.
//   3. No record covers an entry without a stamp (D = kNoStamp), since none reaches past kDeleteKeyEnd. None covers a tombstone,
//      whose delete key is its birth: callers ask for values and headers only.
//
// RecordSet is a segment tree over the endpoints: a record is in O(log n) nodes, a query visits the O(log n) nodes above one
// leaf. Fragments that list all their covers would take O(n^2) memory for n records that overlap pairwise, as deletes by a
// sliding window do.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <engine/types.h>
#include "base/mutex.h"

namespace ebbtide {

/// Deletes every key whose current entry, at `seq`, has lo <= D < hi.
struct Record {
  DeleteKey lo = 0;
  DeleteKey hi = 0;  ///< exclusive; lo < hi <= kDeleteKeyEnd
  SeqNum seq = 0;
  Millis birth = 0;  ///< engine time of the delete, or of an older delete that was merged into it

  [[nodiscard]] bool has(DeleteKey d) const { return lo <= d && d < hi; }
  [[nodiscard]] bool covers(DeleteKey d, SeqNum entry_seq, SeqNum view_seq) const {
    return has(d) && entry_seq < seq && seq <= view_seq;
  }
  bool operator==(const Record&) const = default;
};

/// "75 on stamps 5..<9, born 1000"; a range without an upper end is "5..*".
std::string to_text(const Record& record);

/// Immutable; safe from any thread.
class RecordSet {
 public:
  struct Cover {
    SeqNum seq = 0;
    Millis birth = 0;
    Millis oldest_birth = 0;  ///< oldest birth of this cover and all newer ones in its list
  };

  RecordSet() = default;
  explicit RecordSet(std::span<const Record> records);

  [[nodiscard]] bool empty() const { return records_.empty(); }
  [[nodiscard]] std::size_t size() const { return records_.size(); }
  /// By seq, ascending.
  [[nodiscard]] const std::vector<Record>& records() const { return records_; }
  [[nodiscard]] std::size_t memory_bytes() const;

  /// True if a version (d, entry_seq) is deleted for a reader at view_seq. O(log^2 n), O(log n) if the view is newer than all
  /// records.
  [[nodiscard]] bool covers(DeleteKey d, SeqNum entry_seq, SeqNum view_seq) const {
    return !records_.empty() && newest_cover(d, view_seq) > entry_seq;
  }
  /// Seq of the newest record up to view_seq that has d in its range; 0 = none.
  [[nodiscard]] SeqNum newest_cover(DeleteKey d, SeqNum view_seq) const;
  /// Seq of the oldest record above entry_seq that has d in its range; 0 = none.
  [[nodiscard]] SeqNum oldest_cover_above(DeleteKey d, SeqNum entry_seq) const;
  /// The oldest birth of the records with a seq in (above, up_to] that have d in their range; 0 = none.
  [[nodiscard]] Millis oldest_birth(DeleteKey d, SeqNum above, SeqNum up_to) const;

  /// True if every version with min <= D <= max and seq <= max_seq is deleted for every reader at view_seq or later. For whole
  /// pages and files, by their fences. O(log^2 n) for each border of a record between min and max.
  [[nodiscard]] bool covers_all(DeleteKey min, DeleteKey max, SeqNum max_seq, SeqNum view_seq) const;
  /// True if a record above applied_seq may cover a version with min <= D <= max and seq >= min_seq. O(n).
  [[nodiscard]] bool may_cover(DeleteKey min, DeleteKey max, SeqNum min_seq, SeqNum applied_seq) const {
    return oldest_birth_over(min, max, min_seq, applied_seq) != 0;
  }
  /// The oldest birth of the records that might cover such a version; 0 = none. A record without a birth counts as born at 1.
  [[nodiscard]] Millis oldest_birth_over(DeleteKey min, DeleteKey max, SeqNum min_seq, SeqNum applied_seq) const;

 private:
  /// Calls `visit` with the covers, newest first, of each node above d's leaf that has any.
  template <typename Visit>
  void visit_nodes(DeleteKey d, Visit visit) const;

  std::vector<Record> records_;
  std::vector<DeleteKey> borders_;       // sorted endpoints; leaf i is [borders_[i], borders_[i + 1])
  std::vector<std::uint32_t> first_of_;  // by node: where its covers begin in covers_; one more at the end
  std::vector<Cover> covers_;
};

using SharedRecords = std::shared_ptr<const RecordSet>;

/// The empty set, for places that need a set that is not null.
const SharedRecords& no_records();

/// Merges records into newer ones and returns the rest, by ascending seq. An older record is merged into a newer one if the newer
/// one's [lo, hi) contains it, and was born at most `max_gap` ms later. The newer one takes over the older birth, so entries that
/// only it covers are due earlier; `max_gap` limits that. Every reader of the result must see all of the records.
std::vector<Record> merge_subsumed(std::vector<Record> records, Millis max_gap);

/// The records of a memtable, which arrive one by one. Readers scan an unsorted tail of the newest few. A full tail is merged
/// with the set before into one set. The tail grows with the set, so that n insertions cost O(n log^2 n) in all. Sets that
/// readers may still use stay until the RecordLog is destroyed. Thread-safe; readers take no lock.
class RecordLog {
 public:
  RecordLog();
  ~RecordLog();
  RecordLog(const RecordLog&) = delete;
  RecordLog& operator=(const RecordLog&) = delete;

  /// Every read that begins after the return uses the record.
  void insert(const Record& record);
  /// Like RecordSet::covers(). One load if there are no records.
  [[nodiscard]] bool covers(DeleteKey d, SeqNum entry_seq, SeqNum view_seq) const;
  /// All records now; never null.
  [[nodiscard]] SharedRecords snapshot() const;

  [[nodiscard]] bool empty() const { return state_.load(std::memory_order_acquire) == nullptr; }
  [[nodiscard]] std::size_t size() const { return size_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }

 private:
  struct State;
  std::atomic<const State*> state_{nullptr};  ///< null = empty
  std::atomic<std::size_t> size_{0}, memory_bytes_{0};
  Mutex mutex_;                                                    // writers
  std::vector<std::unique_ptr<State>> states_ GUARDED_BY(mutex_);  // every one ever published, the current one last
};

}  // namespace ebbtide
