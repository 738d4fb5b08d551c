// Applies an edit to a version. Any mismatch is kCorruption, since the edit may come from a damaged manifest.
#include <algorithm>
#include <map>
#include <optional>

#include "base/coding.h"
#include "version/version_edit.h"

namespace ebbtide {
namespace {

auto find_run(std::vector<Run>* runs, RunId id) {
  return std::find_if(runs->begin(), runs->end(), [id](const Run& run) { return run.id == id; });
}

Status no_run(RunId id) { return Status::corruption("run " + std::to_string(id) + " is not in the tree"); }

void add_run(Version* version, const TreeEdit::AddedRun& added) {
  auto& runs = version->runs;
  auto at = runs.end();
  if (!added.newest && added.before != 0) at = find_run(&runs, added.before);
  if (added.newest || (added.before != 0 && at == runs.end())) {
    at = std::find_if(runs.begin(), runs.end(), [&](const Run& run) { return run.level >= added.level; });
  }
  runs.insert(at, Run{added.id, added.level, {}});
  version->next_run = std::max(version->next_run, added.id + 1);
}

/// Fills by_number if it lacks files of the runs. Only versions that were built by hand, or that have had no edit, lack files.
void number_files(Version* version) {
  if (version->is_numbered()) return;
  std::vector<NumberedFile> files;
  for (const Run& run : version->runs) {
    for (const FileMetaPtr& file : run.files) files.push_back({file->data_file, file});
  }
  std::stable_sort(files.begin(), files.end(), [](const NumberedFile& a, const NumberedFile& b) { return a.num < b.num; });
  version->by_number = std::move(files);
}

auto first_numbered(const Version& version, FileNum num) {
  return version.by_number.partition_point([num](const NumberedFile& file) { return file.num < num; });
}

FileList::const_iterator place_of(const FileList& files, Bytes smallest) {
  return files.partition_point([&](const FileMetaPtr& file) { return Bytes(file->stats.smallest) < smallest; });
}

/// The two positions of a file: in its run, and in by_number.
struct FilePlace {
  FileList::const_iterator in_run;
  NumberedFiles::const_iterator in_numbers;
};

/// Finds a file of a run by its number. Compares all candidates, since a damaged manifest may give the same number to two files,
/// or the same smallest key to two files of a run.
std::optional<FilePlace> find_file(const Version& version, const Run& run, FileNum num) {
  for (auto numbered = first_numbered(version, num); numbered != version.by_number.end() && numbered->num == num; ++numbered) {
    const Bytes smallest = numbered->file->stats.smallest;
    auto at = place_of(run.files, smallest);
    for (; at != run.files.end() && Bytes((*at)->stats.smallest) == smallest; ++at) {
      if ((*at)->data_file == num) return FilePlace{at, numbered};
    }
  }
  return std::nullopt;
}

Status remove_files(Version* version, const TreeEdit& edit) {
  for (const auto& [id, num] : edit.removed_files) {
    const auto run = find_run(&version->runs, id);
    if (run == version->runs.end()) return no_run(id);
    const std::optional<FilePlace> place = find_file(*version, *run, num);
    if (!place) return Status::corruption("file " + std::to_string(num) + " is not in run " + std::to_string(id));
    version->by_number.erase(place->in_numbers);
    run->files.erase(place->in_run);
  }
  return Status::ok();
}

Status add_file(Version* version, RunId id, const FileMeta& added) {
  const auto run = find_run(&version->runs, id);
  if (run == version->runs.end()) return no_run(id);
  auto file = std::make_shared<const FileMeta>(added);
  version->by_number.insert(first_numbered(*version, added.data_file), {added.data_file, file});
  run->files.insert(place_of(run->files, added.stats.smallest), std::move(file));
  return Status::ok();
}

/// Replaces the FileMeta of a file by `changed`.
Status replace_file(Version* version, FileNum num, FileMeta changed) {
  auto file = std::make_shared<const FileMeta>(std::move(changed));
  for (Run& run : version->runs) {
    const std::optional<FilePlace> place = find_file(*version, run, num);
    if (!place) continue;
    version->by_number.replace(place->in_numbers, {num, file});
    run.files.replace(place->in_run, file);
    return Status::ok();
  }
  return Status::corruption("file " + std::to_string(num) + " is not in the tree");
}

Status note_punched(Version* version, FileNum num, std::uint64_t bytes) {
  const FileMetaPtr file = version->find(num);
  if (file == nullptr || bytes > file->dead_bytes) {
    return Status::corruption("file " + std::to_string(num) + " has fewer dead bytes than the " + std::to_string(bytes) +
                              " that are punched");
  }
  FileMeta changed = *file;
  changed.punched_bytes = std::max(changed.punched_bytes, bytes);
  if (changed.punched_bytes == changed.dead_bytes) changed.dead_birth = 0;
  return replace_file(version, num, std::move(changed));
}

Status set_damage(Version* version, FileNum num, const std::string& damage) {
  const FileMetaPtr file = version->find(num);
  if (file == nullptr) return Status::corruption("file " + std::to_string(num) + " is to be quarantined, but is not in the tree");
  FileMeta changed = *file;
  changed.damage = damage.substr(0, kMaxDamageText);
  return replace_file(version, num, std::move(changed));
}

Status remove_run(Version* version, RunId id) {
  const auto run = find_run(&version->runs, id);
  if (run == version->runs.end()) return no_run(id);
  if (!run->files.empty()) return Status::corruption("run " + std::to_string(id) + " is removed but has files");
  version->runs.erase(run);
  return Status::ok();
}

Status change_records(Version* version, const TreeEdit& edit) {
  if (edit.removed_records.empty() && edit.added_records.empty()) return Status::ok();
  TRY_ASSIGN(records, version->records->changed(edit.removed_records, edit.added_records));
  version->records = records.empty() ? no_records() : std::make_shared<const RecordSet>(std::move(records));
  return Status::ok();
}

Status set_cursor(Version* version, int level, const std::string& key) {
  if (level < 0 || level > kMaxLevel)
    return Status::corruption("a cursor names level " + std::to_string(level) + ", which does not exist");
  const auto at = static_cast<std::size_t>(level);
  if (version->cursors.size() <= at) version->cursors.resize(at + 1);
  version->cursors[at] = key;
  return Status::ok();
}

// The key of a cursor may be deleted, and must then be purged by its deadline. So a cursor keeps its key only while a file of its
// level begins with that key: the deadline of the file then applies to the cursor, too. Otherwise the cursor moves to the
// smallest key of the next file, where round robin would continue.
void move_cursors(Version* version) {
  for (std::size_t level = 0; level < version->cursors.size(); ++level) {
    std::string& cursor = version->cursors[level];
    if (cursor.empty()) continue;
    const std::string* next = nullptr;
    for (const Run& run : version->runs) {
      if (static_cast<std::size_t>(run.level) != level) continue;
      const auto file = place_of(run.files, cursor);
      if (file != run.files.end() && (next == nullptr || (*file)->stats.smallest < *next)) next = &(*file)->stats.smallest;
    }
    cursor = next == nullptr ? std::string() : *next;
  }
  while (!version->cursors.empty() && version->cursors.back().empty()) version->cursors.pop_back();
}

// Version::key_space is a common prefix of keys, found by merges. If two merges find different prefixes, the version keeps their
// common part. The prefix may be a part of a deleted key, so it must be purged by the key's deadline: it is removed with the last
// file whose bounds begin with it.
void change_key_space(Version* version, const TreeEdit& edit) {
  std::optional<std::string>& mine = version->key_space;
  if (edit.key_space && mine) {
    mine->resize(common_bytes(*mine, *edit.key_space));
  } else if (edit.key_space) {
    mine = edit.key_space;
  }
  if (!mine || mine->empty()) return;
  for (const Run& run : version->runs) {
    for (const FileMetaPtr& file : run.files) {
      if (file->has_in_bounds(*mine)) return;
    }
  }
  mine.reset();
}

}  // namespace

Status change_in_place(Version* version, const TreeEdit& edit) {
  number_files(version);
  for (const auto& run : edit.added_runs) {
    if (run.id == ~RunId{0})
      return Status::corruption("run id " + std::to_string(run.id) + " is the maximum, which cannot be used");
    if (find_run(&version->runs, run.id) != version->runs.end()) {
      return Status::corruption("run " + std::to_string(run.id) + " is added, but is already in the tree");
    }
    add_run(version, run);
  }
  TRY(remove_files(version, edit));
  for (const auto& [run, file] : edit.added_files) TRY(add_file(version, run, file));
  for (const auto& [file, bytes] : edit.punched) TRY(note_punched(version, file, bytes));
  for (const auto& [file, damage] : edit.quarantined) TRY(set_damage(version, file, damage));
  for (const auto& [id, level] : edit.relabeled) {
    const auto run = find_run(&version->runs, id);
    if (run == version->runs.end()) return no_run(id);
    run->level = level;
  }
  for (const RunId run : edit.removed_runs) TRY(remove_run(version, run));
  TRY(change_records(version, edit));
  for (const auto& [level, key] : edit.cursors) TRY(set_cursor(version, level, key));
  if (edit.flushed_seq) version->flushed_seq = std::max(version->flushed_seq, *edit.flushed_seq);
  if (edit.flushes) version->flushes = *edit.flushes;
  if (edit.levels) version->levels = *edit.levels;
  if (edit.flush_share) version->flush_share = *edit.flush_share;
  if (edit.deadlines) version->deadlines = edit.deadlines;
  move_cursors(version);
  change_key_space(version, edit);
  if (edit.next_run) version->next_run = std::max(version->next_run, *edit.next_run);
  return Status::ok();
}

void seal(Version* version) {
  for (Run& run : version->runs) run.files.seal();
}

Result<VersionPtr> apply(const Version& base, const TreeEdit& edit) {
  const std::string who = "tree " + std::to_string(edit.tree);
  auto version = std::make_shared<Version>(base);
  if (Status status = change_in_place(version.get(), edit); !status.is_ok()) return status.with_context(who);
  if (std::string wrong = check_added(*version, edit.added_files); !wrong.empty()) {
    return Status::corruption(who + ": " + wrong);
  }
  seal(version.get());
  return VersionPtr(std::move(version));
}

void renumber_added_runs(const Version& base, TreeEdit* edit) {
  std::map<RunId, RunId> fresh;
  RunId next = base.next_run;
  for (const auto& run : edit->added_runs) next = std::max(next, run.id + 1);
  for (auto& run : edit->added_runs) {
    if (run.id < base.next_run) fresh[run.id] = next++;
  }
  if (fresh.empty()) return;
  const auto rename = [&fresh](RunId* id) {
    if (const auto at = fresh.find(*id); at != fresh.end()) *id = at->second;
  };
  for (auto& run : edit->added_runs) {
    rename(&run.id);
    rename(&run.before);
  }
  for (auto& [run, file] : edit->removed_files) rename(&run);
  for (auto& [run, file] : edit->added_files) rename(&run);
  for (auto& [run, level] : edit->relabeled) rename(&run);
  for (RunId& run : edit->removed_runs) rename(&run);
  if (edit->next_run) edit->next_run = std::max(*edit->next_run, next);
}

}  // namespace ebbtide
