// Quarantine: damage to a file affects the contents of that file, not the rest of the service.
//
// A reader of a table that meets damage reports it (DamageSink): a get, an iterator, a merge, a page drop, the scrub, verify, open.
// The file is then *quarantined*, by an edit of the manifest, so that it stays quarantined after a restart:
//
//   plans   No plan takes it, and none goes past it: its range is frozen (tree/frozen.h). It stays an older run that may hold
//           anything there, so nothing above it becomes final.
//   reads   Whole pages go on answering, each under its checksum. A read that needs a damaged page returns the error. If the file
//           could not be opened at all, reads in its range fail unless a newer run decides (TableReader::unreadable).
//   due     Deletes whose bytes it keeps are late, with the reason `damage` (db/purge/missed_deadlines.h).
//
// It ends when the file goes (the database is emptied, or a range delete covers all of it), or when the file is found whole: read
// from the first byte to the last and equal to what the manifest says. Then an operator has put a copy in its place, or the device
// works again. Pages that were dropped since the copy was made are in it again. So it is rewritten without them before the
// quarantine ends. Quarantined files are read again after a minute, then ever more rarely, and by verify() at once.
//
// An error of the device (EIO) is no damage yet: the file is read again, up to four times. If the device fails each time, the file
// is quarantined.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <engine/events.h>
#include <engine/result.h>
#include "base/clock.h"
#include "base/mutex.h"
#include "db/background/damage_reports.h"
#include "db/background/table_check.h"
#include "db/purge/purge_ledger.h"
#include "db/trees/tree_view.h"
#include "io/file_system.h"
#include "version/version_edit.h"

namespace ebbtide {

/// Thread-safe.
class Quarantine {
 public:
  /// Open tables, by metadata file.
  using OpenedTables = std::map<FileNum, std::shared_ptr<TableReader>>;
  using Versions = std::map<TreeId, VersionPtr>;

  /// A change of the tables of trees, made while no other edit is.
  struct Change {
    std::function<VersionEdit(const Versions& trees)> make;  ///< an edit without trees changes nothing
    OpenedTables opened{};                                   ///< tables that replace the currently open ones
    std::function<void()> installed{};                       ///< readers have the new tables; may be null
  };
  /// A file in its tree. `meta` is null if no tree has it.
  struct Place {
    TreeId tree = kNoTree;
    FileMetaPtr meta{};
    std::shared_ptr<const TablesView> tables{};
  };

  struct Env {
    const Clock* clock = nullptr;
    FileSystem* fs = nullptr;
    std::string dir;
    Mutex* link_mutex = nullptr;  ///< held while a data file gets a second name, or another file takes its place
    PurgeLedger* ledger = nullptr;
    std::function<Place(FileNum data_file)> find;
    std::function<Status(const Change&)> commit;  ///< kAborted: the database closes; kOk if a tree goes meanwhile
    std::function<Result<std::shared_ptr<TableReader>>(const FileMeta&)> open;
    std::function<std::shared_ptr<TableReader>(const FileMeta&, Status why)> open_unreadable;  ///< all its reads return `why`
    std::function<std::vector<Status>(const FileMeta&, const std::function<bool()>& stopped, TableCheck*)>
        read;                                                        ///< reads and checks the whole table
    std::function<Millis(TreeId)> floor;                             ///< no pending delete of the tree is older
    std::function<void(std::function<void()>)> submit_soon, submit;  ///< for work that waits for the device; for reading
    std::function<bool()> writable;                                  ///< the manifest can be written
    std::function<bool()> closing;
    std::function<void(const Status&)> failed;                ///< an edit failed
    std::function<void(const std::vector<TreeId>&)> changed;  ///< plan these trees again
    std::function<void(Severity, const std::string&)> log;
  };

  explicit Quarantine(Env env) : env_(std::move(env)) {}

  /// Readers of tables report damage to this sink. It outlives them.
  [[nodiscard]] DamageSink* sink() { return &reports_; }
  /// Reports the errors that a check found in a file.
  void report(FileNum data_file, const std::vector<Status>& errors);
  /// Quarantines the files that were reported as damaged. Called without a lock.
  Status take_reports();
  /// Called on each tick of the database: submits the handling of reports, and the reading of files that are due again.
  void tick();
  /// Ends the quarantine of a file that was read completely without an error. kOk if no tree has the file, or its quarantine has ended.
  Status found_whole(FileNum data_file);

  /// Opens the tables of all trees. Quarantines damaged or missing ones in `edit`, and opens a placeholder for each.
  Result<OpenedTables> open_tables(const Versions& trees, VersionEdit* edit);

 private:
  Status quarantine_reported();
  void read_again(FileNum file);
  Status end(const Place& place);
  Status write_clean_copy(const Place& place, const TableInspector& reader);
  Status punch_restored(const FileMeta& meta, const TableInspector& reader);
  void log_quarantined(const std::vector<std::string>& lines) EXCLUDES(log_mutex_);

  const Env env_;
  DamageReports reports_;
  FileChecks checks_;
  std::atomic<bool> reports_queued_{false}, reading_{false};
  Mutex log_mutex_;
  std::uint64_t lines_ GUARDED_BY(log_mutex_) = 0, lines_since_ns_
                                                   GUARDED_BY(log_mutex_) = 0;  // lines_ counts omitted lines, too
};

}  // namespace ebbtide
