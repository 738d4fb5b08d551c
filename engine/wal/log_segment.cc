#include "wal/log_segment.h"

#include <algorithm>
#include <unordered_map>

namespace ebbtide {

void add_note_anywhere(LogNotes* notes, const LogNote& note) {
  auto at = std::find_if(notes->rbegin(), notes->rend(), [&](const LogNote& have) { return have.tree == note.tree; });
  at == notes->rend() ? notes->push_back(note) : merge_note(&*at, note);
}

std::vector<LogSegment> LogSegments::below(FileNum oldest) const {
  std::vector<LogSegment> below;
  for (const LogSegment& s : segments_) {
    if (s.file < oldest && &s != &segments_.back()) below.push_back(s);
  }
  return below;
}

std::vector<FileNum> LogSegments::take_below(FileNum oldest) {
  std::vector<FileNum> files;
  while (segments_.size() > 1 && segments_.front().file < oldest) {
    files.push_back(segments_.front().file);
    segments_.pop_front();
  }
  return files;
}

FileNum LogSegments::oldest_needed(SeqNum seq, const std::function<bool(FileNum)>& pinned) const {
  for (const LogSegment& s : segments_) {
    if (s.needed_seq() >= seq || pinned(s.file) || &s == &segments_.back()) return s.file;
  }
  return kNoFile;
}

void LogSegments::note_pieces(FileNum first, FileNum last, SeqNum last_seq) {
  for (LogSegment& s : segments_) {
    if (s.file >= first && s.file <= last) s.pieces_seq = last_seq;
  }
}

std::uint64_t LogSegments::bytes() const {
  std::uint64_t bytes = 0;
  for (const LogSegment& s : segments_) bytes += s.bytes;
  return bytes;
}

Millis LogSegments::oldest_batch() const {
  const auto first = std::find_if(segments_.begin(), segments_.end(), [](const LogSegment& s) { return s.since != 0; });
  return first == segments_.end() ? 0 : first->since;
}

std::vector<std::vector<Millis>> log_debts(const std::vector<LogSegment>& segments, Millis now) {
  std::vector<std::vector<Millis>> debts(segments.size());
  // For each tree, the oldest birth in segment `at` and later segments. There may be many trees, since each FLUSHDB creates one.
  std::unordered_map<TreeId, Millis> oldest;
  for (std::size_t at = segments.size(); at-- > 0;) {
    for (const LogNote& note : segments[at].notes) {
      Millis& debt = oldest[note.tree];
      keep_oldest(&debt, note.oldest_delete);
      if (note.min_expiry <= now) keep_oldest(&debt, note.min_expiry);
      debts[at].push_back(debt);
    }
  }
  return debts;
}

}  // namespace ebbtide
