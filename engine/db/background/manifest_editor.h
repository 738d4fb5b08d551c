// Every edit of the manifest while the database runs: what belongs into it, and what follows from it.
//
// No edit says more than the log has durably: before an edit is committed, the log is synced past the highest seq that it relies on. (The
// flush after the log failed is the one exception.)
//
// An edit names the oldest log segment that is needed after it. A segment is removed only when a durable edit says so: a crash can undo
// some removals and not others, and a segment that comes back must not be taken for the log.
//
// An edit takes along every delete deadline that the manifest does not have. The keys of files that it takes out stay named in the present
// manifest until that is rolled: the ledger counts them as superseded.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <engine/status.h>
#include "base/mutex.h"
#include "db/background/obsolete_files.h"
#include "db/background/table_installer.h"
#include "db/purge/log_pins.h"
#include "db/purge/purge_ledger.h"
#include "db/trees/tree_registry.h"
#include "version/version_edit.h"
#include "version/version_set.h"
#include "wal/log_segment.h"

namespace ebbtide {

/// Thread-safe.
class ManifestEditor {
 public:
  /// How many of a tree's oldest frozen memtables an edit makes tables of.
  using Flushed = std::map<const Tree*, std::size_t>;
  struct Env {
    TreeRegistry* trees = nullptr;
    PurgeLedger* ledger = nullptr;
    LogPins* pins = nullptr;
    const TableInstaller* installer = nullptr;
    ObsoleteFileRemover* obsolete_files = nullptr;
    std::function<VersionSet&()> versions;
    std::function<Millis()> now;                   ///< engine time, as lateness is measured by it
    std::function<Millis()> stamped;               ///< engine time, as births have it
    std::function<Millis()> fence;                 ///< the same; every earlier delete can be seen when it returns
    std::function<Millis(const TreePtr&)> floor;   ///< oldest pending delete of the tree, at most fence()
    std::function<Status(SeqNum)> wait_synced;     ///< of the log
    std::function<FileNum(SeqNum)> oldest_needed;  ///< the segment from which on the log is needed for the seq
    std::function<std::vector<LogSegment>()> segments;
    std::function<bool(FileNum)> has_segments_below;  ///< finished ones
    std::function<std::vector<FileNum>(FileNum)> take_segments_below;
    std::function<void(SeqNum)> await_settled;  ///< no reader is sent to a tree that was dropped up to the seq, no writer uses it
    std::function<void(TreeId)> forget;         ///< the tree is retired
    std::function<void(std::function<void()>)> submit;  ///< for work that waits for the device
    std::function<bool()> closing;
    std::function<bool()> healthy;  ///< the database is not read-only
    std::function<void(const Status&, const char* what)> failed;
    std::function<void()> mapping_written;  ///< or the attempt failed: writers that wait look again
  };

  explicit ManifestEditor(Env env) : env_(std::move(env)) {}

  /// Held across I/O by each change of the set of tables. Readers and writers never take it.
  Mutex mutex;

  // --- with the mutex
  /// Commits the edit. An error has the context "manifest"; afterwards the manifest takes no edit until roll().
  Status commit(VersionEdit edit) REQUIRES(mutex);
  /// Writes changes of the mapping of databases, if there are any; retires dropped trees.
  Status commit_mapping() REQUIRES(mutex);
  /// What follows from an edit that had `changes` and was committed.
  void finish_mapping(MappingChanges changes) REQUIRES(mutex);
  /// Writes changes of delete deadlines, if there are any and the manifest can be written.
  Status commit_deadlines() REQUIRES(mutex);
  /// Says in the edit with which segment the log begins once it is committed, and up to which seq the log is only a second copy.
  void note_log_needs(const Flushed& flushed, const MappingChanges& changes, VersionEdit* edit) REQUIRES(mutex);
  /// Removes segments that no durable edit needs, and no pin.
  void remove_old_segments() REQUIRES(mutex);
  Status roll() REQUIRES(mutex);

  // --- without the mutex
  /// Submits commit_mapping() unless it is queued. The caller may hold the commit mutex.
  void schedule_mapping() EXCLUDES(mutex);
  /// Submits commit_deadlines() if there is something to write and it is not queued.
  void schedule_deadlines() EXCLUDES(mutex);
  /// Removes segments that no tree needs, though no flush said so; then rolls the manifest, if `roll_too`. Nothing if the database is closing.
  Status shorten(bool roll_too) EXCLUDES(mutex);
  void unpin(const std::shared_ptr<LogPin>& pin) EXCLUDES(mutex);
  /// Older segments are not needed; they stay only for pins.
  [[nodiscard]] FileNum log_begins() const { return log_begins_.load(); }

 private:
  Status advance_log() REQUIRES(mutex);
  void leave_segments(FileNum oldest);
  void retire(TreePtr tree);

  const Env env_;
  std::atomic<FileNum> log_begins_{kNoFile};
  std::atomic<bool> mapping_queued_{false}, deadlines_queued_{false};
};

}  // namespace ebbtide
