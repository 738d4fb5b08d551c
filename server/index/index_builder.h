// Builds indexes in the background: adds the entries of records that existed before the index. Some commands empty an index, and
// its build then begins again (index_maintenance.h).
//
// Once a definition is committed, every write maintains the index. So the builder adds only the missing entries. It walks over
// the records in key order, a few per step. A step reads records, and commits their entries and its position in one batch. It
// holds all key locks, so that no record changes between the read and the commit. Missing pages are read between two steps,
// without a lock. After a restart the build continues at the position.
//
// The position is an entry of the index tree with the key, stamp and expiry of the step's last record. When that record is
// deleted or expires, so is the position. So even a build that is stuck keeps no deleted key beyond the delete deadline. After a
// restart, a build without a position begins at the first record.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <engine/db.h>

#include "index/index_catalog.h"

namespace ebbtide {

/// Does one step of an index's build: commits the entries of the next records, and the new position. During the step, no other
/// thread may be between the read and the commit of a write. Does nothing if the index is complete or missing. kNotResident: the
/// missing pages were added to `misses`. kBusy: call it again after `*wait_ms`. Other errors are those of reads and commits.
Status build_step(Db& db, IndexCatalog& catalog, DatabaseId database, const std::string& name, MissSet* misses,
                  std::uint32_t* wait_ms);
/// Returns the first incomplete index after `last`, in the order of databases and names. If no incomplete index follows `last`,
/// returns the first one of all. Skips the indexes in `without`. nullopt: there is none.
std::optional<IndexName> unfinished_index(const IndexCatalog& catalog, DatabaseId databases, const IndexName& last = {},
                                          const std::set<IndexName>& without = {});

/// Builds indexes on a thread of its own, which waits while all indexes are complete. Thread-safe.
class IndexBuilder {
 public:
  struct Env {
    Db* db = nullptr;
    IndexCatalog* catalog = nullptr;
    DatabaseId databases = 0;
    /// Calls `work` on the calling thread, while no other thread is between the read and the commit of a write.
    std::function<void(const std::function<void()>& work)> locked;
    std::function<void(const std::string& text)> warn;
    /// Gives the trees of indexes their settings. The builder calls this when it starts, and after definitions have changed.
    std::function<void()> use_settings = [] {};
  };

  explicit IndexBuilder(Env env);
  /// Waits until the current step ends, then stops the thread.
  ~IndexBuilder();
  IndexBuilder(const IndexBuilder&) = delete;
  IndexBuilder& operator=(const IndexBuilder&) = delete;

  /// Makes the thread look for incomplete indexes again. Call it when a definition has changed.
  void wake();

 private:
  void run();
  /// Does a step of the next incomplete index. Returns how many ms to wait before the next step; nullopt: all indexes are
  /// complete.
  std::optional<std::uint32_t> step();
  /// Stores the result of a step in the catalog. An error is logged unless the index's previous step failed with the same one.
  /// After an error, other incomplete indexes are built first (failing_).
  void note_failure(const IndexName& index, const Status& status);
  void fetch(MissSet* misses);
  /// Waits for `ms`. Returns false if the builder stops.
  bool pause(std::uint32_t ms);

  const Env env_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = true, stop_ = false;  // guarded by mutex_
  // Used by the thread only.
  std::uint64_t version_ = 0;    // IndexCatalog::version() of the settings in use
  IndexName last_;               // the index of the latest step
  std::set<IndexName> failing_;  // indexes whose latest step failed: they wait until all others are complete or have failed, too
  MissSet misses_;
  std::thread thread_;  // started last
};

}  // namespace ebbtide
