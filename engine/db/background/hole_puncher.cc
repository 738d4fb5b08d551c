#include "db/background/hole_puncher.h"

#include <utility>

#include "io/file_names.h"
#include "table/metadata.h"

namespace ebbtide {
namespace {
constexpr std::uint64_t kPunchRetryNs = 5'000'000'000;
}  // namespace

void HolePuncher::note_dead(TreeId tree) {
  MutexLock lock(mutex_);
  trees_[tree].dead = true;
}

void HolePuncher::forget(TreeId tree) {
  MutexLock lock(mutex_);
  trees_.erase(tree);
}

std::set<FileNum> HolePuncher::not_punched(const Version& version) {
  MutexLock lock(mutex_);
  const auto tree = trees_.find(version.tree);
  if (tree == trees_.end() || tree->second.not_punched.empty()) return {};
  std::set<FileNum> living;
  for (const Run& run : version.runs) {
    for (const FileMetaPtr& file : run.files) living.insert(file->data_file);
  }
  std::erase_if(tree->second.not_punched, [&](FileNum file) { return living.count(file) == 0; });
  return tree->second.not_punched;
}

void HolePuncher::leave_unpunched(TreeId tree, FileNum file) {
  MutexLock lock(mutex_);
  if (const auto at = trees_.find(tree); at != trees_.end()) at->second.not_punched.insert(file);
}

void HolePuncher::punch_later(TreeId tree) {
  MutexLock lock(mutex_);
  if (const auto at = trees_.find(tree); at != trees_.end()) at->second.dead = true;
}

void HolePuncher::schedule(TreeId tree) {
  if (env_.closing() || cannot_punch_ || env_.clock->mono_ns() < retry_ns_) return;
  {
    MutexLock lock(mutex_);
    const auto at = trees_.find(tree);
    if (at == trees_.end() || !at->second.dead || std::exchange(at->second.queued, true)) return;
  }
  env_.submit([this, tree] {
    punch(tree);
    {
      MutexLock lock(mutex_);
      if (const auto at = trees_.find(tree); at != trees_.end()) at->second.queued = false;
    }
    env_.done(tree);
  });
}

void HolePuncher::punch(TreeId tree) {
  std::set<FileNum> left_out;
  {
    MutexLock lock(mutex_);
    const auto at = trees_.find(tree);
    if (at == trees_.end()) return;
    at->second.dead = false;  // before the search, since a concurrent drop sets it again
    left_out = at->second.not_punched;
  }
  const std::shared_ptr<const TablesView> tables = env_.tables(tree);
  if (tables == nullptr) return punch_later(tree);
  std::map<FileNum, FileMetaPtr> dead;  // by metadata file; as the version has them now
  for (const Run& run : tables->version->runs) {
    for (const FileMetaPtr& file : run.files) {
      if (file->dead_bytes > file->punched_bytes && left_out.count(file->data_file) == 0) dead[file->metadata_file] = file;
    }
  }
  Punched done;
  bool later = false;
  for (const RunView& run : tables->runs) {
    for (const OpenTablePtr& table : run.tables()) {
      const auto at = dead.find(table->meta->metadata_file);
      if (at == dead.end() || !table->reader->unreadable().is_ok()) continue;
      const FileMeta& file = *at->second;
      Result<bool> punched = false;
      if (table->data->read_only_by(table->reader.get())) punched = punch_file(tree, *table, file.dead_bytes);
      if (punched.status().is_not_found() && file.quarantined()) continue;  // the file is missing
      if (!punched.is_ok()) {
        env_.warn("cannot punch dropped pages, will try again: " + punched.status().to_string());
        retry_ns_ = env_.clock->mono_ns() + kPunchRetryNs;
      }
      if (punched.is_ok() && *punched) {
        done.emplace_back(file.data_file, file.dead_bytes);
        punched_bytes_ += file.dead_bytes - file.punched_bytes;
      } else {
        later = true;
      }
    }
  }
  const Status status = done.empty() ? Status::ok() : env_.commit(tree, done);
  if (later || !status.is_ok()) punch_later(tree);
  if (!status.is_ok() && status.code() != Code::kAborted) env_.failed(status);
}

Result<bool> HolePuncher::punch_file(TreeId tree, const OpenTable& table, std::uint64_t dead_bytes) {
  const std::string path = join_path(env_.dir, data_file_name(table.meta->data_file));
  MutexLock link(*env_.link_mutex);
  TRY_ASSIGN(links, env_.fs->link_count(path));
  if (links > 1) {
    leave_unpunched(tree, table.meta->data_file);
    return false;
  }
  std::uint64_t bytes = 0;
  for (const FileExtent& extent : table.reader->dead_extents()) {
    const Status status = env_.fs->punch_hole(path, extent.offset, extent.length);
    if (status.code() == Code::kUnsupported) {
      if (!cannot_punch_.exchange(true))
        env_.warn("the file system cannot punch holes; tables are rewritten instead: " + status.to_string());
      return false;
    }
    TRY(status);
    bytes += extent.length;
  }
  if (Status status = env_.fs->sync_file(path); !status.is_ok()) {
    leave_unpunched(tree, table.meta->data_file);  // a second sync of this file could return ok without effect
    return status;
  }
  return bytes == dead_bytes;
}

}  // namespace ebbtide
