// Commits of staged batches. The long part was done ahead (write/staging.h). The rest takes a time that does not depend on the number of
// keys.
//
// Invariants, beside those of write/commit_pipeline.h:
//   * A staged memtable gets its place before any reader can reach it, and is in the tree's view before its seqs are visible.
//   * It comes between the active memtable and the frozen ones: older memtables have all that was sequenced before the batch.
//   * Range tombstones and records are inserted between the critical section and the publication, like all operations. The thread that
//     flushes the memtable waits until its last seq is visible.
#include <algorithm>
#include <utility>

#include <engine/charged_value.h>

#include "base/invariant.h"
#include "db/db_impl.h"
#include "db/write/staging.h"

namespace ebbtide {
namespace {

/// Makes the operations of each part name the part's tree. False: they did already, as they mostly do.
bool name_trees(WriteBatch& batch, StagedEntries* entries, const std::vector<TreeId>& trees) {
  bool same = true;
  for (std::size_t i = 0; i < trees.size(); ++i) same &= entries->parts[i].named == trees[i];
  if (same) return false;
  std::size_t cursor = 0, before = 0, last = 0;
  for (WriteBatch::Op op; batch.next_op(&cursor, &op); before = cursor) {
    if (entries->parts[last].named != op.tree) {
      const auto part =
          std::find_if(entries->parts.begin(), entries->parts.end(), [&](const auto& p) { return p.named == op.tree; });
      last = static_cast<std::size_t>(part - entries->parts.begin());
    }
    batch.set_op_tree(before, trees[last]);
  }
  for (std::size_t i = 0; i < trees.size(); ++i) entries->parts[i].named = trees[i];
  return true;
}

void name_databases(WriteBatch& batch, StagedEntries* entries) {
  std::vector<std::uint32_t> databases;
  for (const StagedEntries::Part& part : entries->parts) databases.push_back(part.database);
  name_trees(batch, entries, databases);
}

LogNote note_of(const StagedEntries::Part& part, Millis time) {
  LogNote note{part.tree->id, part.deletes ? time : 0, part.min_expiry};
  if (note.min_expiry != 0 && note.min_expiry <= time) note.oldest_delete = time;  // born dead
  return note;
}

}  // namespace

Result<std::unique_ptr<StagedBatch>> DbImpl::stage(WriteBatch&& batch, const std::atomic<bool>* stop) {
  TRY(refuse(batch));
  auto impl = std::make_unique<StagedBatch::Impl>();
  const std::size_t expected = staged_bytes_expected(batch);
  if (!budget_.try_charge(MemoryAccount::Kind::kCommands, expected)) return refused_charge(*memory_, expected);
  impl->account = memory_;
  impl->charged = expected;
  TRY_ASSIGN(entries, stage_entries(batch, stop));
  TRY(write_ahead(batch, &entries, stop));
  impl->entries = std::move(entries);
  impl->batch = std::move(batch);
  return std::unique_ptr<StagedBatch>(new StagedBatch(std::move(impl)));
}

// Writes the payload to the log ahead of the commit, in pieces. If the batch's databases keep their trees until then, the commit has
// nothing to name or to copy.
Status DbImpl::write_ahead(WriteBatch& batch, StagedEntries* entries, const std::atomic<bool>* stop) {
  std::vector<TreeId> trees;
  TRY(make_trees(*entries, &trees));
  name_trees(batch, entries, trees);
  LogNotes notes;
  for (const StagedEntries::Part& part : entries->parts) add_note(&notes, {part.named, 0, part.min_expiry});
  auto log = log_->write_pieces(batch, notes, stop);
  if (!log.is_ok()) {
    name_databases(batch, entries);
    return log.status();
  }
  entries->log = log->empty() ? GroupCommit::prepare(batch) : std::move(log).value();
  return Status::ok();
}

// Pieces name their trees. A database that has no tree gets one now, as by a write of its own.
Status DbImpl::make_trees(const StagedEntries& entries, std::vector<TreeId>* trees) {
  Inserts inserts;
  SeqNum last = 0;
  {
    MutexLock lock(trees_.commit_mutex);
    Millis time = 0;
    TRY(pipeline_.begin(WriteBatch(), &inserts, &time));
    for (const StagedEntries::Part& part : entries.parts) {
      ASSERT_MSG(part.database < settings_.databases, "a batch names a database that there is not");
      trees->push_back(tree_for_write(part.database, time, &inserts)->id);
    }
    last = pipeline_.last_seq();
  }
  if (last != inserts.previous) published_.publish(inserts.previous, last, inserts.remapped);
  return Status::ok();
}

// The placer's mutex is the registry's, which the analysis of locks cannot know.
Tree* DbImpl::tree_for_write(DatabaseId database, Millis time, Inserts* inserts) NO_THREAD_SAFETY_ANALYSIS {
  return placer_.tree_for_write(database, time, inserts);
}

// As write_ahead(), for a caller that must not wait: the payload is copied.
void DbImpl::prepare_log(WriteBatch& batch, StagedEntries* entries) {
  std::vector<TreeId> trees;
  {
    MutexLock lock(trees_.commit_mutex);
    for (const StagedEntries::Part& part : entries->parts) {
      ASSERT_MSG(part.database < settings_.databases, "a batch names a database that there is not");
      const Tree* tree = trees_.mapped(part.database).get();
      if (tree == nullptr) return;
      trees.push_back(tree->id);
    }
  }
  name_trees(batch, entries, trees);
  entries->log = GroupCommit::prepare(batch);
}

// A refused batch is unchanged: its operations name databases.
Status DbImpl::commit_at_once(WriteBatch& batch, StagedEntries* entries, bool may_wait) {
  Status status = Status::ok();
  if (may_wait) {
    status = write_ahead(batch, entries, nullptr);
  } else {
    prepare_log(batch, entries);
  }
  if (status.is_ok()) status = commit_staged(batch, entries);
  if (!status.is_ok()) name_databases(batch, entries);
  return status;
}

Status DbImpl::commit(StagedBatch& staged) {
  if (staged.batch().empty()) return Status::ok();
  TRY(refuse(staged.batch()));
  TRY(writes_.await(staged.batch()));
  return commit_staged(*staged.impl_);
}

Status DbImpl::try_commit(StagedBatch& staged, bool waited, std::uint32_t* wait_ms) {
  *wait_ms = 0;
  if (staged.batch().empty()) return Status::ok();
  TRY(refuse(staged.batch()));
  *wait_ms = writes_.delay_ms(staged.batch(), waited);
  if (*wait_ms != 0) return Status::busy("writes wait for flushes and compactions");
  return commit_staged(*staged.impl_);
}

Status DbImpl::commit_staged(StagedBatch::Impl& staged) {
  ASSERT_MSG(!staged.committed, "a staged batch is committed once");
  TRY(commit_staged(staged.batch, &staged.entries));
  staged.committed = true;
  staged.entries = {};
  staged.release();
  return Status::ok();
}

Status DbImpl::commit_staged(WriteBatch& batch, StagedEntries* entries) {
  Inserts inserts;
  {
    MutexLock lock(trees_.commit_mutex);
    TRY(sequence_staged(batch, entries, &inserts));
  }
  for (const StagedEntries::Later& later : entries->later) {
    std::size_t cursor = later.cursor;
    WriteBatch::Op op;
    batch.next_op(&cursor, &op);
    const StagedEntries::Part& part = entries->parts[later.part];
    insert_operation(*part.inserted_into, op, batch.first_seq() + later.index, batch.time(), part.tree->stamp);
  }
  published_.publish(inserts.previous, batch.last_seq(), inserts.remapped);
  memory_->lower_limit(entries->memory_bytes());
  count_commit(batch);
  return Status::ok();
}

Status DbImpl::sequence_staged(WriteBatch& batch, StagedEntries* entries, Inserts* inserts) {
  Millis time = 0;
  TRY(pipeline_.begin(batch, inserts, &time));
  std::vector<TreeId> trees;
  for (StagedEntries::Part& part : entries->parts) {
    ASSERT_MSG(part.database < settings_.databases, "a batch names a database that there is not");
    part.tree = tree_for_write(part.database, time, inserts);
    trees.push_back(part.tree->id);
    if (part.memtable == nullptr && trees_.is_full(*part.tree->active)) trees_.freeze(*part.tree);
    part.inserted_into = part.memtable != nullptr ? part.memtable.get() : part.tree->active;
    if (part.records == 0) continue;
    part.tree->recorded->store(true, std::memory_order_relaxed);  // before it shows
    ThreadCounters::add(part.tree->lookups->mine().range_deletes, part.records);
  }
  if (name_trees(batch, entries, trees) || entries->log.empty()) entries->log = GroupCommit::prepare(batch);
  pipeline_.assign(batch, time);
  LogNotes notes;
  for (const StagedEntries::Part& part : entries->parts) {
    if (part.memtable == nullptr) {
      trees_.mark_active(part.tree->id, batch.first_seq(), batch.last_seq());
    } else {
      part.memtable->set_place({.first_seq = batch.first_seq(), .time = time, .stamp = part.tree->stamp});
      trees_.adopt(*part.tree, part.memtable, batch.first_seq(), batch.last_seq());
    }
    add_note(&notes, note_of(part, time));
  }
  log_->enqueue(batch, std::move(entries->log), notes);
  return Status::ok();
}

}  // namespace ebbtide
