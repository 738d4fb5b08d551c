// The client side of /ready, for `ebbtide-server --health`: container images have no HTTP client.
#pragma once

#include <cstdint>
#include <string>

namespace ebbtide {

/// The addresses of a server on this machine, from its configuration.
struct HealthTarget {
  std::string metrics_bind = "127.0.0.1";
  std::uint16_t metrics_port = 0;  ///< 0 = off: the probe sends PING to the server's port
  bool metrics_tls = false;        ///< the metrics port speaks TLS
  std::string bind = "127.0.0.1";  ///< "*" means all of IPv4
  std::uint16_t port = 0;
};

/// Asks the server whether its database is open and accepts writes. Returns "" if so, otherwise one line with the reason. A
/// server without a metrics port is ready if it replies to PING with PONG or requires a password. If its address means all
/// addresses of the machine, the probe connects to loopback. It does not verify the server's certificate, which need not name
/// this address; it sends no secret. Takes at most about `timeout_ms`. Thread-safe.
std::string probe_health(const HealthTarget& target, std::int64_t timeout_ms);

}  // namespace ebbtide
