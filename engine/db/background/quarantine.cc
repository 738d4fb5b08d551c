#include "db/background/quarantine.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "compaction/parallel.h"
#include "io/errno_status.h"
#include "io/file_names.h"
#include "table/metadata.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kFirstCheckNs = 60 * kSecondNs, kLongestCheckNs = 3600 * kSecondNs;
constexpr unsigned kDeviceTries = 4;           // a file that the system fails to read is checked after 1, 3, 7 and 15 s
constexpr std::uint64_t kLinesPerMinute = 10;  // most lines about quarantined files in the text log
constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

enum class Finding : std::uint8_t { kDamage, kDevice, kOther };

Finding kind_of(const Status& status) {
  if (status.code() == Code::kCorruption || status.is_not_found()) return Finding::kDamage;
  return is_file_error(status) ? Finding::kDevice : Finding::kOther;
}

std::string line_of(TreeId tree, const Status& status) {
  return "tree " + std::to_string(tree) + ": a table is quarantined: " + status.to_string();
}

bool has_file(const Version& version, const FileMetaPtr& file) {
  return std::any_of(version.runs.begin(), version.runs.end(),
                     [&](const Run& run) { return std::find(run.files.begin(), run.files.end(), file) != run.files.end(); });
}

}  // namespace

Quarantine::Place Quarantine::find(FileNum data_file) const {
  for (const auto& tables : env_.live_tables()) {
    for (const Run& run : tables->version->runs) {
      for (const FileMetaPtr& file : run.files) {
        if (file->data_file == data_file) return {tables->version->tree, file, tables};
      }
    }
  }
  return {};
}

// --- into quarantine

void Quarantine::report(FileNum data_file, const std::vector<Status>& errors) {
  for (const Status& error : errors) reports_.report(data_file, error);
}

Status Quarantine::take_reports() {
  const Status status = quarantine_reported();
  if (status.code() == Code::kAborted) return Status::ok();
  if (!status.is_ok()) env_.failed(status);
  return status;
}

Status Quarantine::quarantine_reported() {
  std::map<FileNum, Status> reports;
  std::vector<std::string> lines;
  std::vector<FileNum> files;
  std::vector<TreeId> changed;
  TableChange change;
  // commit() calls make() while no other edit runs. So when this function returns, all reports are handled, even reports that
  // another thread has taken from reports_.
  change.make = [&](const Versions& trees) {
    VersionEdit edit;
    reports = reports_.take();
    if (reports.empty()) return edit;
    for (const auto& [id, version] : trees) {
      TreeEdit tree;
      tree.tree = id;
      for (const Run& run : version->runs) {
        for (const FileMetaPtr& file : run.files) {
          const auto report = reports.find(file->data_file);
          if (report == reports.end() || file->quarantined()) continue;
          if (kind_of(report->second) == Finding::kDevice) checks_.add(file->data_file, env_.clock->mono_ns(), kSecondNs);
          if (kind_of(report->second) != Finding::kDamage) continue;
          tree.quarantined.emplace_back(file->data_file, report->second.to_string());
          files.push_back(file->data_file);
          lines.push_back(line_of(id, report->second));
        }
      }
      if (tree.quarantined.empty()) continue;
      changed.push_back(id);
      edit.trees.push_back(std::move(tree));
    }
    return edit;
  };
  const Status status = env_.commit(change);
  if (!status.is_ok()) {
    for (const auto& [file, what] : reports) reports_.report(file, what);
    return status;
  }
  for (const FileNum file : files) {
    checks_.remove(file);
    checks_.add(file, env_.clock->mono_ns(), kFirstCheckNs);
  }
  log_quarantined(lines);
  if (!reports.empty()) env_.changed(changed);
  return Status::ok();
}

// A failing drive may damage thousands of tables: the log names the first few, TREE.INFO names all.
void Quarantine::log_quarantined(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    std::uint64_t logged = 0;
    {
      MutexLock lock(log_mutex_);
      const std::uint64_t now = env_.clock->mono_ns();
      if (now - lines_since_ns_ >= 60 * kSecondNs) {
        lines_since_ns_ = now;
        lines_ = 0;
      }
      logged = lines_++;
    }
    if (logged < kLinesPerMinute) env_.log(Severity::kError, line);
    if (logged == kLinesPerMinute) env_.log(Severity::kError, "more tables are quarantined; TREE.INFO names each");
  }
}

void Quarantine::tick() {
  if (!env_.writable()) return;
  if (reports_.pending() && !reports_queued_.exchange(true)) {
    env_.submit_soon([this] {
      reports_queued_ = false;
      (void)take_reports();
    });
  }
  if (reading_) return;
  const std::optional<FileNum> due = checks_.next(env_.clock->mono_ns(), kLongestCheckNs);
  if (!due) return;
  reading_ = true;
  env_.submit([this, file = *due] {
    if (!env_.closing()) read_again(file);
    reading_ = false;
  });
}

