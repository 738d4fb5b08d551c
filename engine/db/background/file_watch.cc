#include "db/background/file_watch.h"

#include <algorithm>
#include <utility>

#include "base/coding.h"
#include "io/errno_status.h"
#include "io/file_names.h"
#include "version/manifest.h"
#include "wal/log_format.h"
#include "wal/log_reader.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kCheckNs = 1'000'000'000;    // ns between two checks; a check makes a few system calls for each file
constexpr std::uint64_t kTablesNs = 60'000'000'000;  // ns between two listings of the directory, to find missing tables
constexpr std::uint64_t kNotedBytes = 64;  // last bytes to compare: more than a record's header, which is never all zeros
// Log and manifest are small compared with the tables, and the next start needs every byte of them. With the default interval of
// the scrub they are read once a day.
constexpr std::uint64_t kContentsPerScrub = 30;

Status lost(const std::string& path, const std::string& what) {
  return Status::io_error(path + " " + what + " while the database used it");
}

}  // namespace

void FileWatch::tick() {
  if (!mutex_.try_lock()) return;
  if (const std::uint64_t now = env_.clock->mono_ns(); last_ns_ == 0 || now - last_ns_ >= kCheckNs) {
    last_ns_ = now;
    check_all();
    read_contents();
  }
  mutex_.unlock();
}

bool FileWatch::check_now() {
  MutexLock lock(mutex_);
  if (!check_all()) return false;
  bool whole = true;
  for (const auto& [name, content] : all_) {
    if (content.is_manifest || suspects_.count(name) != 0) whole &= read_content(content);
  }
  return whole;
}

bool FileWatch::check_all() {
  noted_before_ = std::exchange(noted_, {});
  all_.clear();
  if (!check_lock()) return false;
  if (!env_.healthy()) return true;
  if (const Status status = env_.check_directory(); !status.is_ok()) return env_.directory_lost(status), false;
  bool whole = true;
  const std::vector<LogSegment> segments = env_.segments();
  for (const LogSegment& segment : segments) {
    const Status status = check(log_file_name(segment.file), {segment.file, segment.bytes}, kLogMagic, !segment.open.expired());
    if (status.is_ok()) continue;
    env_.log_lost(segment.file, status);
    whole = false;
  }
  const Status status = env_.with_manifest([this](FileNum manifest, std::uint64_t bytes)
                                               NO_THREAD_SAFETY_ANALYSIS { return check_manifest(manifest, bytes); });
  if (status.is_ok()) return whole;
  env_.manifest_lost(status);
  return false;
}

// Renews the file LOCK if it was removed. Logs each change of the problem once. Only an error of check_directory() makes the
// database read-only.
bool FileWatch::check_lock() {
  const Result<std::string> renewed = env_.renew_lock();
  const std::string problem = renewed.is_ok() ? "" : renewed.status().to_string();
  if (renewed.is_ok() && !renewed->empty()) env_.log(Severity::kWarning, *renewed);
  if (!problem.empty() && problem != lock_problem_) env_.log(Severity::kError, problem);
  lock_problem_ = problem;
  if (renewed.is_ok() || env_.check_directory().is_ok() || !env_.healthy()) return true;
  env_.directory_lost(env_.check_directory());
  return false;
}

// Returns an error if the file was removed, replaced, truncated or changed. Errors of the device are ignored, since later writes
// will find them. `open`: true if the database has the file open for writing.
Status FileWatch::check(const std::string& name, const Content& content, std::uint32_t magic, bool open) {
  const std::string path = join_path(env_.dir, name);
  const auto file = env_.fs->open(path);
  if (file.status().is_not_found()) return lost(path, "was removed");
  if (file.status().code() == Code::kCorruption) return lost(path, "was replaced");  // by a directory, for example
  if (!file.is_ok()) return Status::ok();
  if ((*file)->size() < content.bytes) {
    return lost(path, "was truncated to " + std::to_string((*file)->size()) + " of " + std::to_string(content.bytes) + " bytes");
  }
  char head[sizeof(magic)] = {};
  if (!(*file)->read(0, sizeof(head), head).is_ok()) return Status::ok();
  if (load_fixed<std::uint32_t>(head) != magic) {
    return lost(path, "was changed in its first " + std::to_string(sizeof(magic)) + " bytes");
  }
  Noted now{.offset = content.bytes - std::min(content.bytes, kNotedBytes),
            .bytes = std::string(std::min(content.bytes, kNotedBytes), '\0'),
            .size = content.bytes,
            .identity = (*file)->identity(),
            .last_write = (*file)->last_write()};
  all_[name] = content;
  if (const auto before = noted_before_.find(name); before != noted_before_.end()) {
    TRY(check_noted(path, before->second, **file, open));
    if (before->second.size == now.size && before->second.last_write != now.last_write) suspects_[name] = content;
  }
  if ((*file)->read(now.offset, now.bytes.size(), now.bytes.data()).is_ok()) noted_[name] = std::move(now);
  return Status::ok();
}

