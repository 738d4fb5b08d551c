// The state that a manifest describes, the sum of its edits, as a value. Pure. The version set and the tools use it.
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

/// Applies edits one by one. It copies and checks each changed tree once, since a manifest has thousands of edits to trees of
/// thousands of files.
class StateBuilder {
 public:
  StateBuilder() = default;
  explicit StateBuilder(const VersionState& base) : state_(base) {}

  /// kCorruption names the mismatch; afterwards the builder is unusable.
  Status add(const VersionEdit& edit);
  /// The state after all edits; kCorruption if a tree breaks an invariant. Last call.
  Result<VersionState> finish();

 private:
  Status add_tree(const TreeEdit& edit);
  VersionState state_;
  std::map<TreeId, std::shared_ptr<Version>> changed_;  // copies of the changed trees; state_.trees has the originals
};

/// The state after the edit, or kCorruption, which names the mismatch. File, tree and sequence numbers only grow.
Result<VersionState> apply(const VersionState& base, const VersionEdit& edit);

/// The edit that changes an empty state to `state`.
VersionEdit snapshot(const VersionState& state);

}  // namespace ebbtide
