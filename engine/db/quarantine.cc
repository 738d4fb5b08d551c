// Damage costs what is in one file, not the service.
//
// Whoever reads a table and meets damage reports it (DamageSink): a get, a walk, a merge, a page drop, the scrub, verify, open. The
// file is then *quarantined*, by an edit of the manifest, so that a restart neither forgets it nor runs into it again:
//
//   plans   No plan takes it, and none goes past it: its range is frozen (tree/frozen.h). It stays an older run that may hold
//           anything there, so nothing above it becomes final.
//   reads   Pages that are whole go on answering, each under its checksum. What needs a damaged page answers with the error. If the
//           file could not be opened at all, that is whatever no newer run decides in its range (TableReader::unreadable).
//   due     Deletes that it keeps in the files are late by `damage` (clean.cc).
//
// It ends when the file goes (the database is emptied, or a range delete covers all of it), or when the file is found whole: read from
// the first byte to the last and equal to what the manifest says. Then an operator has put a copy in its place, or the device has
// come to its senses. Pages that were dropped since a copy was made are in it again; so it is written anew without them before the
// quarantine ends. Quarantined files are read again after a minute, then ever more rarely, and by verify() at once.
//
// An error of the device (EIO) is no damage yet: the file is read again, up to kDeviceTries times. If the device fails each time,
// the file is quarantined.
#include <algorithm>
#include <set>
#include <utility>

#include "compaction/table_files.h"
#include "db/db_impl.h"
#include "io/errno_status.h"
#include "io/file_names.h"
#include "table/metadata.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kFirstCheckNs = 60 * kSecondNs, kLongestCheckNs = 3600 * kSecondNs;
constexpr unsigned kDeviceTries = 4;           // after 1, 3, 7 and 15 s
constexpr std::uint64_t kLinesPerMinute = 10;  // of the log
constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

enum class Finding : std::uint8_t { kDamage, kDevice, kOther };

Finding kind_of(const Status& status) {
  if (status.code() == Code::kCorruption || status.is_not_found()) return Finding::kDamage;
  return is_device_error(status) ? Finding::kDevice : Finding::kOther;
}

/// A missing file is damage, too.
Status damage_of(const Status& status) {
  return status.is_not_found() ? Status::corruption("is missing: " + std::string(status.message())) : status;
}

}  // namespace

std::vector<std::string> DbImpl::damage() {
  std::vector<std::string> lines;
  for (DatabaseId d = 0; d < settings_.databases; ++d) {
    const TreePtr tree = tree_of(d);
    if (tree == nullptr) continue;
    MutexLock lock(state_mutex_);
    if (tree->view_owner == nullptr) continue;
    for (const FileMetaPtr& file : tree->view_owner->tables->quarantined) {
      lines.push_back("database " + std::to_string(d) + ": " + file->damage);
    }
  }
  return lines;
}

// --- into quarantine

/// Deals with what was reported. The caller holds no lock.
Status DbImpl::take_damage() {
  std::vector<TreePtr> changed;
  Status status;
  {
    MutexLock manifest(manifest_mutex_);
    // Under the lock: another thread that has taken a report is done with it before this returns.
    const std::map<FileNum, Status> reports = damage_reports_.take();
    if (reports.empty() || closing_) return Status::ok();
    status = quarantine(reports, &changed);
    if (!status.is_ok()) {
      for (const auto& [file, what] : reports) damage_reports_.report(file, what);
    }
  }
  if (!status.is_ok()) {
    background_failed(status, "quarantine");
    return status;
  }
  update_pressure();
  for (const TreePtr& tree : changed) schedule_compactions(tree);
  return Status::ok();
}

