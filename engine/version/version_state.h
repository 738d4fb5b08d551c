// What a manifest says, as a value: the sum of its edits. Pure; shared by the version set and the tools.
#pragma once

#include <map>

#include "version/version_edit.h"

namespace ebbtide {

struct VersionState {
  std::map<TreeId, VersionPtr> trees;
  std::map<DatabaseId, TreeId> databases;
  FileNum next_file = 1;  ///< every number below was given out
  TreeId next_tree = 1;
  FileNum oldest_log = kNoFile;
  SeqNum last_seq = 0;
  SeqNum databases_seq = 0;
  Millis time_mark = 0;
};

/// The state after the edit, or kCorruption naming what does not fit. Numbers only grow.
Result<VersionState> apply(const VersionState& base, const VersionEdit& edit);

/// The edit that makes `state` out of nothing.
VersionEdit snapshot(const VersionState& state);

}  // namespace ebbtide
