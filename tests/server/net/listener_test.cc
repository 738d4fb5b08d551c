// Tests of accepting connections: without file descriptors, under changing settings, and with the socket's options.
#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include <asio/io_context.hpp>

#include "net/listener.h"

namespace TEST_FILE {

using namespace ebbtide;

class NullSink final : public CommandSink {
 public:
  void run_pass(std::span<PendingCommand>) override {}
  void client_closed(Client&, PendingCommand*) override {}
};

int connect_to(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval limit{20, 0};
  REQUIRE(::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
  REQUIRE(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  return fd;
}

struct Fixture {
  Fixture() {
    env.unix_ms = [] { return std::int64_t{1'000'000}; };
    env.mono_ns = [] { return std::uint64_t{0}; };
    env.log = [](NetLog, const std::string&) {};
    loop = std::make_unique<EventLoop>(0, settings, &shared, &env);
    REQUIRE(loop->start(std::make_unique<NullSink>()).empty());
    listener = std::make_unique<Listener>(io, settings, &shared, &env, std::vector<EventLoop*>{loop.get()});
    bool unavailable = false;
    REQUIRE(listener->listen("127.0.0.1", 0, &unavailable).empty());
    listener->start();
  }
  NetSettings settings{.max_clients = 1};
  NetEnv env;
  NetShared shared;
  asio::io_context io;
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<Listener> listener;
};

TEST_CASE("no file descriptor is free: the listener waits without spinning, and accepts once one is free") {
  Fixture f;
  f.io.poll();  // the sanitizer needs descriptors for its first check of these types
  const int client = connect_to(f.listener->port());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  for (int i = 0; i < 200; ++i) f.io.poll();
  const auto errors = f.shared.accept_errors.load();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(errors >= 1);
  CHECK(errors <= 10);  // one attempt each 50 ms
  while (f.shared.accepted == 0) f.io.run_one();
  CHECK(f.shared.clients == 1);
  ::close(client);
}

TEST_CASE("client is refused, and has already sent commands: the client can still read the reason") {
  Fixture f;
  const int first = connect_to(f.listener->port()), second = connect_to(f.listener->port());
  REQUIRE(::send(second, "PING\r\n", 6, MSG_NOSIGNAL) == 6);
  while (f.shared.accepted < 2) f.io.run_one();
  char text[100];
  const ssize_t n = ::recv(second, text, sizeof(text), MSG_WAITALL);
  CHECK(std::string(text, n > 0 ? static_cast<std::size_t>(n) : 0) == "-ERR max number of clients reached\r\n");
  ::close(first);
  ::close(second);
}

TEST_CASE("setting changes while several connections are being accepted: the new value applies to the rest of them") {
  Fixture f;
  NetSettings none = f.settings;
  none.max_clients = 0;
  f.listener->set_settings(none);
  f.io.poll();
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int first = connect_to(f.listener->port());
  int second = -1;
  // The listener logs during the batch, when the first connection finds no descriptor and is closed.
  f.env.log = [&](NetLog, const std::string&) {
    if (second >= 0) return;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    f.listener->set_settings(f.settings);
    second = connect_to(f.listener->port());
  };
  const rlimit no_files{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &no_files) == 0);
  while (f.shared.accepted == 0) f.io.run_one();
  CHECK(second >= 0);
  CHECK(f.shared.rejected_max_clients == 0);
  CHECK(f.shared.clients == 1);
  ::close(first);
  ::close(second);
}

/// Returns the accepted end of a connection that this process has made; -1 if there is none.
int accepted_end(int client) {
  constexpr int kDescriptors = 1024;
  sockaddr_in ours{}, theirs{};
  socklen_t size = sizeof(ours);
  REQUIRE(::getsockname(client, reinterpret_cast<sockaddr*>(&ours), &size) == 0);
  for (int fd = 0; fd < kDescriptors; ++fd) {
    size = sizeof(theirs);
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&theirs), &size) != 0 || theirs.sin_family != AF_INET) continue;
    if (theirs.sin_port == ours.sin_port) return fd;
  }
  return -1;
}

int option_of(int fd, int level, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  REQUIRE(::getsockopt(fd, level, option, &value, &size) == 0);
  return value;
}

