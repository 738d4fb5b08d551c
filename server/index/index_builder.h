// Builds indexes in the background: adds the entries of records that were there before the index, or before a command that emptied it.
//
// From the moment a definition is committed, every write maintains the index. So the builder only adds what is missing: it walks over
// the records in the order of their keys, a few per step. A step reads records, writes their entries and its position, in one batch; it
// holds all key locks, so that no record changes between read and commit. Pages that are not in memory are fetched between steps, without
// a lock. After a restart the build goes on at the position.
//
// The position is an entry of the index tree with the key, stamp and expiry of the last record of the step. Whatever deletes the record
// deletes it, too; so a build that cannot go on keeps no key longer than the deadline allows. A build without a position begins again.
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

/// Takes one step of an index's build: adds the entries of the next records, and notes the progress. Call it while no other thread is
/// between a read and the commit of a write. No effect on a complete index. kNotResident: pages were added to the misses. kBusy: the
/// next try comes after `*wait_ms`. Other errors are those of reads and commits.
Status build_step(Db& db, IndexCatalog& catalog, DatabaseId database, const std::string& name, MissSet* misses,
                  std::uint32_t* wait_ms);
/// Returns the first index after `last` that is not complete, and the first of all after the last one; nullopt if there is none. Leaves out
/// those of `without`.
std::optional<IndexName> unfinished_index(const IndexCatalog& catalog, DatabaseId databases, const IndexName& last = {},
                                          const std::set<IndexName>& without = {});

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
    /// Called after definitions have changed, and once at the begin: gives the trees of indexes their settings.
    std::function<void()> use_settings = [] {};
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
  /// Takes a step of the next index. Returns the ms until the next one; nullopt: all indexes are complete.
  std::optional<std::uint32_t> step();
  /// Notes, and reports once, that a step has failed; or that it has not.
  void note_failure(const IndexName& index, const Status& status);
  void fetch(MissSet* misses);
  /// Returns false if the builder stops.
  bool pause(std::uint32_t ms);

  const Env env_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = true, stop_ = false;  // guarded by mutex_
  // Used by the thread only.
  std::uint64_t version_ = 0;    // of the definitions whose settings are in use
  IndexName last_;               // the index of the latest step
  std::set<IndexName> failing_;  // these wait until the others are complete, or fail, too
  MissSet misses_;
  std::thread thread_;  // started last
};

}  // namespace ebbtide
