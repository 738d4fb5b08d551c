// Commits of staged batches. Their long part is done ahead (staging.h). The rest takes a time that does not depend on the number of keys.
//
// Invariants, beside those of commit_pipeline.h:
//   * A staged memtable gets its place before any reader can reach it, and is in the tree's view before its seqs are visible.
//   * It comes between the active memtable and the frozen ones: older memtables have all that was sequenced before the batch.
//   * Range tombstones and records are inserted between the critical section and the publication, like all operations. The thread that
//     flushes the memtable waits until its last seq is visible.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <engine/status.h>
#include <engine/write_batch.h>
#include "base/mutex.h"
#include "db/trees/tree_registry.h"
#include "db/write/commit_counter.h"
#include "db/write/memory_budget.h"
#include "db/write/publication.h"
#include "db/write/staging.h"
#include "db/write/tree_placer.h"
#include "wal/group_commit.h"

namespace ebbtide {

/// Thread-safe; a StagedParts is used by one thread at a time.
class StagedWriter {
 public:
  struct Env {
    TreeRegistry* trees = nullptr;
    TreePlacer* placer = nullptr;
    Publication* published = nullptr;
    MemoryBudget* budget = nullptr;
    std::shared_ptr<MemoryAccount> memory;  ///< of the budget
    CommitCounter* counter = nullptr;
    std::function<GroupCommit&()> log;
    // of the pipeline; the commit mutex is held
    std::function<Status(const WriteBatch&, Inserts*, Millis* time)> begin;
    std::function<void(WriteBatch&, Millis time)> assign;
    std::function<SeqNum()> last_seq;
  };

  explicit StagedWriter(Env env) : env_(std::move(env)) {}

  /// Does the long part: sorts the batch, charges its memory, and writes its payload to the log. `stop` may be null. Errors: those of
  /// stage_entries(), kOutOfMemory, kReadOnly. The batch is unchanged then, and `staged` is to be destroyed.
  Status stage(WriteBatch&& batch, const std::atomic<bool>* stop, StagedParts* staged) EXCLUDES(env_.trees->commit_mutex);
  /// Commits a batch that was staged, once. Releases its charge.
  Status commit(StagedParts* staged) EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);
  /// Both at once, for a batch that the caller has not staged. `may_wait`: for the device. A batch that is not committed is unchanged:
  /// its operations name databases. kUnsupported: it cannot be staged.
  Status commit_now(WriteBatch& batch, bool may_wait) EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);

 private:
  Status write_ahead(WriteBatch& batch, StagedEntries* entries, const std::atomic<bool>* stop) EXCLUDES(env_.trees->commit_mutex);
  Status make_trees(const StagedEntries& entries, std::vector<TreeId>* trees) EXCLUDES(env_.trees->commit_mutex);
  void prepare_log(WriteBatch& batch, StagedEntries* entries) EXCLUDES(env_.trees->commit_mutex);
  Status commit(WriteBatch& batch, StagedEntries* entries) EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);
  Status sequence(WriteBatch& batch, StagedEntries* entries, Inserts* inserts) REQUIRES(env_.trees->commit_mutex);
  void place_parts(StagedEntries* entries, Millis time, Inserts* inserts, std::vector<TreeId>* trees)
      REQUIRES(env_.trees->commit_mutex);
  LogNotes adopt_parts(const WriteBatch& batch, const StagedEntries& entries, Millis time) REQUIRES(env_.trees->commit_mutex);
  Tree* tree_for_write(const StagedEntries::Part& part, Millis time, Inserts* inserts) REQUIRES(env_.trees->commit_mutex);

  const Env env_;
};

}  // namespace ebbtide
