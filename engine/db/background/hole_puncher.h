// Punches dead bytes out of data files: dropped pages, replaced values, old holes.
//
// A page drop is an edit that swaps a table's metadata file. From then on no new reader reads the dropped pages. The data file is punched
// when the last reader with an older metadata file has ended (a view, a job, a fetch):
//
//   punch all dead bytes, sync the file, note them as punched in the manifest
//
// After a crash in between, the manifest still lists these bytes as dead and not punched, and they are punched again. That is safe, since
// no reader needs dead bytes.
//
// A file with a second name (in a checkpoint) is not punched, and no file is if the file system cannot punch holes. Such tables are
// rewritten, and the old file is unlinked (planner::rewrite).
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
#include "db/trees/tree_view.h"
#include "io/file_system.h"

namespace ebbtide {

/// Thread-safe. Calls nothing of its Env under its mutex.
class HolePuncher {
 public:
  /// A data file and how many of its dead bytes are punched.
  using Punched = std::vector<std::pair<FileNum, std::uint64_t>>;

  struct Env {
    const Clock* clock = nullptr;
    FileSystem* fs = nullptr;
    std::string dir{};
    Mutex* link_mutex = nullptr;  ///< held while files get a second name: such files keep their bytes
    std::function<std::shared_ptr<const TablesView>(TreeId)>
        tables{};                                            ///< null: the tree was dropped, or writes are not allowed now
    std::function<Status(TreeId, const Punched&)> commit{};  ///< to the manifest; kAborted: the tree was dropped
    std::function<void(std::function<void()>)> submit{};     ///< for punching, in the background
    std::function<void(TreeId)> done{};                      ///< plans rewrites of files that could not be punched
    std::function<void(const Status&)> failed{};             ///< commit() failed
    std::function<bool()> closing{};
    std::function<void(const std::string&)> warn{};
  };

  explicit HolePuncher(Env env) : env_(std::move(env)) {}

  /// Notes that the tree may have dead bytes that are not punched.
  void note_dead(TreeId tree) EXCLUDES(mutex_);
  /// Submits punching if the tree may have such bytes.
  void schedule(TreeId tree) EXCLUDES(mutex_);
  /// The tree was dropped.
  void forget(TreeId tree) EXCLUDES(mutex_);
  /// Data files of `version` that are not punched because they have a second name, or their sync failed.
  [[nodiscard]] std::set<FileNum> not_punched(const Version& version) EXCLUDES(mutex_);
  /// False once the file system has refused to punch a hole.
  [[nodiscard]] bool can_punch() const { return !cannot_punch_; }
  [[nodiscard]] std::uint64_t punched_bytes() const { return punched_bytes_; }  ///< since the start

 private:
  struct TreeState {
    bool dead = false, queued = false;
    std::set<FileNum> not_punched;
  };

  void punch(TreeId tree) EXCLUDES(mutex_);
  /// True if all dead bytes of the table's data file are punched now.
  Result<bool> punch_file(TreeId tree, const OpenTable& table, std::uint64_t dead_bytes) EXCLUDES(mutex_);
  void punch_later(TreeId tree) EXCLUDES(mutex_);
  void leave_unpunched(TreeId tree, FileNum file) EXCLUDES(mutex_);

  const Env env_;
  std::atomic<bool> cannot_punch_{false};
  std::atomic<std::uint64_t> retry_ns_{0}, punched_bytes_{0};
  Mutex mutex_;
  std::map<TreeId, TreeState> trees_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
