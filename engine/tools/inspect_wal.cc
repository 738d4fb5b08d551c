#include <engine/write_batch.h>
#include "io/file_names.h"
#include "tools/inspect.h"
#include "tree/text.h"
#include "version/log_needs.h"
#include "wal/batch_group.h"
#include "wal/log_reader.h"

namespace ebbtide {
namespace {

const char* op_name(OpKind kind) {
  switch (kind) {
    case OpKind::kPut:
      return "put";
    case OpKind::kTombstone:
      return "tombstone";
    case OpKind::kHeader:
      return "header";
    case OpKind::kRangeTombstone:
      return "range_tombstone";
    case OpKind::kSecondaryDelete:
      return "secondary_delete";
    case OpKind::kCreateTree:
      return "create_tree";
    case OpKind::kFlushDatabase:
      return "flush_database";
    case OpKind::kSwapDatabases:
      return "swap_databases";
  }
  return "unknown";
}

/// Returns one operation as text: "put tree 3 \"k\" = 12 bytes stamp 7".
std::string describe_op(const WriteBatch::Op& op, bool values, JsonObject* json) {
  std::string text = std::string(op_name(op.kind)) + " tree " + std::to_string(op.tree);
  json->add("op", op_name(op.kind)).add("tree", op.tree);
  switch (op.kind) {
    case OpKind::kPut:
    case OpKind::kHeader:
      text += " " + key_to_text(op.key) + " = " + (values ? key_to_text(op.value) : std::to_string(op.value.size()) + " bytes");
      json->add("key", key_to_text(op.key)).add("value_bytes", op.value.size());
      if (values) json->add("value", key_to_text(op.value));
      if (op.stamp != kNoStamp) text += " stamp " + std::to_string(op.stamp), json->add("stamp", op.stamp);
      if (op.expiry != 0) text += " expiry " + std::to_string(op.expiry), json->add("expiry", op.expiry);
      if (op.value_kind == EntryKind::kCompact) text += " compact", json->raw("compact", "true");
      if (op.debt) text += " debt", json->raw("debt", "true");
      if (op.element) text += " element", json->raw("element", "true");
      break;
    case OpKind::kTombstone:
      text += " " + key_to_text(op.key);
      json->add("key", key_to_text(op.key));
      if (op.element) text += " element", json->raw("element", "true");
      break;
    case OpKind::kRangeTombstone:
      text += " " + key_to_text(op.key) + ".." + (op.end.empty() ? "*" : key_to_text(op.end));
      json->add("start", key_to_text(op.key)).add("end", op.end.empty() ? "*" : key_to_text(op.end));
      if (op.birth != 0) text += " birth " + std::to_string(op.birth), json->add("birth", op.birth);
      break;
    default:
      text += " " + std::to_string(op.lo) + " " + std::to_string(op.hi);
      json->add("lo", op.lo).add("hi", op.hi);
  }
  return text;
}

Status describe_batch(Bytes payload, bool values, Inspection* out, JsonArray* batches) {
  TRY_ASSIGN(batch, WriteBatch::parse(std::string(payload)));
  const SeqNum first = batch.first_seq();
  out->text += "batch seq " + std::to_string(first) + ", " + std::to_string(batch.count()) + " operations, time " +
               std::to_string(batch.time()) + "\n";
  JsonArray ops;
  std::size_t cursor = 0;
  SeqNum seq = first;
  for (WriteBatch::Op op; batch.next_op(&cursor, &op); ++seq) {
    JsonObject json;
    json.add("seq", seq);
    out->text += "  " + std::to_string(seq) + " " + describe_op(op, values, &json) + "\n";
    ops.add(json.str());
  }
  batches->add(JsonObject().add("first_seq", first).add("time", batch.time()).add("ops", ops).str());
  return Status::ok();
}

/// Appends the text "piece 3 of batch 7-1, 1048576 bytes".
Status describe_piece(Bytes payload, Inspection* out, JsonObject* json) {
  LogPiece piece;
  TRY(decode_piece(payload, &piece));
  out->text += "piece " + std::to_string(piece.index) + " of batch " + piece.id.to_text() + ", " +
               std::to_string(piece.bytes.size()) + " bytes\n";
  json->add("batch", piece.id.to_text()).add("piece", piece.index).add("piece_bytes", piece.bytes.size());
  return Status::ok();
}

/// Appends the text "batch 7-1 of 200 pieces, 209715200 bytes: seq 501, 200000 operations, time 1732400000000".
Status describe_commit(Bytes payload, Inspection* out, JsonObject* json) {
  TRY_ASSIGN(commit, decode_commit(payload));
  out->text += "batch " + commit.id.to_text() + " of " + std::to_string(commit.pieces) + " pieces, " +
               std::to_string(commit.bytes) + " bytes: seq " + std::to_string(commit.first_seq()) + ", " +
               std::to_string(commit.count()) + " operations, time " + std::to_string(commit.time()) + "\n";
  json->add("batch", commit.id.to_text()).add("pieces", commit.pieces).add("batch_bytes", commit.bytes);
  json->add("first_seq", commit.first_seq()).add("operations", commit.count()).add("time", commit.time());
  return Status::ok();
}

Status describe_record(Bytes group, std::uint64_t offset, bool values, Inspection* out, JsonArray* records) {
  const std::string where = "record at " + std::to_string(offset);
  out->text += "# " + where + ", " + std::to_string(group.size()) + " bytes\n";
  JsonObject json;
  json.add("offset", offset).add("bytes", group.size());
  if (const LogRecordKind kind = record_kind(group); kind != LogRecordKind::kGroup) {
    const Status status = kind == LogRecordKind::kPiece ? describe_piece(group, out, &json) : describe_commit(group, out, &json);
    if (!status.is_ok()) return status.with_context(where);
    records->add(json.str());
    return Status::ok();
  }
  JsonArray batches;
  const Status status = each_batch(group, [&](Bytes payload) { return describe_batch(payload, values, out, &batches); });
  if (!status.is_ok()) return status.with_context(where);
  records->add(json.add("batches", batches).str());
  return Status::ok();
}

void examine_segment(FileSystem& fs, const std::string& dir, FileNum file, LogSequence* sequence, LogPieces* pieces,
                     LogFindings* found) {
  const std::string name = log_file_name(file);
  const auto on_record = [&](const std::string& group, std::uint64_t offset) {
    const Status status = each_batch(group, [&](Bytes payload) -> Status {
      TRY_ASSIGN(batch, WriteBatch::parse(std::string(payload)));
      return sequence->follow(batch.first_seq(), batch.count(), batch.time(), offset);
    });
    return status.with_context(name + ": record at " + std::to_string(offset));
  };
  const auto damaged = [&](const Status& status) {
    found->errors.push_back(status.to_string());
    found->segments.push_back({file, {}, true});
    sequence->lose();
  };
  sequence->enter(file);
  const std::size_t skipped = sequence->skipped().size();
  const auto end = read_log(
      fs, dir, file, on_record, [&](const LogDamage& damage) { return sequence->damaged(damage); }, pieces);
  if (!end.is_ok()) return damaged(end.status());
  const Result<bool> torn = sequence->leave(*end);
  if (!torn.is_ok()) return damaged(torn.status());
  LogEnd shown = *end;
  if (!*torn) shown.clean = true;  // the segment has no torn end
  found->segments.push_back({file, shown, sequence->skipped().size() != skipped});
}

}  // namespace

void walk_segment(FileSystem& fs, const std::string& dir, FileNum file, bool last, bool values, Inspection* out,
                  JsonArray* segments) {
  const std::string name = log_file_name(file);
  out->text += "# " + name + "\n";
  JsonArray records;
  JsonObject json;
  json.add("file", name);
  const auto end = read_log(fs, dir, file, [&](std::string payload, std::uint64_t offset) {
    // A malformed batch is reported, and the next record is read, since the checksum of the malformed record was right.
    if (Status status = describe_record(payload, offset, values, out, &records); !status.is_ok())
      out->error(status.with_context(name));
    return Status::ok();
  });
  json.add("records", records);
  if (!end.is_ok()) {
    out->error(end.status().with_context(name));
  } else {
    json.add("first_seq", end->first_seq).add("valid_bytes", end->valid_bytes).add("end", end->clean ? "clean" : end->what);
    if (end->next != kNoFile) {
      json.add("next", log_file_name(end->next));
      out->text += "# the next segment is " + log_file_name(end->next) + "\n";
    }
    if (!end->clean) {
      if (end->valid_after || !last) out->errors.push_back("corruption: " + end->what);
      out->text += "# " + std::string(end->valid_after || !last ? "damage: " : "torn tail: ") + end->what + "\n";
    }
  }
  segments->add(json.str());
}

LogFindings examine_log(FileSystem& fs, const std::string& dir, const VersionState& state) {
  LogFindings found;
  const auto numbers = files_of_kind(fs, dir, static_cast<int>(FileKind::kLog));
  if (!numbers.is_ok()) return found.errors.push_back(numbers.status().to_string()), found;
  std::vector<FileNum> needed;
  for (const FileNum file : *numbers) (file < state.oldest_log ? found.unneeded : needed).push_back(file);
  LogSequence sequence(dir, log_needs(state));
  if (const Status status = sequence.begin(needed); !status.is_ok()) return found.errors.push_back(status.to_string()), found;
  LogPieces pieces(fs, dir, state.oldest_log);
  pieces.on_in_tables = [&](const PieceCommit& commit, std::uint64_t offset) {
    return sequence.follow(commit.first_seq(), commit.count(), commit.time(), offset);
  };
  for (const FileNum file : needed) examine_segment(fs, dir, file, &sequence, &pieces, &found);
  found.last_seq = sequence.last();
  if (const Status status = sequence.finish(); found.errors.empty() && !status.is_ok())
    found.errors.push_back(status.to_string());
  for (const SkippedLog& part : sequence.skipped()) found.skipped.push_back(part.to_text());
  return found;
}

Inspection inspect_wal(FileSystem& fs, const std::string& path, bool values) {
  Inspection out;
  JsonArray segments;
  const SplitPath split = split_path(path);
  FileKind kind{};
  FileNum file = kNoFile;
  if (parse_file_name(split.name, &kind, &file) && kind == FileKind::kLog) {
    walk_segment(fs, split.dir, file, true, values, &out, &segments);
  } else {
    const auto numbers = files_of_kind(fs, path, static_cast<int>(FileKind::kLog));
    if (!numbers.is_ok()) return out.error(numbers.status()), out;
    for (const FileNum number : *numbers) walk_segment(fs, path, number, number == numbers->back(), values, &out, &segments);
  }
  out.json.add("segments", segments);
  return out;
}

}  // namespace ebbtide
