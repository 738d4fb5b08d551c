// Builds indexes in the background: adds the entries of records that were there before the index, or before a command that emptied it.
//
// From the moment a definition is committed, every write maintains the index. So the builder only adds what is missing: it walks over
// the records in the order of their keys, a few per step. A step reads records, writes their entries and notes the progress in the
// definition, in one batch; it holds all key locks, so that no record changes between read and commit. Pages that are not in memory are
// fetched between steps, without a lock. After a restart the build goes on where it was.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <engine/db.h>

#include "index/index_catalog.h"

namespace ebbtide {

/// Takes one step of an index's build: adds the entries of the next records, and notes the progress. Call it while no other thread is
/// between a read and the commit of a write. No effect on a complete index. kNotResident: pages were added to the misses. kBusy: the
/// next try comes after `*wait_ms`. Other errors are those of reads and commits.
Status build_step(Db& db, IndexCatalog& catalog, DatabaseId database, const std::string& name, MissSet* misses,
                  std::uint32_t* wait_ms);
/// Returns database and name of an index that is not complete; nullopt if there is none.
std::optional<std::pair<DatabaseId, std::string>> unfinished_index(const IndexCatalog& catalog, DatabaseId databases);

/// Thread-safe. Has a thread of its own, which waits while there is nothing to build.
class IndexBuilder {
 public:
  struct Env {
    Db* db = nullptr;
    IndexCatalog* catalog = nullptr;
    DatabaseId databases = 0;
    /// Calls `work` on this thread while no other thread is between a read and the commit of a write that depends on it.
    std::function<void(const std::function<void()>& work)> locked;
    std::function<void(const std::string& text)> warn;
  };

  explicit IndexBuilder(Env env);
  /// Stops after the running step.
  ~IndexBuilder();
  IndexBuilder(const IndexBuilder&) = delete;
  IndexBuilder& operator=(const IndexBuilder&) = delete;

  /// Called when a definition has changed.
  void wake();

 private:
  void run();
  void fetch(MissSet* misses);
  /// Returns false if the builder stops.
  bool pause(std::uint32_t ms);

  const Env env_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = true, stop_ = false;  // guarded by mutex_
  std::thread thread_;                // started last
};

}  // namespace ebbtide
