// Open reads the log.
//
// The log must continue without a gap that matters (wal/log_sequence.h). Where it does not, opening says so instead of going on.
// A damaged part that nothing needs is skipped, with a warning, and its segment is retired at once: what it had of values, and of
// deletes, is unknown, so no deadline can be kept for it in another way. Nothing is cut or removed before all of the log is read.
//
// Memory: memtables are flushed once they have three quarters of memory_budget. A long record (kLongRecordBytes) stays in the
// file, and its values are read from there one by one. So a replay takes no more than 7/8 of the budget, one value, the tables'
// metadata, and about 32 MiB of buffers, however long the log is. There are two exceptions: trees that the manifest does not have
// yet, since they were created in the last moments of the log; and a flush that fails, as on a full disk, after which opening goes
// on in memory.
//
// What such a flush writes is true whatever the rest of the log holds: its edit names operations that were read and are durable,
// and leaves the log as it is. If opening fails later, the next one finds these operations in tables and skips them.
#include <algorithm>

#include "base/invariant.h"
#include "db/db_impl.h"
#include "io/file_names.h"
#include "version/log_needs.h"
#include "wal/batch_group.h"
#include "wal/group_reader.h"
#include "wal/log_reader.h"
#include "wal/log_sequence.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kMemTablePercent = 75;  // of memory_budget: there are no readers yet, whose cache has the rest later
constexpr std::uint64_t kLookShare = 16;        // memtables are measured after so much of it was replayed

}  // namespace

// The state of a replay of the log.
struct DbImpl::Replay {
  Replay(FileSystem& fs, const std::string& dir, LogNeeds needs)
      : pieces(fs, dir, needs.oldest_log), sequence(dir, std::move(needs)) {
    pieces.on_in_tables = [this](const PieceCommit& commit, std::uint64_t offset) {
      return sequence.follow(commit.first_seq(), commit.count(), commit.time(), offset);
    };
  }
  LogPieces pieces;
  LogSequence sequence;
  std::uint64_t total = 0, done = 0;
  std::vector<std::pair<FileNum, std::uint64_t>> torn;  // segments, and how much of them is whole
  std::uint64_t unmeasured = 0;                         // bytes of operations since memtables were measured
  bool flushes_fail = false;
  // of the current segment
  FileNum file = kNoFile;
  LogNotes notes;
  Millis since = 0;
};

Status DbImpl::replay_log(std::vector<LogSegment>* segments, SeqNum* last_seq) {
  TRY_ASSIGN(names, fs_.list(settings_.dir));
  std::vector<FileNum> files;
  Replay replay(fs_, settings_.dir, log_needs(versions_->state()));
  for (const std::string& name : names) {
    FileKind kind{};
    FileNum file = kNoFile;
    if (!parse_file_name(name, &kind, &file) || kind != FileKind::kLog) continue;
    if (file < versions_->oldest_log()) {
      TRY(fs_.unlink(join_path(settings_.dir, name)));
      continue;
    }
    files.push_back(file);
    auto size = fs_.file_size(join_path(settings_.dir, name));
    if (size.is_ok()) replay.total += *size;
  }
  std::sort(files.begin(), files.end());
  TRY(replay.sequence.begin(files));
  for (FileNum file : files) TRY(replay_segment(file, &replay, segments));
  TRY(replay.sequence.finish());
  *last_seq = std::max(*last_seq, replay.sequence.last());
  for (const auto& [file, valid_bytes] : replay.torn) TRY(cut_torn_end(file, valid_bytes));
  for (LogSegment& segment : *segments) segment.pieces_seq = replay.pieces.last_seq(segment.file);
  for (const SkippedLog& part : replay.sequence.skipped()) note_skipped(part, segments);
  return Status::ok();
}

Status DbImpl::replay_segment(FileNum file, Replay* replay, std::vector<LogSegment>* segments) {
  const std::string path = join_path(settings_.dir, log_file_name(file));
  // The reader calls back at once, on this thread, under the lock that is held here.
  const auto on_record = [&](std::string payload, std::uint64_t offset) NO_THREAD_SAFETY_ANALYSIS -> Status {
    return replay_record(payload, offset, replay).with_context(path + ": record at " + std::to_string(offset));
  };
  const auto on_long_record = [&](const LogPayload& payload, std::uint64_t offset) NO_THREAD_SAFETY_ANALYSIS -> Status {
    return replay_long_record(payload, offset, replay).with_context(path + ": record at " + std::to_string(offset));
  };
  const auto on_damage = [replay](const LogDamage& damage) { return replay->sequence.damaged(damage); };
  replay->file = file;
  replay->notes.clear();
  replay->since = 0;
  replay->sequence.enter(file);
  TRY_ASSIGN(
      end,
      read_log(fs_, settings_.dir, file,
               {.on_record = on_record, .on_damage = on_damage, .pieces = &replay->pieces, .on_long_record = on_long_record}));
  for (const PieceNote& note : replay->pieces.notes(file)) add_note(&replay->notes, {note.tree, 0, note.min_expiry});
  TRY_ASSIGN(torn, replay->sequence.leave(end));
  if (torn) replay->torn.emplace_back(file, end.valid_bytes);
  if (torn && end.valid_bytes == 0) return Status::ok();  // a crash interrupted its creation
  TRY_ASSIGN(size, fs_.file_size(path));
  segments->push_back({file, replay->sequence.last(), torn ? end.valid_bytes : size, replay->notes, {}, replay->since});
  // Syncs what was replayed, since the database relies on it from now on: it may have been in the system's page cache only.
  return fs_.sync_file(path);
}

