// Encoding: an edit is a sequence of fields, each with tag, length and payload. A reader refuses an edit with an unknown tag,
// unless the tag has the bit kMaySkip. engine/docs/formats.md has the grammar.
#include "version/version_edit.h"

#include <functional>
#include <utility>

#include <engine/stamp_mode.h>
#include "base/coding.h"
#include "base/number_name.h"
#include "io/file_names.h"

namespace ebbtide {
namespace {

/// A program that does not know a tag with this bit may skip the field.
constexpr std::uint32_t kMaySkip = 0x40;

enum EditTag : std::uint32_t {
  kTree = 1,
  kDatabase = 2,
  kNextFile = 3,
  kNextTree = 4,
  kOldestLog = 5,
  kLastSeq = 6,
  kTimeMark = 7,
  kDatabasesSeq = 8,
  // If a reader skips this field: a damaged part of the log counts as needed unless the flushed seqs of all trees are past the
  // part.
  kCompleteSeq = 1 | kMaySkip,
  kNewestLog = 2 | kMaySkip,  // if a reader skips this field: the removal of the newest segment may go unnoticed
  kBootMark = 3 | kMaySkip,   // if a reader skips this field: engine time begins at the mark
  kWriter = 4 | kMaySkip,     // readers need not know this field: it is for people
};
enum TreeTag : std::uint32_t {
  kId = 1,
  kCreate = 2,
  kDrop = 3,
  kAddedRun = 4,
  kRemovedFile = 5,
  kAddedFile = 6,
  kRemovedRun = 7,
  kRelabeled = 8,
  kFlushedSeq = 9,
  kCursor = 10,
  kFlushes = 11,
  kLevels = 12,
  kNextRun = 13,
  kRemovedRecord = 14,
  kAddedRecord = 15,
  kPunched = 16,
  kFlushShare = 1 | kMaySkip,   // if a reader skips this field: the unit of level capacities is memtable_size
  kDeadlines = 2 | kMaySkip,    // if a reader skips this field: pending deletes have only the configured deadline
  kKeySpace = 3 | kMaySkip,     // if a reader skips this field: partitions begin at other keys for a while
  kQuarantined = 4 | kMaySkip,  // if a reader skips this field: the next read or merge finds the damage again
};

// --- writing

void put_field(std::string* out, std::uint32_t tag, Bytes payload) {
  put_varint(out, tag);
  put_bytes(out, payload);
}

template <typename... Numbers>
void put_numbers(std::string* out, std::uint32_t tag, Numbers... numbers) {
  std::string payload;
  (put_varint(&payload, static_cast<std::uint64_t>(numbers)), ...);
  put_field(out, tag, payload);
}

void put_deadlines(std::string* out, const DeadlineRule& rule) {
  std::string payload;
  put_varint(&payload, rule.deadline());
  for (const DeadlineRule::Earlier& earlier : rule.earlier()) {
    put_varint(&payload, earlier.until);
    put_varint(&payload, earlier.deadline);
  }
  put_field(out, kDeadlines, payload);
}

void encode_tree(const TreeEdit& edit, std::string* out) {
  put_numbers(out, kId, edit.tree);
  if (edit.create) put_numbers(out, kCreate, static_cast<std::uint8_t>(edit.stamp));
  if (edit.drop) put_numbers(out, kDrop);
  for (const auto& run : edit.added_runs) put_numbers(out, kAddedRun, run.id, run.level, run.before, run.newest ? 1 : 0);
  for (const auto& [run, file] : edit.removed_files) put_numbers(out, kRemovedFile, run, file);
  for (const auto& [run, file] : edit.added_files) {
    std::string payload;
    put_varint(&payload, run);
    file.encode(&payload);
    put_field(out, kAddedFile, payload);
  }
  for (const auto& [file, bytes] : edit.punched) put_numbers(out, kPunched, file, bytes);
  for (const auto& [file, damage] : edit.quarantined) {
    std::string payload;
    put_varint(&payload, file);
    put_bytes(&payload, Bytes(damage).substr(0, kMaxDamageText));
    put_field(out, kQuarantined, payload);
  }
  for (const RunId run : edit.removed_runs) put_numbers(out, kRemovedRun, run);
  for (const auto& [run, level] : edit.relabeled) put_numbers(out, kRelabeled, run, level);
  for (const SeqNum seq : edit.removed_records) put_numbers(out, kRemovedRecord, seq);
  for (const Record& r : edit.added_records) put_numbers(out, kAddedRecord, r.lo, r.hi, r.seq, r.birth);
  if (edit.flushed_seq) put_numbers(out, kFlushedSeq, *edit.flushed_seq);
  for (const auto& [level, key] : edit.cursors) {
    std::string payload;
    put_varint(&payload, static_cast<std::uint64_t>(level));
    put_bytes(&payload, key);
    put_field(out, kCursor, payload);
  }
  if (edit.flushes) put_numbers(out, kFlushes, *edit.flushes);
  if (edit.levels) put_numbers(out, kLevels, *edit.levels);
  if (edit.flush_share) put_numbers(out, kFlushShare, *edit.flush_share);
  if (edit.deadlines) put_deadlines(out, *edit.deadlines);
  if (edit.key_space) {
    std::string payload;
    put_bytes(&payload, *edit.key_space);
    put_field(out, kKeySpace, payload);
  }
  if (edit.next_run) put_numbers(out, kNextRun, *edit.next_run);
}

// --- reading

/// The payload of one field. After a missing or too large value good() returns false.
class Field {
 public:
  explicit Field(Bytes in) : in_(in) {}
  std::uint64_t number(std::uint64_t max = ~std::uint64_t{0}) {
    std::uint64_t value = 0;
    if (!get_varint(&in_, &value) || value > max) good_ = false;
    return value;
  }
  int level() { return static_cast<int>(number(kMaxLevel)); }
  std::string string() {
    std::string value;
    if (!get_string(&in_, &value)) good_ = false;
    return value;
  }
  Status file(FileMeta* out) {
    TRY_ASSIGN(file, FileMeta::decode(&in_));
    *out = std::move(file);
    return Status::ok();
  }
  /// Returns the rest of the payload, for a field that consists of fields.
  Bytes rest() { return std::exchange(in_, Bytes()); }
  /// Sets `out`, an optional value of the edit. If `out` has a value already, good() returns false: fields must not repeat.
  template <typename T>
  void once(std::optional<T>* out, std::uint64_t value) {
    if (out->has_value()) good_ = false;
    *out = static_cast<T>(value);
  }
  [[nodiscard]] bool more() const { return good_ && !in_.empty(); }
  void require(bool condition) { good_ = good_ && condition; }
  [[nodiscard]] bool good() const { return good_ && in_.empty(); }