Status DbImpl::quarantine(const std::map<FileNum, Status>& reports, std::vector<TreePtr>* changed) {
  VersionEdit edit;
  std::vector<std::string> lines;
  std::vector<FileNum> files;
  for (const auto& [id, version] : versions_->trees()) {
    TreeEdit change;
    change.tree = id;
    for (const Run& run : version->runs) {
      for (const FileMetaPtr& file : run.files) {
        const auto report = reports.find(file->data_file);
        if (report == reports.end() || file->quarantined()) continue;
        if (kind_of(report->second) == Finding::kDevice) file_checks_.add(file->data_file, clock_.mono_ns(), kSecondNs);
        if (kind_of(report->second) != Finding::kDamage) continue;
        change.quarantined.emplace_back(file->data_file, report->second.to_string());
        files.push_back(file->data_file);
        lines.push_back("tree " + std::to_string(id) + ": a table is quarantined: " + report->second.to_string());
      }
    }
    if (!change.quarantined.empty()) edit.trees.push_back(std::move(change));
  }
  if (edit.trees.empty()) return Status::ok();
  std::vector<TreeId> trees;
  for (const TreeEdit& change : edit.trees) trees.push_back(change.tree);
  TRY(commit_edit(std::move(edit)));
  for (const TreeId id : trees) {
    const TreePtr tree = tree_with(id);
    if (tree == nullptr || !install(*tree, {}, 0).is_ok()) continue;  // it goes as a whole
    changed->push_back(tree);
  }
  for (const FileNum file : files) {
    file_checks_.remove(file);
    file_checks_.add(file, clock_.mono_ns(), kFirstCheckNs);
  }
  tell_quarantined(lines);
  return Status::ok();
}

/// A failing drive may cost thousands of tables: the first few are named, the rest TREE.INFO has.
void DbImpl::tell_quarantined(const std::vector<std::string>& lines) {
  const std::uint64_t now = clock_.mono_ns();
  if (now - quarantine_lines_since_ns_ >= 60 * kSecondNs) {
    quarantine_lines_since_ns_ = now;
    quarantine_lines_ = 0;
  }
  for (const std::string& line : lines) {
    const std::uint64_t logged = quarantine_lines_++;
    if (logged < kLinesPerMinute) say(Severity::kError, line);
    if (logged == kLinesPerMinute) say(Severity::kError, "more tables are quarantined; TREE.INFO names each");
  }
}

/// Whether an input of the plan is quarantined by now.
bool DbImpl::takes_quarantined(const Tree& tree, const Plan& plan) {
  std::set<FileNum> quarantined;
  {
    MutexLock lock(state_mutex_);
    if (tree.view_owner == nullptr) return true;  // it is dropped
    for (const FileMetaPtr& file : tree.view_owner->tables->quarantined) quarantined.insert(file->data_file);
  }
  for (const PlanInput& input : inputs_of(plan)) {
    for (const FileNum file : input.files) {
      if (quarantined.count(file) != 0) return true;
    }
  }
  return false;
}

void DbImpl::schedule_damage_work() {
  bool healthy = false;
  {
    MutexLock lock(state_mutex_);
    healthy = background_error_.is_ok() && !closing_;
  }
  if (!healthy) return;
  if (damage_reports_.pending() && !damage_queued_.exchange(true)) {
    submit(Priority::kHigh, [this] {
      damage_queued_ = false;
      (void)take_damage();
    });
  }
  if (checking_) return;
  const std::optional<FileNum> due = file_checks_.next(clock_.mono_ns(), kLongestCheckNs);
  if (!due) return;
  checking_ = true;
  submit(Priority::kLow, [this, file = *due] {
    if (!closing_) check_again(file);
    checking_ = false;
  });
}

/// What verify, the scrub or a check found wrong with a table.
void DbImpl::report_errors(FileNum file, const std::vector<Status>& errors) {
  for (const Status& error : errors) damage_reports_.report(file, error);
}

// --- reading it again

