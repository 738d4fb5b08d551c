// Wires the components of db/background/ to the database: what each needs of trees, manifest, pool and log.
#include <algorithm>
#include <utility>

#include "compaction/table_files.h"
#include "db/db_impl.h"
#include "tree/frozen.h"

namespace ebbtide {

ObsoleteFileRemover::Env DbImpl::obsolete_files_env() {
  return {.clock = &clock_,
          .fs = &removals_,
          .dir = settings_.dir,
          .collect = [this] { epoch_.collect(); },
          .forget = [this](FileNum file) { cache_->erase_file(file); },
          .submit = [this](std::function<void()> work) { submit(Priority::kHigh, std::move(work)); },
          .warn = [this](const std::string& text) { say(Severity::kWarning, text); }};
}

Scrubber::Env DbImpl::scrubber_env() {
  return {.now = [this] { return time_.now(); },
          .lease = [this](TreeId id) { return lease_of(tree_with(id)); },
          .read = [this](const FileMeta& meta, const std::function<bool()>& stopped,
                         TableCheck* check) { return errors_on_drive(fs_, settings_.dir, meta, stopped, check); },
          .report_damage = [this](FileNum file, const std::vector<Status>& errors) { quarantine_.report(file, errors); },
          .take_damage = [this] { return quarantine_.take_reports(); },
          .found_whole = [this](FileNum file) { return quarantine_.found_whole(file); },
          .submit = [this](std::function<void()> work) { submit(Priority::kLow, std::move(work)); },
          .closing = [this] { return closing_.load(); },
          .report_error = [this](const std::string& text) { say(Severity::kError, text); }};
}

HolePuncher::Env DbImpl::hole_puncher_env() {
  return {.clock = &clock_,
          .fs = &fs_,
          .dir = settings_.dir,
          .link_mutex = &link_mutex_,
          .tables = [this](TreeId id) { return tables_to_punch(id); },
          .commit = [this](TreeId id, const HolePuncher::Punched& punched) { return commit_punched(id, punched); },
          .submit = [this](std::function<void()> work) { submit(Priority::kLow, std::move(work)); },
          .done =
              [this](TreeId id) {
                if (const TreePtr tree = tree_with(id); tree != nullptr) schedule_compactions(tree);
              },
          .failed = [this](const Status& status) { background_failed(status, "punching"); },
          .closing = [this] { return closing_.load(); },
          .warn = [this](const std::string& text) { say(Severity::kWarning, text); }};
}

Quarantine::Env DbImpl::quarantine_env() {
  return {.clock = &clock_,
          .fs = &fs_,
          .dir = settings_.dir,
          .link_mutex = &link_mutex_,
          .ledger = &ledger_,
          .find = [this](FileNum file) { return place_of(file); },
          .commit = [this](const Quarantine::Change& change) { return commit_change(change); },
          .open = [this](const FileMeta& meta) { return open_table(meta); },
          .open_unreadable = [this](const FileMeta& meta, Status why) { return unreadable_table(meta, std::move(why)); },
          .read = [this](const FileMeta& meta, const std::function<bool()>& stopped,
                         TableCheck* check) { return errors_on_drive(fs_, settings_.dir, meta, stopped, check); },
          .floor =
              [this](TreeId id) {
                const TreePtr tree = tree_with(id);
                return tree == nullptr ? time_.stamped() : floor_of(tree);
              },
          .submit_soon = [this](std::function<void()> work) { submit(Priority::kHigh, std::move(work)); },
          .submit = [this](std::function<void()> work) { submit(Priority::kLow, std::move(work)); },
          .writable =
              [this] {
                MutexLock lock(state_mutex_);
                return background_error_.is_ok() && !closing_;
              },
          .closing = [this] { return closing_.load(); },
          .failed = [this](const Status& status) { background_failed(status, "quarantine"); },
          .changed =
              [this](const std::vector<TreeId>& trees) {
                update_pressure();
                for (const TreeId id : trees) {
                  if (const TreePtr tree = tree_with(id); tree != nullptr) schedule_compactions(tree);
                }
              },
          .log = [this](Severity severity, const std::string& text) { say(severity, text); }};
}

// Null if the tree is gone.
std::shared_ptr<Lease> DbImpl::lease_of(const TreePtr& tree) {
  if (tree == nullptr || tree->dropped) return nullptr;
  MutexLock lock(state_mutex_);
  if (tree->view_owner == nullptr) return nullptr;
  return leases_.lease(tree->view_owner, published_.visible_seq(), time_.now());
}

void DbImpl::scrub(const std::vector<TreeLoad>& loads) {
  std::vector<Scrubber::TreeTables> trees;
  for (const TreeLoad& load : loads) trees.push_back({load.tree->id, load.view->tables});
  scrubber_.tick(trees);
}

Result<VerifyReport> DbImpl::verify(DatabaseId database) {
  const std::shared_ptr<Lease> lease = lease_of(tree_of(database));
  return lease == nullptr ? VerifyReport{} : scrubber_.verify(*lease);
}

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

Quarantine::Place DbImpl::place_of(FileNum data_file) {
  for (const TreePtr& tree : live_trees()) {
    std::shared_ptr<const TablesView> tables;
    {
      MutexLock lock(state_mutex_);
      if (tree->view_owner != nullptr) tables = tree->view_owner->tables;
    }
    if (tables == nullptr) continue;
    for (const Run& run : tables->version->runs) {
      for (const FileMetaPtr& file : run.files) {
        if (file->data_file == data_file) return {tree->id, file, tables};
      }
    }
  }
  return {};
}

Status DbImpl::commit_change(const Quarantine::Change& change) {
  MutexLock manifest(manifest_mutex_);
  if (closing_) return Status::aborted("");
  VersionEdit edit = change.make(versions_->trees());
  if (edit.trees.empty()) return Status::ok();
  std::vector<TreeId> trees;
  for (const TreeEdit& tree : edit.trees) trees.push_back(tree.tree);
  TRY(commit_edit(std::move(edit)));
  for (const TreeId id : trees) {
    if (const TreePtr tree = tree_with(id); tree != nullptr) (void)install(*tree, change.opened, 0);  // kAborted: it is gone
  }
  if (change.installed) change.installed();
  return Status::ok();
}

std::shared_ptr<TableReader> DbImpl::unreadable_table(const FileMeta& meta, Status why) {
  TableReaderOptions options{&fs_, cache_.get(), settings_.dir, settings_.direct_io};
  return TableReader::unreadable(options, files_of(meta), meta.stats, std::move(why));
}

std::shared_ptr<const TablesView> DbImpl::tables_to_punch(TreeId id) {
  const TreePtr tree = tree_with(id);
  MutexLock lock(state_mutex_);
  if (closing_ || tree == nullptr || tree->dropped || tree->view_owner == nullptr || !background_error_.is_ok()) return nullptr;
  return tree->view_owner->tables;
}

Status DbImpl::commit_punched(TreeId id, const HolePuncher::Punched& punched) {
  const TreePtr tree = tree_with(id);
  MutexLock manifest(manifest_mutex_);
  const VersionPtr current = versions_->tree(id);
  if (closing_ || tree == nullptr || tree->dropped || current == nullptr) return Status::aborted("");
  VersionEdit edit;
  TreeEdit& change = edit.trees.emplace_back();
  change.tree = id;
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
