// Accepts connections, and gives each to the event loop that has the fewest connections.
//
// asio reports when a listening socket has connections; these are accepted in a batch. A connection is refused here, with an
// error reply, by protected mode, or if there are too many clients or unauthenticated clients. If no file descriptor is free, the
// spare one (spare_fd_) is closed for a moment. Then the connection is accepted and closed, instead of staying in the queue. If
// that fails, too, the listener pauses before the next attempt.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "net/event_loop.h"
#include "net/settings.h"

namespace ebbtide {

/// The listening sockets. Used on the thread of its io_context, unless a comment says otherwise.
class Listener {
 public:
  /// All pointers must outlive the listener.
  Listener(asio::io_context& io, const NetSettings& settings, NetShared* shared, const NetEnv* env,
           std::vector<EventLoop*> loops);
  ~Listener();

  /// Listens on an address ("127.0.0.1", "::1", "0.0.0.0", "*") and port. With port 0 the system chooses a free port, and later
  /// calls with port 0 use the same one; connections with TLS have another port. `tls`: connections are encrypted, with the
  /// context of set_tls(). Returns "" or the error. Sets `unavailable` if the machine has no such address, for example because
  /// IPv6 is off.
  std::string listen(const std::string& address, std::uint16_t port, bool* unavailable, bool tls = false);
  /// Listens on a Unix socket with the given file mode. Replaces a socket file on which no server listens; any other existing
  /// file is an error. Returns "" or the error. stop() removes the socket file.
  std::string listen_unix(const std::string& path, unsigned mode);
  /// Returns the port of the first listening socket; 0 if there is none.
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::uint16_t tls_port() const { return tls_port_; }
  /// Replaces the TLS context for connections that arrive from now on. Any thread.
  void set_tls(std::shared_ptr<const TlsContext> context);
  /// Starts to accept connections.
  void start();
  void stop();
  /// Replaces the settings. They apply to connections that arrive after this has returned. Any thread.
  void set_settings(const NetSettings& settings);

 private:
  struct Socket;
  void wait(Socket& socket);
  bool accept_batch(Socket& socket);  ///< returns false if accepting failed, and would fail again at once
  void admit(Arrival arrival, bool loopback, bool tls);
  bool close_a_stranger();
  void refuse(int fd, const char* reply, bool tls);

  asio::io_context& io_;
  const int backlog_;
  std::mutex settings_mutex_;
  NetSettings settings_;                   // guarded by settings_mutex_
  std::shared_ptr<const TlsContext> tls_;  // guarded by settings_mutex_
  NetShared* shared_;
  const NetEnv* env_;
  std::vector<EventLoop*> loops_;
  std::vector<std::unique_ptr<Socket>> sockets_;
  std::uint16_t port_ = 0, tls_port_ = 0;
  std::string unix_path_;  ///< path of the Unix socket; "" = none
  int null_fd_ = -1;       ///< /dev/null
  int spare_fd_ = -1;      ///< a copy of null_fd_, closed to free one descriptor when no other is left
  std::int64_t error_logged_ms_ = 0, eviction_logged_ms_ = 0;
};

/// The reply "-DENIED ..." to a remote client in protected mode.
extern const char kProtectedModeReply[];

}  // namespace ebbtide
