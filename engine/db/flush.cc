// Memtables become tables; changes of the mapping of databases reach the manifest.
//
// No edit says more than the log has durably: before an edit is committed the log is synced past the highest seq that it relies on.
// The one exception is the rebuild after the log failed: then every memtable of every tree is written out in a single edit, which
// makes everything that was visible durable at once, and the log starts anew behind it.
#include <thread>

#include "db/db_impl.h"

#include "base/invariant.h"
#include "io/file_names.h"

namespace ebbtide {

void DbImpl::publish_view(Tree& tree, std::shared_ptr<const TreeView> view) {
  std::shared_ptr<const TreeView> old = std::move(tree.view_owner);
  tree.view_owner = std::move(view);
  tree.view.store(tree.view_owner.get(), std::memory_order_seq_cst);
  if (old != nullptr) epoch_.retire([old = std::move(old)] {});
}

Status DbImpl::wait_for(const std::function<bool()>& done) {
  for (;;) {
    {
      MutexLock lock(state_mutex_);
      if (done()) return Status::ok();
      if (!background_error_.is_ok()) return background_error_;
      if (closing_) return Status::aborted("the database is closing");
      if (threads_) progress_.wait_for_ms(state_mutex_, 50);
    }
    if (!threads_ && !pool_->run_one()) {
      MutexLock lock(state_mutex_);
      return done() ? Status::ok() : Status::aborted("background work is stuck");
    }
  }
}

Status DbImpl::flush(DatabaseId database) {
  TreePtr tree = tree_of(database);
  if (tree == nullptr) return Status::ok();
  SeqNum up_to = 0;
  {
    MutexLock lock(commit_mutex_);
    freeze(*tree);
    up_to = next_seq_ - 1;
  }
  return wait_for([&] { return tree->dropped || tree->frozen.empty() || tree->frozen.front().first_seq > up_to; });
}

void DbImpl::schedule_flush(const TreePtr& tree) {
  {
    MutexLock lock(state_mutex_);
    if (tree->flush_queued || tree->frozen.empty() || closing_ || !background_error_.is_ok()) return;
    tree->flush_queued = true;
  }
  submit(Priority::kHigh, [this, tree] { run_flush(tree); });
}

void DbImpl::run_flush(const TreePtr& tree) {
  Status status;
  {
    MutexLock flushing(flush_mutex_);
    {
      MutexLock lock(state_mutex_);
      tree->flush_queued = false;
    }
    if (!tree->dropped && !closing_) status = flush_trees({tree}, false);
  }
  if (!status.is_ok() && status.code() != Code::kAborted) background_failed(status, "flush");
  {
    MutexLock lock(state_mutex_);
    progress_.notify_all();
  }
  update_pressure();
  purge_obsolete();
  if (!status.is_ok()) return;  // heal() tries again
  schedule_flush(tree);
  schedule_compactions(tree);
}

// Readers and compactions go on while the tables are built: only the edit and its install need the manifest.
Status DbImpl::flush_trees(const std::vector<TreePtr>& trees, bool log_failed) {
  VersionEdit edit;
  SeqNum relies_on = 0;
  std::map<FileNum, std::shared_ptr<TableReader>> opened;
  std::vector<std::pair<TreePtr, std::size_t>> flushed;  // how many of the oldest frozen memtables
  {
    MutexLock manifest(manifest_mutex_);
    TRY(commit_database_changes(log_failed));
  }
  const Millis now = time_.now();
  for (const TreePtr& tree : trees) {
    std::vector<FrozenMemTable> frozen;
    CompactionContext context;
    VersionPtr version;
    {
      MutexLock lock(state_mutex_);
      if (tree->view_owner != nullptr) version = tree->view_owner->tables->version;
      frozen = tree->frozen;
      context.settings = tree->settings;
    }
    if (frozen.empty() || version == nullptr) continue;
    // Whoever was given one of these memtables has put its operation in once it is visible.
    while (visible_seq_.load(std::memory_order_acquire) < frozen.back().last_seq) std::this_thread::yield();
    context.now = now;
    context.stamp = tree->stamp;
    context.visible_seq = visible_seq_.load(std::memory_order_acquire);
    std::vector<std::unique_ptr<InternalIterator>> iterators;
    std::vector<FlushInput> inputs;
    for (auto it = frozen.rbegin(); it != frozen.rend(); ++it) {
      iterators.push_back(it->memtable->new_iterator());
      inputs.push_back({iterators.back().get(), it->memtable->range_tombstones()});
    }
    TRY_ASSIGN(result, flush_to_run(inputs, *version, context, compaction_env(tree, &tree->dropped, &opened)));
    result.edit.tree = tree->id;
    result.edit.flushed_seq = frozen.back().last_seq;
    relies_on = std::max(relies_on, frozen.back().last_seq);
    flush_bytes_ += result.bytes_written;
    flushes_ += 1;
    flushed.emplace_back(tree, frozen.size());
    edit.trees.push_back(std::move(result.edit));
  }
  if (edit.trees.empty()) return Status::ok();
  if (!log_failed) TRY(log_->wait_synced(relies_on));
  edit.last_seq = log_failed ? visible_seq_.load() : relies_on;
  // Segments before it may come back when a crash undoes their removal; they must not be taken for the log. After a failure the log
  // begins anew in a segment that has a larger number than this fresh one.
  edit.oldest_log = log_failed ? versions_->new_file() : log_->oldest_needed(oldest_unflushed());
  MutexLock manifest(manifest_mutex_);
  std::erase_if(edit.trees, [&](const TreeEdit& e) { return versions_->tree(e.tree) == nullptr; });  // dropped meanwhile
  std::erase_if(flushed, [&](const auto& f) { return versions_->tree(f.first->id) == nullptr; });
  TRY(commit_edit(std::move(edit)));
  for (auto& [tree, count] : flushed) {
    {
      // The memtables go in the same step in which the tables come: no view has both or neither.
      MutexLock lock(state_mutex_);
      auto view = std::make_shared<TreeView>(*tree->view_owner);
      tree->frozen.erase(tree->frozen.begin(), tree->frozen.begin() + static_cast<std::ptrdiff_t>(count));
      view->memtables.resize(view->memtables.size() - count);
      auto tables = make_tables_view(versions_->tree(tree->id), view->tables.get(), opened);
      ASSERT_MSG(tables.is_ok(), "a table that was opened for the edit");
      view->tables = std::move(tables).value();
      publish_view(*tree, std::move(view));
      progress_.notify_all();
    }
  }
  remove_old_segments(oldest_unflushed());
  return Status::ok();
}

Status DbImpl::commit_edit(VersionEdit edit) {
  Status status = versions_->commit(std::move(edit));
  if (!status.is_ok()) return status.with_context("manifest");
  return status;
}

// The smallest seq that only the log has; everything before is in tables or in the manifest.
SeqNum DbImpl::oldest_unflushed() {
  MutexLock commit(commit_mutex_);
  MutexLock lock(state_mutex_);
  SeqNum oldest = next_seq_;
  if (databases_seq_committed_ < databases_seq_) oldest = databases_seq_committed_ + 1;
  for (const auto& [id, tree] : trees_) {
    if (!tree->frozen.empty()) oldest = std::min(oldest, tree->frozen.front().first_seq);
    if (tree->active_first_seq != 0) oldest = std::min(oldest, tree->active_first_seq);
  }
  return oldest;
}

void DbImpl::remove_old_segments(SeqNum needed) {
  for (FileNum file : log_->take_segments_before(needed)) {
    const Status status = fs_.unlink(join_path(settings_.dir, log_file_name(file)));
    if (!status.is_ok()) say(Severity::kWarning, "cannot remove a log segment: " + status.to_string());
  }
}

void DbImpl::schedule_database_changes() {
  {
    MutexLock lock(state_mutex_);
    if (database_changes_queued_) return;
    database_changes_queued_ = true;
  }
  submit(Priority::kHigh, [this] {
    Status status;
    {
      MutexLock manifest(manifest_mutex_);
      {
        MutexLock lock(state_mutex_);
        database_changes_queued_ = false;
      }
      if (!closing_) status = commit_database_changes(false);
    }
    if (!status.is_ok()) background_failed(status, "database change");
    {
      MutexLock lock(state_mutex_);
      progress_.notify_all();
    }
    purge_obsolete();
  });
}

Status DbImpl::commit_database_changes(bool log_failed) {
  VersionEdit edit;
  std::vector<TreePtr> dropped;
  SeqNum seq = 0;
  {
    MutexLock lock(commit_mutex_);
    if (databases_seq_ == databases_seq_committed_) return Status::ok();
    seq = databases_seq_;
    dropped = dropped_trees_;
    for (const auto& [id, tree] : trees_) {
      if (versions_->tree(id) != nullptr) continue;
      TreeEdit create;
      create.tree = id;
      create.create = true;
      create.stamp = tree->stamp;
      edit.trees.push_back(std::move(create));
    }
    for (const TreePtr& tree : dropped) {
      if (versions_->tree(tree->id) == nullptr) continue;
      TreeEdit drop;
      drop.tree = tree->id;
      drop.drop = true;
      edit.trees.push_back(std::move(drop));
    }
    for (DatabaseId d = 0; d < database_trees_.size(); ++d) {
      const TreeId now = database_trees_[d] == nullptr ? kNoTree : database_trees_[d]->id;
      auto it = versions_->databases().find(d);
      if (now != (it == versions_->databases().end() ? kNoTree : it->second)) edit.databases.emplace_back(d, now);
    }
  }
  // Dropping unlinks: it must not be done for an operation that a crash could still take back.
  if (!log_failed) TRY(log_->wait_synced(seq));
  edit.databases_seq = seq;
  edit.last_seq = seq;
  TRY(commit_edit(std::move(edit)));
  {
    MutexLock lock(commit_mutex_);
    databases_seq_committed_ = seq;
    for (const TreePtr& tree : dropped) std::erase(dropped_trees_, tree);
  }
  // A writer that was given a memtable of a dropped tree may still be putting its operation in.
  while (visible_seq_.load(std::memory_order_acquire) < seq) std::this_thread::yield();
  for (TreePtr& tree : dropped) retire_tree(std::move(tree));
  return Status::ok();
}

// Its files go when the last reader lets go of them.
void DbImpl::retire_tree(TreePtr tree) {
  std::shared_ptr<const TreeView> view;
  {
    MutexLock lock(state_mutex_);
    tree->frozen.clear();
    view = std::move(tree->view_owner);
    tree->view_owner = nullptr;
  }
  for (const RunView& run : view->tables->runs) {
    for (const OpenTablePtr& table : run.tables()) table->obsolete.store(true, std::memory_order_release);
  }
  epoch_.retire([tree = std::move(tree), view = std::move(view)] {});
  epoch_.collect();
}

}  // namespace ebbtide