DbImpl::FilePlace DbImpl::place_of(FileNum data_file) {
  for (const TreePtr& tree : live_trees()) {
    std::shared_ptr<const TablesView> tables;
    {
      MutexLock lock(state_mutex_);
      if (tree->view_owner != nullptr) tables = tree->view_owner->tables;
    }
    if (tables == nullptr) continue;
    for (const Run& run : tables->version->runs) {
      for (const FileMetaPtr& file : run.files) {
        if (file->data_file == data_file) return {tree, file, tables};
      }
    }
  }
  return {};
}

/// Opens the table anew, past the system's page cache, and reads all of it.
std::vector<Status> DbImpl::read_whole(const FileMeta& meta, const std::function<bool()>& stopped, VerifyReport* report) {
  const auto reader = TableReader::open({&fs_, nullptr, settings_.dir, true}, files_of(meta));
  if (!reader.is_ok()) return {damage_of(reader.status())};
  return errors_of_table(**reader, meta, &report->pages, &report->entries, stopped);
}

void DbImpl::check_again(FileNum file) {
  const FilePlace place = place_of(file);
  if (place.tree == nullptr) return file_checks_.remove(file);
  VerifyReport unused;
  const std::vector<Status> errors = read_whole(
      *place.meta, [this] { return closing_.load(); }, &unused);
  if (closing_ || place_of(file).meta != place.meta) return;
  if (place.meta->quarantined()) {
    if (!errors.empty()) return;
    if (const Status status = end_quarantine(place); !status.is_ok() && status.code() != Code::kAborted)
      say(Severity::kWarning, "a table is whole again, but its quarantine cannot end yet: " + status.to_string());
    return;
  }
  if (errors.empty()) return file_checks_.remove(file);
  const bool only_device =
      std::all_of(errors.begin(), errors.end(), [](const Status& e) { return kind_of(e) != Finding::kDamage; });
  if (only_device && (kind_of(errors.front()) != Finding::kDevice || file_checks_.failed(file) < kDeviceTries)) return;
  file_checks_.remove(file);
  damage_reports_.report(
      file, only_device ? Status::corruption("the device fails each time: " + errors.front().to_string()) : errors.front());
  (void)take_damage();
}

// --- out of quarantine

/// The file was read whole, without an error.
Status DbImpl::end_quarantine(const FilePlace& place) {
  const FileMeta& meta = *place.meta;
  TRY_ASSIGN(reader, open_table(meta));
  if (meta.dead_bytes != 0) {
    TRY(write_clean_copy(place, *reader));
    TRY_ASSIGN(clean, open_table(meta));
    reader = std::move(clean);
  }
  {
    MutexLock manifest(manifest_mutex_);
    const VersionPtr current = versions_->tree(place.tree->id);
    bool is_there = false;
    for (const Run& run : current == nullptr ? std::vector<Run>() : current->runs) {
      for (const FileMetaPtr& file : run.files) is_there |= file == place.meta;
    }
    if (!is_there || closing_ || place.tree->dropped) return Status::aborted("");
    VersionEdit edit;
    TreeEdit& change = edit.trees.emplace_back();
    change.tree = place.tree->id;
    change.quarantined.emplace_back(meta.data_file, "");
    TRY(commit_edit(std::move(edit)));
    TRY(install(*place.tree, {{meta.metadata_file, reader}}, 0));
    // Reads went on meeting the damage that was in it, and nobody has taken their reports yet.
    damage_reports_.forget(meta.data_file);
  }
  file_checks_.remove(meta.data_file);
  say(Severity::kInfo, "tree " + std::to_string(place.tree->id) + ": " + data_file_name(meta.data_file) +
                           " is whole again and quarantined no more");
  update_pressure();
  schedule_compactions(place.tree);
  return Status::ok();
}

