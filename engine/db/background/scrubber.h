// Reads tables and reports their faults: one by one in the background (scrub), or all tables of a view at once (verify).
//
// The scrub detects data that a drive has lost while a backup still has it. It bypasses the system page cache. It passes faults
// to the damage reports (db/background/quarantine.h), logs them and counts them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <engine/result.h>
#include <engine/stats.h>
#include "base/mutex.h"
#include "db/background/scrub_walk.h"
#include "db/background/table_check.h"
#include "db/trees/lease_registry.h"
#include "db/trees/tree_view.h"

namespace ebbtide {

/// Runs scrub and verify. Thread-safe.
class Scrubber {
 public:
  struct Env {
    std::function<Millis()> now;  ///< engine time
    /// Returns a lease that keeps the tree's files; null if the tree was dropped.
    std::function<std::shared_ptr<Lease>(TreeId)> lease;
    /// Reads and checks a whole table.
    std::function<std::vector<Status>(const FileMeta&, const std::function<bool()>& stopped, TableCheck*)> read;
    std::function<Status(const FileMeta&)> find_files;  ///< returns ok, or an error that names the missing file of the table
    std::function<void(FileNum, const std::vector<Status>&)> report_damage;
    std::function<Status()> take_damage;                ///< quarantines the files that were reported as damaged
    std::function<Status(FileNum)> found_whole;         ///< ends the quarantine of a file that has no errors
    std::function<void(std::function<void()>)> submit;  ///< runs a function in the background, for reads of tables
    std::function<bool()> closing;
    std::function<void(const std::string&)> report_error;  ///< writes an error to the text log
  };
  /// The tables of one tree.
  struct TreeTables {
    TreeId tree = kNoTree;
    std::shared_ptr<const TablesView> tables;
  };

  /// `random` determines where the first walk begins.
  Scrubber(Env env, std::uint64_t random) : env_(std::move(env)), walk_(random) {}

  /// Sets the time in ms in which the scrub reads all tables once; 0 = no scrub.
  void set_interval(Millis interval) { interval_ = interval; }
  /// Called on each tick of the database. Submits the reading of one table if a table is due. Quarantined files are not read.
  void tick(const std::vector<TreeTables>& trees) EXCLUDES(mutex_);
  /// Reads all tables of the lease's view, and checks that the names of their files still exist. The report has all errors; each
  /// error is also logged and passed to the damage reports at once. Quarantined files without errors leave quarantine. kRevoked
  /// if the lease was revoked, kAborted if the database closes.
  Result<VerifyReport> verify(const Lease& lease);

  [[nodiscard]] std::uint64_t errors() const { return errors_; }          ///< errors found since the start
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }  ///< bytes read by the scrub since the start

 private:
  void scrub(TreeId tree, const FileMeta& meta);
  Result<std::vector<Status>> verify_table(const TablesView& tables, const OpenTable& table, const std::function<bool()>& stopped,
                                           VerifyReport* report);
  void log_errors(const char* finder, const std::vector<std::string>& errors);

  const Env env_;
  std::atomic<Millis> interval_{0};
  std::atomic<bool> reading_{false};
  std::atomic<std::uint64_t> errors_{0}, bytes_read_{0};
  Mutex mutex_;
  ScrubWalk walk_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
