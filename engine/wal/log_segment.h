// The segments of the log, and the pending deletes in each.
//
// A segment has a note for each tree that it has operations of: the birth of the first delete in it, and the smallest expiry. A delete may
// concern a value in any segment before its own. So the pending deletes of a segment are in it and in all later ones (log_debts). A
// segment's number is never used again.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include <engine/types.h>
#include "base/oldest.h"

namespace ebbtide {

/// The deletes and expiries of one tree in a part of the log. Times are engine times; 0 = none.
struct LogNote {
  TreeId tree = kNoTree;
  Millis oldest_delete = 0;  ///< birth of its first delete
  Millis min_expiry = 0;     ///< smallest expiry of its values
};
/// One note per tree. They are few, so searching a vector is faster than a map.
using LogNotes = std::vector<LogNote>;
inline void merge_note(LogNote* into, const LogNote& note) {
  keep_oldest(&into->oldest_delete, note.oldest_delete);
  keep_oldest(&into->min_expiry, note.min_expiry);
}
/// Like add_note(), but searches all of `notes` for the tree.
void add_note_anywhere(LogNotes* notes, const LogNote& note);
/// Merges `note` into `notes`. Every commit calls it, nearly always for the tree of the last note.
inline void add_note(LogNotes* notes, const LogNote& note) {
  if (!notes->empty() && notes->back().tree == note.tree) [[likely]]
    return merge_note(&notes->back(), note);
  add_note_anywhere(notes, note);
}

/// A segment that is no longer written to, or the current one.
struct LogSegment {
  FileNum file = kNoFile;
  SeqNum last_seq = 0;                  ///< of its last operation, as far as written
  std::uint64_t bytes = 0;              ///< header included
  LogNotes notes = {};                  ///< a note for every tree that has an operation in it
  std::weak_ptr<const void> open = {};  ///< its writer: a sync may end after the segment was removed
  Millis since = 0;                     ///< time of its first batch; 0 = it has none
  SeqNum pieces_seq = 0;                ///< the last operation of committed batches that have pieces in it; 0 = none
  [[nodiscard]] SeqNum needed_seq() const { return std::max(last_seq, pieces_seq); }
};

/// Oldest first. Never empty once the log has started; the last segment is the current one, which is never removed. Not thread-safe.
class LogSegments {
 public:
  void add(LogSegment segment) { segments_.push_back(std::move(segment)); }
  [[nodiscard]] LogSegment& current() { return segments_.back(); }
  [[nodiscard]] const LogSegment& current() const { return segments_.back(); }
  [[nodiscard]] std::vector<LogSegment> all() const { return {segments_.begin(), segments_.end()}; }

  /// Segments older than `oldest`, without the current one.
  [[nodiscard]] std::vector<LogSegment> below(FileNum oldest) const;
  /// The same segments, which are removed from the list.
  std::vector<FileNum> take_below(FileNum oldest);
  /// The oldest segment that is needed while tables lack operations of `seq` and later: it has such an operation, has a piece of
  /// such a batch, or is `pinned`. If there is none, the current segment.
  [[nodiscard]] FileNum oldest_needed(SeqNum seq, const std::function<bool(FileNum)>& pinned) const;
  /// A committed batch whose last operation is `last_seq` has pieces in the segments from `first` to `last`.
  void note_pieces(FileNum first, FileNum last, SeqNum last_seq);

  [[nodiscard]] std::uint64_t bytes() const;
  /// Time of the oldest batch; 0 = there is none.
  [[nodiscard]] Millis oldest_batch() const;

 private:
  std::deque<LogSegment> segments_;
};

/// For each note of each segment, in their order: the oldest birth of a delete of that tree in the segment or a later one. A value that
/// has expired by `now` counts as a delete. 0 = none.
std::vector<std::vector<Millis>> log_debts(const std::vector<LogSegment>& segments, Millis now);

}  // namespace ebbtide
