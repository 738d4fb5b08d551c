// Punches dead bytes out of data files. Dead bytes are the blocks of dropped and replaced pages, and holes
// (TableMetadata::dead_extents).
//
// A page drop is an edit that replaces a table's metadata file. From then on no new reader reads the dropped pages. When the last
// reader with an older metadata file has ended (a view, a job, a fetch), the puncher carries out these steps:
//
//   punch all dead bytes, sync the file, note them as punched in the manifest
//
// After a crash between these steps, the manifest still lists these bytes as dead and not punched, and they are punched again.
// This is safe, since no reader needs dead bytes.
//
// A file with a second name (in a checkpoint) is not punched. If the file system cannot punch holes, no file is punched. Such
// tables are rewritten, and the old file is unlinked (planner::rewrite).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <engine/result.h>
#include <engine/types.h>
#include "base/clock.h"
#include "base/mutex.h"
#include "db/background/table_change.h"
#include "db/trees/tree_view.h"
#include "io/file_system.h"
#include "table/metadata.h"

namespace ebbtide {

/// Punches the files of all trees. Thread-safe. Calls no function of its Env while it holds its mutex.
class HolePuncher {
 public:
  struct Env {
    const Clock* clock = nullptr;
    FileSystem* fs = nullptr;
    std::string dir{};
    Mutex* link_mutex =
        nullptr;  ///< held while a file is punched, or gets a hard link in a checkpoint: then it is not punched any more
    std::function<std::shared_ptr<const TablesView>(TreeId)> tables{};  ///< returns the tree's tables; null: the tree was dropped
    std::function<bool()> writable{};                                   ///< true if the manifest can be written
    std::function<Status(const TableChange&)> commit{};                 ///< commits a change; kAborted: the database closes
    std::function<void(std::function<void()>)> submit{};                ///< runs a function in the background
    std::function<void(TreeId)> done{};           ///< called after punching: plans rewrites of files that could not be punched
    std::function<void(const Status&)> failed{};  ///< called if commit() has failed
    std::function<bool()> closing{};
    std::function<void(const std::string&)> warn{};
  };

  explicit HolePuncher(Env env) : env_(std::move(env)) {}

  /// Notes that the tree may have dead bytes that are not punched.
  void note_dead(TreeId tree) EXCLUDES(mutex_);
  /// Submits punching if the tree may have dead bytes that are not punched.
  void schedule(TreeId tree) EXCLUDES(mutex_);
  /// Forgets a tree that was dropped.
  void forget(TreeId tree) EXCLUDES(mutex_);
  /// Returns the data files of `version` that are not punched because they have a second name or their sync failed.
  [[nodiscard]] std::set<FileNum> not_punched(const Version& version) EXCLUDES(mutex_);
  /// False once the file system has refused to punch a hole.
  [[nodiscard]] bool can_punch() const { return !cannot_punch_; }
  [[nodiscard]] std::uint64_t punched_bytes() const { return punched_bytes_; }  ///< bytes punched since the start

 private:
  // A data file, and the number of its dead bytes that are punched.
  using Punched = std::vector<std::pair<FileNum, std::uint64_t>>;
  struct TreeState {
    bool dead = false, queued = false;
    std::set<FileNum> not_punched;
  };

  void punch(TreeId tree) EXCLUDES(mutex_);
  /// Returns true if all dead bytes of the table's data file are punched now.
  Result<bool> punch_file(TreeId tree, const OpenTable& table, const std::vector<FileExtent>& dead, std::uint64_t dead_bytes)
      EXCLUDES(mutex_);
  void punch_later(TreeId tree) EXCLUDES(mutex_);
  void leave_unpunched(TreeId tree, FileNum file) EXCLUDES(mutex_);
  Status commit(TreeId tree, const Punched& punched);

  const Env env_;
  std::atomic<bool> cannot_punch_{false};
  std::atomic<std::uint64_t> retry_ns_{0}, punched_bytes_{0};
  Mutex mutex_;
  std::map<TreeId, TreeState> trees_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
