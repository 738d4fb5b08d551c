// Deletes the elements of large collections that have expired, or whose header a delete by stamp covers.
//
// A large collection is a header and elements under keys of their own. DEL and range deletes cover both. An expiry or a delete by
// stamp concerns only the header: readers see no collection at once, but its elements stay until a range tombstone covers them.
// The reaper looks for such headers now and then (db/read/dead_headers.h) and writes these tombstones. They are born when the
// collection died, so the delete deadline counts from then.
//
// Invariants:
//   1. A tombstone covers one generation of one key. A dead generation never lives again: a key that is created again has a
//      higher generation, and a commit that relies on the expiry of the old header fails. So the reaper needs no lock on keys.
//      Its batches name the tree, since SWAPDB may give the database another one.
//   2. A header stays in the tables until the tree's point of progress (Reaped) has passed the header's death. Only the header
//      says that its elements exist, also after a crash. So the point moves only when the log is synced up to all operations
//      that the search has read and written.
//   3. A search at engine time t misses no header that expires by t. All batches born before t are visible to it, and no later
//      batch writes such a header (WriteBatch::rely_on_expiry).
//
// The points of progress are not stored. After a restart the first search begins at 0.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <engine/events.h>
#include <engine/read_view.h>
#include <engine/write_batch.h>
#include "base/mutex.h"
#include "db/trees/tree_registry.h"

namespace ebbtide {

/// Thread-safe. Searches a tree on one thread at a time.
class Reaper {
 public:
  struct Env {
    TreeRegistry* trees = nullptr;
    std::function<Millis()> now;  ///< engine time
    /// Returns an engine time t after all batches with a birth before t have become visible. Every later batch has birth t or
    /// later.
    std::function<Millis()> fence;
    /// Returns a leased view of the tree at engine time `now`; a view without a tree if the tree was dropped.
    std::function<ReadView(const TreePtr& tree, DatabaseId database, Millis now)> lease;
    std::function<Status(WriteBatch&)> commit;
    std::function<Status(SeqNum)> wait_synced;
    std::function<void(const TreePtr&)> progressed;  ///< called when merges may drop more dead headers
    std::function<void(std::function<void()>)> submit;
    std::function<bool()> writable;  ///< false: the database is read-only or closing
    std::function<void(Severity, const std::string&)> log;
  };

  explicit Reaper(Env env) : env_(std::move(env)) {}

  /// Starts searches that are due. A search is due every 64th of the tree's shortest deadline, between 100 ms and a minute.
  void tick(const std::vector<TreeLoad>& loads) EXCLUDES(mutex_);
  /// Makes a search of every tree due at the next tick.
  void hurry() EXCLUDES(mutex_);

 private:
  struct State {
    Millis next = 0;  // time of the next search
    bool running = false;
    std::string failure;  // error of the last search, "" = none; only a change is logged
  };
  void search(const TreePtr& tree, Millis pause) EXCLUDES(mutex_);
  Status reap(const TreePtr& tree);
  std::optional<DatabaseId> database_of(const TreePtr& tree);

  const Env env_;
  Mutex mutex_;
  std::map<TreeId, State> states_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
