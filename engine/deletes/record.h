// Records are secondary range tombstones: each deletes every key whose current entry has its delete key D in [lo, hi).
//
// A record names no sort key. It stays beside the entries that it covers until merges and page drops have removed all of them.
// Until then a reader that finds an entry checks here whether a record covers the entry:
//
//   1. The reader finds the newest version of a key in its view, then tests that version. If a record covers it, the key is
//      absent. The search never continues with an older version: otherwise the delete would make that version visible again.
//   2. A record covers a version v if lo <= v.D < hi and v.seq < record.seq. A reader at view_seq uses records up to view_seq.
//   3. No record covers an entry without a stamp (D = kNoStamp), since no record reaches past kDeleteKeyEnd. No record covers a
//      tombstone, either: its delete key is its birth. So callers must not pass tombstones to covers() and similar functions.
//
// RecordSet keeps the records in two persistent trees (record_tree.h): ordered by range, for queries about one delete key;
// ordered by seq, for queries about the records above a seq.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <engine/result.h>
#include <engine/types.h>
#include "base/mutex.h"
#include "deletes/record_tree.h"

namespace ebbtide {

/// Returns a record as text, for example "75 on stamps 5..<9, born 1000", where 75 is the seq. A range without an upper end is
/// "5..*".
std::string to_text(const Record& record);

/// Immutable; a copy shares its content. Thread-safe. "O(log n)" holds if few records overlap; a query reads every subtree that
/// may have the wanted record.
class RecordSet {
 public:
  RecordSet() = default;
  explicit RecordSet(std::span<const Record> records);

  [[nodiscard]] bool empty() const { return by_seq_.empty(); }
  [[nodiscard]] std::size_t size() const { return by_seq_.size(); }
  /// All records, ascending by seq. O(n).
  [[nodiscard]] std::vector<Record> records() const;
  /// The i-th record by seq, ascending. Requires i < size().
  [[nodiscard]] const Record& at(std::size_t i) const { return by_seq_.at(i); }
  /// The record with this seq, or null.
  [[nodiscard]] const Record* find(SeqNum seq) const;
  /// The largest seq; 0 = the set is empty.
  [[nodiscard]] SeqNum newest() const { return by_seq_.root().max_seq; }
  /// The oldest birth of any record; 0 = the set is empty. A record without a birth (birth 0) counts as born at 1.
  [[nodiscard]] Millis oldest_birth() const { return by_seq_.root().min_birth; }
  [[nodiscard]] std::size_t memory_bytes() const;

  /// Returns a copy of the set from which the records with the seqs `removed` are removed, and to which `added` are added. The
  /// result shares unchanged nodes with this set. Returns kCorruption if a removed seq is not in the set, or the seq of an added
  /// record is.
  [[nodiscard]] Result<RecordSet> changed(std::span<const SeqNum> removed, std::span<const Record> added) const;

  /// Returns true if a record deletes the version with delete key `d` and seq `entry_seq` for a reader at view_seq. O(log n).
  [[nodiscard]] bool covers(DeleteKey d, SeqNum entry_seq, SeqNum view_seq) const;
  /// Returns the seq of the newest record with seq <= view_seq that has `d` in its range; 0 = none.
  [[nodiscard]] SeqNum newest_cover(DeleteKey d, SeqNum view_seq) const;
  /// Returns the seq of the oldest record with seq > entry_seq that has `d` in its range; 0 = none.
  [[nodiscard]] SeqNum oldest_cover_above(DeleteKey d, SeqNum entry_seq) const;
  /// Returns the oldest birth of the records with a seq in (above, up_to] that have `d` in their range; 0 = none.
  [[nodiscard]] Millis oldest_birth(DeleteKey d, SeqNum above, SeqNum up_to) const;

  /// Returns true if records delete every version with min <= D <= max and seq <= max_seq, for every reader at view_seq or
  /// later. For whole pages and files, whose delete fences are `min` and `max`.
  [[nodiscard]] bool covers_all(DeleteKey min, DeleteKey max, SeqNum max_seq, SeqNum view_seq) const;
  /// Returns true if a record above applied_seq may cover a version with min <= D <= max and seq >= min_seq.
  [[nodiscard]] bool may_cover(DeleteKey min, DeleteKey max, SeqNum min_seq, SeqNum applied_seq) const {
    return oldest_birth_over(min, max, min_seq, applied_seq) != 0;
  }
  /// Returns the oldest birth of the records for which may_cover() is true; 0 = none. A record without a birth counts as born
  /// at 1.
  [[nodiscard]] Millis oldest_birth_over(DeleteKey min, DeleteKey max, SeqNum min_seq, SeqNum applied_seq) const;

