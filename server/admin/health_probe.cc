#include "admin/health_probe.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>

namespace ebbtide {
namespace {

constexpr std::size_t kMostBytes = 4096;  // the most bytes of a reply that are read; /ready and PING reply with one line
constexpr std::int64_t kStepMs = 50;      // waiting time is counted in steps of this length, so a probe needs no clock

struct Socket {
  ~Socket() {
    if (fd >= 0) ::close(fd);
  }
  int fd = -1;
};

/// The remaining time of a probe, in milliseconds.
struct Patience {
  std::int64_t left_ms;

  /// Waits until `fd` is readable or writable. Returns false if the time is used up.
  bool wait(int fd, std::int16_t events) {
    while (left_ms > 0) {
      pollfd one{fd, events, 0};
      const int step = static_cast<int>(std::min(left_ms, kStepMs));
      const int ready = ::poll(&one, 1, step);
      if (ready > 0) return true;
      if (ready == 0 || errno == EINTR) left_ms -= step;
      if (ready < 0 && errno != EINTR) return false;
    }
    return false;
  }
};

std::string reachable(const std::string& bind) {
  if (bind.empty() || bind == "*" || bind == "0.0.0.0") return "127.0.0.1";
  return bind == "::" ? "::1" : bind;
}

/// Connects to host and port. Returns "" or the error.
std::string connect_to(const std::string& host, std::uint16_t port, Socket* socket, Patience* patience) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0)
    return ::gai_strerror(error);
  socket->fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int failed = socket->fd < 0 || (::connect(socket->fd, found->ai_addr, found->ai_addrlen) != 0) ? errno : 0;
  ::freeaddrinfo(found);
  if (failed == EINPROGRESS) {
    if (!patience->wait(socket->fd, POLLOUT)) return "no connection in time";
    socklen_t size = sizeof(failed);
    if (::getsockopt(socket->fd, SOL_SOCKET, SO_ERROR, &failed, &size) != 0) failed = errno;
  }
  return failed == 0 ? "" : std::strerror(failed);
}

/// Sends a request, and reads until the server closes or, if `one_line`, until the first line ends. Returns "" or the error.
std::string exchange(Socket& socket, std::string_view request, bool one_line, Patience* patience, std::string* reply) {
  if (::send(socket.fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    return std::strerror(errno);
  char buffer[512];
  while (reply->size() < kMostBytes && !(one_line && reply->find('\n') != std::string::npos)) {
    if (!patience->wait(socket.fd, POLLIN)) return "no reply in time";
    const ssize_t bytes = ::recv(socket.fd, buffer, sizeof(buffer), 0);
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (bytes < 0) return std::strerror(errno);
    if (bytes == 0) break;
    reply->append(buffer, static_cast<std::size_t>(bytes));
  }
  return {};
}

/// TLS over a connected socket.
class Encryption {
 public:
  /// Performs the TLS handshake. Returns "" or the error.
  std::string begin(int fd, Patience* patience) {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (context_ != nullptr) ssl_.reset(SSL_new(context_.get()));
    if (ssl_ == nullptr || SSL_set_fd(ssl_.get(), fd) != 1) return "no TLS on this machine";
    return repeat(patience, [this] { return SSL_connect(ssl_.get()); }) > 0 ? "" : "no TLS handshake";
  }
  /// Like send() and recv() of a blocking socket, with the time limit of `patience`; -1: any error.
  ssize_t send(std::string_view bytes, Patience* patience) {
    return repeat(patience, [&] { return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())); });
  }
  ssize_t receive(char* to, std::size_t room, Patience* patience) {
    const int bytes = repeat(patience, [&] { return SSL_read(ssl_.get(), to, static_cast<int>(room)); });
    return bytes <= 0 && SSL_get_error(ssl_.get(), bytes) == SSL_ERROR_ZERO_RETURN ? 0 : bytes;
  }

 private:
  int repeat(Patience* patience, const std::function<int()>& call) {
    for (;;) {
      const int result = call();
      if (result > 0) return result;
      const int error = SSL_get_error(ssl_.get(), result);
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return result;
      if (!patience->wait(SSL_get_fd(ssl_.get()), error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT)) return -1;
    }
  }

  struct Free {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  std::unique_ptr<SSL_CTX, Free> context_;
  std::unique_ptr<SSL, Free> ssl_;
};

/// Asks /ready over TLS. Returns "" or the error.
std::string exchange_encrypted(const Socket& socket, std::string_view request, Patience* patience, std::string* reply) {
  Encryption link;
  if (std::string why = link.begin(socket.fd, patience); !why.empty()) return why;
  if (link.send(request, patience) <= 0) return "the request could not be sent";
  char buffer[512];
  while (reply->size() < kMostBytes) {
    const ssize_t bytes = link.receive(buffer, sizeof(buffer), patience);
    if (bytes < 0) return patience->left_ms > 0 ? "the server closed the connection" : "no reply in time";
    if (bytes == 0) break;
    reply->append(buffer, static_cast<std::size_t>(bytes));
  }
  return {};
}

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find_first_of("\r\n"))); }

/// Returns the reason in a reply of /ready; "" for status 200.
std::string judge_http(std::string_view reply) {
  if (reply.substr(0, 7) != "HTTP/1.") return "not an HTTP server";
  if (reply.substr(8, 5) == " 200 ") return {};
  const std::size_t body = reply.find("\r\n\r\n");
  const std::string why = body == std::string_view::npos ? std::string() : first_line(reply.substr(body + 4));
  return why.empty() ? first_line(reply) : why;
}

/// Returns "" if the reply to PING shows that the server is ready, else the reason.
std::string judge_ping(std::string_view reply) {
  if (reply.substr(0, 5) == "+PONG" || reply.substr(0, 7) == "-NOAUTH") return {};
  return reply.empty() ? "the server closed the connection" : first_line(reply);
}

}  // namespace

std::string probe_health(const HealthTarget& target, std::int64_t timeout_ms) {
  const bool http = target.metrics_port != 0;
  const std::string host = reachable(http ? target.metrics_bind : target.bind);
  const std::uint16_t port = http ? target.metrics_port : target.port;
  Socket socket;
  Patience patience{timeout_ms};
  std::string reply;
  std::string why = connect_to(host, port, &socket, &patience);
  if (why.empty()) {
    const std::string_view request = http ? "GET /ready HTTP/1.0\r\n\r\n" : "PING\r\n";
    why = http && target.metrics_tls ? exchange_encrypted(socket, request, &patience, &reply)
                                     : exchange(socket, request, !http, &patience, &reply);
  }
  if (why.empty()) why = http ? judge_http(reply) : judge_ping(reply);
  return why.empty() ? why : host + ":" + std::to_string(port) + ": " + why;
}

}  // namespace ebbtide
