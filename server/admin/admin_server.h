// The HTTP port: /metrics, /healthz and /ready for monitoring, and the console at / for people.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <engine/types.h>

#include "admin/http_server.h"

namespace ebbtide {

/// The data sources of the HTTP port. The threads of the port call them.
struct AdminHandlers {
  std::function<std::string()> metrics;  ///< Prometheus's text format
  /// Returns "" if the server accepts reads and writes, else the reason why it does not.
  std::function<std::string()> not_ready;
  /// Returns the console's data of a database, as JSON; nullopt if there is no such database. Null: no console.
  std::function<std::optional<std::string>(DatabaseId)> console = nullptr;
  /// Logs a request that broke the HTTP protocol, at a limited rate; may be null.
  std::function<void(const std::string&)> bad_request = nullptr;
};

/// The server of the HTTP port, with threads of its own. A slow client, /metrics or the console does not delay /healthz. No
/// request changes the database server.
class AdminServer {
 public:
  explicit AdminServer(AdminHandlers handlers, HttpLimits limits = {});

  /// Sets TLS, and the credentials that clients need for all paths except /healthz and /ready. TLS must be on in all calls, or in
  /// none. Thread-safe after start().
  void set_access(HttpAccess access);
  /// Listens and serves. Port 0 takes a free port. Returns "" or the error.
  std::string start(const std::string& address, std::uint16_t port);
  [[nodiscard]] std::uint16_t port() const;
  void stop();

 private:
  const AdminHandlers handlers_;
  const HttpLimits limits_;
  HttpAccess access_;  // start() hands it to http_
  std::unique_ptr<HttpServer> http_;
};

}  // namespace ebbtide
