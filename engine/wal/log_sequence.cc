#include "wal/log_sequence.h"

#include <utility>

#include "io/file_names.h"
#include "io/file_system.h"

namespace ebbtide {
namespace {

std::string operations(SeqNum first, SeqNum next) {
  if (first == 0) return "operations up to " + std::to_string(next - 1);
  return "operations " + std::to_string(first) + " to " + std::to_string(next - 1);
}

}  // namespace

std::string SkippedLog::to_text() const {
  if (first == next) return what + "; no operation is lost there";
  return what + "; " + operations(first, next) + " are skipped: tables and manifest have them";
}

LogSequence::LogSequence(std::string dir, LogNeeds needs) : dir_(std::move(dir)), needs_(std::move(needs)) {}

std::string LogSequence::path(FileNum file) const { return join_path(dir_, log_file_name(file)); }

Status LogSequence::begin(const std::vector<FileNum>& segments) {
  if (needs_.oldest_log == kNoFile || (!segments.empty() && segments.front() == needs_.oldest_log)) return Status::ok();
  const std::string what = path(needs_.oldest_log) + " is missing: the write-ahead log begins there, as the manifest says";
  if (segments.empty()) return Status::corruption(what);
  gap_ = {needs_.oldest_log, 0, what};
  open_gap_ = true;
  return Status::ok();
}

Status LogSequence::follow(SeqNum first, std::uint32_t count, Millis time, std::uint64_t offset) {
  // All operations before the first record are in tables; the manifest relied on them when it recorded that.
  const bool follows = expected_ != 0 ? first == expected_ : first <= needs_.last_seq + 1;
  if ((!follows || open_gap_) && !lost_) {
    if (expected_ != 0 && first < expected_) {
      return Status::corruption("begins with operation " + std::to_string(first) + ", expected was " + std::to_string(expected_) +
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

// The log goes on with `next`. Operations in between, if any, must not be needed.
Status LogSequence::close_gap(SeqNum next, std::uint64_t offset) {
  if (!open_gap_) {
    gap_ = {file_, offset,
            path(file_) + ": begins with operation " + std::to_string(next) + ", expected was " +
                (expected_ != 0 ? std::to_string(expected_) : "at most " + std::to_string(needs_.last_seq + 1)) +
                (torn_.empty() ? ": a part of the log is missing before it" : "; before it, " + torn_)};
  }
  if (const std::string lacks = needs_.lacking(next - 1); next != expected_ && !lacks.empty()) {
    return lost(gap_.what, expected_, next, lacks);
  }
  skipped_.push_back({gap_.file, gap_.offset, file_, offset, expected_, next, time_, gap_.what});
  open_gap_ = false;
  return Status::ok();
}

// Handles a segment without a record: its header has the first seq.
Status LogSequence::take_header(SeqNum first_seq) {
  if (has_records_ || first_seq == 0) return Status::ok();
  if (!lost_ && (open_gap_ || (expected_ != 0 && first_seq > expected_))) TRY(close_gap(first_seq, 0));
  if (expected_ == 0 || first_seq > expected_) expected_ = first_seq;
  lost_ = false;
  return Status::ok();
}

Status LogSequence::lost(const std::string& what, SeqNum first, SeqNum next, const std::string& lacks) const {
  return Status::corruption(what + "; " + operations(first, next) + " are lost, and only the log had them: " + lacks +
                            ". Restore a backup, or save what is left: ebbtide-inspect salvage " + dir_ + " NEW-DIRECTORY");
}

Result<bool> LogSequence::damaged(const LogDamage& damage) {
  TRY(take_header(damage.first_seq));
  const std::string what = join_path(dir_, damage.what);
  const bool back = expected_ != 0 && damage.next_seq < expected_;
  const std::string lacks = damage.next_seq == expected_ || lost_ ? "" : needs_.lacking(damage.next_seq - 1);
  if (back || !lacks.empty()) {
    // If the manifest or a mark relies on it, it was durable. Else a power loss kept the second of two writes without the first.
    if (!damage.durable && (expected_ == 0 || expected_ > needs_.last_seq)) return false;
    if (!back) return lost(what, expected_, damage.next_seq, lacks);
    return Status::corruption(what + "; behind it the log goes back to operation " + std::to_string(damage.next_seq));
  }
  open_gap(damage.offset, what, damage.durable);
  return true;
}

void LogSequence::open_gap(std::uint64_t offset, const std::string& what, bool durable) {
  if (!open_gap_) gap_ = {file_, offset, what, durable};
  gap_.durable |= durable;
  open_gap_ = true;
}

Result<bool> LogSequence::leave(const LogEnd& end) {
  TRY(take_header(end.first_seq));
  end_ = path(file_) + ": the write-ahead log ends at " + std::to_string(end.valid_bytes);
  if (end.clean) return false;
  const std::string what = join_path(dir_, end.what);
  if (end.valid_after) {
    open_gap(end.valid_bytes, what + ", and what follows says that it was whole once");
  } else if (end.valid_bytes == 0 && file_ == needs_.oldest_log) {
    open_gap(0, what + ", but the manifest says that the log begins here");
  } else if (expected_ != 0 && expected_ <= needs_.last_seq) {
    open_gap(end.valid_bytes, what + ", and the manifest relies on operations up to " + std::to_string(needs_.last_seq));
  } else {
    // Unsynced pieces of a batch, of which a power loss removed one, and their commit record: all of it is the torn end.
    if (open_gap_ && !gap_.durable && gap_.file == file_) open_gap_ = false;
    torn_ = what;
    return true;
  }
  return false;
}

Status LogSequence::finish() {
  if (open_gap_) {
    return Status::corruption(gap_.what +
                              "; it cannot be known which operations followed. Restore a backup, or save what is left: " +
                              "ebbtide-inspect salvage " + dir_ + " NEW-DIRECTORY");
  }
  // Tables and manifest name the operations that they rely on; the log must reach the last of them. An empty log reaches up to
  // the seq at which it would begin.
  if (expected_ == 0 || expected_ - 1 >= needs_.last_seq) return Status::ok();
  return Status::corruption(end_ + " with operation " + std::to_string(expected_ - 1) + ", the manifest relies on " +
                            std::to_string(needs_.last_seq) + (torn_.empty() ? "" : "; " + torn_));
}

void LogSequence::lose() {
  expected_ = 0;
  open_gap_ = false;
  lost_ = true;
}

}  // namespace ebbtide
