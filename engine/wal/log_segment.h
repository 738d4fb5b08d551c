// The segments of the log, and the pending deletes in each.
//
// A segment has a note for each tree of its operations: the birth of the first delete in the segment, and the smallest expiry.
// A delete may concern a value in its own segment or in an older segment. So the pending deletes of a segment follow from the
// notes of that segment and of all later ones (log_debts). A segment's number is never used again.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include <engine/types.h>
#include "base/oldest.h"

namespace ebbtide {

/// The deletes and expiries of one tree in a segment or a batch. Times are engine times; 0 = none.
struct LogNote {
  TreeId tree = kNoTree;
  Millis oldest_delete = 0;  ///< birth of the first delete
  Millis min_expiry = 0;     ///< smallest expiry of the values
};
/// One note per tree. Notes are few, so searching a vector is faster than a map.
using LogNotes = std::vector<LogNote>;
inline void merge_note(LogNote* into, const LogNote& note) {
  keep_oldest(&into->oldest_delete, note.oldest_delete);
  keep_oldest(&into->min_expiry, note.min_expiry);
}
/// Merges `note` into the note of the same tree in `notes`; appends it if the tree has no note.
void add_note_anywhere(LogNotes* notes, const LogNote& note);
/// Like add_note_anywhere(), but compares the last note first: every commit calls this, nearly always for the tree of that note.
inline void add_note(LogNotes* notes, const LogNote& note) {
  if (!notes->empty() && notes->back().tree == note.tree) [[likely]]
    return merge_note(&notes->back(), note);
  add_note_anywhere(notes, note);
}

/// The current segment, or an older segment that is no longer written to.
struct LogSegment {
  FileNum file = kNoFile;
  SeqNum last_seq = 0;                  ///< seq of the last operation written to the segment
  std::uint64_t bytes = 0;              ///< size of the file, its header included
  LogNotes notes = {};                  ///< one note for each tree with an operation in the segment
  std::weak_ptr<const void> open = {};  ///< the segment's writer; it may still sync after the segment was removed from the list
  Millis since = 0;                     ///< time of the first batch; 0 = there is none
  SeqNum pieces_seq = 0;                ///< seq of the last operation of committed batches with pieces in this segment; 0 = none
  /// The segment is needed as long as tables do not have all operations up to this seq.
  [[nodiscard]] SeqNum needed_seq() const { return std::max(last_seq, pieces_seq); }
};

/// The list of segments, oldest first. Never empty once the log has started. The last segment is the current one and is never
/// removed. Not thread-safe.
class LogSegments {
 public:
  void add(LogSegment segment) { segments_.push_back(std::move(segment)); }
  [[nodiscard]] LogSegment& current() { return segments_.back(); }
  [[nodiscard]] const LogSegment& current() const { return segments_.back(); }
  [[nodiscard]] std::vector<LogSegment> all() const { return {segments_.begin(), segments_.end()}; }

  /// All segments older than `oldest`, except the current one.
  [[nodiscard]] std::vector<LogSegment> below(FileNum oldest) const;
  /// Like below(), but removes these segments from the list and returns their numbers.
  std::vector<FileNum> take_below(FileNum oldest);
  /// Returns the oldest segment that is needed if tables have all operations before `seq`. A segment is needed if it has an
  /// operation of `seq` or later, or a piece of a batch with such an operation, or if `pinned` returns true. Returns the
  /// current segment if no segment is needed.
  [[nodiscard]] FileNum oldest_needed(SeqNum seq, const std::function<bool(FileNum)>& pinned) const;
  /// Notes that the segments from `first` to `last` have pieces of a committed batch whose last operation is `last_seq`.
  void note_pieces(FileNum first, FileNum last, SeqNum last_seq);

  /// Total size of the segments.
  [[nodiscard]] std::uint64_t bytes() const;
  /// Time of the oldest batch in any segment; 0 = there is none.
  [[nodiscard]] Millis oldest_batch() const;

 private:
  std::deque<LogSegment> segments_;
};

/// Returns the births of pending deletes. result[i][j] is for the tree of note j of segment i: the birth of the tree's oldest
/// delete in segment i or a later one; 0 = none. A value that has expired by `now` counts as a delete.
std::vector<std::vector<Millis>> log_debts(const std::vector<LogSegment>& segments, Millis now);

}  // namespace ebbtide
