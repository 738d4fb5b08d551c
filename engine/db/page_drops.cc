// Pages that go: when to look for them, and punching what they leave dead.
//
// A drop is an edit that swaps a table's metadata file; from then on no new reader reaches what was dropped. The data file is
// punched when the last reader with an older metadata file is gone, whoever that is: a view, a job, a fetch. Then:
//
//   punch all that is dead (pages, replaced slots, holes), sync the file, edit `punched`
//
// After a crash in between the manifest says "dead, not punched", and it is done again. Nothing here can be lost: what is dead
// was so before a byte was punched, and stays it.
//
// A file that somebody else has a link to is not punched, nor is any where the file system cannot: there the table is written
// anew, and the old file unlinked.
#include <algorithm>

#include "compaction/page_drops.h"
#include "db/db_impl.h"
#include "io/file_names.h"
#include "policy/fade.h"
#include "table/metadata.h"

namespace ebbtide {
namespace {

constexpr Millis kLeastWait = 1000;  // between two looks at the same tables
constexpr std::uint64_t kPunchRetryNs = 5'000'000'000;

bool is_late(Millis birth, const DeadlineRule& rule, Millis margin, Millis now) {
  const Millis due = rule.due(birth);
  return due != DeadlineRule::kNever && now >= expires_at(birth, due, margin, 1);
}

/// What was born by then is to go now.
Millis purged_by(const Tree& tree, const TablesView& tables) {
  return std::max(tree.purge_before.load(std::memory_order_relaxed), tables.version->overdue_before());
}

// Without holes to punch, a drop gives nothing back unless the file goes: the rest waits for merges.
void keep_whole_tables(const TablesView& tables, Plan* plan) {
  auto& drop = std::get<Drop>(plan->action);
  std::erase_if(drop.pages, [&](const PageSet& set) {
    if (!set.parts.empty()) return true;
    for (const RunView& run : tables.runs) {
      for (const OpenTablePtr& table : run.tables()) {
        if (table->meta->data_file != set.file) continue;
        std::size_t living = 0;
        for (std::uint32_t p = 0; p < table->reader->page_count(); ++p)
          living += table->reader->page_fence(p).entries != 0 ? 1 : 0;
        return living != set.whole.size() || table->meta->stats.range_tombstones != 0;
      }
    }
    return true;
  });
  if (drop.pages.empty()) *plan = {};
}

}  // namespace

Plan DbImpl::next_page_drop(Tree& tree, const std::shared_ptr<const TablesView>& tables, Millis deadline, Millis now) {
  std::map<FileNum, SeqNum> parts_done;
  const Millis purge_before = purged_by(tree, *tables);
  {
    MutexLock lock(state_mutex_);
    const bool same = tree.pages_of.lock() == tables && tree.pages_purged_by == purge_before;
    if (same && (tree.next_page_look == 0 || now < tree.next_page_look)) return {};
    parts_done = tree.parts_done;
  }
  std::map<FileNum, const TableInspector*> readers;
  for (const RunView& run : tables->runs) {
    for (std::size_t i = 0; i < run.tables().size(); ++i) readers[run.tables()[i]->meta->data_file] = &run.reader(i);
  }
  const SharedRecords records = tables->version->records;
  PageDropInput input;
  input.version = tables->version.get();
  input.records = records.get();
  input.visible_seq = visible_seq_.load(std::memory_order_acquire);
  input.now = now;
  input.delete_deadline = deadline;
  input.purge_before = purge_before;
  input.table = [&](const FileMeta& file) { return readers.at(file.data_file); };
  input.busy = [&](FileNum file) { return tree.jobs.is_busy(file); };
  input.parts_done = [&](FileNum file) {
    const auto at = parts_done.find(file);
    return at == parts_done.end() ? SeqNum{0} : at->second;
  };
  PageDrops found = plan_page_drops(input);
  if (!found.plan.empty() && cannot_punch_) keep_whole_tables(*tables, &found.plan);
  if (found.plan.empty()) {
    MutexLock lock(state_mutex_);
    tree.pages_of = tables;
    tree.pages_purged_by = purge_before;
    tree.next_page_look = found.next_look == 0 ? 0 : std::max(found.next_look, now + kLeastWait);
  }
  return std::move(found.plan);
}

// Whoever rewrites a table for something older cleans its names as well: not asked here.
Plan DbImpl::next_names(const Tree& tree, const TablesView& tables, const DeadlineRule& rule, Millis now) const {
  const Millis purge_before = purged_by(tree, tables);
  const Millis margin = tree.margin.load(std::memory_order_relaxed);
  const auto is_due = [&](const FileMeta& file) {
    if (file.lingering_birth == 0 || tree.jobs.is_busy(file.data_file) || tables.is_quarantined(file.data_file)) return false;
    const Millis owed = file.shape(0, now, *tables.version->records).oldest_birth;
    if (owed != 0 && owed <= file.lingering_birth) return false;
    return file.lingering_birth <= purge_before || is_late(file.lingering_birth, rule, margin, now);
  };
  Drop drop;
  for (const RunView& run : tables.runs) {
    for (std::size_t i = 0; i < run.tables().size(); ++i) {
      const FileMeta& file = *run.tables()[i]->meta;
      if (!is_due(file)) continue;
      if (run.reader(i).names_can_be_renewed()) {
        drop.pages.push_back({run.id(), file.data_file, {}, {}});
      } else if (drop.pages.empty()) {
        return {.action = Rewrite{run.id(), file.data_file}, .reason = Reason::kDropped};
      }
    }
  }
  if (drop.pages.empty()) return {};
  return {.action = std::move(drop), .reason = Reason::kDropped};
}

Plan DbImpl::next_purge_rewrite(Tree& tree, const TablesView& tables, const DeadlineRule& rule, bool only_late, Millis now) {
  std::set<FileNum> not_punched;
  {
    MutexLock lock(state_mutex_);
    if (tree.view_owner == nullptr) return {};
    std::set<FileNum> living;
    if (!tree.not_punched.empty()) {
      for (const Run& run : tree.view_owner->tables->version->runs) {
        for (const FileMetaPtr& file : run.files) living.insert(file->data_file);
      }
    }
    std::erase_if(tree.not_punched, [&](FileNum file) { return living.count(file) == 0; });
    not_punched = tree.not_punched;
  }
  const Millis margin = tree.margin.load(std::memory_order_relaxed) / 2;
  const auto is_due = [&](const FileMeta& file) {
    if (file.dead_bytes == 0 || file.quarantined() || tree.jobs.is_busy(file.data_file)) return false;
    // Something keeps them from being punched.
    if (file.dead_birth != 0 && is_late(file.dead_birth, rule, margin, now)) return true;
    if (only_late) return false;
    return file.dead_bytes > file.punched_bytes && (cannot_punch_ || not_punched.count(file.data_file) != 0);
  };
  for (const Run& run : tables.version->runs) {
    for (const FileMetaPtr& file : run.files) {
      if (!is_due(*file)) continue;
      Plan plan;
      plan.action = Rewrite{run.id, file->data_file};
      plan.reason = Reason::kDropped;
      return plan;
    }
  }
  return {};
}

// Counts, and remembers what had its chance. `version` is the one that the drop was made of.
void DbImpl::pages_dropped(Tree& tree, const Version& version, const CompactionResult& result) {
  for (const Run& run : version.runs) {
    for (const FileMetaPtr& file : run.files) {
      if (std::find(result.dropped.begin(), result.dropped.end(), file->data_file) == result.dropped.end()) continue;
      drops_.files += 1;
      drops_.unlinked_bytes += file->data_bytes - file->punched_bytes + file->metadata_bytes;
    }
  }
  drops_.pages_whole += result.pages_whole;
  drops_.pages_in_part += result.pages_in_part;
  if (!result.redescribed.empty()) tree.dead = true;
  if (result.parts_done.empty()) return;
  const auto& records = version.records->records();
  const SeqNum newest = records.empty() ? 0 : records.back().seq;
  MutexLock lock(state_mutex_);
  if (tree.view_owner == nullptr) return;  // dropped meanwhile
  std::set<FileNum> living;
  for (const RunView& run : tree.view_owner->tables->runs) {
    for (const OpenTablePtr& table : run.tables()) living.insert(table->meta->metadata_file);
  }
  std::erase_if(tree.parts_done, [&](const auto& done) { return living.count(done.first) == 0; });
  for (const FileNum file : result.parts_done) tree.parts_done[file] = newest;
  tree.pages_of.reset();
}

void DbImpl::schedule_punching(const TreePtr& tree) {
  if (!tree->dead || closing_ || cannot_punch_ || clock_.mono_ns() < punch_retry_ns_) return;
  if (tree->punching_queued.exchange(true)) return;
  submit(Priority::kLow, [this, tree] {
    punch_tree(tree);
    tree->punching_queued = false;
    schedule_compactions(tree);  // what cannot be punched is written anew
  });
}

void DbImpl::punch_tree(const TreePtr& tree) {
  std::shared_ptr<const TablesView> tables;
  std::set<FileNum> not_punched;
  tree->dead = false;  // before looking: what is dropped meanwhile sets it again
  {
    MutexLock lock(state_mutex_);
    if (closing_ || tree->dropped || tree->view_owner == nullptr || !background_error_.is_ok()) {
      tree->dead = true;
      return;
    }
    tables = tree->view_owner->tables;
    not_punched = tree->not_punched;
  }
  std::map<FileNum, FileMetaPtr> unpunched;
  for (const Run& run : tables->version->runs) {
    for (const FileMetaPtr& file : run.files) {
      if (file->dead_bytes > file->punched_bytes && not_punched.count(file->data_file) == 0)
        unpunched[file->metadata_file] = file;
    }
  }
  std::vector<std::pair<FileNum, std::uint64_t>> done;
  for (const RunView& run : tables->runs) {
    for (const OpenTablePtr& table : run.tables()) {
      const auto file = unpunched.find(table->meta->metadata_file);
      if (file == unpunched.end() || !table->reader->unreadable().is_ok()) continue;
      bool punched = false;
      if (table->data->read_only_by(table->reader.get())) {
        const Status status = punch_file(tree, *table, file->second->dead_bytes, &punched);
        if (status.is_not_found() && file->second->quarantined()) continue;  // the file is missing
        if (!status.is_ok()) {
          say(Severity::kWarning, "cannot give dropped pages back, will try again: " + status.to_string());
          punch_retry_ns_ = clock_.mono_ns() + kPunchRetryNs;
        }
      }
      if (punched) {
        done.emplace_back(table->meta->data_file, file->second->dead_bytes);
        drops_.punched_bytes += file->second->dead_bytes - file->second->punched_bytes;
      } else {
        tree->dead = true;  // later
      }
    }
  }
  if (done.empty()) return;
  const Status status = commit_punched(tree, done);
  if (!status.is_ok()) tree->dead = true;
  if (!status.is_ok() && status.code() != Code::kAborted) background_failed(status, "punching");
}

Status DbImpl::punch_file(const TreePtr& tree, const OpenTable& table, std::uint64_t dead_bytes, bool* punched) {
  const std::string path = join_path(settings_.dir, data_file_name(table.meta->data_file));
  MutexLock link(link_mutex_);
  TRY_ASSIGN(links, fs_.link_count(path));
  if (links > 1) {
    MutexLock lock(state_mutex_);
    tree->not_punched.insert(table.meta->data_file);
    return Status::ok();
  }
  std::uint64_t bytes = 0;
  for (const FileExtent& extent : table.reader->dead_extents()) {
    const Status status = fs_.punch_hole(path, extent.offset, extent.length);
    if (status.code() == Code::kUnsupported) {
      if (!cannot_punch_.exchange(true))
        say(Severity::kWarning, "the file system cannot punch holes; tables are written anew instead: " + status.to_string());
      return Status::ok();
    }
    TRY(status);
    bytes += extent.length;
  }
  if (Status status = fs_.sync_file(path); !status.is_ok()) {
    // A second sync of this file could answer ok and mean nothing.
    MutexLock lock(state_mutex_);
    tree->not_punched.insert(table.meta->data_file);
    return status;
  }
  *punched = bytes == dead_bytes;
  return Status::ok();
}

Status DbImpl::commit_punched(const TreePtr& tree, const std::vector<std::pair<FileNum, std::uint64_t>>& punched) {
  MutexLock manifest(manifest_mutex_);
  const VersionPtr current = versions_->tree(tree->id);
  if (closing_ || tree->dropped || current == nullptr) return Status::aborted("");
  VersionEdit edit;
  TreeEdit& change = edit.trees.emplace_back();
  change.tree = tree->id;
  for (const auto& [number, bytes] : punched) {
    for (const Run& run : current->runs) {
      const bool there = std::any_of(run.files.begin(), run.files.end(),
                                     [number = number](const FileMetaPtr& file) { return file->data_file == number; });
      if (there) change.punched.emplace_back(number, bytes);
    }
  }
  if (change.punched.empty()) return Status::ok();
  TRY(commit_edit(std::move(edit)));
  return install(*tree, {}, 0);
}

}  // namespace ebbtide