/// Puts a file in the place of the data file that has zeros where pages were dropped, whatever the present one has there. It has
/// one name, and holes where the file system can punch them.
Status DbImpl::write_clean_copy(const FilePlace& place, const TableInspector& reader) {
  const std::string name = data_file_name(place.meta->data_file);
  const std::string path = join_path(settings_.dir, name), temporary = path + std::string(kTemporarySuffix);
  if (fs_.exists(temporary)) TRY(fs_.unlink(temporary));
  const auto write = [&]() -> Status {
    TRY_ASSIGN(from, fs_.open(path));
    TRY_ASSIGN(to, fs_.create(temporary));
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
    for (const FileExtent& extent : reader.dead_extents()) (void)fs_.punch_hole(temporary, extent.offset, extent.length);
    status = fs_.sync_file(temporary);
  }
  if (status.is_ok()) {
    // Readers of the file that was here keep its bytes on the disk until they close it.
    for (const auto& table : place.tables->readers_of(place.meta->data_file)) {
      ledger_.leave({name + ".replaced", place.meta->data_bytes, {{place.tree->id, floor_of(place.tree)}}, table});
    }
    MutexLock link(link_mutex_);
    status = fs_.rename(temporary, path);
  }
  if (!status.is_ok()) {
    (void)fs_.unlink(temporary);
    return status;
  }
  return fs_.sync_dir(settings_.dir);
}

// --- open

std::shared_ptr<TableReader> DbImpl::unreadable_table(const FileMeta& meta, Status why) {
  TableReaderOptions options{&fs_, cache_.get(), settings_.dir, settings_.direct_io};
  return TableReader::unreadable(options, files_of(meta), meta.stats, std::move(why));
}

/// What a quarantined file had dropped may be in it again: it is punched before anything reads it.
Status DbImpl::punch_restored(const FileMeta& meta, const TableInspector& reader) {
  if (meta.dead_bytes == 0) return Status::ok();
  const std::string path = join_path(settings_.dir, data_file_name(meta.data_file));
  TRY_ASSIGN(links, fs_.link_count(path));
  if (links > 1) return Status::unsupported(path + ": has another name, and pages that were dropped");
  for (const FileExtent& extent : reader.dead_extents()) TRY(fs_.punch_hole(path, extent.offset, extent.length));
  return fs_.sync_file(path);
}

/// Opens the tables of all trees, by metadata file. Those that are damaged or missing are quarantined, with a place holder.
Result<std::map<FileNum, std::shared_ptr<TableReader>>> DbImpl::open_tables() {
  std::map<FileNum, std::shared_ptr<TableReader>> opened;
  VersionEdit edit;
  std::vector<std::string> lines;
  for (const auto& [id, version] : versions_->trees()) {
    TreeEdit change;
    change.tree = id;
    for (const Run& run : version->runs) {
      for (const FileMetaPtr& file : run.files) {
        auto reader = open_table(*file);
        for (unsigned tries = 1; tries < kDeviceTries && kind_of(reader.status()) == Finding::kDevice; ++tries)
          reader = open_table(*file);
        Status status = damage_of(reader.status());
        if (status.is_ok() && file->quarantined()) status = punch_restored(*file, **reader);
        if (!status.is_ok() && kind_of(status) == Finding::kOther && !file->quarantined()) return status;
        if (file->quarantined()) {
          file_checks_.add(file->data_file, clock_.mono_ns(), kSecondNs);
        } else if (!status.is_ok()) {
          file_checks_.add(file->data_file, clock_.mono_ns(), kind_of(status) == Finding::kDevice ? kSecondNs : kFirstCheckNs);
          change.quarantined.emplace_back(file->data_file, status.to_string());
          lines.push_back("tree " + std::to_string(id) + ": a table is quarantined: " + status.to_string());
        }
        opened[file->metadata_file] = status.is_ok() ? std::move(reader).value() : unreadable_table(*file, status);
      }
    }
    if (!change.quarantined.empty()) edit.trees.push_back(std::move(change));
  }
  if (!edit.trees.empty()) TRY(versions_->commit(std::move(edit)));
  tell_quarantined(lines);
  return opened;
}

}  // namespace ebbtide
