// Turns an iterator over versions into a reader's view: one entry per key that exists at (view_seq, now), forward and backward.
//
//   1. Only a key's newest version with seq <= view_seq counts. The key does not exist if that version is a tombstone, has
//      expired at `now`, or is covered by a range tombstone or a record with a greater seq <= view_seq.
//   2. Forward, versions come newest first, so the first version in view decides. Backward, versions come oldest first, so the
//      last version in view before the key changes decides; it is copied while the iterator reads on. After kManyVersions of one
//      key, the iterator seeks in both directions instead.
//   3. A range tombstone of source A covers everything that sources older than A have in its range (runs are ordered by age). So
//      after several covered keys in a row, the older sources skip the fragment. Source A and newer sources do not skip it, since
//      they may have newer entries.
//   4. Unless elements of large collections are wanted, an element makes the iterator seek past all elements of its collection.
//   5. Work is bounded: a move pauses after max_steps versions. It pauses only between keys and after at least one key. So after
//      a pause the iterator always makes progress, skips no key and repeats none. A move exceeds max_steps if one key has many
//      versions that are newer than the view.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "deletes/record.h"
#include "iter/coverage.h"
#include "iter/merging_iterator.h"

namespace ebbtide {

struct VisibleOptions {
  KeyRange bounds{};  ///< keys outside are not shown
  SeqNum view_seq = 0;
  Millis now = 0;
  std::uint64_t max_steps = 0;           ///< versions that one move may skip (IteratorOptions::max_steps); 0 = no limit
  bool elements = false;                 ///< true to show elements of large collections (IteratorOptions::elements)
  std::vector<SharedRecords> records{};  ///< the secondary range tombstones, as sets; empty sets may be left out
};

/// The calls do what engine/iterator.h says about calls of the same names. Not thread-safe.
class VisibleIterator {
 public:
  /// `tombstones`: the range tombstones of the children of `source`; `age` of each element is the index of its child. Children
  /// without range tombstones may be left out.
  VisibleIterator(std::unique_ptr<MergingIterator> source, std::vector<TombstoneSource> tombstones, VisibleOptions options);

  void seek_to_first();
  void seek_to_last();
  void seek(Bytes target);
  void seek_before(Bytes target);
  void next();
  void prev();

  [[nodiscard]] bool valid() const { return valid_; }
  [[nodiscard]] bool paused() const { return paused_; }
  [[nodiscard]] Bytes resume_key() const { return resume_key_; }
  /// The current entry; requires valid(). Views in it are valid until the iterator moves.
  [[nodiscard]] const Entry& entry() const { return *shown_; }
  /// Ok, or the error that ended the iteration. Ok at the end of the range and in a pause.
  [[nodiscard]] const Status& status() const { return status_; }
  /// Number of versions and tombstones skipped since construction.
  [[nodiscard]] std::uint64_t steps() const { return total_steps_ + steps_; }

 private:
  void begin_move();
  void find_forward();
  void find_backward();
  bool skip_newer();
  bool passes_over_elements() const { return source_->entry().element && !options_.elements; }
  void leave_key_forward(std::uint32_t passed = 0);
  void leave_key_backward();
  bool newest_in_view_backward();
  bool newest_in_view_by_seek();
  void save(const Entry& entry);
  void meet_barrier(const Entry& barrier, std::size_t child);
  bool exists(const Entry& entry, std::size_t child);
  void jump_forward();
  void jump_backward();
  bool pause_at(Bytes key, bool behind);
  void end();
  [[nodiscard]] bool deleted_by_record(const Entry& entry) const;
  [[nodiscard]] bool on_key() const { return source_->valid() && source_->entry().key == Bytes(key_); }

  // constant after construction
  std::unique_ptr<MergingIterator> source_;
  Coverage coverage_;
  const VisibleOptions options_;

  bool valid_ = false, paused_ = false, forward_ = true;
  const Entry* shown_ = nullptr;  // the source's entry, or, when moving backward, saved_
  Status status_;
  std::string key_;          // the current key
  std::string saved_value_;  // when moving backward: the value of saved_
  Entry saved_;
  std::size_t saved_child_ = 0;
  std::string resume_key_;
  std::uint64_t steps_ = 0, total_steps_ = 0;
  std::uint32_t covered_in_row_ = 0;  // number of keys in a row that a range tombstone of a newer source covers
  bool leaps_ = false;                // true if the next jump skips a barrier
  Coverage::Answer cover_;            // the range tombstone that covered the last covered key
};

}  // namespace ebbtide
