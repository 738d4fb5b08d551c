// One line that says which clients the server serves without a password, for the log at the start.
#pragma once

#include <string>

#include "config/config.h"

namespace ebbtide {

struct Exposure {
  bool warning = false;  ///< true: log as a warning, since the port is not on loopback only and no password is set
  std::string line;  ///< "" if clients must authenticate and the metrics port listens on loopback only, or requires a password
};

/// Returns the line for a configuration. `password_required`: a password or the file of users makes clients authenticate. `port`
/// is the port that the server listens on. A pure function.
Exposure exposure_of(const Config& config, bool password_required, unsigned port);

}  // namespace ebbtide