// --- checks of files that were reported

void Quarantine::read_again(FileNum file) {
  const Place place = find(file);
  if (place.meta == nullptr) return checks_.remove(file);
  TableCheck unused;
  const std::vector<Status> errors = env_.read(*place.meta, env_.closing, &unused);
  if (env_.closing() || find(file).meta != place.meta) return;
  if (place.meta->quarantined()) {
    if (!errors.empty()) return;
    if (const Status status = end(place); !status.is_ok() && status.code() != Code::kAborted)
      env_.log(Severity::kWarning, "a table is intact again, but its quarantine cannot end yet: " + status.to_string());
    return;
  }
  if (errors.empty()) return checks_.remove(file);
  const bool only_device =
      std::all_of(errors.begin(), errors.end(), [](const Status& e) { return kind_of(e) != Finding::kDamage; });
  if (only_device && (kind_of(errors.front()) != Finding::kDevice || checks_.failed(file) < kDeviceTries)) return;
  checks_.remove(file);
  reports_.report(file, only_device ? Status::corruption("cannot be read after " + std::to_string(kDeviceTries) +
                                                         " tries: " + errors.front().to_string())
                                    : errors.front());
  (void)take_reports();
}

// --- the end of a quarantine

Status Quarantine::found_whole(FileNum data_file) {
  const Place place = find(data_file);
  if (place.meta == nullptr || !place.meta->quarantined()) return Status::ok();
  const Status status = end(place);
  return status.code() == Code::kAborted ? Status::ok() : status;
}

// Ends the quarantine of a file that is whole. Returns kAborted if a concurrent edit has removed the file from its tree.
Status Quarantine::end(const Place& place) {
  const FileMeta& meta = *place.meta;
  TRY_ASSIGN(reader, env_.open(meta));
  if (meta.dead_bytes != 0) {
    TRY_ASSIGN(pinned, reader->pinned());
    TRY(write_clean_copy(place, *pinned));
    TRY_ASSIGN(clean, env_.open(meta));
    reader = std::move(clean);
  }
  bool is_there = false;
  TableChange change;
  change.opened = {{meta.metadata_file, reader}};
  change.make = [&](const Versions& trees) {
    VersionEdit edit;
    const auto version = trees.find(place.tree);
    is_there = version != trees.end() && has_file(*version->second, place.meta);
    if (!is_there) return edit;
    TreeEdit& tree = edit.trees.emplace_back();
    tree.tree = place.tree;
    tree.quarantined.emplace_back(meta.data_file, "");
    return edit;
  };
  // Drops pending reports of the file: they describe the file before it was replaced.
  change.installed = [&] { reports_.forget(meta.data_file); };
  TRY(env_.commit(change));
  if (!is_there) return Status::aborted("");
  checks_.remove(meta.data_file);
  env_.log(Severity::kInfo, "tree " + std::to_string(place.tree) + ": " + data_file_name(meta.data_file) +
                                " is intact again and no longer quarantined");
  env_.changed({place.tree});
  return Status::ok();
}

// Replaces the data file by a copy that has zeros instead of dropped pages. The copy has a single name, and has holes if the file
// system can punch holes.
Status Quarantine::write_clean_copy(const Place& place, const TableInspector& reader) {
  FileSystem& fs = *env_.fs;
  const std::string name = data_file_name(place.meta->data_file);
  const std::string path = join_path(env_.dir, name), temporary = path + std::string(kTemporarySuffix);
  if (fs.exists(temporary)) TRY(fs.unlink(temporary));
  const auto write = [&]() -> Status {
    TRY_ASSIGN(from, fs.open(path));
    TRY_ASSIGN(to, fs.create(temporary));
    std::string buffer;
    const auto append = [&](std::uint64_t begin, std::uint64_t end, bool dead) -> Status {
      while (begin < end) {
        buffer.assign(std::min<std::uint64_t>(kCopyBytes, end - begin), '\0');
        if (!dead) TRY(from->read(begin, buffer.size(), buffer.data()));
        TRY(to->append(buffer));
        begin += buffer.size();
      }
      return Status::ok();
    };
    std::uint64_t at = 0;
    for (const FileExtent& extent : reader.dead_extents()) {
      TRY(append(at, extent.offset, false));
      at = std::min(extent.offset + extent.length, place.meta->data_bytes);
      TRY(append(extent.offset, at, true));
    }
    TRY(append(at, place.meta->data_bytes, false));
    TRY(to->sync());
    return to->close();
  };
  Status status = write();
  if (status.is_ok()) {
    for (const FileExtent& extent : reader.dead_extents()) (void)fs.punch_hole(temporary, extent.offset, extent.length);
    status = fs.sync_file(temporary);
  }
  if (status.is_ok()) {
    // The bytes of the replaced file stay on disk until its readers close the file.
    for (const auto& table : place.tables->readers_of(place.meta->data_file)) {
      env_.ledger->leave({name + ".replaced", place.meta->data_bytes, {{place.tree, env_.floor(place.tree)}}, table});
    }
    MutexLock link(*env_.link_mutex);
    status = fs.rename(temporary, path);
  }
  if (!status.is_ok()) {
    (void)fs.unlink(temporary);
    return status;
  }
  return fs.sync_dir(env_.dir);
}

