// The state that a manifest describes: the sum of its edits, as a value. Pure. The version set and the tools use this state.
#pragma once

#include <map>

#include "version/version_edit.h"

namespace ebbtide {

struct VersionState {
  std::map<TreeId, VersionPtr> trees;
  std::map<DatabaseId, TreeId> databases;
  FileNum next_file = 1;  ///< every smaller number may be in use
  TreeId next_tree = 1;
  FileNum oldest_log = kNoFile;
  /// Newest log segment that an edit has named; kNoFile if no edit has named one. A segment older than oldest_log is not needed.
  FileNum newest_log = kNoFile;
  SeqNum last_seq = 0;
  SeqNum databases_seq = 0;
  SeqNum complete_seq = 0;
  Millis time_mark = 0;
  BootMark boot_mark;  ///< reading of the boot clock at which engine time reaches time_mark
};

/// Applies edits one by one. Copies and checks each changed tree once, since a manifest has thousands of edits to trees of
/// thousands of files.
class StateBuilder {
 public:
  StateBuilder() = default;
  explicit StateBuilder(const VersionState& base) : state_(base) {}

  /// Adds an edit. Returns kCorruption, with the mismatch; afterwards the builder is unusable.
  Status add(const VersionEdit& edit);
  /// Returns the state after all edits, or kCorruption if a tree breaks an invariant. Do not use the builder afterwards.
  Result<VersionState> finish();
  /// Like finish(), after a single edit to a state that breaks no invariant: checks only the changes of the edit.
  Result<VersionState> finish_one(const VersionEdit& edit);

 private:
  Status add_tree(const TreeEdit& edit);
  VersionState state_;
  std::map<TreeId, std::shared_ptr<Version>> changed_;  // copies of the changed trees; state_.trees has the originals
};

/// Returns the state after the edit, or kCorruption with the mismatch. File, tree and sequence numbers only grow.
Result<VersionState> apply(const VersionState& base, const VersionEdit& edit);

/// Returns the edit that changes an empty state to `state`.
VersionEdit snapshot(const VersionState& state);

}  // namespace ebbtide
