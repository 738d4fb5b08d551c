// The log segments and operations that a manifest needs for recovery.
#pragma once

#include <string>

#include "version/version_state.h"
#include "wal/log_sequence.h"

namespace ebbtide {

/// Returns the log segments, and the seqs, that recovery of this state needs. `state` must outlive the result.
LogNeeds log_needs(const VersionState& state);

/// Returns a text that names the trees that may lack operations up to `upto`, and the mapping of databases if it may lack some.
/// For example "tree 3 (database 0) has everything up to 400". At most three are named, followed by the number of the others. ""
/// = tables and manifest have all these operations.
std::string lacking(const VersionState& state, SeqNum upto);

}  // namespace ebbtide