  /// Calls `visit` for each older record whose range is inside the range of `by`.
  template <typename Visit>
  void visit_subsumed(const Record& by, Visit visit) const {
    by_range_.walk(
        [&](const RecordPart& p) {
          return p.max_lo >= by.lo && p.min_lo < by.hi && p.min_hi <= by.hi && p.max_hi > by.lo && p.min_seq < by.seq;
        },
        [&](const Record& r) {
          if (by.lo <= r.lo && r.hi <= by.hi && r.seq < by.seq) visit(r);
          return false;
        });
  }
  /// Calls `visit` for the records with seq > `above` that overlap [min, max], both inclusive. Skips each subtree (RecordPart)
  /// for which `wanted` returns false.
  template <typename Wanted, typename Visit>
  void visit_over(DeleteKey min, DeleteKey max, SeqNum above, Wanted wanted, Visit visit) const {
    const auto part = [&](const RecordPart& p) { return p.max_seq > above && p.may_overlap(min, max) && wanted(p); };
    const auto record = [&](const Record& r) {
      if (r.seq > above && r.lo <= max && min < r.hi) visit(r);
      return false;
    };
    if (is_narrow(min, max, above)) {
      by_range_.walk(part, record);
    } else {
      by_seq_.walk(part, record);
    }
  }

 private:
  [[nodiscard]] bool is_narrow(DeleteKey min, DeleteKey max, SeqNum above) const;

  RecordTree<ByRange> by_range_;
  RecordTree<BySeq> by_seq_;
};

using SharedRecords = std::shared_ptr<const RecordSet>;

/// Returns a pointer to the empty set, for callers that need a pointer that is not null.
const SharedRecords& no_records();

/// Merges older records into newer ones and returns the remaining records, ascending by seq. An older record is merged into a
/// newer one if the newer one's [lo, hi) contains the older one's, and the newer one was born at most `max_gap` ms later. The
/// newer record gets the older birth, so entries that only the newer record covers are due earlier, by `max_gap` at most. Every
/// reader of the result must have a view that sees all of `records`.
std::vector<Record> merge_subsumed(std::vector<Record> records, Millis max_gap);

/// The records of a memtable, which arrive one by one. The newest few are in an unsorted list (the log), which readers scan. A
/// full log becomes a RecordSet, and two sets of equal size become one, as digits carry in binary addition. So n insertions
/// take O(n log^2 n) in all, and a reader searches at most log2(n) sets. Replaced sets stay until the RecordLog is destroyed,
/// since readers may still use them. Thread-safe; readers take no lock.
class RecordLog {
 public:
  RecordLog();
  ~RecordLog();
  RecordLog(const RecordLog&) = delete;
  RecordLog& operator=(const RecordLog&) = delete;

  /// Adds a record. Every read that begins after insert() has returned uses the record.
  void insert(const Record& record);
  /// Like RecordSet::covers(). Costs one load if there are no records.
  [[nodiscard]] bool covers(DeleteKey d, SeqNum entry_seq, SeqNum view_seq) const;
  /// Returns all present records as a few sets that are not empty. Cheap, since only the log must be sorted. For iterators.
  [[nodiscard]] std::vector<SharedRecords> sets() const;
  /// Returns all present records as one new set; never null. O(n log n). For flushes.
  [[nodiscard]] SharedRecords snapshot() const;

  [[nodiscard]] bool empty() const { return state_.load(std::memory_order_acquire) == nullptr; }
  [[nodiscard]] std::size_t size() const { return size_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t memory_bytes() const { return memory_bytes_.load(std::memory_order_relaxed); }

 private:
  struct State;
  std::atomic<const State*> state_{nullptr};  ///< null = empty
  std::atomic<std::size_t> size_{0}, memory_bytes_{0};
  Mutex mutex_;                                                    // held by a writer
  std::vector<std::unique_ptr<State>> states_ GUARDED_BY(mutex_);  // all states so far, since readers may use them; newest last
};

}  // namespace ebbtide
