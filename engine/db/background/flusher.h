// Flushes memtables: builds tables (flush_job.h), commits the edit that names them (manifest_editor.h), and gives them to
// readers.
//
// The edit relies only on operations that are durable in the log, with one exception: the flush after the log has failed
// (recover). That flush writes every remaining memtable of every tree, and the mapping of databases, in a single edit. So all
// operations that were visible become durable at once. The log then continues in a new segment.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include <engine/result.h>
#include "base/mutex.h"
#include "db/background/failed_outputs.h"
#include "db/background/flush_gate.h"
#include "db/background/flush_job.h"
#include "db/background/manifest_editor.h"
#include "db/background/table_installer.h"
#include "db/trees/tree_registry.h"

namespace ebbtide {

constexpr std::size_t kAllMemTables = std::numeric_limits<std::size_t>::max();

/// Carries out all flushes. Thread-safe.
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
    std::function<Millis()> now;  ///< returns the birth of a delete that is issued now
    std::function<SeqNum()> visible_seq;
    std::function<void(SeqNum)> await_visible;  ///< waits until every operation up to the seq is in its memtable
    std::function<SeqNum()> last_seq;           ///< returns the last assigned seq; called with the commit mutex held
    // Functions of the log.
    std::function<bool()> log_failed;
    std::function<SeqNum()> synced_seq;
    std::function<Status(SeqNum)> wait_synced;
    std::function<void()> salvage;                     ///< syncs the records of a failed log that were written before the failure
    std::function<Result<FileNum>()> prepare_restart;  ///< returns the segment in which a failed log will continue
    std::function<void(SeqNum)> restart;  ///< restarts the log after the edit; all operations up to the seq are in tables
  };

  explicit Flusher(Env env) : env_(std::move(env)) {}

  FlushGate gate;  ///< taken before the manifest's mutex

  /// Flushes all frozen memtables of the trees, by one edit. The caller shares the gate, and no other flush of these trees runs.
  Status flush(const std::vector<TreePtr>& trees);
  /// During log replay: flushes all frozen memtables of those live trees that the manifest names. All their operations are
  /// durable in the log. The edit does not contain the deadlines: the deadlines in the manifest hold until opening is done.
  Status flush_replayed(const std::vector<TreePtr>& trees);
  /// Recovers from read-only: writes a new manifest, then tables of all operations that the log has durably. If the log failed,
  /// writes tables of all operations and starts a new segment. No batch is accepted meanwhile.
  Status recover() REQUIRES(gate);

 private:
  Status flush_durable(const std::vector<TreePtr>& trees) REQUIRES(gate);
  Status flush_memtables(const std::vector<TreePtr>& trees, std::size_t most, bool log_failed);
  Status build(const std::vector<TreePtr>& trees, std::size_t most, BuiltFlush* built);
  void discard(const BuiltFlush& built, const std::vector<TreePtr>& trees);
  void disown(const BuiltFlush& built);
  Status commit(BuiltFlush* built, bool log_failed) REQUIRES(env_.manifest->mutex);

  const Env env_;
};

}  // namespace ebbtide