// --- when the database opens

// A restored file may contain dropped pages again, so they are punched before the file is read.
Status Quarantine::punch_restored(const FileMeta& meta, const TableInspector& reader) {
  if (meta.dead_bytes == 0) return Status::ok();
  const std::string path = join_path(env_.dir, data_file_name(meta.data_file));
  TRY_ASSIGN(links, env_.fs->link_count(path));
  if (links > 1) return Status::unsupported(path + ": has another name (a hard link), so its dropped pages cannot be punched");
  for (const FileExtent& extent : reader.dead_extents()) TRY(env_.fs->punch_hole(path, extent.offset, extent.length));
  return env_.fs->sync_file(path);
}

std::vector<Quarantine::Opening> Quarantine::choose_read_now(const Versions& trees, const std::vector<std::string>& names) {
  std::unordered_set<FileNum> present;  // a number belongs to one file, whatever its kind
  present.reserve(names.size());
  for (const std::string& name : names) {
    FileKind kind{};
    FileNum number = kNoFile;
    if (parse_file_name(name, &kind, &number) && (kind == FileKind::kData || kind == FileKind::kMetadata)) present.insert(number);
  }
  std::vector<Opening> tables;
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  for (const auto& [id, version] : trees) {
    for (const Run& run : version->runs) {
      for (const FileMetaPtr& file : run.files) {
        const bool first = count < kReadAtOpen && bytes < kReadAtOpenBytes;
        const bool missing = !present.contains(file->data_file) || !present.contains(file->metadata_file);
        if (first || missing || file->quarantined()) tables.push_back({.tree = id, .file = file});
        if (!first) continue;
        ++count;
        bytes += file->metadata_bytes;
      }
    }
  }
  return tables;
}

void Quarantine::open_now(Opening* table) {
  auto reader = env_.open(*table->file);
  for (unsigned tries = 1; tries < kDeviceTries && kind_of(reader.status()) == Finding::kDevice; ++tries)
    reader = env_.open(*table->file);
  table->status = as_damage(reader.status());
  if (table->status.is_ok() && table->file->quarantined()) {
    const auto pinned = (*reader)->pinned();
    table->status = pinned.is_ok() ? punch_restored(*table->file, **pinned) : pinned.status();
  }
  if (table->status.is_ok()) table->reader = std::move(reader).value();
}

Result<Quarantine::OpenedTables> Quarantine::open_tables(const Versions& trees, const std::vector<std::string>& names,
                                                         VersionEdit* edit, BackgroundPool* pool) {
  std::vector<Opening> tables = choose_read_now(trees, names);
  std::size_t all = 0;
  for (const auto& [id, version] : trees) {
    for (const Run& run : version->runs) all += run.files.size();
  }
  if (tables.size() < all) {
    env_.log(Severity::kInfo, "opening " + std::to_string(all) + " tables: " + std::to_string(tables.size()) +
                                  " are read now, the others when they are first needed");
  }
  run_parts(pool, tables.size(), [&](std::size_t i) { open_now(&tables[i]); });
  OpenedTables opened;
  std::vector<std::string> lines;
  std::map<TreeId, TreeEdit> changes;
  for (Opening& table : tables) {
    const FileMeta& file = *table.file;
    const Status& status = table.status;
    if (!status.is_ok() && kind_of(status) == Finding::kOther && !file.quarantined()) return status;
    if (file.quarantined()) {
      checks_.add(file.data_file, env_.clock->mono_ns(), kSecondNs);
    } else if (!status.is_ok()) {
      checks_.add(file.data_file, env_.clock->mono_ns(), kind_of(status) == Finding::kDevice ? kSecondNs : kFirstCheckNs);
      changes[table.tree].quarantined.emplace_back(file.data_file, status.to_string());
      lines.push_back(line_of(table.tree, status));
    }
    if (!status.is_ok()) table.reader = env_.open_unreadable(file, status);
    opened.emplace(file.metadata_file, std::move(table.reader));
  }
  for (auto& [id, change] : changes) {
    change.tree = id;
    edit->trees.push_back(std::move(change));
  }
  log_quarantined(lines);
  return opened;
}

}  // namespace ebbtide
