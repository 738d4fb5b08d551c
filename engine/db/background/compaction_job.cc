#include "db/background/compaction_job.h"

#include <algorithm>
#include <utility>

#include "policy/fade.h"
#include "tree/frozen.h"

namespace ebbtide {
namespace {

// Returns, for each run before the edit, its number of files after the edit.
std::map<RunId, std::size_t> files_after(const Version& version, const TreeEdit& edit) {
  std::map<RunId, std::size_t> files;
  for (const Run& run : version.runs) files[run.id] = run.files.size();
  for (const auto& [run, file] : edit.added_files) {
    if (const auto at = files.find(run); at != files.end()) ++at->second;
  }
  for (const auto& [run, file] : edit.removed_files) {
    if (const auto at = files.find(run); at != files.end()) --at->second;
  }
  return files;
}

// True if every run to which the edit adds files, or before which the edit puts a new run, still exists. While this job ran,
// another job may have removed such a run if no file of the run is an input of this job.
bool has_targets(const Version& version, const TreeEdit& edit) {
  const auto is_there = [&](RunId id) {
    const auto is_it = [id](const auto& run) { return run.id == id; };
    return std::any_of(version.runs.begin(), version.runs.end(), is_it) ||
           std::any_of(edit.added_runs.begin(), edit.added_runs.end(), is_it);
  };
  return std::all_of(edit.added_files.begin(), edit.added_files.end(), [&](const auto& file) { return is_there(file.first); }) &&
         std::all_of(edit.added_runs.begin(), edit.added_runs.end(),
                     [&](const auto& run) { return run.newest || run.before == 0 || is_there(run.before); });
}

// True if the edit would keep a file that was quarantined after the plan was made: as a moved file, or with new metadata. A merge
// may replace such a file, since the merge has read all of it.
bool keeps_quarantined(const Version& version, const TreeEdit& edit) {
  if (!version.has_quarantined()) return false;
  const auto is_quarantined = [&](FileNum num) {
    const FileMetaPtr file = version.find(num);
    return file != nullptr && file->quarantined();
  };
  return std::any_of(edit.added_files.begin(), edit.added_files.end(),
                     [&](const auto& added) { return is_quarantined(added.second.data_file); });
}

// Sets the runs that the edit removes: runs that have no files after it. Decided only now, since other jobs may have added files
// to a run after the plan was made. `sweep`: also removes runs that earlier slices have emptied. False for a Slice, which must
// change neither runs nor their order. On each level except 0, the oldest run always stays (tree/apply.h).
void settle_runs(const Version& version, bool sweep, TreeEdit* edit) {
  const std::map<RunId, std::size_t> files = files_after(version, *edit);
  std::erase_if(edit->removed_runs, [&](RunId run) { return files.count(run) != 0 && files.at(run) != 0; });
  if (!sweep) return;
  for (std::size_t i = 0; i < version.runs.size(); ++i) {
    const Run& run = version.runs[i];
    const bool oldest_of_level = i + 1 == version.runs.size() || version.runs[i + 1].level != run.level;
    if (files.at(run.id) != 0 || !run.files.empty() || (run.level > 0 && oldest_of_level)) continue;
    if (std::count(edit->removed_runs.begin(), edit->removed_runs.end(), run.id) == 0) edit->removed_runs.push_back(run.id);
  }
}

}  // namespace

void CompactionTotals::add(const Plan& plan, const CompactionResult& result) {
  const auto reason = static_cast<std::size_t>(plan.reason);
  jobs += 1;
  bytes_read += result.bytes_read;
  bytes_written += result.bytes_written;
  files_moved += result.files_moved;
  sub_merges += result.sub_merges;
  jobs_by_reason[reason] += 1;
  read_by_reason[reason] += result.bytes_read;
  written_by_reason[reason] += result.bytes_written;
}

void CompactionTotals::add_drop(const Version& version, const CompactionResult& result) {
  for (const FileNum num : result.dropped) {
    const FileMetaPtr file = version.find(num);
    if (file == nullptr) continue;
    files_dropped += 1;
    dropped_bytes += file->data_bytes - file->punched_bytes + file->metadata_bytes;
  }
  pages_dropped += result.pages_whole;
  pages_dropped_in_part += result.pages_in_part;
}

Status CompactionJob::run() {
  TRY(prepare());
  TRY(write());
  return install();
}

Status CompactionJob::prepare() {
  {
    MutexLock lock(*env_.state_mutex);
    if (tree_->view_owner == nullptr) return Status::aborted("");  // the tree was dropped and retired
    start_ = {
        .working = tree_->work, .tables = tree_->view_owner->tables, .policy = tree_->policy, .settings = env_.settings(*tree_)};
  }
  context_.settings = start_.settings;
  context_.filters = env_.filters(*tree_, *start_.tables, job_.plan);
  context_.now = env_.now();
  context_.stamp = tree_->stamp;
  context_.reaped = tree_->reaped();
  context_.visible_seq = env_.visible_seq();
  if (const auto* rewrite = std::get_if<Rewrite>(&job_.plan.action); rewrite != nullptr && rewrite->file_bytes != 0) {
    context_.settings.file_size = std::min(context_.settings.file_size, rewrite->file_bytes);
  }
  return Status::ok();
}

Status CompactionJob::write() {
  CompactionEnv env = env_.compaction_env(start_.tables, inputs_of(job_.plan), job_.abort.get(), &opened_);
  // Plans with the reason kDropped free space and write almost nothing.
  const bool may_use_deadline_room = is_for_deadline() || job_.plan.reason == Reason::kDropped;
  env.may_write = [this, may_use_deadline_room](std::uint64_t bytes) { return env_.may_write(bytes, may_use_deadline_room); };
  const std::uint64_t begun = env_.clock->mono_ns();
  auto executed = execute(job_.plan, *start_.tables->version, context_, env);
  if (!executed.is_ok()) {
    env_.write_failed(tree_);
    return executed.status();
  }
  result_ = std::move(executed).value();
  env_.measured(result_.bytes_read, env_.clock->mono_ns() - begun);
  env_.totals->add(job_.plan, result_);
  if (is_for_deadline()) tree_->budget.spend(result_.bytes_written);
  return Status::ok();
}

Status CompactionJob::install() {
  MutexLock manifest(*env_.manifest_mutex);
  const VersionPtr current = env_.version(tree_->id);
  if (tree_->dropped || current == nullptr || !has_targets(*current, result_.edit) || keeps_quarantined(*current, result_.edit)) {
    env_.unlink(tree_, result_);
    return Status::aborted("");
  }
  TreeEdit& change = result_.edit;
  change.tree = tree_->id;
  // The next plan uses the number of levels, which is computed from the tree before this edit. Edits of one tree do not overlap.
  TreeShape shape = current->shape_at(start_.settings.memtable_size, start_.settings.file_size, context_.now);
  leave_out_frozen(&shape);
  const int levels = start_.policy->levels(shape);
  if (levels != current->levels) change.levels = levels;
  const auto& action = job_.plan.action;
  settle_runs(*current, !std::holds_alternative<Slice>(action) && !std::holds_alternative<Rewrite>(action), &change);
  env_.memory->note_outputs(job_.plan, *start_.tables->version, result_.outputs, context_.now);
  VersionEdit edit;
  edit.trees.push_back(std::move(change));
  if (Status committed = env_.commit(std::move(edit)); !committed.is_ok()) {
    env_.disown(tree_, result_);
    env_.commit_failed(committed);
    return committed;
  }
  TRY_ASSIGN(tables, env_.install(*tree_, opened_));
  if (std::holds_alternative<Drop>(action)) {
    env_.totals->add_drop(*start_.tables->version, result_);
    if (!result_.redescribed.empty()) env_.puncher->note_dead(tree_->id);
    env_.memory->note_dropped(*start_.tables->version, result_, *tables);
  }
  return Status::ok();
}

}  // namespace ebbtide
