// The part of the log that a manifest needs.
#pragma once

#include <string>

#include "version/version_state.h"
#include "wal/log_sequence.h"

namespace ebbtide {

/// Returns which part of the log the state needs. `state` must outlive the result.
LogNeeds log_needs(const VersionState& state);

/// Names the trees, and the mapping of databases, that may lack operations up to `upto`. For example "tree 3 (database 0) has
/// everything up to 400". At most three are named, then comes the number of others. "" = tables and manifest have all these
/// operations.
std::string lacking(const VersionState& state, SeqNum upto);

}  // namespace ebbtide
