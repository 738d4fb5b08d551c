#include "version/log_needs.h"

#include <algorithm>

#include "base/number_name.h"

namespace ebbtide {
namespace {

constexpr std::size_t kNamedTrees = 3;

std::string tree_name(const VersionState& state, TreeId id) {
  std::string databases;
  for (const auto& [database, tree] : state.databases) {
    if (tree == id) databases += (databases.empty() ? "" : ", ") + number_name(database);
  }
  return "tree " + std::to_string(id) + (databases.empty() ? " (of no database)" : " (" + databases + ")");
}

}  // namespace

LogNeeds log_needs(const VersionState& state) {
  const FileNum newest = state.newest_log < state.oldest_log ? kNoFile : state.newest_log;
  return {state.oldest_log, newest, state.last_seq, state.newest_log != kNoFile,
          [&state](SeqNum upto) { return lacking(state, upto); }};
}

std::string lacking(const VersionState& state, SeqNum upto) {
  if (state.complete_seq >= upto) return "";
  std::string names;
  std::size_t count = 0;
  const auto lacks = [&](const std::string& name, SeqNum has) {
    if (std::max(has, state.complete_seq) >= upto) return;
    if (++count > kNamedTrees) return;
    names += (names.empty() ? "" : "; ") + name + " has everything up to " + std::to_string(std::max(has, state.complete_seq));
  };
  lacks("the mapping of databases in the manifest", state.databases_seq);
  for (const auto& [id, version] : state.trees) lacks(tree_name(state, id), version->flushed_seq);
  if (count > kNamedTrees) names += "; and " + std::to_string(count - kNamedTrees) + " more trees";
  return names;
}

}  // namespace ebbtide
