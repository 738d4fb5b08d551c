// Gives commits their order: in one short critical section a batch gets its position in the order of all writes. The rest needs
// no lock.
//
//   with the mutex    assigns time, trees and seqs, and queues the batch for the log
//   without the mutex inserts the operations into memtables
//   in seq order      publishes the batch: every reader sees it
//
// Invariants:
//   * Log order is seq order, since batches are queued in the critical section.
//   * A batch that gets a memtable in the critical section inserts before it publishes. So a frozen memtable is complete once the
//     seq of its last operation is visible.
//   * A new memtable is published to readers before an operation gets a seq for it. So a reader that loads a tree's view, then
//     the visible seq, and then finds the view unchanged, has every operation up to that seq.
//   * There are two copies of the mapping of databases: one that the next batch uses (Env), and one that readers use
//     (Publication). The readers' copy changes together with the visible seq.
//
// Env is a template parameter, since an indirect call per command would cost more than the called function. Its members are
// called with the mutex held, except insert():
//
//   Status writable();
//   Millis now();
//   Millis stamped(Millis now);
//   TreeId tree_of(DatabaseId database);
//   TreeId place(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time, Inserts* inserts);
//   void change_mapping(WriteBatch& batch, std::size_t at, const WriteBatch::Op& op, Millis time, Inserts* inserts, LogNotes*
//   notes); void mapping_changed(SeqNum last);
//   void sequenced(TreeId tree, SeqNum first, SeqNum last);
//   void log(const WriteBatch& batch, std::span<const LogNote> notes);
//   void insert(const Inserts::Target& target, const WriteBatch::Op& op, SeqNum seq, Millis time);
//
// writable() returns an error if no batch is accepted. stamped() returns the time that may be written to the log. tree_of()
// returns the tree of a database, or kNoTree. place() finds or makes the tree of the operation at `at`, names the tree in the
// batch, and adds the tree's memtable to the inserts. sequenced() is called for each tree whose memtable gets operations of the
// batch.
//
// The model is Pebble's commit pipeline, which also takes an environment and is tested without a database.
#pragma once

#include <algorithm>
#include <span>
#include <utility>

#include <engine/status.h>
#include <engine/write_batch.h>
#include "base/mutex.h"
#include "db/write/inserts.h"
#include "db/write/publication.h"

namespace ebbtide {

template <typename Env>
class CommitPipeline {
 public:
  /// `mutex` and `publication` must outlive the pipeline.
  CommitPipeline(Env env, Mutex& mutex, Publication& publication)
      : env_(std::move(env)), mutex_(mutex), publication_(publication) {}

  /// Makes the batch visible and queues it for the log. Returns kRetry if engine time has reached batch.relied_expiry(), or if
  /// batch.first_database() no longer maps to batch.relied_tree(). Returns an error of Env::writable(). After an error nothing
  /// has changed.
  Status commit(WriteBatch& batch) {
    Inserts inserts;
    {
      MutexLock lock(mutex_);
      TRY(sequence(batch, &inserts));
    }
    insert_all(batch, inserts);
    publication_.publish(inserts.previous, batch.last_seq(), inserts.remapped);
    return Status::ok();
  }

  // --- steps of a commit, for StagedWriter, which holds the mutex
  /// Checks that the batch may commit. Sets `*time` to its commit time and `inserts->previous` to the last assigned seq. Returns
  /// the errors of commit().
  Status begin(const WriteBatch& batch, Inserts* inserts, Millis* time) {
    TRY(env_.writable());
    const Millis now = env_.now();
    *time = std::max(env_.stamped(now), last_time_);
    if (batch.relied_expiry() != 0 && std::max(now, *time) >= batch.relied_expiry()) return Status::retry();
    if (batch.relied_tree() != kNoTree && env_.tree_of(batch.first_database()) != batch.relied_tree()) return Status::retry();
    last_time_ = *time;
    inserts->previous = last_seq();
    return Status::ok();
  }
  /// Assigns the next seqs to the batch.
  void assign(WriteBatch& batch, Millis time) {
    batch.set_header(next_seq_, time, 0);
    next_seq_ += batch.count();
  }
  /// Returns the last assigned seq.
  [[nodiscard]] SeqNum last_seq() const { return next_seq_ - 1; }
  /// Makes sure that the time of the next batch is `time` or later. Returns the earliest time that the next batch can have.
  Millis advance_time(Millis time) { return last_time_ = std::max(time, last_time_); }
  void start(SeqNum last_seq) { next_seq_ = last_seq + 1; }

 private:
  // Assigns trees and seqs to the batch, and queues the batch for the log. A tree is made before the batch gets its seqs, since
  // making a tree is an operation with a seq of its own. Changes of the mapping take effect in the order of the batch's
  // operations.
  Status sequence(WriteBatch& batch, Inserts* inserts) {
    Millis time = 0;
    TRY(begin(batch, inserts, &time));
    static thread_local LogNotes notes;
    notes.clear();
    constexpr DatabaseId kNone = ~DatabaseId{0};
    bool mapping_changes = false;
    DatabaseId last_database = kNone;
    TreeId last_tree = kNoTree;
    std::size_t cursor = 0, at = 0;
    WriteBatch::Op& op = inserts->last;
    for (; batch.next_op(&cursor, &op); at = cursor) {
      if (op.kind == OpKind::kFlushDatabase || op.kind == OpKind::kSwapDatabases) {
        env_.change_mapping(batch, at, op, time, inserts, &notes);
        mapping_changes = true;
        last_database = kNone;
        op.tree = kNoTree;
        continue;
      }
      if (op.tree == last_database && op.kind != OpKind::kSecondaryDelete) {
        batch.set_op_tree(at, last_tree);
      } else {
        last_database = op.tree;
        last_tree = env_.place(batch, at, op, time, inserts);
      }
      op.tree = last_tree;
      add_note(&notes, log_note(op, last_tree, time));
    }
    assign(batch, time);
    if (mapping_changes) env_.mapping_changed(batch.last_seq());
    inserts->each_target([&](const Inserts::Target& t) { env_.sequenced(t.tree, batch.first_seq(), batch.last_seq()); });
    env_.log(batch, notes);
    return Status::ok();
  }

  void insert_all(const WriteBatch& batch, const Inserts& inserts) {
    SeqNum seq = batch.first_seq();
    const auto insert = [&](const WriteBatch::Op& op) {
      const Inserts::Target* target = inserts.find(op.tree);
      if (target != nullptr) env_.insert(*target, op, seq, batch.time());
      ++seq;
    };
    if (batch.count() == 1) return insert(inserts.last);  // nearly all batches have one operation, which is already decoded
    std::size_t cursor = 0;
    for (WriteBatch::Op op; batch.next_op(&cursor, &op);) insert(op);
  }

  Env env_;
  Mutex& mutex_;
  Publication& publication_;
  // Guarded by mutex_.
  SeqNum next_seq_ = 1;
  Millis last_time_ = 0;
};

}  // namespace ebbtide
