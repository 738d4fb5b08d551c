#include "net/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

namespace ebbtide {

const char kProtectedModeReply[] =
    "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. "
    "In this mode connections are only accepted from the loopback interface. If you want to connect from external computers to "
    "Redis you may adopt one of the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET "
    "protected-mode no' from the loopback interface by connecting to Redis from the same host the server is running, however "
    "MAKE "
    "SURE Redis is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) "
    "Alternatively you can just disable the protected mode by editing the configuration file, and setting server.protected_mode "
    "to false, and then restarting the server. 3) If you started the server manually just for testing, restart it with the "
    "'--set server.protected_mode=false' option. 4) Setup a an authentication password for the default user. NOTE: You only need "
    "to do one of "
    "the above things in order for the server to start accepting connections from the outside.\r\n";

namespace {

constexpr int kBatch = 128;
constexpr std::chrono::milliseconds kPause{50};  // after a failure that an immediate attempt would repeat
// Clients above max_clients that may be evicted but not closed yet. At this limit, a new client is refused.
constexpr std::uint64_t kMostEvicted = 8;
constexpr char kTooManyClients[] = "-ERR max number of clients reached\r\n";

// Returns a client's address as text. A client of the Unix socket has no address: it is shown by the socket's path, as in Redis.
std::string text_of(const sockaddr_storage& address, const std::string& unix_path) {
  if (address.ss_family == AF_UNIX) return unix_path + ":0";
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return std::string(text) + ":" + std::to_string(ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    ::inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text, sizeof(text));
  } else {
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  }
  const bool brackets = std::strchr(text, ':') != nullptr;
  return (brackets ? "[" + std::string(text) + "]" : std::string(text)) + ":" + std::to_string(ntohs(v6.sin6_port));
}

// Returns the network of an address. In IPv6 that is the /64 network, since one host may have all of its addresses.
std::string network_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_UNIX) return "unixsocket";
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6 = reinterpret_cast<const sockaddr_in6&>(address);
    if (IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr)) return "::1";
    if (!IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      std::memset(v6.sin6_addr.s6_addr + 8, 0, 8);
      char text[INET6_ADDRSTRLEN] = "?";
      ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
      return std::string(text) + "/64";
    }
  }
  const std::string text = text_of(address, {});
  return text.substr(0, text.rfind(':'));
}

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_UNIX) return true;
  if (address.ss_family == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24) == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

void set_option(int fd, int level, int option, int value) { (void)::setsockopt(fd, level, option, &value, sizeof(value)); }

void set_keepalive(int fd, std::int64_t ms) {
  if (ms <= 0) return;
  const int seconds = static_cast<int>(std::max<std::int64_t>(ms / 1000, 1));
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(seconds / 3, 1));
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof(address.sun_path) - 1));
  return address;
}

// Removes the socket file if no process listens on it any more. Returns "" if the path is free, otherwise why not.
std::string free_unix_path(const std::string& path, const sockaddr_un& address) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return errno == ENOENT ? "" : std::strerror(errno);
  if (!S_ISSOCK(status.st_mode)) return "the path is a file of another kind";
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const bool answered = ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 || errno == EAGAIN;
  ::close(probe);
  if (answered) return "another server listens on this path";
  return ::unlink(path.c_str()) == 0 ? "" : std::strerror(errno);
}

}  // namespace

// A listening socket of any family.
struct Listener::Socket {
  explicit Socket(asio::io_context& io) : descriptor(io), pause(io) {}
  asio::posix::stream_descriptor descriptor;
  asio::steady_timer pause;
  bool tls = false;
};

Listener::Listener(asio::io_context& io, const NetSettings& settings, NetShared* shared, const NetEnv* env,
                   std::vector<EventLoop*> loops)
    : io_(io), backlog_(settings.tcp_backlog), settings_(settings), shared_(shared), env_(env), loops_(std::move(loops)) {
  null_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  spare_fd_ = ::fcntl(null_fd_, F_DUPFD_CLOEXEC, 0);
}

Listener::~Listener() {
  if (spare_fd_ >= 0) ::close(spare_fd_);
  if (null_fd_ >= 0) ::close(null_fd_);
}

