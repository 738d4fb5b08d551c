// The HTTP port for machines that watch, /metrics, /healthz, /ready, and for people who look: / is the console.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <engine/types.h>

namespace ebbtide {

/// What the port shows. Called from its threads.
struct AdminHandlers {
  std::function<std::string()> metrics;  ///< Prometheus's text format
  /// Empty if the server takes reads and writes, else why not.
  std::function<std::string()> not_ready;
  /// What the console shows of a database, as JSON, or nothing if there is no such database; null: no console.
  std::function<std::optional<std::string>(DatabaseId)> console;
};

/// Two threads of its own; a slow reader cannot hold up the server. It only tells: nothing here changes anything.
class AdminServer {
 public:
  explicit AdminServer(AdminHandlers handlers);
  ~AdminServer();
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  /// Listens and serves; port 0 takes a free one. Empty, or what went wrong.
  std::string start(const std::string& address, std::uint16_t port);
  [[nodiscard]] std::uint16_t port() const;
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide
