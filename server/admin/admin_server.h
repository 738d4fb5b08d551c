// The HTTP port for machines that watch, /metrics, /healthz, /ready, and for people who look: / is the console.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <engine/types.h>

#include "admin/http_server.h"

namespace ebbtide {

/// What the port shows. Called from its threads.
struct AdminHandlers {
  std::function<std::string()> metrics;  ///< Prometheus's text format
  /// Empty if the server takes reads and writes, else why not.
  std::function<std::string()> not_ready;
  /// What the console shows of a database, as JSON, or nothing if there is no such database; null: no console.
  std::function<std::optional<std::string>(DatabaseId)> console = nullptr;
  /// Logs a request that broke the protocol, at a limited rate; may be null.
  std::function<void(const std::string&)> bad_request = nullptr;
};

/// Has threads of its own: neither a slow client nor /metrics or the console delays /healthz. Nothing here changes the server.
class AdminServer {
 public:
  explicit AdminServer(AdminHandlers handlers, HttpLimits limits = {});

  /// Listens and serves; port 0 takes a free one. Empty, or what went wrong.
  std::string start(const std::string& address, std::uint16_t port);
  [[nodiscard]] std::uint16_t port() const;
  void stop();

 private:
  const AdminHandlers handlers_;
  const HttpLimits limits_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace ebbtide
