// Makes and commits every edit of the manifest while the database runs, and carries out what an edit requires afterwards.
//
// An edit relies only on operations that are durable in the log. Before an edit is committed, the log is synced up to the highest
// seq that the edit relies on. (The only exception is the flush after the log has failed.)
//
// An edit names the oldest log segment that is needed after the edit. Older segments are removed only when that edit is durable.
// A crash can undo some removals and not others, and recovery must not use a segment that reappeared.
//
// An edit includes every delete deadline that the manifest does not have. The current manifest still names keys of files that an
// edit removed, until the manifest is rolled: the purge ledger lists these keys as superseded.
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
#include "db/background/table_change.h"
#include "db/background/table_installer.h"
#include "db/purge/log_pins.h"
#include "db/purge/purge_ledger.h"
#include "db/trees/tree_registry.h"
#include "version/version_edit.h"
#include "version/version_set.h"
#include "wal/log_segment.h"

namespace ebbtide {

/// The end of the durable log.
struct LogTip {
  FileNum newest = kNoFile;  ///< the log's newest segment
  SeqNum synced = 0;         ///< the last synced seq
};

/// Edits the manifest. Thread-safe.
class ManifestEditor {
 public:
  /// For each tree, how many of its oldest frozen memtables an edit turns into tables.
  using Flushed = std::map<const Tree*, std::size_t>;
  struct Env {
    TreeRegistry* trees = nullptr;
    PurgeLedger* ledger = nullptr;
    LogPins* pins = nullptr;
    const TableInstaller* installer = nullptr;
    ObsoleteFileRemover* obsolete_files = nullptr;
    std::function<VersionSet&()> versions;
    std::function<Millis()> now;      ///< returns the engine time by which missed deadlines are measured
    std::function<Millis()> stamped;  ///< returns the birth of a delete that is issued now
    std::function<Millis()> fence;    ///< like stamped(), but waits until every delete with an earlier birth is visible
    std::function<Millis(const TreePtr&)> floor;  ///< returns the birth of the tree's oldest pending delete, at most fence()
    std::function<Status(SeqNum)> wait_synced;    ///< waits until the log is synced up to the seq
    /// Returns the oldest segment that is needed if the log is needed from the given seq on.
    std::function<FileNum(SeqNum)> oldest_needed;
    std::function<std::vector<LogSegment>()> segments;
    std::function<LogTip()> log_tip;                  ///< returns the newest log segment, and the last synced seq
    std::function<bool(FileNum)> has_segments_below;  ///< true if there are finished segments below this number
    std::function<std::vector<FileNum>(FileNum)> take_segments_below;
    /// Waits until no reader and no writer can use a tree that was dropped at the given seq or earlier.
    std::function<void(SeqNum)> await_settled;
    std::function<void(TreeId)> forget;                       ///< called when the tree is retired
    std::function<void(std::function<void()>)> submit;        ///< runs a function on a thread that may wait for the device
    std::function<void(std::function<void()>)> submit_later;  ///< like submit, for work that is not urgent
    std::function<bool()> closing;
    std::function<bool()> healthy;  ///< true if the database is not read-only
    std::function<void(const Status&, const char* what)> failed;
    /// Wakes the writers that wait until the mapping is written, after each attempt to write it. They check again.
    std::function<void()> mapping_written;
  };

  explicit ManifestEditor(Env env) : env_(std::move(env)) {}

  /// Held across I/O during each change of the set of tables. Readers and writers never take it.
  Mutex mutex;

  // --- The caller holds `mutex`.
  /// Commits the edit. An error has the context "manifest"; afterwards the manifest takes no edit until roll().
  Status commit(VersionEdit edit) REQUIRES(mutex);
  /// Writes changes of the mapping of databases, if there are any, and retires dropped trees.
  Status commit_mapping() REQUIRES(mutex);
  /// Retires the trees that `changes` dropped. Called after an edit with `changes` was committed.
  void finish_mapping(MappingChanges changes) REQUIRES(mutex);
  /// Writes changes of delete deadlines, if there are any and the manifest can be written.
  Status commit_deadlines() REQUIRES(mutex);
  /// Sets two fields of the edit: the segment at which the log begins after the commit, and the seq up to which tables and
  /// manifest have all operations.
  void note_log_needs(const Flushed& flushed, const MappingChanges& changes, VersionEdit* edit) REQUIRES(mutex);
  /// Removes segments that neither the durable manifest nor a pin needs.
  void remove_old_segments() REQUIRES(mutex);
  Status roll() REQUIRES(mutex);

  // --- The caller does not hold `mutex`.
  /// Submits commit_mapping() unless it is queued. The caller may hold the commit mutex.
  void schedule_mapping() EXCLUDES(mutex);
  /// Submits commit_deadlines() unless it is queued or no deadline has changed.
  void schedule_deadlines() EXCLUDES(mutex);
  /// Removes segments that no tree needs any more, without waiting for the next flush. Then rolls the manifest if `roll_too` is
  /// true. No effect if the database is closing.
  Status shorten(bool roll_too) EXCLUDES(mutex);
  void unpin(const std::shared_ptr<LogPin>& pin) EXCLUDES(mutex);
  /// Commits the change and gives readers the tables of the changed trees. kAborted: the database closes. Returns ok if a tree is
  /// dropped meanwhile.
  Status commit_change(const TableChange& change) EXCLUDES(mutex);
  /// Commits a mark of engine time. Returns true if the manifest has the mark durably. While the manifest is being written, which
  /// may take long, returns false and does nothing: the next tick has a later mark. The edit also has the newest log segment and
  /// the last synced seq, so that a later loss of the log's end is noticed.
  [[nodiscard]] bool try_time_mark(Millis mark, const BootMark& reached = {}) EXCLUDES(mutex);
  /// Calls `check` with the present manifest and its size while no edit changes them, and returns the result of `check`. Returns
  /// ok without calling `check` if the manifest is being written, has failed, or the database is closing.
  Status check_manifest(const std::function<Status(FileNum manifest, std::uint64_t bytes)>& check) EXCLUDES(mutex);
  /// Submits one step that fits the tree's filters to its settings. No effect if such a step is queued.
  void schedule_filter_fit(const TreePtr& tree) EXCLUDES(mutex);
  /// Returns the oldest log segment that the durable manifest needs. Older segments exist only because of pins.
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
