#include "wal/log_sequence.h"

#include <utility>

#include "io/file_names.h"
#include "io/file_system.h"

namespace ebbtide {
namespace {

constexpr int kNamedFiles = 3;  // largest number of damaged files that one error message names

std::string operations(SeqNum first, SeqNum next) {
  if (first == 0) return "operations up to " + std::to_string(next - 1);
  return "operations " + std::to_string(first) + " to " + std::to_string(next - 1);
}

}  // namespace

std::string SkippedLog::to_text() const {
  if (stray) return what + "; neither the manifest nor another segment names it, so it is no part of the write-ahead log";
  if (first == next) return what + "; no operation is lost there";
  return what + "; " + operations(first, next) + " are skipped, since tables and manifest have them";
}

LogSequence::LogSequence(std::string dir, LogNeeds needs) : dir_(std::move(dir)), needs_(std::move(needs)) {}

std::string LogSequence::path(FileNum file) const { return join_path(dir_, log_file_name(file)); }

Status LogSequence::begin(const std::vector<FileNum>& segments) {
  if (needs_.oldest_log == kNoFile || (!segments.empty() && segments.front() == needs_.oldest_log)) return Status::ok();
  const std::string what = path(needs_.oldest_log) + " is missing; according to the manifest, the write-ahead log begins with it";
  if (segments.empty()) return Status::corruption(what);
  gap_ = {needs_.oldest_log, 0, what};
  open_gap_ = true;
  return Status::ok();
}

// Returns a text that says whether the manifest or an end mark names the segment; "" = neither does. A segment and its header are
// durable before either names the segment, so a named segment that is missing was lost.
std::string LogSequence::named_by(FileNum file) const {
  if (file == needs_.oldest_log) return "the manifest says that the log begins here";
  if (file == next_) return path(namer_) + " names it as the next segment";
  if (file == needs_.newest_log) return "the manifest says that the log had it";
  return "";
}

// Opens gaps for missing segments after the current segment and before `before` that the manifest or an end mark names.
void LogSequence::note_missing(FileNum before) {
  for (const FileNum named : {std::min(next_, needs_.newest_log), std::max(next_, needs_.newest_log)}) {
    if (named > std::max(file_, needs_.oldest_log) && named < before && missing_ != named) {
      missing_ = named;
      open_gap(named, 0, path(named) + " is missing: " + named_by(named));
    }
  }
}

void LogSequence::enter(FileNum file) {
  note_missing(file);
  file_ = file;
  has_records_ = false;
}

Status LogSequence::follow(SeqNum first, std::uint32_t count, Millis time, std::uint64_t offset) {
  // The first record of the log may have a seq up to last_seq + 1: by the manifest, tables have all operations before the log.
  const bool follows = expected_ != 0 ? first == expected_ : first <= needs_.last_seq + 1;
  if ((!follows || open_gap_) && !lost_) {
    if (expected_ != 0 && first < expected_) {
      return Status::corruption("begins with operation " + std::to_string(first) + " instead of " + std::to_string(expected_) +
                                (open_gap_ ? "; before it, " + gap_.what : ""));
    }
    TRY(close_gap(first, offset));
  }
  lost_ = false;
  has_records_ = true;
  time_ = time;
  expected_ = first + count;
  return Status::ok();
}

// Ends the gap: the log continues with operation `next`. Returns kCorruption if an operation in the gap is needed.
Status LogSequence::close_gap(SeqNum next, std::uint64_t offset) {
  if (!open_gap_) {
    gap_ = {file_, offset,
            path(file_) + ": begins with operation " + std::to_string(next) + " instead of " +
                (expected_ != 0 ? std::to_string(expected_) : "at most " + std::to_string(needs_.last_seq + 1)) +
                (torn_.empty() ? ": a part of the log is missing before it" : "; before it, " + torn_)};
  }
  if (const std::string lacks = needs_.lacking(next - 1); next != expected_ && !lacks.empty()) {
    return lost(gap_.what, expected_, next, lacks);
  }
  skipped_.push_back({.file = gap_.file,
                      .offset = gap_.offset,
                      .next_file = file_,
                      .first = expected_,
                      .next = next,
                      .time = time_,
                      .what = gap_.what});
  open_gap_ = false;
  return Status::ok();
}

// For a segment without records: takes `first_seq`, the seq in the header that its first operation would have, as the next seq.
// Ends an open gap there.
Status LogSequence::take_header(SeqNum first_seq) {
  if (has_records_ || first_seq == 0) return Status::ok();
  if (!lost_ && (open_gap_ || (expected_ != 0 && first_seq > expected_))) TRY(close_gap(first_seq, 0));
  if (expected_ == 0 || first_seq > expected_) expected_ = first_seq;
  lost_ = false;
  return Status::ok();
}

Status LogSequence::lost(const std::string& what, SeqNum first, SeqNum next, const std::string& lacks) {
  named_loss_ = true;
  return Status::corruption(what + "; " + operations(first, next) + " are lost, since only the log had them (" + lacks +
                            "). Restore a backup, or save the rest of the data: ebbtide-inspect salvage " + dir_ +
                            " NEW-DIRECTORY");
}

Result<bool> LogSequence::damaged(const LogDamage& damage) {
  TRY(take_header(damage.first_seq));
  const std::string what = join_path(dir_, damage.what);
  const bool back = expected_ != 0 && damage.next_seq < expected_;
  const std::string lacks = damage.next_seq == expected_ || lost_ ? "" : needs_.lacking(damage.next_seq - 1);
  if (back || !lacks.empty()) {
    // If the manifest or a mark relies on the bad part, that part was durable, and this is damage. Otherwise a power loss kept
    // the second of two writes and lost the first, and this is a torn end.
    if (!damage.durable && (expected_ == 0 || expected_ > needs_.last_seq)) return false;
    if (!back) return lost(what, expected_, damage.next_seq, lacks);
    return Status::corruption(what + "; the next readable record repeats operation " + std::to_string(damage.next_seq));
  }
  open_gap(file_, damage.offset, what, damage.durable);
  return true;
}

// Opens the gap, or extends it. Its message names each damaged file once; if two segments were exchanged, it names both.
void LogSequence::open_gap(FileNum file, std::uint64_t offset, const std::string& what, bool durable) {
  if (!open_gap_) {
    gap_ = {file, offset, what, file, durable};
  } else if (gap_.last_file != file) {
    gap_.last_file = file;
    if (++gap_.files <= kNamedFiles) gap_.what += "; " + what;
  }
  gap_.durable |= durable;
  open_gap_ = true;
}

bool LogSequence::is_stray(const LogEnd& end) const { return end.foreign && needs_.names_segments && named_by(file_).empty(); }

Result<bool> LogSequence::leave(const LogEnd& end) {
  if (is_stray(end)) {
    skipped_.push_back({.stray = true, .file = file_, .next_file = file_, .what = join_path(dir_, end.what)});
    return false;
  }
  TRY(take_header(end.first_seq));
  end_ = path(file_) + ": the write-ahead log ends at " + std::to_string(end.valid_bytes);
  if (end.next != kNoFile) {
    namer_ = file_;
    next_ = end.next;
  }
  if (end.clean) return false;
  const std::string what = join_path(dir_, end.what);
  if (end.valid_after) {
    open_gap(file_, end.valid_bytes, what + "; a later record shows that these bytes were durable");
  } else if (const std::string named = named_by(file_); end.valid_bytes == 0 && !named.empty()) {
    open_gap(file_, 0, what + "; " + named);
  } else if (expected_ != 0 && expected_ <= needs_.last_seq) {
    open_gap(file_, end.valid_bytes, what + "; the manifest relies on operations up to " + std::to_string(needs_.last_seq));
  } else {
    // A power loss may remove one of a batch's unsynced pieces. The other pieces and the commit record then belong to the torn
    // end.
    if (open_gap_ && !gap_.durable && gap_.file == file_) open_gap_ = false;
    torn_ = what;
    return true;
  }
  return false;
}

Status LogSequence::finish() {
  note_missing(~FileNum{0});
  if (open_gap_) {
    const std::string known = expected_ <= 1 ? "" : "; the log has operations up to " + std::to_string(expected_ - 1);
    return Status::corruption(gap_.what + known +
                              "; operations that followed it are unknown. Restore a backup, or save the rest of the data: " +
                              "ebbtide-inspect salvage " + dir_ + " NEW-DIRECTORY");
  }
  // The log must reach the last operation that the manifest relies on. A log without records reaches the seq before the seq
  // with which it would begin.
  if (expected_ == 0 || expected_ - 1 >= needs_.last_seq) return Status::ok();
  return Status::corruption(end_ + " with operation " + std::to_string(expected_ - 1) +
                            ", but the manifest relies on operation " + std::to_string(needs_.last_seq) +
                            (torn_.empty() ? "" : "; " + torn_));
}

void LogSequence::lose() {
  expected_ = 0;
  open_gap_ = false;
  lost_ = true;
}

}  // namespace ebbtide