std::string Listener::listen(const std::string& address, std::uint16_t port, bool* unavailable, bool tls) {
  std::uint16_t& known_port = tls ? tls_port_ : port_;
  *unavailable = false;
  const std::string where = address + ":" + std::to_string(port);
  asio::error_code error;
  const auto ip = asio::ip::make_address(address == "*" ? "0.0.0.0" : address, error);
  if (error) return "server.bind: '" + address + "' is not an IP address";
  if (port == 0) port = known_port;
  asio::ip::tcp::acceptor acceptor(io_);
  acceptor.open(ip.is_v6() ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), error);
  if (!error) acceptor.set_option(asio::ip::tcp::acceptor::reuse_address(true), error);
  if (!error && ip.is_v6()) set_option(acceptor.native_handle(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (!error) acceptor.bind({ip, port}, error);
  if (!error) acceptor.listen(backlog_, error);
  if (!error) acceptor.native_non_blocking(true, error);
  if (error) {
    *unavailable = error.value() == EADDRNOTAVAIL || error.value() == EAFNOSUPPORT;
    return "cannot listen on " + where + ": " + error.message();
  }
  (void)::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
  if (known_port == 0) known_port = acceptor.local_endpoint(error).port();
  const int fd = acceptor.release(error);
  auto socket = std::make_unique<Socket>(io_);
  socket->tls = tls;
  if (!error) socket->descriptor.assign(fd, error);
  if (error) return "cannot listen on " + where + ": " + error.message();
  sockets_.push_back(std::move(socket));
  return {};
}

std::string Listener::listen_unix(const std::string& path, unsigned mode) {
  const std::string where = "cannot listen on server.unixsocket " + path + ": ";
  const sockaddr_un address = unix_address(path);
  if (std::string why = free_unix_path(path, address); !why.empty()) return where + why;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return where + std::strerror(errno);
  auto socket = std::make_unique<Socket>(io_);
  asio::error_code error;
  socket->descriptor.assign(fd, error);
  if (error) return where + error.message();
  // Until its mode is set, the process's umask keeps the socket private.
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return where + std::strerror(errno);
  unix_path_ = path;
  if (::chmod(path.c_str(), mode) != 0 || ::listen(fd, backlog_) != 0) return where + std::strerror(errno);
  sockets_.push_back(std::move(socket));
  return {};
}

void Listener::start() {
  for (auto& socket : sockets_) wait(*socket);
}

void Listener::stop() {
  asio::error_code ignored;
  for (auto& socket : sockets_) {
    socket->descriptor.close(ignored);
    socket->pause.cancel();
  }
  // By now, another server's socket may have replaced this server's at the path. free_unix_path() removes only an unused one.
  if (!unix_path_.empty()) (void)free_unix_path(unix_path_, unix_address(unix_path_));
  unix_path_.clear();
}

void Listener::set_settings(const NetSettings& settings) {
  // The settings change before this returns, and not in a posted task: they apply to connections that arrive in the current
  // batch.
  std::lock_guard lock(settings_mutex_);
  settings_ = settings;
}

void Listener::set_tls(std::shared_ptr<const TlsContext> context) {
  std::lock_guard lock(settings_mutex_);
  tls_ = std::move(context);
}

void Listener::wait(Socket& socket) {
  socket.descriptor.async_wait(asio::posix::stream_descriptor::wait_read, [this, &socket](const asio::error_code& error) {
    if (error || !socket.descriptor.is_open()) return;
    if (accept_batch(socket)) return wait(socket);
    socket.pause.expires_after(kPause);
    socket.pause.async_wait([this, &socket](const asio::error_code& stopped) {
      if (!stopped && socket.descriptor.is_open()) wait(socket);
    });
  });
}

bool Listener::accept_batch(Socket& socket) {
  for (int i = 0; i < kBatch; ++i) {
    sockaddr_storage peer{}, local{};
    socklen_t size = sizeof(peer);
    const int fd =
        ::accept4(socket.descriptor.native_handle(), reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
      if (errno == EINTR || errno == ECONNABORTED) continue;
      const int error = errno;
      shared_->accept_errors.fetch_add(1);
      if (const std::int64_t now = env_->unix_ms(); now - error_logged_ms_ >= 1'000) {
        error_logged_ms_ = now;
        env_->log(NetLog::kWarning, std::string("accept: ") + std::strerror(error));
      }
      if (error != EMFILE) return false;
      if (spare_fd_ >= 0) ::close(spare_fd_);
      const int refused = ::accept(socket.descriptor.native_handle(), nullptr, nullptr);
      if (refused < 0) {
        // Another thread may take the freed descriptor first. Then each later failure tries again to open the spare one.
        spare_fd_ = ::fcntl(null_fd_, F_DUPFD_CLOEXEC, 0);
        return false;
      }
      // One call closes the connection and turns its descriptor into the spare one, so that no other thread can take it in
      // between.
      spare_fd_ = ::dup3(null_fd_, refused, O_CLOEXEC);
      if (spare_fd_ < 0) ::close(refused);
      continue;
    }
    size = sizeof(local);
    (void)::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size);
    admit({fd, text_of(peer, unix_path_), network_of(peer), text_of(local, unix_path_), false, nullptr}, is_loopback(peer),
          socket.tls);
  }
  return true;
}

