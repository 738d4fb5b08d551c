#include "db/background/file_watch.h"

#include <algorithm>
#include <utility>

#include "base/coding.h"
#include "io/file_names.h"
#include "version/manifest.h"
#include "wal/log_format.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kCheckNs = 1'000'000'000;  // a check costs a few system calls a file
constexpr std::uint64_t kNotedBytes = 64;          // more than a record's header, so that not all noted bytes are zeros

}  // namespace

void FileWatch::tick() {
  const std::uint64_t now = env_.clock->mono_ns();
  if (last_ns_ != 0 && now - last_ns_ < kCheckNs) return;
  last_ns_ = now;
  noted_before_ = std::exchange(noted_, {});
  if (!env_.healthy()) return;
  if (const Status status = env_.check_directory(); !status.is_ok()) return env_.directory_lost(status);
  for (const LogSegment& segment : env_.segments()) {
    const Status status = check(log_file_name(segment.file), segment.bytes, kLogMagic);
    if (!status.is_ok()) env_.log_lost(segment.file, status);
  }
  const Status status =
      env_.with_manifest([this](FileNum manifest, std::uint64_t bytes) { return check_manifest(manifest, bytes); });
  if (!status.is_ok()) env_.manifest_lost(status);
}

// Returns an error if the file is not as the database left it. Returns ok if the device fails to open or read the file: then a
// later write fails and is handled there.
Status FileWatch::check(const std::string& name, std::uint64_t bytes, std::uint32_t magic) {
  const std::string path = join_path(env_.dir, name);
  const auto lost = [&](const char* what) { return Status::io_error(path + " " + what + " while the database used it"); };
  const auto file = env_.fs->open(path);
  if (file.status().is_not_found()) return lost("was removed");
  if (file.status().code() == Code::kCorruption) return lost("was replaced");  // by a directory, for example
  if (!file.is_ok()) return Status::ok();
  if ((*file)->size() < bytes) return lost("was truncated");
  char head[sizeof(magic)] = {};
  if (!(*file)->read(0, sizeof(head), head).is_ok()) return Status::ok();
  if (load_fixed<std::uint32_t>(head) != magic) return lost("was overwritten");
  if (const auto before = noted_before_.find(name); before != noted_before_.end()) {
    std::string now(before->second.bytes.size(), '\0');
    if (!(*file)->read(before->second.offset, now.size(), now.data()).is_ok()) return Status::ok();
    if (now != before->second.bytes) return lost("was truncated or overwritten");
  }
  Noted noted{bytes - std::min(bytes, kNotedBytes), std::string(std::min(bytes, kNotedBytes), '\0')};
  if ((*file)->read(noted.offset, noted.bytes.size(), noted.bytes.data()).is_ok()) noted_[name] = std::move(noted);
  return Status::ok();
}

Status FileWatch::check_manifest(FileNum manifest, std::uint64_t bytes) {
  TRY(check(manifest_file_name(manifest), bytes, kManifestMagic));
  const auto current = read_current(*env_.fs, env_.dir);
  const bool damaged = current.status().is_not_found() || current.status().code() == Code::kCorruption;
  if (!damaged && (!current.is_ok() || *current == manifest)) return Status::ok();
  return Status::io_error(join_path(env_.dir, kCurrentFileName) + " was removed or overwritten while the database used it");
}

}  // namespace ebbtide
