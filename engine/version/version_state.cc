#include "version/version_state.h"

#include <algorithm>

#include "base/number_name.h"

namespace ebbtide {
namespace {

Status check_numbers(const VersionState& state, const TreeEdit& edit) {
  for (const auto& [run, file] : edit.added_files) {
    if (std::max(file.data_file, file.metadata_file) >= state.next_file) {
      return Status::corruption("file " + std::to_string(std::max(file.data_file, file.metadata_file)) +
                                " is not below the next file number " + std::to_string(state.next_file));
    }
  }
  return Status::ok();
}

}  // namespace

Status StateBuilder::add_tree(const TreeEdit& edit) {
  const std::string who = "tree " + std::to_string(edit.tree);
  if (edit.tree == kNoTree || edit.tree >= state_.next_tree) {
    return Status::corruption(who + " is not below the next tree number " + std::to_string(state_.next_tree));
  }
  const auto there = state_.trees.find(edit.tree);
  if (edit.create && there != state_.trees.end()) return Status::corruption(who + " is created, but already exists");
  if (!edit.create && there == state_.trees.end()) return Status::corruption(who + " does not exist");
  std::shared_ptr<Version>& tree = changed_[edit.tree];
  if (edit.create) {
    tree = std::make_shared<Version>();
    tree->tree = edit.tree;
    tree->stamp = edit.stamp;
    state_.trees[edit.tree] = tree;
  } else if (tree == nullptr) {
    tree = std::make_shared<Version>(*there->second);
  }
  TRY(check_numbers(state_, edit));
  if (Status status = change_in_place(tree.get(), edit); !status.is_ok()) return status.with_context(who);
  if (edit.drop) {
    state_.trees.erase(edit.tree);
    changed_.erase(edit.tree);
  }
  return Status::ok();
}

Status StateBuilder::add(const VersionEdit& edit) {
  if (edit.next_file) state_.next_file = std::max(state_.next_file, *edit.next_file);
  if (edit.next_tree) state_.next_tree = std::max(state_.next_tree, *edit.next_tree);
  if (edit.oldest_log) state_.oldest_log = std::max(state_.oldest_log, *edit.oldest_log);
  if (edit.newest_log) state_.newest_log = std::max(state_.newest_log, *edit.newest_log);
  if (edit.last_seq) state_.last_seq = std::max(state_.last_seq, *edit.last_seq);
  if (edit.time_mark) state_.boot_mark = edit.boot_mark.value_or(BootMark{});
  if (edit.time_mark) state_.time_mark = *edit.time_mark;  // a clean close lowers the mark to the current time
  if (edit.databases_seq) state_.databases_seq = std::max(state_.databases_seq, *edit.databases_seq);
  if (edit.complete_seq) state_.complete_seq = std::max(state_.complete_seq, *edit.complete_seq);
  for (const TreeEdit& tree : edit.trees) TRY(add_tree(tree));
  for (const auto& [database, tree] : edit.databases) {
    if (tree == kNoTree) {
      state_.databases.erase(database);
    } else {
      state_.databases[database] = tree;
    }
  }
  for (const auto& [database, tree] : state_.databases) {
    if (!state_.trees.contains(tree)) {
      return Status::corruption(number_name(database) + " is tree " + std::to_string(tree) + ", which does not exist");
    }
  }
  return Status::ok();
}

Result<VersionState> StateBuilder::finish() {
  for (auto& [id, tree] : changed_) {
    if (std::string wrong = check(*tree); !wrong.empty()) {
      return Status::corruption("tree " + std::to_string(id) + ": " + wrong);
    }
    seal(tree.get());
    state_.trees[id] = std::move(tree);
  }
  changed_.clear();
  return std::move(state_);
}

Result<VersionState> StateBuilder::finish_one(const VersionEdit& edit) {
  for (const TreeEdit& change : edit.trees) {
    const auto tree = changed_.find(change.tree);
    if (tree == changed_.end()) continue;  // the tree was dropped
    if (std::string wrong = check_added(*tree->second, change.added_files); !wrong.empty()) {
      return Status::corruption("tree " + std::to_string(change.tree) + ": " + wrong);
    }
  }
  for (auto& [id, tree] : changed_) {
    seal(tree.get());
    state_.trees[id] = std::move(tree);
  }
  changed_.clear();
  return std::move(state_);
}

Result<VersionState> apply(const VersionState& base, const VersionEdit& edit) {
  StateBuilder builder(base);
  TRY(builder.add(edit));
  return builder.finish_one(edit);
}

VersionEdit snapshot(const VersionState& state) {
  VersionEdit edit;
  for (const auto& [id, version] : state.trees) {
    TreeEdit& tree = edit.trees.emplace_back();
    tree.tree = id;
    tree.create = true;
    tree.stamp = version->stamp;
    for (const Run& run : version->runs) {
      tree.added_runs.push_back({run.id, run.level, 0});
      for (const FileMetaPtr& file : run.files) {
        tree.added_files.emplace_back(run.id, *file);
        if (file->quarantined()) tree.quarantined.emplace_back(file->data_file, file->damage);
      }
    }
    tree.added_records = version->records->records();
    tree.flushed_seq = version->flushed_seq;
    for (std::size_t level = 0; level < version->cursors.size(); ++level) {
      if (!version->cursors[level].empty()) tree.cursors.emplace_back(static_cast<int>(level), version->cursors[level]);
    }
    tree.flushes = version->flushes;
    tree.levels = version->levels;
    if (version->flush_share != 0) tree.flush_share = version->flush_share;
    tree.deadlines = version->deadlines;
    tree.key_space = version->key_space;
    tree.next_run = version->next_run;
  }
  edit.databases.assign(state.databases.begin(), state.databases.end());
  edit.next_file = state.next_file;
  edit.next_tree = state.next_tree;
  edit.oldest_log = state.oldest_log;
  if (state.newest_log != kNoFile) edit.newest_log = state.newest_log;
  edit.last_seq = state.last_seq;
  edit.time_mark = state.time_mark;
  if (state.boot_mark.boot != 0) edit.boot_mark = state.boot_mark;
  edit.databases_seq = state.databases_seq;
  if (state.complete_seq != 0) edit.complete_seq = state.complete_seq;
  return edit;
}

}  // namespace ebbtide