// Removes a torn end. It would look like damage once a later segment has records.
Status DbImpl::cut_torn_end(FileNum file, std::uint64_t valid_bytes) {
  if (valid_bytes == 0) return fs_.unlink(join_path(settings_.dir, log_file_name(file)));
  return cut_log(fs_, settings_.dir, file, valid_bytes);
}

// The skipped part may have had values of any tree, and deletes of these or earlier values. None of the deletes was born before
// the last batch ahead of the part.
void DbImpl::note_skipped(const SkippedLog& part, std::vector<LogSegment>* segments) {
  say(Severity::kWarning, "a part of the write-ahead log is damaged and not needed: " + part.to_text());
  const Millis birth = part.time != 0 ? part.time : kUnknownBirth;
  for (LogSegment& segment : *segments) {
    if (segment.file < part.file || segment.file > part.next_file) continue;
    skipped_in_ = std::max(skipped_in_, segment.file);
    if (segment.since == 0) segment.since = birth;
    for (const auto& [id, tree] : trees_.live()) add_note(&segment.notes, {id, birth, 0});
    for (const TreePtr& tree : trees_.dropped()) add_note(&segment.notes, {tree->id, birth, 0});
  }
}

void DbImpl::report_replay(std::uint64_t bytes, Replay* replay) {
  replay->done += bytes;
  if (events_ != nullptr) events_->on_recovery_progress(std::min(replay->done, replay->total), replay->total);
}

Status DbImpl::replay_record(Bytes group, std::uint64_t offset, Replay* replay) {
  // Called back at once, under the lock that is held here.
  TRY(each_batch(group, [&](Bytes payload) NO_THREAD_SAFETY_ANALYSIS -> Status {
    TRY_ASSIGN(batch, WriteBatch::parse(std::string(payload)));
    TRY(replay_batch({batch.first_seq(), batch.time(), batch.count()}, offset, replay));
    SeqNum seq = batch.first_seq();
    std::size_t cursor = 0;
    for (WriteBatch::Op op; batch.next_op(&cursor, &op); ++seq) TRY(replay_operation(op, seq, batch.time(), replay));
    return Status::ok();
  }));
  report_replay(group.size(), replay);
  return Status::ok();
}

Status DbImpl::replay_long_record(const LogPayload& payload, std::uint64_t offset, Replay* replay) {
  GroupReader group(payload);
  GroupReader::Batch batch;
  for (;;) {
    TRY_ASSIGN(has_batch, group.next_batch(&batch));
    if (!has_batch) break;
    TRY(replay_batch(batch, offset, replay));
    WriteBatch::Op op;
    for (SeqNum seq = batch.first_seq;; ++seq) {
      TRY_ASSIGN(has_op, group.next_op(&op));
      if (!has_op) break;
      TRY(replay_operation(op, seq, batch.time, replay));
    }
  }
  report_replay(payload.size(), replay);
  return Status::ok();
}

Status DbImpl::replay_batch(const GroupReader::Batch& batch, std::uint64_t offset, Replay* replay) {
  TRY(replay->sequence.follow(batch.first_seq, batch.count, batch.time, offset));
  if (replay->since == 0) replay->since = batch.time;
  pipeline_.advance_time(batch.time);
  return Status::ok();
}

Status DbImpl::replay_operation(const WriteBatch::Op& op, SeqNum seq, Millis time, Replay* replay) {
  if (op.kind != OpKind::kSwapDatabases) add_note(&replay->notes, log_note(op, op.tree, time));
  if (op.kind == OpKind::kCreateTree || op.kind == OpKind::kFlushDatabase || op.kind == OpKind::kSwapDatabases) {
    return replay_mapping(op, seq, time, replay);
  }
  const auto it = trees_.live().find(op.tree);
  if (it == trees_.live().end()) return Status::ok();  // dropped by a later operation
  Tree& tree = *it->second;
  if (seq <= tree.view_owner->tables->version->flushed_seq) return Status::ok();
  if (op.kind == OpKind::kSecondaryDelete) tree.recorded->store(true, std::memory_order_relaxed);
  if (trees_.is_full(*tree.active) && tree.active_first_seq != 0) trees_.freeze_quietly(tree);
  insert_operation(*tree.active, op, seq, time, tree.stamp);
  if (tree.active_first_seq == 0) tree.active_first_seq = seq;
  tree.active_last_seq = seq;
  replay->unmeasured += op.key.size() + op.value.size();
  if (replay->unmeasured >= budget_.bytes() / kLookShare) flush_replayed(seq, replay);
  return Status::ok();
}

