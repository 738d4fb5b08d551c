// Applies an edit to a version. Any mismatch is kCorruption, since the edit may come from a damaged manifest.
#include <algorithm>
#include <map>

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

/// Removes files of one run in one pass.
Status remove_files(Version* version, RunId id, std::vector<FileNum> files) {
  const auto run = find_run(&version->runs, id);
  if (run == version->runs.end()) return no_run(id);
  std::sort(files.begin(), files.end());
  std::vector<bool> found(files.size());
  std::erase_if(run->files, [&](const FileMetaPtr& file) {
    const auto at = std::lower_bound(files.begin(), files.end(), file->data_file);
    if (at == files.end() || *at != file->data_file) return false;
    found[static_cast<std::size_t>(at - files.begin())] = true;
    return true;
  });
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!found[i]) return Status::corruption("file " + std::to_string(files[i]) + " is not in run " + std::to_string(id));
  }
  return Status::ok();
}

Status remove_files(Version* version, const TreeEdit& edit) {
  std::map<RunId, std::vector<FileNum>> by_run;
  for (const auto& [run, file] : edit.removed_files) by_run[run].push_back(file);
  for (auto& [run, files] : by_run) TRY(remove_files(version, run, std::move(files)));
  return Status::ok();
}

Status add_file(Version* version, RunId id, const FileMeta& added) {
  const auto run = find_run(&version->runs, id);
  if (run == version->runs.end()) return no_run(id);
  const auto at = std::partition_point(run->files.begin(), run->files.end(),
                                       [&](const FileMetaPtr& f) { return f->stats.smallest < added.stats.smallest; });
  run->files.insert(at, std::make_shared<const FileMeta>(added));
  return Status::ok();
}

Status note_punched(Version* version, FileNum num, std::uint64_t bytes) {
  for (Run& run : version->runs) {
    for (FileMetaPtr& file : run.files) {
      if (file->data_file != num) continue;
      if (bytes > file->dead_bytes) break;
      auto changed = std::make_shared<FileMeta>(*file);
      changed->punched_bytes = std::max(changed->punched_bytes, bytes);
      if (changed->punched_bytes == changed->dead_bytes) changed->dead_birth = 0;
      file = std::move(changed);
      return Status::ok();
    }
  }
  return Status::corruption("file " + std::to_string(num) + " has no " + std::to_string(bytes) + " bytes to be punched");
}

Status set_damage(Version* version, FileNum num, const std::string& damage) {
  for (Run& run : version->runs) {
    for (FileMetaPtr& file : run.files) {
      if (file->data_file != num) continue;
      auto changed = std::make_shared<FileMeta>(*file);
      changed->damage = damage.substr(0, kMaxDamageText);
      file = std::move(changed);
      return Status::ok();
    }
  }
  return Status::corruption("file " + std::to_string(num) + " is quarantined, but not in the tree");
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
  std::map<SeqNum, Record> records;
  for (const Record& record : version->records->records()) records.emplace(record.seq, record);
  for (const SeqNum seq : edit.removed_records) {
    if (records.erase(seq) == 0) return Status::corruption("record " + std::to_string(seq) + " is not in the tree");
  }
  for (const Record& record : edit.added_records) {
    if (!records.emplace(record.seq, record).second) {
      return Status::corruption("record " + std::to_string(record.seq) + " is added but is there already");
    }
  }
  if (records.empty()) {
    version->records = no_records();
    return Status::ok();
  }
  std::vector<Record> list;
  for (const auto& [seq, record] : records) list.push_back(record);
  version->records = std::make_shared<const RecordSet>(list);
  return Status::ok();
}

Status set_cursor(Version* version, int level, const std::string& key) {
  if (level < 0 || level > kMaxLevel) return Status::corruption("cursor of level " + std::to_string(level));
  const auto at = static_cast<std::size_t>(level);
  if (version->cursors.size() <= at) version->cursors.resize(at + 1);
  version->cursors[at] = key;
  return Status::ok();
}

// A cursor contains a key, which must be purged in time. So it is kept only while it is the smallest key of a file of its level;
// else it moves on to the next one, where round robin would continue. The file's deadline then covers it.
void move_cursors(Version* version) {
  for (std::size_t level = 0; level < version->cursors.size(); ++level) {
    std::string& cursor = version->cursors[level];
    if (cursor.empty()) continue;
    const std::string* next = nullptr;
    for (const Run& run : version->runs) {
      if (static_cast<std::size_t>(run.level) != level) continue;
      const auto file = std::partition_point(run.files.begin(), run.files.end(),
                                             [&](const FileMetaPtr& f) { return f->stats.smallest < cursor; });
      if (file != run.files.end() && (next == nullptr || (*file)->stats.smallest < *next)) next = &(*file)->stats.smallest;
    }
    cursor = next == nullptr ? std::string() : *next;
  }
  while (!version->cursors.empty() && version->cursors.back().empty()) version->cursors.pop_back();
}

// Concurrent jobs may have found different common prefixes of all keys; their common prefix is the result. It may be a key, or
// most of one, which must be purged in time. So it is removed with the last file bound that begins with it, whose deadline covers
// it.
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
  for (const auto& run : edit.added_runs) {
    if (run.id == ~RunId{0}) return Status::corruption("run id " + std::to_string(run.id) + " is the largest there is");
    if (find_run(&version->runs, run.id) != version->runs.end()) {
      return Status::corruption("run " + std::to_string(run.id) + " is added but is there already");
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

Result<VersionPtr> apply(const Version& base, const TreeEdit& edit) {
  const std::string who = "tree " + std::to_string(edit.tree);
  auto version = std::make_shared<Version>(base);
  if (Status status = change_in_place(version.get(), edit); !status.is_ok()) return status.with_context(who);
  if (std::string wrong = check(*version); !wrong.empty()) return Status::corruption(who + ": " + wrong);
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
