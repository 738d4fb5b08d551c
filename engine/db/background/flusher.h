// Memtables become tables (flush_job.h), the edit that names them is committed (manifest_editor.h), and readers get them.
//
// The edit relies on what the log has durably, with one exception: the flush after the log failed (recover). It writes every memtable
// that is left, of every tree, and the mapping of databases in a single edit. That makes everything that was visible durable at once.
// The log then continues in a new segment.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include <engine/result.h>
#include "base/mutex.h"
#include "db/background/failed_outputs.h"
#include "db/background/flush_job.h"
#include "db/background/manifest_editor.h"
#include "db/background/table_installer.h"
#include "db/trees/tree_registry.h"

namespace ebbtide {

constexpr std::size_t kAllMemTables = std::numeric_limits<std::size_t>::max();

/// Thread-safe.
class Flusher {
 public:
  struct Env {
    TreeRegistry* trees = nullptr;
    ManifestEditor* manifest = nullptr;
    FlushJob* job = nullptr;
    const TableInstaller* installer = nullptr;
    FailedOutputs* outputs = nullptr;
    ObsoleteFileRemover* obsolete_files = nullptr;
    std::function<VersionSet&()> versions;
    std::function<Millis()> now;  ///< engine time, as births have it
    std::function<SeqNum()> visible_seq;
    std::function<void(SeqNum)> await_visible;  ///< until every operation up to it is in its memtable
    std::function<SeqNum()> last_seq;           ///< the last seq that a batch was given; the commit mutex is held
    // of the log
    std::function<bool()> log_failed;
    std::function<SeqNum()> synced_seq;
    std::function<Status(SeqNum)> wait_synced;
    std::function<void()> salvage;                     ///< syncs the records of a failed log that were written before the failure
    std::function<Result<FileNum>()> prepare_restart;  ///< the segment in which a failed log will continue
    std::function<void(SeqNum)> restart;               ///< after the edit; all seqs up to this one are in tables
  };

  explicit Flusher(Env env) : env_(std::move(env)) {}

  Mutex mutex;  ///< one flush at a time; held across I/O, before the manifest's

  /// Flushes all frozen memtables of the trees, by one edit.
  Status flush(const std::vector<TreePtr>& trees) REQUIRES(mutex);
  /// The way back from read-only: a new manifest, then tables of all that the log has durably. If the log failed, tables of everything
  /// and a new segment. No batch is accepted meanwhile.
  Status recover() REQUIRES(mutex);

 private:
  Status flush_durable(const std::vector<TreePtr>& trees) REQUIRES(mutex);
  Status flush_memtables(const std::vector<TreePtr>& trees, std::size_t most, bool log_failed) REQUIRES(mutex);
  Status commit(BuiltFlush* built, bool log_failed) REQUIRES(mutex, env_.manifest->mutex);

  const Env env_;
};

}  // namespace ebbtide
