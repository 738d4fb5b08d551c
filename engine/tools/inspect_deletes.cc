// Prints the pending deletes of a data directory: by level, by file, and in the log. Ages and deadlines follow the engine's
// rules: a tombstone keeps the birth of its delete; an expiry that has passed is a delete born at the expiry.
//
// Due times follow the promise in the manifest (deletes/deadline.h), or a given deadline. A deadline in a configuration file that
// was changed later applies from the next start on. Trees without a promise in the manifest have no due times.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>

#include <engine/write_batch.h>
#include "base/oldest.h"
#include "deletes/deadline.h"
#include "io/file_names.h"
#include "tools/inspect.h"
#include "wal/batch_group.h"
#include "wal/log_reader.h"

namespace ebbtide {
namespace {

/// Engine time is at most this many ms behind the persisted mark.
constexpr Millis kMarkAhead = 10'000;

/// A table of text. Each column is as wide as its widest cell. The first column is aligned left, the other columns right.
class Table {
 public:
  explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] bool empty() const { return rows_.size() == 1; }
  [[nodiscard]] std::string str() const {
    std::vector<std::size_t> width(rows_[0].size(), 0);
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
    }
    std::string out;
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string pad(width[i] - row[i].size(), ' ');
        line += (i == 0 ? row[i] + pad : "  " + pad + row[i]);
      }
      out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string size_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

std::string time_text(Millis unix_ms) {
  const std::time_t seconds = static_cast<std::time_t>(std::min<Millis>(unix_ms / 1000, Millis{253'402'300'799}));
  std::tm parts{};
  char text[32];
  if (::gmtime_r(&seconds, &parts) == nullptr || std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%SZ", &parts) == 0) return "?";
  return text;
}

/// Sums over the files of one level or of the whole tree, with their pending deletes.
struct Owed {
  std::uint64_t runs = 0, files = 0, bytes = 0, entries = 0, tombstones = 0, ranges = 0, debts = 0, expired_files = 0;
  Millis oldest = 0;

  void add(const FileMeta& meta, const FileShape& shape, Millis now) {
    ++files;
    bytes += shape.bytes;
    entries += shape.entries;
    tombstones += shape.tombstones;
    ranges += shape.range_tombstones;
    debts += meta.stats.debts;
    if (meta.stats.min_expiry != 0 && meta.stats.min_expiry <= now) ++expired_files;
    oldest = older(oldest, shape.oldest_birth);
  }
};

class Report {
 public:
  Report(const DeletesQuery& query, Millis now, Inspection* out) : query_(query), now_(now), out_(out) {}

  void tree(const Version& version, const std::map<DatabaseId, TreeId>& databases) {
    const DatabasesOf of = databases_of(version.tree, databases);
    rule_ = query_.deadline != 0 ? DeadlineRule(query_.deadline) : version.deadlines.value_or(DeadlineRule());
    const TreeShape shape = version.shape(0, 0, 0, now_, [](FileNum) { return false; });
    std::map<int, Owed> levels;
    Owed total;
    std::vector<Debtor> debtors;
    for (std::size_t r = 0; r < version.runs.size(); ++r) {
      const Run& run = version.runs[r];
      if (run.files.empty()) continue;
      ++levels[run.level].runs;
      ++total.runs;
      for (std::size_t f = 0; f < run.files.size(); ++f) {
        FileShape file = shape.runs[r].files[f];
        // `shape` is for policies, which ignore deletes that need no merge: lingering names and pages to punch. These deletes
        // are pending too.
        file.oldest_birth = older(file.oldest_birth, run.files[f]->oldest_obligation());
        levels[run.level].add(*run.files[f], file, now_);
        total.add(*run.files[f], file, now_);
        if (file.oldest_birth != 0) debtors.push_back({&run, run.files[f].get(), file});
      }
    }
    JsonObject json;
    json.add("tree", version.tree).add("databases", of.ids).add("delete_deadline_ms", rule_.deadline());
    out_->text += "tree " + std::to_string(version.tree) + of.text + ": " + std::to_string(total.runs) + " runs, " +
                  std::to_string(total.files) + " files, " + size_text(total.bytes) + promise_text() + "\n";
    by_level(levels, total, &json);
    by_file(std::move(debtors), &json);
    trees_.add(json.str());
  }

  /// `oldest_log`: number of the segment at which the log begins.
  void log(FileSystem& fs, const std::string& dir, FileNum oldest_log) {
    const auto numbers = files_of_kind(fs, dir, static_cast<int>(FileKind::kLog));
    if (!numbers.is_ok()) return out_->error(numbers.status());
    Written written;
    LogPieces pieces(fs, dir, oldest_log);
    for (const FileNum number : *numbers) {
      const auto on_record = [&](std::string group, std::uint64_t offset) {
        const Status status = each_batch(group, [&](Bytes payload) { return count_deletes(payload, &written); });
        if (!status.is_ok()) out_->error(status.with_context(log_file_name(number) + ": record at " + std::to_string(offset)));
        return Status::ok();
      };
      const auto end = read_log(fs, dir, number, on_record, {}, &pieces);
      if (!end.is_ok()) {
        out_->error(end.status().with_context(log_file_name(number)));
        continue;
      }
      written.bytes += end->valid_bytes;
      if (!end->clean && (end->valid_after || number != numbers->back())) out_->errors.push_back("corruption: " + end->what);
    }
    const std::string oldest =
        written.oldest == 0 ? ""
                            : "; the oldest was written " + age_text(written.oldest) + " ago, at " + time_text(written.oldest);
    out_->text += "log: " + std::to_string(numbers->size()) + (numbers->size() == 1 ? " segment, " : " segments, ") +
                  size_text(written.bytes) + ", " + std::to_string(written.deletes) + " deletes" + oldest + "\n";
    out_->json.add("log", JsonObject()
                              .add("segments", numbers->size())
                              .add("bytes", written.bytes)
                              .add("deletes", written.deletes)
                              .add("oldest_delete_ms", written.oldest));
  }

  void finish() { out_->json.add("trees", trees_); }

 private:
  struct Debtor {
    const Run* run;
    const FileMeta* meta;
    FileShape shape;
  };
  struct Written {
    std::uint64_t bytes = 0, deletes = 0;
    Millis oldest = 0;
  };

  [[nodiscard]] std::string age_text(Millis birth) const {
    return birth == 0 ? "-" : duration_text(now_ - std::min(birth, now_));
  }
  [[nodiscard]] std::string due_text(Millis birth) const {
    const Millis due = birth == 0 ? DeadlineRule::kNever : rule_.due(birth);
    if (due == DeadlineRule::kNever) return "-";
    return now_ < due ? duration_text(due - now_) : "late by " + duration_text(now_ - due);
  }
  [[nodiscard]] std::string promise_text() const {
    std::string text;
    if (rule_.deadline() != 0) text += ", deadline " + duration_text(rule_.deadline());
    if (!rule_.earlier().empty()) text += ", changed " + age_text(rule_.earlier().back().until) + " ago";
    return text;
  }
  /// Adds the times of a pending delete born at `birth` to JSON: Unix ms, and durations in ms.
  void add_times(Millis birth, JsonObject* json) const {
    json->add("oldest_birth_ms", birth).add("age_ms", birth == 0 ? 0 : now_ - std::min(birth, now_));
    const Millis due = birth == 0 ? DeadlineRule::kNever : rule_.due(birth);
    if (due == DeadlineRule::kNever) return;
    json->add("deadline_ms", due);
    json->raw("overdue", now_ >= due ? "true" : "false");
  }

  [[nodiscard]] std::vector<std::string> cells(const std::string& name, const Owed& o) const {
    return {name,
            std::to_string(o.runs),
            std::to_string(o.files),
            size_text(o.bytes),
            std::to_string(o.entries),
            std::to_string(o.tombstones),
            std::to_string(o.ranges),
            std::to_string(o.debts),
            std::to_string(o.expired_files),
            age_text(o.oldest),
            due_text(o.oldest)};
  }

  void by_level(const std::map<int, Owed>& levels, const Owed& total, JsonObject* json) {
    Table table(
        {"level", "runs", "files", "size", "entries", "tombstones", "ranges", "debts", "files with expired", "oldest", "due in"});
    JsonArray rows;
    for (const auto& [level, owed] : levels) {
      table.row(cells("L" + std::to_string(level), owed));
      JsonObject row;
      row.add("level", static_cast<std::uint64_t>(level))
          .add("runs", owed.runs)
          .add("files", owed.files)
          .add("bytes", owed.bytes);
      row.add("entries", owed.entries).add("tombstones", owed.tombstones).add("range_tombstones", owed.ranges);
      row.add("debts", owed.debts).add("files_with_expired", owed.expired_files);
      add_times(owed.oldest, &row);
      rows.add(row.str());
    }
    if (levels.size() > 1) table.row(cells("all", total));
    if (!table.empty()) out_->text += table.str();
    json->add("levels", rows);
  }

  void by_file(std::vector<Debtor> debtors, JsonObject* json) {
    std::stable_sort(debtors.begin(), debtors.end(),
                     [](const Debtor& a, const Debtor& b) { return a.shape.oldest_birth < b.shape.oldest_birth; });
    const std::size_t shown = std::min(debtors.size(), query_.files);
    if (debtors.empty()) {
      out_->text += "no file has pending deletes\n\n";
    } else {
      out_->text += "\n" + (debtors.size() == 1 ? "1 file has" : std::to_string(debtors.size()) + " files have") +
                    " pending deletes, oldest first" +
                    (shown < debtors.size() ? " (listed: " + std::to_string(shown) + "; --files lists more)" : "") + "\n";
    }
    Table table({"file", "level", "run", "size", "tombstones", "ranges", "debts", "oldest delete", "born", "age", "due in"});
    JsonArray rows;
    for (std::size_t i = 0; i < shown; ++i) {
      const auto& [run, meta, shape] = debtors[i];
      table.row({data_file_name(shape.num), "L" + std::to_string(run->level), std::to_string(run->id), size_text(shape.bytes),
                 std::to_string(shape.tombstones), std::to_string(shape.range_tombstones), std::to_string(meta->stats.debts),
                 cause(*meta, shape.oldest_birth), time_text(shape.oldest_birth), age_text(shape.oldest_birth),
                 due_text(shape.oldest_birth)});
      JsonObject row;
      row.add("file", data_file_name(shape.num)).add("level", static_cast<std::uint64_t>(run->level)).add("run", run->id);
      row.add("bytes", shape.bytes).add("tombstones", shape.tombstones).add("range_tombstones", shape.range_tombstones);
      row.add("debts", meta->stats.debts).add("owes_to", cause(*meta, shape.oldest_birth));
      add_times(shape.oldest_birth, &row);
      rows.add(row.str());
    }
    if (shown != 0) out_->text += table.str() + "\n";
    json->add("files_owing", debtors.size()).add("files", rows);
  }

  /// Returns the kind of the file's oldest pending delete.
  static const char* cause(const FileMeta& meta, Millis birth) {
    const TableStats& s = meta.stats;
    if (birth == s.oldest_tombstone) return "tombstone";
    if (birth == s.oldest_range_tombstone) return "range";
    if (birth == s.oldest_debt) return "debt";
    if (birth == s.min_expiry) return "expiry";
    if (birth == meta.dead_birth) return "punching";
    return birth == meta.lingering_birth ? "names" : "record";
  }

  static Status count_deletes(Bytes payload, Written* written) {
    TRY_ASSIGN(batch, WriteBatch::parse(std::string(payload)));
    std::size_t cursor = 0;
    for (WriteBatch::Op op; batch.next_op(&cursor, &op);) {
      const bool is_delete = op.kind == OpKind::kTombstone || op.kind == OpKind::kRangeTombstone ||
                             op.kind == OpKind::kSecondaryDelete || op.kind == OpKind::kFlushDatabase || op.debt;
      if (!is_delete) continue;
      ++written->deletes;
      written->oldest = older(written->oldest, older(batch.time(), op.birth));
    }
    return Status::ok();
  }

  const DeletesQuery query_;
  const Millis now_;
  Inspection* const out_;
  DeadlineRule rule_;  ///< rule of the tree that is being printed
  JsonArray trees_;
};

}  // namespace

std::string duration_text(Millis ms) {
  const auto two = [](Millis a, const char* unit, Millis b, const char* smaller) {
    return std::to_string(a) + unit + (b == 0 ? "" : " " + std::to_string(b) + smaller);
  };
  const Millis s = ms / 1000;
  if (ms < 1000) return std::to_string(ms) + "ms";
  if (s < 60) return std::to_string(s) + "s";
  if (s < 3600) return two(s / 60, "m", s % 60, "s");
  if (s < 172'800) return two(s / 3600, "h", s / 60 % 60, "m");
  return two(s / 86'400, "d", s / 3600 % 24, "h");
}

Result<Millis> parse_duration(const std::string& text) {
  static const std::map<std::string, Millis> kUnits = {
      {"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto unit = kUnits.find(text.substr(digits));
  if (digits == 0 || digits > 12 || unit == kUnits.end()) {
    return Status::invalid_argument("'" + text + "' is not allowed; allowed: a number and ms, s, m, h or d, like 24h");
  }
  return static_cast<Millis>(std::stoull(text.substr(0, digits))) * unit->second;
}

Inspection inspect_deletes(FileSystem& fs, const std::string& dir, const DeletesQuery& query) {
  Inspection out;
  const auto loaded = load_manifest(fs, dir);
  if (!loaded.is_ok()) return out.error(loaded.status()), out;
  const Millis mark = loaded->state.time_mark;
  const Millis now = mark > query.wall_ms && mark - query.wall_ms > kMarkAhead ? mark : query.wall_ms;
  out.text += "at " + time_text(now) + ", deadline " +
              (query.deadline == 0 ? std::string("by the manifest") : duration_text(query.deadline)) + "\n\n";
  out.json.add("now_ms", now);
  Report report(query, now, &out);
  for (const auto& [id, version] : loaded->state.trees) report.tree(*version, loaded->state.databases);
  report.log(fs, dir, loaded->state.oldest_log);
  report.finish();
  return out;
}

}  // namespace ebbtide
