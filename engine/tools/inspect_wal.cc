#include <optional>

#include <engine/write_batch.h>
#include "io/file_names.h"
#include "tools/inspect.h"
#include "tree/text.h"
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

/// One operation: " put tree 3 \"k\" = 12 bytes stamp 7".
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
      break;
    case OpKind::kTombstone:
      text += " " + key_to_text(op.key);
      json->add("key", key_to_text(op.key));
      break;
    case OpKind::kRangeTombstone:
      text += " " + key_to_text(op.key) + ".." + (op.end.empty() ? "*" : key_to_text(op.end));
      json->add("start", key_to_text(op.key)).add("end", op.end.empty() ? "*" : key_to_text(op.end));
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

Status describe_record(Bytes group, std::uint64_t offset, bool values, Inspection* out, JsonArray* records) {
  const std::string where = "record at " + std::to_string(offset);
  out->text += "# " + where + ", " + std::to_string(group.size()) + " bytes\n";
  JsonObject json;
  json.add("offset", offset).add("bytes", group.size());
  JsonArray batches;
  const Status status = each_batch(group, [&](Bytes payload) { return describe_batch(payload, values, out, &batches); });
  if (!status.is_ok()) return status.with_context(where);
  records->add(json.add("batches", batches).str());
  return Status::ok();
}

/// Operations in a row, as recovery wants them (db/recovery.cc).
class Sequence {
 public:
  /// Everything up to `relied` may be in tables: the log begins no later than behind it.
  explicit Sequence(SeqNum relied) : relied_(relied) {}

  Status take(Bytes payload) {
    TRY_ASSIGN(batch, WriteBatch::parse(std::string(payload)));
    const SeqNum first = batch.first_seq(), expected = next_ != 0 ? next_ : relied_ + 1;
    const bool follows = next_ != 0 ? first == expected : lost_ || first <= expected;
    next_ = first + batch.count();
    if (follows) return Status::ok();
    return Status::corruption("begins with operation " + std::to_string(first) + ", expected was " + std::to_string(expected) +
                              torn());
  }
  /// Part of the log is damaged: what comes next need not follow.
  void lose() {
    next_ = 0;
    lost_ = true;
  }
  void note_torn(const std::string& what) { torn_ = what; }
  /// A segment says where it begins; counts as long as there is no operation.
  void begin(SeqNum first) {
    if (first != 0) begins_ = first;
  }
  /// For a message: where an earlier segment ended badly, if one did.
  [[nodiscard]] std::string torn() const { return torn_.empty() ? "" : "; before it, " + torn_; }
  [[nodiscard]] SeqNum last() const { return next_ == 0 ? 0 : next_ - 1; }
  /// The last operation that the log reaches, if it ends before the last one that the manifest relies on.
  [[nodiscard]] std::optional<SeqNum> too_early_an_end() const {
    const SeqNum next = next_ != 0 ? next_ : begins_;
    return next != 0 && next - 1 < relied_ ? std::optional(next - 1) : std::nullopt;
  }

 private:
  const SeqNum relied_;
  SeqNum next_ = 0, begins_ = 0;
  bool lost_ = false;
  std::string torn_;
};

void tell_missing(const std::string& dir, const VersionState& state, LogFindings* found) {
  found->errors.push_back("corruption: " + join_path(dir, log_file_name(state.oldest_log)) +
                          " is missing: the log begins there, as the manifest says");
}

void examine_segment(FileSystem& fs, const std::string& dir, FileNum file, const VersionState& state, Sequence* sequence,
                     LogFindings* found) {
  const std::string name = log_file_name(file);
  const auto on_record = [&](const std::string& group, std::uint64_t offset) {
    const Status status = each_batch(group, [sequence](Bytes payload) { return sequence->take(payload); });
    return status.with_context(name + ": record at " + std::to_string(offset));
  };
  const auto end = read_log(fs, dir, file, on_record);
  const auto damaged = [&](const std::string& error) {
    found->errors.push_back(error);
    found->segments.push_back({file, {}, true});
    sequence->lose();
  };
  if (!end.is_ok()) return damaged(end.status().to_string());
  if (end->valid_after) return damaged("corruption: " + end->what);
  if (end->valid_bytes == 0 && file == state.oldest_log) {
    return damaged("corruption: " + end->what + ", and the manifest says that the log begins here");
  }
  if (!end->clean) sequence->note_torn(end->what);
  sequence->begin(end->first_seq);
  found->segments.push_back({file, *end, false});
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
    // A batch that does not parse is told, and the next one is read: its checksum was right.
    if (Status status = describe_record(payload, offset, values, out, &records); !status.is_ok())
      out->error(status.with_context(name));
    return Status::ok();
  });
  json.add("records", records);
  if (!end.is_ok()) {
    out->error(end.status().with_context(name));
  } else {
    json.add("first_seq", end->first_seq).add("valid_bytes", end->valid_bytes).add("end", end->clean ? "clean" : end->what);
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
  Sequence sequence(state.last_seq);
  for (const FileNum file : *numbers) {
    if (file < state.oldest_log) {
      found.unneeded.push_back(file);
      continue;
    }
    if (found.segments.empty() && state.oldest_log != kNoFile && file != state.oldest_log) tell_missing(dir, state, &found);
    if (!found.errors.empty()) sequence.lose();
    examine_segment(fs, dir, file, state, &sequence, &found);
  }
  if (found.segments.empty() && state.oldest_log != kNoFile) tell_missing(dir, state, &found);
  found.last_seq = sequence.last();
  if (const auto end = sequence.too_early_an_end(); found.errors.empty() && end) {
    const LogFindings::Segment& last = found.segments.back();
    found.errors.push_back("corruption: " + join_path(dir, log_file_name(last.file)) + ": the log ends at " +
                           std::to_string(last.end.valid_bytes) + " with operation " + std::to_string(*end) +
                           ", the manifest relies on " + std::to_string(state.last_seq) + sequence.torn());
  }
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