Status DbImpl::replay_mapping(const WriteBatch::Op& op, SeqNum seq, Millis time, Replay* replay) {
  const bool flush = op.kind == OpKind::kFlushDatabase, swap = op.kind == OpKind::kSwapDatabases;
  if (flush && op.tree != op.hi) add_note(&replay->notes, {static_cast<TreeId>(op.hi), time, 0});
  versions_->mark_tree_used(op.tree);
  if (seq <= versions_->databases_seq()) return Status::ok();
  trees_.note_mapping(seq);
  const auto a = static_cast<DatabaseId>(op.lo), b = static_cast<DatabaseId>(op.hi);
  if (a >= trees_.databases() || (swap && b >= trees_.databases())) {
    return Status::invalid_argument("server.databases is " + std::to_string(settings_.databases) +
                                    ", but the log names database " + std::to_string(std::max(a, b)));
  }
  if (swap) {
    trees_.swap(a, b);
    for (const DatabaseId d : {a, b}) published_.map(d, trees_.mapped(d).get());
    return Status::ok();
  }
  TreePtr old = flush ? trees_.mapped(a) : nullptr;
  if (flush && op.tree == op.hi) return Status::ok();  // the database was empty and kept its tree
  if (old != nullptr) trees_.drop(std::move(old), time);
  map_database(a, trees_.make(op.tree, a, op.mode));
  return Status::ok();
}

// Everything up to `seq` has been replayed. One edit for all trees: of many databases each has a little.
void DbImpl::flush_replayed(SeqNum seq, Replay* replay) {
  replay->unmeasured = 0;
  if (replay->flushes_fail) return;
  std::uint64_t bytes = 0;
  std::vector<TreePtr> trees;
  for (const auto& [id, tree] : trees_.live()) {
    for (const auto& memtable : tree->view_owner->memtables) {
      bytes += memtable->memory_bytes() - std::min<std::uint64_t>(memtable->memory_bytes(), empty_memtable_bytes_);
    }
  }
  if (bytes <= budget_.bytes() / 100 * kMemTablePercent) return;
  for (const auto& [id, tree] : trees_.live()) {
    if (versions_->tree(id) == nullptr) continue;
    if (tree->active_first_seq != 0) trees_.freeze_quietly(*tree);
    if (!tree->frozen.empty()) trees.push_back(tree);
  }
  if (trees.empty()) return;
  published_.start(seq);  // there are no readers; a flush keeps only what is visible
  const std::string path = join_path(settings_.dir, log_file_name(replay->file));
  trees_.commit_mutex.unlock();         // nothing else runs yet; jobs that build tables ask for it
  Status status = fs_.sync_file(path);  // an edit may name durable operations only
  if (status.is_ok()) status = flush_replayed_trees(trees);
  trees_.commit_mutex.lock();
  epoch_.collect();  // frees the memtables
  replay->flushes_fail = !status.is_ok();
  if (!status.is_ok()) {
    say(Severity::kWarning, "a flush failed while the log was replayed, which goes on in memory: " + status.to_string());
  }
}

Status DbImpl::flush_replayed_trees(const std::vector<TreePtr>& trees) {
  MutexLock flushing(flusher_.mutex);
  BuiltFlush built;
  Status status;
  for (const TreePtr& tree : trees) {
    status = flush_job_.build(tree, kAllMemTables, time_.stamped(), &built);
    if (!status.is_ok()) break;
  }
  if (!status.is_ok()) {
    for (const BuiltFlush::Of& of : built.of) outputs_.unlink(of.tree, of.outputs);
    for (const TreePtr& tree : trees) outputs_.note_failure(tree);
    return status;
  }
  MutexLock manifest(manifest_.mutex);
  built.edit.last_seq = built.relies_on;
  status = versions_->commit(std::move(built.edit));  // settle() takes over the manifest's deadlines later
  if (!status.is_ok()) {
    for (const BuiltFlush::Of& of : built.of) outputs_.disown(of.tree, of.outputs);
    return status.with_context("manifest");
  }
  for (const BuiltFlush::Of& of : built.of) {
    FilterNeeds needs;
    std::shared_ptr<const TablesView> before;
    {
      MutexLock state(trees_.state_mutex);
      before = of.tree->view_owner->tables;
      needs = filter_needs(*of.tree);
    }
    auto tables = installer_.make_view(versions_->tree(of.tree->id), before.get(), built.opened, 0,
                                       [&](const TablesView& tables) { (void)fit_filters(tables, needs, filter_fit_env()); });
    ASSERT_MSG(tables.is_ok(), "a table that was opened for the edit");
    MutexLock state(trees_.state_mutex);
    auto view = std::make_shared<TreeView>(*of.tree->view_owner);
    view->tables = std::move(tables).value();
    view->memtables.resize(view->memtables.size() - of.memtables);
    of.tree->frozen.erase(of.tree->frozen.begin(), of.tree->frozen.begin() + static_cast<std::ptrdiff_t>(of.memtables));
    trees_.publish(*of.tree, std::move(view));
  }
  return Status::ok();
}

}  // namespace ebbtide
