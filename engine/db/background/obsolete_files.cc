#include "db/background/obsolete_files.h"

#include <bit>
#include <utility>

#include "io/file_names.h"

namespace ebbtide {
namespace {
constexpr std::uint64_t kRemovalRetryNs = 10'000'000'000;
constexpr std::size_t kNamedFailures = 8;
}  // namespace

void ObsoleteFileRemover::add(const ObsoleteFiles& files) {
  MutexLock lock(mutex_);
  queued_.push_back(files);
}

void ObsoleteFileRemover::remove_queued() {
  env_.collect();
  std::vector<ObsoleteFiles> all;
  {
    MutexLock lock(mutex_);
    all.swap(queued_);
  }
  for (const ObsoleteFiles& files : all) {
    for (const FileNum file : {files.data_file, files.metadata_file}) {
      if (file != kNoFile) env_.forget(file);  // the cache has pages of both files
    }
    remove(files);
  }
}

void ObsoleteFileRemover::remove(const ObsoleteFiles& files) {
  if (files.data_file != kNoFile) remove(data_file_name(files.data_file));
  if (files.metadata_file != kNoFile) remove(metadata_file_name(files.metadata_file));
}

// If the unlink fails, RemovalsFileSystem remembers the file, whichever part of the engine removes it; tick() then tries again.
void ObsoleteFileRemover::remove(const std::string& name) {
  const Status status = env_.fs->unlink(join_path(env_.dir, name));
  if (!status.is_ok() && !status.is_not_found()) return note_failure(name, status);
  MutexLock lock(mutex_);
  failed_.erase(name);
}

// Logs the first kNamedFailures files by name. Beyond that, logs the number of files whenever it is a power of two. So a
// directory that refuses all removals causes only a few lines.
void ObsoleteFileRemover::note_failure(const std::string& name, const Status& status) {
  std::size_t files = 0;
  {
    MutexLock lock(mutex_);
    std::string& reason = failed_[name];
    if (reason == status.message()) return;
    reason = status.message();
    files = failed_.size();
  }
  if (files <= kNamedFailures) return env_.warn("cannot remove a file, will try again: " + status.to_string());
  if (!std::has_single_bit(files)) return;
  env_.warn("cannot remove " + std::to_string(files) + " files, will try again; the last one: " + status.to_string());
}

void ObsoleteFileRemover::disown(const std::vector<ObsoleteFiles>& files) {
  MutexLock lock(mutex_);
  disowned_.insert(disowned_.end(), files.begin(), files.end());
}

void ObsoleteFileRemover::queue_disowned() {
  MutexLock lock(mutex_);
  queued_.insert(queued_.end(), disowned_.begin(), disowned_.end());
  disowned_.clear();
}

void ObsoleteFileRemover::tick() {
  env_.collect();  // an ended lease may have been the last owner of some tables
  const std::uint64_t now_ns = env_.clock->mono_ns();
  bool any = false, retry = false;
  {
    MutexLock lock(mutex_);
    any = !queued_.empty();
    retry = env_.fs->has_unremoved() && now_ns - last_retry_ns_ >= kRemovalRetryNs;
    if (retry) last_retry_ns_ = now_ns;
  }
  if (any) env_.submit([this] { remove_queued(); });
  if (!retry) return;
  env_.submit([this, names = env_.fs->take_unremoved()] {
    for (const std::string& name : names) remove(name);
  });
}

}  // namespace ebbtide
