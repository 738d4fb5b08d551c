// Commits staged batches. The work that grows with the batch is done before the commit (staging.h). The time of the commit itself
// does not depend on the number of keys.
//
// Invariants, in addition to those of commit_pipeline.h:
//   * A staged memtable gets the seqs and the time of its batch before any reader can reach it. It is in the tree's view before
//     these seqs are visible.
//   * In a view, a staged memtable lies between the active memtable and the frozen ones: older memtables have all operations that
//     got their seqs before the batch.
//   * Range tombstones and records are inserted between the critical section and the publication, like all operations. The thread
//     that flushes the memtable waits until its last seq is visible.
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

/// Commits staged batches. Thread-safe; only one thread at a time may use a StagedParts.
class StagedWriter {
 public:
  struct Env {
    TreeRegistry* trees = nullptr;
    TreePlacer* placer = nullptr;
    Publication* published = nullptr;
    MemoryBudget* budget = nullptr;
    std::shared_ptr<MemoryAccount> memory;  ///< MemoryBudget's account of charged bytes
    CommitCounter* counter = nullptr;
    std::function<GroupCommit&()> log;
    // Functions of CommitPipeline; the commit mutex is held when they are called.
    std::function<Status(const WriteBatch&, Inserts*, Millis* time)> begin;
    std::function<void(WriteBatch&, Millis time)> assign;
    std::function<SeqNum()> last_seq;
  };

  explicit StagedWriter(Env env) : env_(std::move(env)) {}

  /// Does the work before the commit: sorts the batch, charges its memory, and writes its payload to the log. `stop` may be null.
  /// Errors: as for stage_entries(), kOutOfMemory, kReadOnly. After an error the batch is unchanged, and the caller must
  /// destroy `staged`.
  Status stage(WriteBatch&& batch, const std::atomic<bool>* stop, StagedParts* staged) EXCLUDES(env_.trees->commit_mutex);
  /// Commits a staged batch, at most once, and releases its charge.
  Status commit(StagedParts* staged) EXCLUDES(env_.trees->commit_mutex, env_.trees->state_mutex);
  /// Stages and commits a batch. `may_wait`: true if the call may wait for the device. After an error the batch is unchanged: its
  /// operations name databases, not trees. Returns kUnsupported if the batch cannot be staged.
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
