// The client side of /ready, for `ebbtide-server --health`: container images have no HTTP client.
#pragma once

#include <cstdint>
#include <string>

namespace ebbtide {

/// The addresses of the server on this machine, according to its configuration.
struct HealthTarget {
  std::string metrics_bind = "127.0.0.1";
  std::uint16_t metrics_port = 0;  ///< 0 = off: the probe sends PING to the server's port
  bool metrics_tls = false;        ///< the metrics port speaks TLS
  std::string bind = "127.0.0.1";  ///< "*" means all of IPv4
  std::uint16_t port = 0;
};

/// Returns "" if the server's database is open and accepts writes, otherwise one line with the reason. A server without a metrics
/// port counts as ready if it replies to PING with PONG, or requires a password. If the configured address means all addresses,
/// the probe connects to loopback. It does not verify the server's certificate, which may be for another name, but it sends no
/// secret. Takes about `timeout_ms` at most. Thread-safe.
std::string probe_health(const HealthTarget& target, std::int64_t timeout_ms);

}  // namespace ebbtide