 private:
  Bytes in_;
  bool good_ = true;
};

/// Calls `on_field` for each field; `on_field` returns false for an unknown tag. Such a field is skipped if its tag has kMaySkip;
/// otherwise the result is kUnsupported.
Status for_each_field(Bytes in, const char* what, const std::function<Result<bool>(std::uint32_t tag, Field* field)>& on_field) {
  const std::size_t total = in.size();
  while (!in.empty()) {
    const std::string where = std::string(what) + ": field at byte " + std::to_string(total - in.size());
    std::uint32_t tag = 0;
    Bytes payload;
    if (!get_varint32(&in, &tag) || !get_bytes(&in, &payload)) return Status::corruption(where + " is incomplete");
    Field field(payload);
    Result<bool> known = on_field(tag, &field);
    if (!known.is_ok()) return known.status().with_context(where);
    if (!*known) {
      if ((tag & kMaySkip) != 0) continue;
      return Status::unsupported(where + " has tag " + std::to_string(tag) + ", which this version does not know");
    }
    if (!field.good()) return Status::corruption(where + ", tag " + std::to_string(tag) + ", is malformed");
  }
  return Status::ok();
}

Result<bool> decode_tree_list(std::uint32_t tag, Field* field, TreeEdit* edit) {
  switch (tag) {
    case kAddedRun: {
      auto& run = edit->added_runs.emplace_back();
      run.id = field->number();
      run.level = field->level();
      run.before = field->number();
      run.newest = field->number(1) == 1;
      return true;
    }
    case kRemovedFile: {
      const RunId run = field->number();
      edit->removed_files.emplace_back(run, field->number());
      return true;
    }
    case kAddedFile: {
      auto& [run, file] = edit->added_files.emplace_back();
      run = field->number();
      TRY(field->file(&file));
      return true;
    }
    case kPunched: {
      const FileNum file = field->number();
      edit->punched.emplace_back(file, field->number());
      return true;
    }
    case kQuarantined: {
      const FileNum file = field->number();
      edit->quarantined.emplace_back(file, field->string());
      field->require(edit->quarantined.back().second.size() <= kMaxDamageText);
      return true;
    }
    case kRemovedRun:
      edit->removed_runs.push_back(field->number());
      return true;
    case kRelabeled: {
      const RunId run = field->number();
      edit->relabeled.emplace_back(run, field->level());
      return true;
    }
    case kRemovedRecord:
      edit->removed_records.push_back(field->number(kMaxSeqNum));
      return true;
    case kAddedRecord: {
      Record& record = edit->added_records.emplace_back();
      record.lo = field->number(kMaxDeleteKey);
      record.hi = field->number(kDeleteKeyEnd);
      record.seq = field->number(kMaxSeqNum);
      record.birth = field->number();
      field->require(record.lo < record.hi);
      return true;
    }
    case kCursor: {
      const int level = field->level();
      edit->cursors.emplace_back(level, field->string());
      return true;
    }
    default:
      return false;
  }
}

void decode_deadlines(Field* field, TreeEdit* edit) {
  field->require(!edit->deadlines);
  const Millis deadline = field->number();
  std::vector<DeadlineRule::Earlier> earlier;
  while (field->more()) {
    const Millis until = field->number();
    field->require(earlier.size() < DeadlineRule::kMostChanges && (earlier.empty() || until >= earlier.back().until));
    earlier.push_back({until, field->number()});
  }
  edit->deadlines = DeadlineRule(deadline, std::move(earlier));
}

Result<bool> decode_tree_field(std::uint32_t tag, Field* field, TreeEdit* edit) {
  switch (tag) {
    case kId:
      field->require(edit->tree == kNoTree);
      edit->tree = static_cast<TreeId>(field->number(0xffffffffu));
      field->require(edit->tree != kNoTree);
      return true;
    case kCreate:
      field->require(!edit->create);
      edit->create = true;
      edit->stamp = static_cast<StampMode>(field->number(static_cast<std::uint64_t>(kLastStampMode)));
      return true;
    case kDrop:
      edit->drop = true;
      return true;
    case kFlushedSeq:
      field->once(&edit->flushed_seq, field->number(kMaxSeqNum));
      return true;
    case kFlushes:
      field->once(&edit->flushes, field->number());
      return true;
    case kLevels:
      field->once(&edit->levels, field->number(kMaxLevel));
      return true;
    case kFlushShare:
      field->once(&edit->flush_share, field->number(FlushShare::kMost));
      return true;
    case kDeadlines:
      decode_deadlines(field, edit);
      return true;
    case kKeySpace:
      field->require(!edit->key_space);
      edit->key_space = field->string();
      return true;
    case kNextRun:
      field->once(&edit->next_run, field->number());
      return true;
    default:
      return decode_tree_list(tag, field, edit);
  }
}

Status decode_tree(Bytes in, TreeEdit* edit) {
  TRY(for_each_field(in, "tree", [edit](std::uint32_t tag, Field* field) { return decode_tree_field(tag, field, edit); }));
  if (edit->tree == kNoTree) return Status::corruption("tree: id is missing");
  return Status::ok();
}

// --- text

std::string quoted(Bytes key) {
  static const char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out + "\"";
}

std::string deadlines_text(const DeadlineRule& rule) {
  const auto text = [](Millis deadline) { return deadline == 0 ? std::string("no promise") : std::to_string(deadline) + " ms"; };
  std::string out = "deadline " + text(rule.deadline());
  for (auto e = rule.earlier().rbegin(); e != rule.earlier().rend(); ++e) {
    out += ", until " + std::to_string(e->until) + " " + text(e->deadline);
  }
  return out;
}

std::string file_text(const FileMeta& file) {
  const TableStats& s = file.stats;
  std::string out =
      std::to_string(file.data_file) + " (metadata " + std::to_string(file.metadata_file) + ") " + quoted(s.smallest) + "..";
  out += s.unbounded ? "*" : (s.largest_exclusive ? "<" : "") + quoted(s.largest);
  out += " " + std::to_string(file.data_bytes) + "+" + std::to_string(file.metadata_bytes) + " bytes, " +
         std::to_string(s.entries) + " entries, " + std::to_string(s.tombstones) + " tombstones, " +
         std::to_string(s.range_tombstones) + " range tombstones, seq " + std::to_string(s.min_seq) + ".." +
         std::to_string(s.max_seq);
  if (file.dead_bytes != 0)
    out += ", " + std::to_string(file.dead_bytes) + " bytes dead, " + std::to_string(file.punched_bytes) + " punched";
  if (file.lingering_birth != 0) out += ", names linger since " + std::to_string(file.lingering_birth);
  return out;
}

std::string tree_text(const TreeEdit& edit) {
  const std::string who = "tree " + std::to_string(edit.tree) + ": ";
  std::string out;
  const auto line = [&](const std::string& text) { out += who + text + "\n"; };
  if (edit.create) line(std::string("create, stamp ") + stamp_mode_name(edit.stamp));
  if (edit.drop) line("drop");
  for (const auto& run : edit.added_runs) {
    line("add run " + std::to_string(run.id) + " level " + std::to_string(run.level) +
         (run.newest ? " as newest"
                     : (run.before == 0 ? std::string(" as oldest") : " before run " + std::to_string(run.before))));
  }
  for (const auto& [run, file] : edit.removed_files)
    line("remove file " + std::to_string(file) + " from run " + std::to_string(run));
  for (const auto& [run, file] : edit.added_files) line("add file " + file_text(file) + " to run " + std::to_string(run));
  for (const auto& [file, bytes] : edit.punched)
    line("file " + std::to_string(file) + " has " + std::to_string(bytes) + " bytes punched");
  for (const auto& [file, damage] : edit.quarantined) {
    line("file " + std::to_string(file) + (damage.empty() ? " is no longer quarantined" : " is quarantined: " + damage));
  }
  for (const auto& [run, level] : edit.relabeled) line("run " + std::to_string(run) + " to level " + std::to_string(level));
  for (const RunId run : edit.removed_runs) line("remove run " + std::to_string(run));
  for (const SeqNum seq : edit.removed_records) line("remove record " + std::to_string(seq));
  for (const Record& record : edit.added_records) line("add record " + to_text(record));
  if (edit.flushed_seq) line("flushed seq " + std::to_string(*edit.flushed_seq));
  for (const auto& [level, key] : edit.cursors) line("cursor of level " + std::to_string(level) + " at " + quoted(key));
  if (edit.flushes) line("flushes " + std::to_string(*edit.flushes));
  if (edit.levels) line("levels " + std::to_string(*edit.levels));
  if (edit.flush_share) line("flush share " + std::to_string(*edit.flush_share));
  if (edit.deadlines) line(deadlines_text(*edit.deadlines));
  if (edit.key_space) line("key space: keys that begin with " + quoted(*edit.key_space));
  if (edit.next_run) line("next run " + std::to_string(*edit.next_run));
  if (out.empty()) line("nothing");
  return out;
}

}  // namespace

void VersionEdit::encode(std::string* out) const {
  for (const TreeEdit& tree : trees) {
    std::string payload;
    encode_tree(tree, &payload);
    put_field(out, kTree, payload);
  }
  for (const auto& [database, tree] : databases) put_numbers(out, kDatabase, database, tree);
  if (next_file) put_numbers(out, kNextFile, *next_file);
  if (next_tree) put_numbers(out, kNextTree, *next_tree);
  if (oldest_log) put_numbers(out, kOldestLog, *oldest_log);
  if (last_seq) put_numbers(out, kLastSeq, *last_seq);
  if (time_mark) put_numbers(out, kTimeMark, *time_mark);
  if (databases_seq) put_numbers(out, kDatabasesSeq, *databases_seq);
  if (complete_seq) put_numbers(out, kCompleteSeq, *complete_seq);
  if (newest_log) put_numbers(out, kNewestLog, *newest_log);
  if (boot_mark) put_numbers(out, kBootMark, boot_mark->boot, boot_mark->at);
  if (writer) {
    std::string payload;
    put_bytes(&payload, *writer);
    put_field(out, kWriter, payload);
  }
}

Result<VersionEdit> VersionEdit::decode(Bytes in) {
  VersionEdit edit;
  const auto on_field = [&edit](std::uint32_t tag, Field* field) -> Result<bool> {
    switch (tag) {
      case kDatabase: {
        const auto database = static_cast<DatabaseId>(field->number(0xffffffffu));
        edit.databases.emplace_back(database, static_cast<TreeId>(field->number(0xffffffffu)));
        return true;
      }
      case kNextFile:
        field->once(&edit.next_file, field->number(kMaxFileNum + 1));
        return true;
      case kNextTree:
        field->once(&edit.next_tree, field->number(0xffffffffu));
        return true;
      case kOldestLog:
        field->once(&edit.oldest_log, field->number(kMaxFileNum));
        return true;
      case kLastSeq:
        field->once(&edit.last_seq, field->number(kMaxSeqNum));
        return true;
      case kTimeMark:
        field->once(&edit.time_mark, field->number());
        return true;
      case kDatabasesSeq:
        field->once(&edit.databases_seq, field->number(kMaxSeqNum));
        return true;
      case kCompleteSeq:
        field->once(&edit.complete_seq, field->number(kMaxSeqNum));
        return true;
      case kBootMark: {
        const std::uint64_t boot = field->number();
        field->require(!edit.boot_mark);
        edit.boot_mark = {boot, field->number()};
        return true;
      }
      case kWriter:
        field->require(!edit.writer);
        edit.writer = field->string();
        return true;
      case kNewestLog:
        field->once(&edit.newest_log, field->number(kMaxFileNum));
        return true;
      case kTree:
        TRY(decode_tree(field->rest(), &edit.trees.emplace_back()));
        return true;
      default:
        return false;
    }
  };
  TRY(for_each_field(in, "edit", on_field));
  return edit;
}

std::string VersionEdit::to_text() const {
  std::string out;
  for (const TreeEdit& tree : trees) out += tree_text(tree);
  for (const auto& [database, tree] : databases) {
    out += number_name(database) + " is " + (tree == kNoTree ? "no tree" : "tree " + std::to_string(tree)) + "\n";
  }
  if (next_file) out += "next file " + std::to_string(*next_file) + "\n";
  if (next_tree) out += "next tree " + std::to_string(*next_tree) + "\n";
  if (oldest_log) out += "oldest log " + std::to_string(*oldest_log) + "\n";
  if (newest_log) out += "newest log " + std::to_string(*newest_log) + "\n";
  if (last_seq) out += "last seq " + std::to_string(*last_seq) + "\n";
  if (databases_seq) out += "databases seq " + std::to_string(*databases_seq) + "\n";
  if (complete_seq) out += "complete seq " + std::to_string(*complete_seq) + "\n";
  if (time_mark) out += "time mark " + std::to_string(*time_mark) + "\n";
  if (boot_mark) {
    out += "boot " + std::to_string(boot_mark->boot) + " reaches the mark at " + std::to_string(boot_mark->at) + " ms\n";
  }
  if (writer) out += "written by " + quoted(*writer) + "\n";
  return out;
}

}  // namespace ebbtide
