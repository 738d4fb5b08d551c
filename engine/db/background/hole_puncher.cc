#include "db/background/hole_puncher.h"

#include <utility>

#include "io/file_names.h"

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
    at->second.dead = false;  // cleared before the search, so that a concurrent page drop can set the flag again
    left_out = at->second.not_punched;
  }
  const std::shared_ptr<const TablesView> tables = env_.writable() ? env_.tables(tree) : nullptr;
  if (tables == nullptr) return punch_later(tree);
  // Files of the current version with dead bytes that are not punched yet, by the number of the metadata file.
  std::map<FileNum, FileMetaPtr> with_dead_bytes;
  for (const Run& run : tables->version->runs) {
    for (const FileMetaPtr& file : run.files) {
      if (file->dead_bytes > file->punched_bytes && left_out.count(file->data_file) == 0)
        with_dead_bytes[file->metadata_file] = file;
    }
  }
  Punched done;
  bool later = false;
  for (const RunView& run : tables->runs) {
    for (const OpenTablePtr& table : run.tables()) {
      const auto at = with_dead_bytes.find(table->meta->metadata_file);
      if (at == with_dead_bytes.end() || !table->reader->unreadable().is_ok()) continue;
      const FileMeta& file = *at->second;
      Result<bool> punched = false;
      if (table->data->read_only_by(table->reader.get())) {
        auto pinned = table->reader->pinned();
        if (!pinned.is_ok()) {  // the reader has reported the error; punching is retried, since the device may work again
          later |= table->reader->unreadable().is_ok();
          continue;
        }
        punched = punch_file(tree, *table, (*pinned)->dead_extents(), file.dead_bytes);
      }
      if (punched.status().is_not_found() && file.quarantined()) continue;  // quarantined because the file is missing
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
  const Status status = done.empty() ? Status::ok() : commit(tree, done);
  if (later || !status.is_ok()) punch_later(tree);
  if (!status.is_ok() && status.code() != Code::kAborted) env_.failed(status);
}

// Commits which bytes were punched. Skips files that a concurrent edit has removed from the tree. Returns kAborted if the tree
// was dropped or the database closes.
Status HolePuncher::commit(TreeId tree, const Punched& punched) {
  bool is_there = false;
  TableChange change;
  change.make = [&](const TableChange::Versions& trees) {
    VersionEdit edit;
    const auto version = trees.find(tree);
    is_there = version != trees.end() && env_.tables(tree) != nullptr;
    if (!is_there) return edit;
    std::set<FileNum> living;
    for (const Run& run : version->second->runs) {
      for (const FileMetaPtr& file : run.files) living.insert(file->data_file);
    }
    TreeEdit noted;
    noted.tree = tree;
    for (const auto& file : punched) {
      if (living.count(file.first) != 0) noted.punched.push_back(file);
    }
    if (!noted.punched.empty()) edit.trees.push_back(std::move(noted));
    return edit;
  };
  TRY(env_.commit(change));
  return is_there ? Status::ok() : Status::aborted("");
}

Result<bool> HolePuncher::punch_file(TreeId tree, const OpenTable& table, const std::vector<FileExtent>& dead,
                                     std::uint64_t dead_bytes) {
  const std::string path = join_path(env_.dir, data_file_name(table.meta->data_file));
  MutexLock link(*env_.link_mutex);
  TRY_ASSIGN(links, env_.fs->link_count(path));
  if (links > 1) {
    leave_unpunched(tree, table.meta->data_file);
    return false;
  }
  std::uint64_t bytes = 0;
  for (const FileExtent& extent : dead) {
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
    leave_unpunched(tree, table.meta->data_file);  // a second sync of this file could return ok without having written the data
    return status;
  }
  return bytes == dead_bytes;
}

}  // namespace ebbtide
