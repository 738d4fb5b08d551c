#include "version/version_state.h"

#include <algorithm>

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

Status apply_tree(VersionState* state, const TreeEdit& edit) {
  const std::string who = "tree " + std::to_string(edit.tree);
  if (edit.tree == kNoTree || edit.tree >= state->next_tree) {
    return Status::corruption(who + " is not below the next tree number " + std::to_string(state->next_tree));
  }
  VersionPtr& tree = state->trees[edit.tree];
  if (edit.create) {
    if (tree != nullptr) return Status::corruption(who + " is created but is there already");
    auto fresh = std::make_shared<Version>();
    fresh->tree = edit.tree;
    fresh->stamp = edit.stamp;
    tree = std::move(fresh);
  }
  if (tree == nullptr) return Status::corruption(who + " does not exist");
  TRY(check_numbers(*state, edit));
  TRY_ASSIGN(next, apply(*tree, edit));
  tree = std::move(next);
  if (edit.drop) state->trees.erase(edit.tree);
  return Status::ok();
}

}  // namespace

Result<VersionState> apply(const VersionState& base, const VersionEdit& edit) {
  VersionState state = base;
  if (edit.next_file) state.next_file = std::max(state.next_file, *edit.next_file);
  if (edit.next_tree) state.next_tree = std::max(state.next_tree, *edit.next_tree);
  if (edit.oldest_log) state.oldest_log = std::max(state.oldest_log, *edit.oldest_log);
  if (edit.last_seq) state.last_seq = std::max(state.last_seq, *edit.last_seq);
  if (edit.time_mark) state.time_mark = *edit.time_mark;  // a clean close takes the lead of the mark back
  if (edit.databases_seq) state.databases_seq = std::max(state.databases_seq, *edit.databases_seq);
  for (const TreeEdit& tree : edit.trees) TRY(apply_tree(&state, tree));
  for (const auto& [database, tree] : edit.databases) {
    if (tree == kNoTree) {
      state.databases.erase(database);
    } else {
      state.databases[database] = tree;
    }
  }
  for (const auto& [database, tree] : state.databases) {
    if (!state.trees.contains(tree)) {
      return Status::corruption("database " + std::to_string(database) + " is tree " + std::to_string(tree) +
                                ", which does not exist");
    }
  }
  return state;
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
      for (const FileMetaPtr& file : run.files) tree.added_files.emplace_back(run.id, *file);
    }
    tree.flushed_seq = version->flushed_seq;
    for (std::size_t level = 0; level < version->cursors.size(); ++level) {
      if (!version->cursors[level].empty()) tree.cursors.emplace_back(static_cast<int>(level), version->cursors[level]);
    }
    tree.flushes = version->flushes;
    tree.levels = version->levels;
    tree.next_run = version->next_run;
  }
  edit.databases.assign(state.databases.begin(), state.databases.end());
  edit.next_file = state.next_file;
  edit.next_tree = state.next_tree;
  edit.oldest_log = state.oldest_log;
  edit.last_seq = state.last_seq;
  edit.time_mark = state.time_mark;
  edit.databases_seq = state.databases_seq;
  return edit;
}

}  // namespace ebbtide
