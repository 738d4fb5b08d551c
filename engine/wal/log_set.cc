#include "wal/log_set.h"

#include <algorithm>

#include "base/invariant.h"
#include "io/file_names.h"

namespace ebbtide {

Result<LogSet> LogSet::open(FileSystem& fs, std::string dir) {
  LogSet set(fs, std::move(dir));
  TRY_ASSIGN(names, fs.list(set.dir_));
  for (const std::string& name : names) {
    FileKind kind{};
    FileNum file = kNoFile;
    if (!parse_file_name(name, &kind, &file) || kind != FileKind::kLog) continue;
    TRY_ASSIGN(bytes, fs.file_size(join_path(set.dir_, name)));
    set.segments_.push_back({.file = file, .bytes = bytes});
  }
  std::sort(set.segments_.begin(), set.segments_.end(), [](const LogSegment& a, const LogSegment& b) { return a.file < b.file; });
  return set;
}

std::uint64_t LogSet::live_bytes() const {
  std::uint64_t bytes = 0;
  for (const LogSegment& segment : segments_) bytes += segment.bytes;
  return bytes;
}

void LogSet::add(FileNum file, std::uint64_t bytes) {
  ASSERT(segments_.empty() || segments_.back().file < file);
  segments_.push_back({.file = file, .bytes = bytes});
}

void LogSet::set_newest_bytes(std::uint64_t bytes) {
  ASSERT(!segments_.empty());
  segments_.back().bytes = bytes;
}

Status LogSet::remove_before(FileNum oldest) {
  if (segments_.empty() || segments_.front().file >= oldest) return Status::ok();
  TRY(fs_->sync_dir(dir_));
  while (!segments_.empty() && segments_.front().file < oldest) {
    const Status status = fs_->unlink(join_path(dir_, log_file_name(segments_.front().file)));
    if (!status.is_ok() && !status.is_not_found()) return status;
    segments_.erase(segments_.begin());
  }
  return Status::ok();
}

}  // namespace ebbtide
