// The part of the log that a manifest needs.
#pragma once

#include <string>

#include "version/version_state.h"
#include "wal/log_sequence.h"

namespace ebbtide {

/// The state's needs of the log. `state` must outlive the value.
LogNeeds log_needs(const VersionState& state);

/// Names the trees, and the mapping of databases, that may lack operations up to `upto`: "tree 3 (database 0), whose tables have
/// everything up to 400". At most three by name, then how many more. "" = none: tables and manifest have them all.
std::string lacking(const VersionState& state, SeqNum upto);

}  // namespace ebbtide