void Listener::refuse(int fd, const char* reply, bool tls) {
  if (!tls) (void)!::send(fd, reply, std::strlen(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
  // Reads the bytes that the client has sent: closing with unread input would reset the connection, and the client might lose the
  // reply.
  ::shutdown(fd, SHUT_WR);
  char away[4096];
  for (int i = 0; i < 4 && ::recv(fd, away, sizeof(away), MSG_DONTWAIT) > 0; ++i) {
  }
  ::close(fd);
}

// Closes an unauthenticated connection to make room for a new one. Returns false if no connection can be closed.
bool Listener::close_a_stranger() {
  const auto stranger = shared_->unauthenticated.take_one_to_close();
  if (!stranger) return false;
  shared_->evicted_strangers.fetch_add(1);
  stranger->loop->evict(stranger->client_id);
  if (const std::int64_t now = env_->unix_ms(); now - eviction_logged_ms_ >= 60'000) {
    eviction_logged_ms_ = now;
    env_->log(NetLog::kWarning, "too many unauthenticated clients, most of them from " + stranger->network +
                                    ": for each new connection an old one is closed");
  }
  return true;
}

// Passes a connection to a loop, or refuses it. A client of the TLS port is a stranger until its handshake is done.
void Listener::admit(Arrival arrival, bool loopback, bool tls) {
  const int fd = arrival.fd;
  shared_->accepted.fetch_add(1);
  // The lock is held until the connection is passed on: those accepted under the old settings must reach a loop before the new
  // settings.
  std::lock_guard lock(settings_mutex_);
  const NetSettings& settings = settings_;
  // At max_clients, an unauthenticated connection makes room, too. If file descriptors are few, max_clients is low, and a few
  // unauthenticated connections would use it up.
  const std::uint64_t clients = shared_->clients.load();
  const bool stranger = settings.password_required || tls;
  const bool makes_room = stranger && clients < settings.max_clients + kMostEvicted;
  if (clients >= settings.max_clients && !(makes_room && close_a_stranger())) {
    shared_->rejected_max_clients.fetch_add(1);
    return refuse(fd, kTooManyClients, tls);
  }
  if (!settings.password_required && settings.protected_mode && !loopback) {
    shared_->rejected_protected.fetch_add(1);
    return refuse(fd, kProtectedModeReply, tls);
  }
  if (stranger) {
    // A busy loop closes evicted connections late. Beyond twice the limit, new clients are refused.
    const std::uint64_t strangers = shared_->strangers.load();
    const bool full = settings.max_strangers != 0 && strangers >= settings.max_strangers;
    if (full && (strangers >= 2 * settings.max_strangers || !close_a_stranger())) {
      shared_->rejected_strangers.fetch_add(1);
      return refuse(fd, kTooManyStrangers, tls);
    }
  }
  if (tls) arrival.tls = std::make_unique<TlsStream>(tls_, fd);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_keepalive(fd, settings.tcp_keepalive_ms);
  EventLoop* least = *std::min_element(loops_.begin(), loops_.end(),
                                       [](const EventLoop* a, const EventLoop* b) { return a->load() < b->load(); });
  shared_->clients.fetch_add(1);
  if (stranger) shared_->strangers.fetch_add(1);
  arrival.stranger = stranger;
  least->adopt(std::move(arrival));
}

}  // namespace ebbtide
