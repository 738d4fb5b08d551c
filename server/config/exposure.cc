#include "config/exposure.h"

#include <algorithm>

namespace ebbtide {
namespace {

bool is_loopback(const std::string& address) {
  return address == "::1" || address == "localhost" || address.substr(0, 4) == "127.";
}

const char kRemedy[] = "set server.password_file, server.password or server.users_file";

}  // namespace

Exposure exposure_of(const Config& config, bool password_required, unsigned port) {
  const bool beyond = !std::all_of(config.bind.begin(), config.bind.end(), is_loopback);
  const bool metrics_beyond =
      config.metrics_port != 0 && config.metrics_password_file.empty() && !is_loopback(config.metrics_bind);
  const std::string at = "no password is set: port " + std::to_string(port) + " is open to ";
  Exposure exposure;
  if (!password_required && beyond && config.protected_mode) {
    exposure.line = at +
                    "every user of this machine (in a container: of this container); clients of other machines are refused " +
                    "(server.protected_mode). To serve them, " + kRemedy;
  } else if (!password_required && beyond) {
    exposure.line = at + "everyone who can reach it, since server.protected_mode is false. To close it, " + kRemedy;
  } else if (!password_required) {
    exposure.line = at + "every user of this machine, and to no other machine (server.bind)";
  }
  exposure.warning = !password_required && beyond;
  if (metrics_beyond) {
    exposure.line += std::string(exposure.line.empty() ? "" : "; ") + "port " + std::to_string(config.metrics_port) +
                     " shows metrics" + (config.console ? " and the console" : "") +
                     " to everyone who can reach it (metrics.bind)";
  }
  return exposure;
}

}  // namespace ebbtide
