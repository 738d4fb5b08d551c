// What a manifest says, as a value: the sum of its edits. Pure; shared by the version set and the tools.
#pragma once

#include <map>

#include "version/version_edit.h"

namespace ebbtide {

struct VersionState {
  std::map<TreeId, VersionPtr> trees;
  std::map<DatabaseId, TreeId> databases;
  FileNum next_file = 1;  ///< every smaller number is in use
  TreeId next_tree = 1;
  FileNum oldest_log = kNoFile;
  SeqNum last_seq = 0;
  SeqNum databases_seq = 0;
  SeqNum complete_seq = 0;
  Millis time_mark = 0;
};

/// Takes one edit after the other. What they change is copied once, and checked once: a manifest has thousands of edits to trees
/// of thousands of files.
class StateBuilder {
 public:
  StateBuilder() = default;
  explicit StateBuilder(const VersionState& base) : state_(base) {}

  /// kCorruption names what does not fit; then the builder is of no use.
  Status add(const VersionEdit& edit);
  /// The state after all of them; kCorruption if a tree does not hold its invariants. Nothing may follow.
  Result<VersionState> finish();

 private:
  Status add_tree(const TreeEdit& edit);
  VersionState state_;
  std::map<TreeId, std::shared_ptr<Version>> changed_;  // copies of the changed trees; state_.trees has the originals
};

/// The state after the edit, or kCorruption naming what does not fit. Numbers only grow.
Result<VersionState> apply(const VersionState& base, const VersionEdit& edit);

/// The edit that makes `state` from an empty one.
VersionEdit snapshot(const VersionState& state);

}  // namespace ebbtide
