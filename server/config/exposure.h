// The log line at the start that says which clients can connect without a password.
#pragma once

#include <string>

#include "config/config.h"

namespace ebbtide {

struct Exposure {
  bool warning = false;  ///< true: log as a warning, since no password is set and the port is reachable from other machines
  std::string line;      ///< "" if clients must authenticate, and the metrics port is on loopback only or requires a password
};

/// Returns the line for a configuration. `password_required`: clients must authenticate, because of a password or the users file.
/// `port`: the port on which the server listens. A pure function.
Exposure exposure_of(const Config& config, bool password_required, unsigned port);

}  // namespace ebbtide
