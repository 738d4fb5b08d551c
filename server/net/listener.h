// Accepts connections and spreads them over the event loops, each to the one with the fewest.
//
// asio tells when a listening socket has connections; they are then accepted in a batch. Who may not come in is told so and
// closed here: too many clients, too many that have not authenticated, strangers in protected mode. With no file descriptor left,
// one that was kept for the purpose is given up for a moment, so that the connection can be closed instead of filling the queue.
// Where even that fails it waits a little before the next try.
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

/// Runs on the thread of its io_context, but for what is marked otherwise.
class Listener {
 public:
  /// Pointers outlive it.
  Listener(asio::io_context& io, const NetSettings& settings, NetShared* shared, const NetEnv* env,
           std::vector<EventLoop*> loops);
  ~Listener();

  /// Listens on an address ("127.0.0.1", "::1", "0.0.0.0", "*") and port; port 0 takes a free one and all later calls take the
  /// same. Empty, or what went wrong; `unavailable` tells that the machine has no such address (IPv6 switched off).
  std::string listen(const std::string& address, std::uint16_t port, bool* unavailable);
  /// Port of the first socket; 0 if there is none.
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Begins to accept.
  void start();
  void stop();
  /// From any thread. Whoever connects after it has returned is judged by these.
  void set_settings(const NetSettings& settings);

 private:
  struct Socket;
  void wait(Socket& socket);
  bool accept_batch(Socket& socket);  ///< false: it failed, and would at once again
  void admit(Arrival arrival, bool loopback);
  bool close_a_stranger();
  void refuse(int fd, const char* reply);

  asio::io_context& io_;
  const int backlog_;
  std::mutex settings_mutex_;
  NetSettings settings_;  // guarded by settings_mutex_
  NetShared* shared_;
  const NetEnv* env_;
  std::vector<EventLoop*> loops_;
  std::vector<std::unique_ptr<Socket>> sockets_;
  std::uint16_t port_ = 0;
  int spare_fd_ = -1;
  std::int64_t error_logged_ms_ = 0, eviction_logged_ms_ = 0;
};

/// "-DENIED ...", what a remote client reads in protected mode.
extern const char kProtectedModeReply[];

}  // namespace ebbtide