TEST_CASE("connection is accepted: its socket has tcp_keepalive's probes, and sends replies without delay") {
  Fixture f;
  std::uint64_t accepted = 0;
  const auto accept = [&](std::int64_t keepalive_ms) {
    NetSettings settings = f.settings;
    settings.max_clients = 10;
    settings.tcp_keepalive_ms = keepalive_ms;
    f.listener->set_settings(settings);
    const int client = connect_to(f.listener->port());
    ++accepted;
    while (f.shared.accepted < accepted) f.io.run_one();
    const int fd = accepted_end(client);
    REQUIRE(fd >= 0);
    CHECK(option_of(fd, IPPROTO_TCP, TCP_NODELAY) != 0);
    return std::pair{client, fd};
  };
  const auto [client, fd] = accept(90'000);
  CHECK(option_of(fd, SOL_SOCKET, SO_KEEPALIVE) != 0);
  CHECK(option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE) == 90);
  CHECK(option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL) == 30);
  CHECK(option_of(fd, IPPROTO_TCP, TCP_KEEPCNT) == 3);
  const auto [brief, brief_fd] = accept(1);  // the system counts in seconds
  CHECK(option_of(brief_fd, IPPROTO_TCP, TCP_KEEPIDLE) == 1);
  CHECK(option_of(brief_fd, IPPROTO_TCP, TCP_KEEPINTVL) == 1);
  const auto [never, never_fd] = accept(0);
  CHECK(option_of(never_fd, SOL_SOCKET, SO_KEEPALIVE) == 0);
  for (const int each : {client, brief, never}) ::close(each);
}

// A path for a socket in a directory of its own.
class SocketPath {
 public:
  SocketPath() {
    char name[] = "/tmp/ebbtide-socket-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    directory_ = name;
  }
  ~SocketPath() {
    ::unlink(path().c_str());
    ::rmdir(directory_.c_str());
  }
  [[nodiscard]] std::string path() const { return directory_ + "/s"; }
  [[nodiscard]] unsigned mode() const {
    struct stat status {};
    return ::lstat(path().c_str(), &status) == 0 ? status.st_mode : 0;
  }
  [[nodiscard]] int bound() const {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path().c_str());
    REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    return fd;
  }

 private:
  std::string directory_;
};

TEST_CASE("listener on a Unix socket: the socket has the configured mode, and stop() removes it") {
  Fixture f;
  const SocketPath place;
  REQUIRE(f.listener->listen_unix(place.path(), 0640).empty());
  CHECK(S_ISSOCK(place.mode()));
  CHECK((place.mode() & 0777) == 0640);
  f.listener->stop();
  CHECK(place.mode() == 0);
}

TEST_CASE("earlier process has left its Unix socket: the file is replaced, but a socket in use makes listening fail") {
  const SocketPath place;
  const int left = place.bound();
  Fixture f;
  REQUIRE(::listen(left, 1) == 0);
  CHECK(f.listener->listen_unix(place.path(), 0700) ==
        "cannot listen on server.unixsocket " + place.path() + ": another server listens on this path");
  ::close(left);
  CHECK(f.listener->listen_unix(place.path(), 0700).empty());
  CHECK((place.mode() & 0777) == 0700);
}

TEST_CASE("another server has replaced the Unix socket: stop() keeps the file") {
  const SocketPath place;
  Fixture f;
  REQUIRE(f.listener->listen_unix(place.path(), 0700).empty());
  REQUIRE(::unlink(place.path().c_str()) == 0);
  const int other = place.bound();
  REQUIRE(::listen(other, 1) == 0);
  f.listener->stop();
  CHECK(S_ISSOCK(place.mode()));
  ::close(other);
}

TEST_CASE("file at the Unix socket's path is no socket: the file is kept, and listening fails") {
  const SocketPath place;
  Fixture f;
  const int file = ::open(place.path().c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ::close(file);
  CHECK(f.listener->listen_unix(place.path(), 0700).find("the path is a file of another kind") != std::string::npos);
  CHECK(S_ISREG(place.mode()));
  f.listener->stop();
  CHECK(S_ISREG(place.mode()));
}

}  // namespace TEST_FILE
