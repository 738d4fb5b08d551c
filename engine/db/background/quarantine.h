// Quarantine limits the effect of a damaged file to that file.
//
// A reader that finds damage in a table reports it (DamageSink): a get, an iterator, a merge, a page drop, the scrub, verify,
// open. An edit of the manifest then *quarantines* the file, so that the file stays quarantined after a restart:
//
//   plans   No plan takes the file or moves data past it: its key range is frozen (tree/frozen.h). The file stays an older run
//           that may have any entry in its range, so nothing above it becomes final.
//   reads   Undamaged pages can be read, since each page has its own checksum. A read that needs a damaged page returns the
//           error. If the file could not be opened at all, reads in its range fail unless a newer run decides
//           (TableReader::unreadable).
//   due     Deletes whose bytes are in the file may miss their deadline, with the reason `damage` (db/purge/missed_deadlines.h).
//
// The quarantine ends when the file is removed (the database is emptied, or a range delete covers the whole file), or when the
// file is found whole. A file is whole if all of it can be read and matches the manifest: for example, an operator has replaced
// the file by a copy, or the device works again. A copy may contain pages that were dropped after the copy was made. So the file
// is rewritten without them before the quarantine ends. Quarantined files are read again after a minute, then after waits that
// double. verify() reads them at once.
//
// If the system refuses to read a file (EIO, EACCES), the file does not count as damaged yet: it is read again, up to four times.
// If each try fails, the file is quarantined.
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
#include "base/background_pool.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "db/background/damage_reports.h"
#include "db/background/table_change.h"
#include "db/background/table_check.h"
#include "db/purge/purge_ledger.h"
#include "db/trees/tree_view.h"
#include "io/file_system.h"
#include "version/version_edit.h"

namespace ebbtide {

/// Quarantines and restores files. Thread-safe.
class Quarantine {
 public:
  /// Open tables; the key is the number of the metadata file.
  using OpenedTables = std::map<FileNum, std::shared_ptr<TableReader>>;
  using Versions = TableChange::Versions;

  struct Env {
    const Clock* clock = nullptr;
    FileSystem* fs = nullptr;
    std::string dir;
    Mutex* link_mutex = nullptr;  ///< held while a data file gets a second name or is replaced by another file
    PurgeLedger* ledger = nullptr;
    std::function<std::vector<std::shared_ptr<const TablesView>>()> live_tables;  ///< returns the tables of all trees
    /// Commits a change. Returns kAborted if the database closes, and ok even if a tree is dropped meanwhile.
    std::function<Status(const TableChange&)> commit;
    std::function<Result<std::shared_ptr<TableReader>>(const FileMeta&)> open;
    /// Opens a placeholder, whose reads all return `why`.
    std::function<std::shared_ptr<TableReader>(const FileMeta&, Status why)> open_unreadable;
    /// Reads and checks a whole table.
    std::function<std::vector<Status>(const FileMeta&, const std::function<bool()>& stopped, TableCheck*)> read;
    std::function<Millis(TreeId)> floor;  ///< returns an engine time before which no pending delete of the tree was born
    /// `submit_soon` runs a short function on a thread that may wait for the device. `submit` runs long reads in the background.
    std::function<void(std::function<void()>)> submit_soon, submit;
    std::function<bool()> writable;  ///< true if the manifest can be written
    std::function<bool()> closing;
    std::function<void(const Status&)> failed;                ///< called if a commit has failed
    std::function<void(const std::vector<TreeId>&)> changed;  ///< called with trees whose jobs must be planned again
    std::function<void(Severity, const std::string&)> log;
  };

  explicit Quarantine(Env env) : env_(std::move(env)) {}

  /// Returns the sink to which readers of tables report damage. This object must outlive the readers.
  [[nodiscard]] DamageSink* sink() { return &reports_; }
  /// Stores the errors that a check found in a file.
  void report(FileNum data_file, const std::vector<Status>& errors);
  /// Quarantines the files that were reported as damaged. The caller must hold no lock.
  Status take_reports();
  /// Called on each tick of the database: submits the handling of reports, and the check of a file that is due.
  void tick();
  /// Ends the quarantine of a file that was read completely without an error. Has no effect, and returns ok, if no tree has the
  /// file, or if the file is not quarantined.
  Status found_whole(FileNum data_file);

  /// Opens tables when the database opens: the first kReadAtOpen tables, tree by tree, newest runs first; and all tables that are
  /// quarantined or lack a file. Reads on the calling thread and on the threads of `pool`, which may be null. Leaves out all
  /// other tables: they are read when they are first needed, and their damage is then reported. Quarantines damaged or missing
  /// tables in `edit`, and opens a placeholder for each. `names`: all files of the directory.
  Result<OpenedTables> open_tables(const Versions& trees, const std::vector<std::string>& names, VersionEdit* edit,
                                   BackgroundPool* pool = nullptr);

  /// Limits of the tables that open_tables() reads: their number, and the bytes of their metadata. Reading them takes about 0.1 s
  /// if the system page cache has them, otherwise about 1 s.
  static constexpr std::size_t kReadAtOpen = 1024;
  static constexpr std::uint64_t kReadAtOpenBytes = std::uint64_t{64} << 20;

 private:
  /// A table that is read at open.
  struct Opening {
    TreeId tree = kNoTree;
    FileMetaPtr file{};
    std::shared_ptr<TableReader> reader{};
    Status status{};
  };
  [[nodiscard]] static std::vector<Opening> choose_read_now(const Versions& trees, const std::vector<std::string>& names);
  void open_now(Opening* table);

  // A file in its tree. `meta` is null if no tree has the file.
  struct Place {
    TreeId tree = kNoTree;
    FileMetaPtr meta{};
    std::shared_ptr<const TablesView> tables{};
  };

  [[nodiscard]] Place find(FileNum data_file) const;
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
  std::uint64_t lines_ GUARDED_BY(log_mutex_) = 0;  // log lines of this minute, including omitted ones
  std::uint64_t lines_since_ns_ GUARDED_BY(log_mutex_) = 0;
};

}  // namespace ebbtide
