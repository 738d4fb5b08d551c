#include "db/write/staged_writer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <engine/charged_value.h>

#include "base/invariant.h"

namespace ebbtide {
namespace {

/// Writes each part's tree into the part's operations. Returns false if the operations already name these trees, as is usual.
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
  keep_oldest(&note.oldest_delete, part.oldest_birth);
  // An entry that expired before the commit is a delete.
  if (note.min_expiry != 0 && note.min_expiry <= time) note.oldest_delete = time;
  return note;
}

}  // namespace

Status StagedWriter::stage(WriteBatch&& batch, const std::atomic<bool>* stop, StagedParts* staged) {
  const std::size_t expected = staged_bytes_expected(batch);
  if (!env_.budget->try_charge(MemoryAccount::Kind::kCommands, expected)) return refused_charge(*env_.memory, expected);
  staged->account = env_.memory;
  staged->charged = expected;
  TRY_ASSIGN(entries, stage_entries(batch, stop));
  TRY(write_ahead(batch, &entries, stop));
  staged->entries = std::move(entries);
  staged->batch = std::move(batch);
  return Status::ok();
}

// Writes the payload to the log in pieces, before the commit, with the trees that the databases have now. If the databases have
// the same trees at the commit, the commit need not change the operations' trees or copy the payload.
Status StagedWriter::write_ahead(WriteBatch& batch, StagedEntries* entries, const std::atomic<bool>* stop) {
  std::vector<TreeId> trees;
  TRY(make_trees(*entries, &trees));
  name_trees(batch, entries, trees);
  LogNotes notes;
  for (const StagedEntries::Part& part : entries->parts) add_note(&notes, {part.named, 0, part.min_expiry});
  auto log = env_.log().write_pieces(batch, notes, stop);
  if (!log.is_ok()) {
    name_databases(batch, entries);
    return log.status();
  }
  entries->log = log->empty() ? GroupCommit::prepare(batch) : std::move(log).value();
  return Status::ok();
}

// Sets `trees` to the trees that the pieces name. A database without a tree gets a new tree, as in an ordinary write.
Status StagedWriter::make_trees(const StagedEntries& entries, std::vector<TreeId>* trees) {
  Inserts inserts;
  SeqNum last = 0;
  {
    MutexLock lock(env_.trees->commit_mutex);
    Millis time = 0;
    TRY(env_.begin(WriteBatch(), &inserts, &time));
    for (const StagedEntries::Part& part : entries.parts) trees->push_back(tree_for_write(part, time, &inserts)->id);
    last = env_.last_seq();
  }
  if (last != inserts.previous) env_.published->publish(inserts.previous, last, inserts.remapped);
  return Status::ok();
}

// The placer's mutex is the registry's mutex, which the thread-safety analysis cannot know.
Tree* StagedWriter::tree_for_write(const StagedEntries::Part& part, Millis time, Inserts* inserts) NO_THREAD_SAFETY_ANALYSIS {
  ASSERT_MSG(env_.trees->has_number(part.database), "a batch names a database that does not exist");
  return env_.placer->tree_for_write(part.database, time, inserts);
}

// Like write_ahead(), for a caller that must not wait: copies the payload instead of writing it.
void StagedWriter::prepare_log(WriteBatch& batch, StagedEntries* entries) {
  std::vector<TreeId> trees;
  {
    MutexLock lock(env_.trees->commit_mutex);
    for (const StagedEntries::Part& part : entries->parts) {
      ASSERT_MSG(env_.trees->has_number(part.database), "a batch names a database that does not exist");
      const Tree* tree = env_.trees->mapped(part.database).get();
      if (tree == nullptr) return;
      trees.push_back(tree->id);
    }
  }
  name_trees(batch, entries, trees);
  entries->log = GroupCommit::prepare(batch);
}

Status StagedWriter::commit_now(WriteBatch& batch, bool may_wait) {
  TRY_ASSIGN(entries, stage_entries(batch, nullptr));
  Status status = Status::ok();
  if (may_wait) {
    status = write_ahead(batch, &entries, nullptr);
  } else {
    prepare_log(batch, &entries);
  }
  if (status.is_ok()) status = commit(batch, &entries);
  if (!status.is_ok()) name_databases(batch, &entries);
  return status;
}

Status StagedWriter::commit(StagedParts* staged) {
  ASSERT_MSG(!staged->committed, "a staged batch is committed once");
  TRY(commit(staged->batch, &staged->entries));
  staged->committed = true;
  staged->entries = {};
  staged->release();
  return Status::ok();
}

Status StagedWriter::commit(WriteBatch& batch, StagedEntries* entries) {
  Inserts inserts;
  {
    MutexLock lock(env_.trees->commit_mutex);
    TRY(sequence(batch, entries, &inserts));
  }
  for (const StagedEntries::Later& later : entries->later) {
    std::size_t cursor = later.cursor;
    WriteBatch::Op op;
    batch.next_op(&cursor, &op);
    const StagedEntries::Part& part = entries->parts[later.part];
    insert_operation(*part.inserted_into, op, batch.first_seq() + later.index, batch.time(), part.tree->stamp);
  }
  env_.published->publish(inserts.previous, batch.last_seq(), inserts.remapped);
  env_.memory->lower_limit(entries->memory_bytes());
  env_.counter->count(batch);
  return Status::ok();
}

Status StagedWriter::sequence(WriteBatch& batch, StagedEntries* entries, Inserts* inserts) {
  Millis time = 0;
  TRY(env_.begin(batch, inserts, &time));
  std::vector<TreeId> trees;
  place_parts(entries, time, inserts, &trees);
  if (name_trees(batch, entries, trees) || entries->log.empty()) entries->log = GroupCommit::prepare(batch);
  env_.assign(batch, time);
  const LogNotes notes = adopt_parts(batch, *entries, time);
  env_.log().enqueue(batch, std::move(entries->log), notes);
  return Status::ok();
}

// Finds the tree of each part, and the memtable for the part's operations in StagedEntries::later.
void StagedWriter::place_parts(StagedEntries* entries, Millis time, Inserts* inserts, std::vector<TreeId>* trees) {
  for (StagedEntries::Part& part : entries->parts) {
    part.tree = tree_for_write(part, time, inserts);
    trees->push_back(part.tree->id);
    if (part.memtable == nullptr && TreeRegistry::is_full(*part.tree)) env_.trees->freeze(*part.tree);
    part.inserted_into = part.memtable != nullptr ? part.memtable.get() : part.tree->active;
    if (part.records == 0) continue;
    part.tree->recorded->store(true, std::memory_order_relaxed);  // set before the records are visible
    ThreadCounters::add(part.tree->lookups->mine().range_deletes, part.records);
  }
}

// Gives each memtable its seqs and its tree. Returns the notes for the log.
LogNotes StagedWriter::adopt_parts(const WriteBatch& batch, const StagedEntries& entries, Millis time) {
  LogNotes notes;
  for (const StagedEntries::Part& part : entries.parts) {
    if (part.memtable == nullptr) {
      env_.trees->mark_active(part.tree->id, batch.first_seq(), batch.last_seq());
    } else {
      part.memtable->set_place({.first_seq = batch.first_seq(), .time = time, .stamp = part.tree->stamp});
      env_.trees->adopt(*part.tree, part.memtable, batch.first_seq(), batch.last_seq());
    }
    add_note(&notes, note_of(part, time));
  }
  return notes;
}

}  // namespace ebbtide
