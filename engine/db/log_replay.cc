#include "db/log_replay.h"

#include <algorithm>
#include <memory>

#include "base/number_name.h"
#include "db/write/inserts.h"
#include "io/file_names.h"
#include "version/log_needs.h"
#include "wal/batch_group.h"
#include "wal/log_reader.h"

namespace ebbtide {
namespace {

// Percent of memory_budget for memtables during replay. The cache needs less memory than after open, since there are no readers.
constexpr std::uint64_t kMemTablePercent = 75;
constexpr std::uint64_t kLookShare = 16;  // memtables are measured each time 1 / 16 of memory_budget was replayed

}  // namespace

LogReplay::LogReplay(Env env)
    : env_(std::move(env)),
      trees_(*env_.trees),
      versions_(*env_.versions),
      pieces_(*env_.fs, env_.dir, log_needs(versions_.state()).oldest_log),
      sequence_(env_.dir, log_needs(versions_.state())) {
  pieces_.on_in_tables = [this](const PieceCommit& commit, std::uint64_t offset) {
    return sequence_.follow(commit.first_seq(), commit.count(), commit.time(), offset);
  };
}

Result<LogReplay::Replayed> LogReplay::run() {
  TRY_ASSIGN(files, find_segments());
  if (const Status status = read_segments(files); !status.is_ok()) return name_exchanged(status, files);
  out_.last_seq = sequence_.last();
  for (const auto& [file, valid_bytes] : torn_) {
    const Status cut = cut_torn_end(file, valid_bytes);
    if (out_.uncut.is_ok()) out_.uncut = cut.with_context("truncating the torn end of the write-ahead log");
  }
  for (LogSegment& segment : out_.segments) segment.pieces_seq = pieces_.last_seq(segment.file);
  for (const SkippedLog& part : sequence_.skipped()) note_skipped(part);
  return std::move(out_);
}

Status LogReplay::read_segments(const std::vector<FileNum>& files) {
  TRY(sequence_.begin(files));
  for (const FileNum file : files) TRY(read_segment(file));
  return sequence_.finish();
}

// Adds to an error about damage the name of each segment whose content belongs to another segment, for example after two files
// have exchanged their names. The replay stops at the first wrong segment, so the error itself names only that one.
Status LogReplay::name_exchanged(const Status& error, const std::vector<FileNum>& files) const {
  if (error.code() != Code::kCorruption) return error;
  std::string text(error.message());
  for (const FileNum file : files) {
    const FileNum owner = log_owner(*env_.fs, env_.dir, file);
    const std::string what = log_file_name(file) + ": segment header at 0: belongs to file " + std::to_string(owner);
    if (owner != kNoFile && owner != file && text.find(what) == std::string::npos) text += "; " + join_path(env_.dir, what);
  }
  return Status::corruption(std::move(text));
}

// Returns the segments that the log needs, oldest first. Adds older segments to out_.unneeded.
Result<std::vector<FileNum>> LogReplay::find_segments() {
  TRY_ASSIGN(names, env_.fs->list(env_.dir));
  std::vector<FileNum> files;
  for (const std::string& name : names) {
    FileKind kind{};
    FileNum file = kNoFile;
    if (!parse_file_name(name, &kind, &file) || kind != FileKind::kLog) continue;
    if (file < versions_.oldest_log()) {
      out_.unneeded.push_back(name);
      continue;
    }
    files.push_back(file);
    auto size = env_.fs->file_size(join_path(env_.dir, name));
    if (size.is_ok()) total_ += *size;
  }
  std::sort(files.begin(), files.end());
  return files;
}

Status LogReplay::read_segment(FileNum file) {
  const std::string path = join_path(env_.dir, log_file_name(file));
  const auto placed = [&](const Status& status, std::uint64_t offset) {
    return status.is_ok() || sequence_.named_the_loss() ? status
                                                        : status.with_context(path + ": record at " + std::to_string(offset));
  };
  // read_log() calls these functions on this thread, before it returns: the lock that is held here covers them.
  const auto on_record = [&](std::string payload, std::uint64_t offset)
                             NO_THREAD_SAFETY_ANALYSIS -> Status { return placed(apply_record(payload, offset), offset); };
  const auto on_long_record = [&](const LogPayload& payload, std::uint64_t offset) NO_THREAD_SAFETY_ANALYSIS -> Status {
    return placed(apply_long_record(payload, offset), offset);
  };
  const auto on_damage = [this](const LogDamage& damage) { return sequence_.damaged(damage); };
  const auto on_zeros = [this](std::uint64_t bytes) { report(bytes); };
  file_ = file;
  notes_.clear();
  since_ = 0;
  sequence_.enter(file);
  TRY_ASSIGN(end, read_log(*env_.fs, env_.dir, file,
                           {.on_record = on_record,
                            .on_damage = on_damage,
                            .pieces = &pieces_,
                            .on_long_record = on_long_record,
                            .on_zeros = on_zeros}));
  for (const PieceNote& note : pieces_.notes(file)) add_note(&notes_, {note.tree, 0, note.min_expiry});
  TRY_ASSIGN(torn, sequence_.leave(end));
  if (torn) torn_.emplace_back(file, end.valid_bytes);
  if (torn && end.valid_bytes == 0) return Status::ok();  // a crash interrupted the creation of the segment
  if (end.foreign) {
    out_.unneeded.push_back(log_file_name(file));
    return Status::ok();
  }
  TRY_ASSIGN(size, env_.fs->file_size(path));
  out_.segments.push_back({file, sequence_.last(), torn || end.clean ? end.valid_bytes : size, notes_, {}, since_});
  // Syncs the replayed segment, since the database relies on it from now on: its data may have been only in the system page
  // cache.
  return env_.fs->sync_file(path);
}

// Removes a torn end, which would look like damage once a later segment has records.
Status LogReplay::cut_torn_end(FileNum file, std::uint64_t valid_bytes) {
  if (valid_bytes == 0) return env_.fs->unlink(join_path(env_.dir, log_file_name(file)));
  return cut_log(*env_.fs, env_.dir, file, valid_bytes);
}

// Adds notes to the segments of a skipped part. The part may have values and deletes of any tree, born at or after the time of
// the last batch before the part.
void LogReplay::note_skipped(const SkippedLog& part) {
  if (part.stray) return env_.warn(part.to_text() + "; it is ignored and removed");
  env_.warn("a part of the write-ahead log is damaged and not needed: " + part.to_text());
  const Millis birth = part.time != 0 ? part.time : kUnknownBirth;
  for (LogSegment& segment : out_.segments) {
    if (segment.file < part.file || segment.file > part.next_file) continue;
    out_.skipped_in = std::max(out_.skipped_in, segment.file);
    if (segment.since == 0) segment.since = birth;
    for (const auto& [id, tree] : trees_.live()) add_note(&segment.notes, {id, birth, 0});
    for (const TreePtr& tree : trees_.dropped()) add_note(&segment.notes, {tree->id, birth, 0});
  }
}

void LogReplay::report(std::uint64_t bytes) {
  done_ += bytes;
  env_.progressed(std::min(done_, total_), total_);
}

Status LogReplay::apply_record(Bytes group, std::uint64_t offset) {
  // each_batch() calls this function before it returns: the lock that is held here covers it.
  TRY(each_batch(group, [&](Bytes payload) NO_THREAD_SAFETY_ANALYSIS -> Status {
    TRY_ASSIGN(batch, WriteBatch::parse(std::string(payload)));
    TRY(begin_batch({batch.first_seq(), batch.time(), batch.count()}, offset));
    SeqNum seq = batch.first_seq();
    std::size_t cursor = 0;
    for (WriteBatch::Op op; batch.next_op(&cursor, &op); ++seq) TRY(apply(op, seq, batch.time()));
    return Status::ok();
  }));
  report(group.size());
  return Status::ok();
}

Status LogReplay::apply_long_record(const LogPayload& payload, std::uint64_t offset) {
  GroupReader group(payload);
  GroupReader::Batch batch;
  for (;;) {
    TRY_ASSIGN(has_batch, group.next_batch(&batch));
    if (!has_batch) break;
    TRY(begin_batch(batch, offset));
    WriteBatch::Op op;
    for (SeqNum seq = batch.first_seq;; ++seq) {
      TRY_ASSIGN(has_op, group.next_op(&op));
      if (!has_op) break;
      TRY(apply(op, seq, batch.time));
    }
  }
  report(payload.size());
  return Status::ok();
}

Status LogReplay::begin_batch(const GroupReader::Batch& batch, std::uint64_t offset) {
  TRY(sequence_.follow(batch.first_seq, batch.count, batch.time, offset));
  if (since_ == 0) since_ = batch.time;
  env_.advance_time(batch.time);
  return Status::ok();
}

Status LogReplay::apply(const WriteBatch::Op& op, SeqNum seq, Millis time) {
  if (op.kind != OpKind::kSwapDatabases) add_note(&notes_, log_note(op, op.tree, time));
  if (op.kind == OpKind::kCreateTree || op.kind == OpKind::kFlushDatabase || op.kind == OpKind::kSwapDatabases) {
    return apply_mapping(op, seq, time);
  }
  const auto it = trees_.live().find(op.tree);
  if (it == trees_.live().end()) return Status::ok();  // a later operation has dropped the tree
  Tree& tree = *it->second;
  if (seq <= tree.view_owner->tables->version->flushed_seq) return Status::ok();
  if (op.kind == OpKind::kSecondaryDelete) tree.recorded->store(true, std::memory_order_relaxed);
  if (TreeRegistry::is_full(tree) && tree.active_first_seq != 0) trees_.freeze_quietly(tree);
  insert_operation(*tree.active, op, seq, time, tree.stamp);
  if (tree.active_first_seq == 0) tree.active_first_seq = seq;
  tree.active_last_seq = seq;
  unmeasured_ += op.key.size() + op.value.size();
  if (unmeasured_ >= env_.memory_budget / kLookShare) flush(seq);
  return Status::ok();
}

Status LogReplay::apply_mapping(const WriteBatch::Op& op, SeqNum seq, Millis time) {
  const bool flush = op.kind == OpKind::kFlushDatabase, swap = op.kind == OpKind::kSwapDatabases;
  if (flush && op.tree != op.hi) add_note(&notes_, {static_cast<TreeId>(op.hi), time, 0});
  versions_.mark_tree_used(op.tree);
  if (seq <= versions_.databases_seq()) return Status::ok();
  trees_.note_mapping(seq);
  const auto a = static_cast<DatabaseId>(op.lo), b = static_cast<DatabaseId>(op.hi);
  if (!trees_.has_number(a) || (swap && (a >= trees_.databases() || b >= trees_.databases()))) {
    return Status::invalid_argument("server.databases is " + std::to_string(trees_.databases()) + ", but the log names " +
                                    number_name(swap ? std::max(a, b) : a));
  }
  if (swap) {
    trees_.swap(a, b);
    for (const DatabaseId d : {a, b}) env_.published->map(d, trees_.mapped(d).get());
    return Status::ok();
  }
  TreePtr old = flush ? trees_.mapped(a) : nullptr;
  if (flush && op.tree == op.hi) return Status::ok();  // FLUSHDB of an empty database, which kept its tree
  if (old != nullptr) trees_.drop(std::move(old), time);
  map(a, trees_.make(op.tree, a, op.mode));
  return Status::ok();
}

// Maps the database for writers and readers in two steps, which is safe only while there are no readers.
void LogReplay::map(DatabaseId database, TreePtr tree) {
  env_.published->map(database, tree.get());
  trees_.map(database, std::move(tree));
}

// Flushes memtables if they use too much memory. Every operation up to `seq` has been replayed. One edit covers all trees, since
// each of many databases may have only a little data.
void LogReplay::flush(SeqNum seq) {
  unmeasured_ = 0;
  if (flushes_fail_) return;
  std::uint64_t bytes = 0;
  std::vector<TreePtr> trees;
  for (const auto& [id, tree] : trees_.live()) {
    for (const auto& memtable : tree->view_owner->memtables) {
      bytes += memtable->memory_bytes() - std::min<std::uint64_t>(memtable->memory_bytes(), env_.empty_memtable_bytes);
    }
  }
  if (bytes <= env_.memory_budget / 100 * kMemTablePercent) return;
  for (const auto& [id, tree] : trees_.live()) {
    if (versions_.tree(id) == nullptr) continue;
    if (tree->active_first_seq != 0) trees_.freeze_quietly(*tree);
    if (!tree->frozen.empty()) trees.push_back(tree);
  }
  if (trees.empty()) return;
  env_.published->start(seq);  // there are no readers, and a flush keeps only visible operations
  const std::string path = join_path(env_.dir, log_file_name(file_));
  trees_.commit_mutex.unlock();              // jobs that build tables take this mutex; no other thread runs yet
  Status status = env_.fs->sync_file(path);  // an edit may rely only on durable operations
  if (status.is_ok()) status = env_.flush(trees);
  trees_.commit_mutex.lock();
  env_.collect();  // frees the memtables
  flushes_fail_ = !status.is_ok();
  if (!status.is_ok()) {
    env_.warn("a flush failed while the log was replayed; the replay continues in memory: " + status.to_string());
  }
}

}  // namespace ebbtide