// The identity of a file that is not open is not compared: some file systems give such files new numbers.
Status FileWatch::check_noted(const std::string& path, const Noted& before, const RandomAccessFile& file, bool open) {
  if (open && file.identity() != before.identity) return lost(path, "was replaced");
  std::string now(before.bytes.size(), '\0');
  if (!file.read(before.offset, now.size(), now.data()).is_ok() || now == before.bytes) return Status::ok();
  const auto differs = std::mismatch(now.begin(), now.end(), before.bytes.begin()).first - now.begin();
  return lost(path,
              "was truncated, or was changed at " + std::to_string(before.offset + static_cast<std::uint64_t>(differs)) + ",");
}

Status FileWatch::check_manifest(FileNum manifest, std::uint64_t bytes) {
  TRY(check(manifest_file_name(manifest), {manifest, bytes, true}, kManifestMagic, true));
  const auto current = read_current(*env_.fs, env_.dir);
  const std::string path = join_path(env_.dir, kCurrentFileName);
  if (current.status().is_not_found()) return lost(path, "was removed");
  if (current.status().code() == Code::kCorruption || (current.is_ok() && *current != manifest)) return lost(path, "was changed");
  return Status::ok();
}

// --- reading whole files in the background

void FileWatch::read_contents() {
  const std::uint64_t now = env_.clock->mono_ns(), wait_ns = scrub_interval_ * 1'000'000 / kContentsPerScrub;
  if (contents_ns_ == 0) contents_ns_ = now;
  if (wait_ns != 0 && now - contents_ns_ >= wait_ns) {
    contents_ns_ = now;
    suspects_ = all_;
  }
  if (tables_ns_ == 0) tables_ns_ = now;
  const bool tables = now - tables_ns_ >= kTablesNs;
  if ((suspects_.empty() && !tables) || reading_.exchange(true)) return;
  if (tables) tables_ns_ = now;
  env_.submit([this, tables, contents = std::exchange(suspects_, {})] {
    for (const auto& [name, content] : contents) read_content(content);
    if (tables) look_for_tables();
    reading_ = false;
  });
}

// Reports live tables whose files are not in the directory. A merge may replace a table during the listing, so only tables count
// that are live before and after it.
void FileWatch::look_for_tables() {
  const std::set<std::string> before = env_.table_files();
  const auto listed = env_.fs->list(env_.dir);
  const std::set<std::string> after = env_.table_files();
  if (!listed.is_ok() || env_.closing()) return;
  const std::set<std::string> names(listed->begin(), listed->end());
  std::set<std::string> missing;
  for (const std::string& name : before) {
    if (after.count(name) != 0 && names.count(name) == 0) missing.insert(name);
  }
  for (const std::string& name : missing) {
    if (missing_tables_.count(name) != 0) continue;
    env_.log(Severity::kError,
             join_path(env_.dir, name) +
                 " was removed while the database used it: its data can be read as long as the file is open. Copy " +
                 "it from a backup before the next start, or save the keys of its database elsewhere");
  }
  missing_tables_ = std::move(missing);
}

// whole_manifest() and whole_log() read a file and return the number of bytes before the first damaged or unwritten record.

Result<std::uint64_t> FileWatch::whole_manifest(FileNum file) const {
  const auto ignore = [](Bytes, std::uint64_t) { return Status::ok(); };
  TRY_ASSIGN(end, read_manifest(*env_.fs, env_.dir, file, ignore, {.direct = true}));
  return end.valid_bytes;
}

Result<std::uint64_t> FileWatch::whole_log(FileNum file) const {
  LogVisitor visitor;
  visitor.on_record = [](const std::string&, std::uint64_t) { return Status::ok(); };
  visitor.on_long_record = [](const LogPayload&, std::uint64_t) { return Status::ok(); };
  visitor.direct = true;
  TRY_ASSIGN(end, read_log(*env_.fs, env_.dir, file, visitor));
  return end.valid_bytes;
}

// Returns false if the file is damaged. Checks only `content.bytes` bytes: bytes written since the last check may be incomplete.
bool FileWatch::read_content(const Content& content) {
  if (env_.closing()) return true;
  const Result<std::uint64_t> whole = content.is_manifest ? whole_manifest(content.file) : whole_log(content.file);
  Status status = whole.status();
  if (whole.is_ok() && *whole < content.bytes) {
    status = Status::corruption((content.is_manifest ? manifest_file_name(content.file) : log_file_name(content.file)) +
                                ": damaged at " + std::to_string(*whole));
  }
  if (status.is_ok() || (status.code() != Code::kCorruption && !is_file_error(status)) || env_.closing()) return true;
  // After kCorruption the database would stay read-only. So the damage is reported as an I/O error, from which the database
  // recovers with a new segment or a new manifest.
  const Status failure = Status::io_error(join_path(env_.dir, status.message()));
  content.is_manifest ? env_.manifest_damaged(content.file, failure) : env_.log_lost(content.file, failure);
  return false;
}

}  // namespace ebbtide
