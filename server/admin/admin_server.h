// The HTTP port for machines that watch: /metrics, /healthz, /ready.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace ebbtide {

/// What the port shows. Called from its threads.
struct AdminHandlers {
  std::function<std::string()> metrics;  ///< Prometheus's text format
  /// Empty if the server takes reads and writes, else why not.
  std::function<std::string()> not_ready;
};

/// Two threads of its own; a slow reader cannot hold up the server.
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
