// Tests of the probe of --health, against the real HTTP port and against a server that sends one fixed reply.
#include "admin/health_probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <string>
#include <thread>

#include "admin/admin_server.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr std::int64_t kPatienceMs = 20'000;

// Listens on a free port of loopback. Sends one fixed reply, or none if it is empty, after the first bytes of a connection.
class OneReply {
 public:
  explicit OneReply(std::string reply) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    REQUIRE(::listen(fd_, 4) == 0);
    socklen_t size = sizeof(address);
    REQUIRE(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    if (reply.empty()) return;
    thread_ = std::thread([fd = fd_, reply = std::move(reply)] {
      const int client = ::accept(fd, nullptr, nullptr);
      char buffer[64];
      (void)!::recv(client, buffer, sizeof(buffer), 0);
      (void)!::send(client, reply.data(), reply.size(), MSG_NOSIGNAL);
      ::close(client);
    });
  }
  ~OneReply() {
    if (thread_.joinable()) thread_.join();
    ::close(fd_);
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  int fd_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

std::string ping(const std::string& reply, std::int64_t patience = kPatienceMs) {
  const OneReply server(reply);
  return probe_health({.metrics_port = 0, .bind = "*", .port = server.port()}, patience);
}

std::string asked(std::uint16_t port, const std::string& bind = "127.0.0.1") {
  return probe_health({.metrics_bind = bind, .metrics_port = port, .port = 1}, kPatienceMs);
}

TEST_CASE("health probe: server is ready: the probe succeeds, also if the server listens on 0.0.0.0") {
  AdminServer server({[] { return std::string(); }, [] { return std::string(); }});
  REQUIRE(server.start("0.0.0.0", 0).empty());
  CHECK(asked(server.port()).empty());
  CHECK(asked(server.port(), "0.0.0.0").empty());
  CHECK(asked(server.port(), "localhost").empty());
}

TEST_CASE("health probe: server is not ready: the probe fails with the server's reason") {
  AdminServer server({[] { return std::string(); }, [] { return std::string("the database is being opened"); }});
  REQUIRE(server.start("127.0.0.1", 0).empty());
  CHECK(asked(server.port()) == "127.0.0.1:" + std::to_string(server.port()) + ": the database is being opened");
}

TEST_CASE("health probe: address is wrong, or has no HTTP server: the probe fails with the reason") {
  std::uint16_t port = 0;
  {
    const OneReply gone("");
    port = gone.port();
  }
  CHECK(asked(port).find("Connection refused") != std::string::npos);
  const OneReply other("+PONG\r\n");
  CHECK(asked(other.port()).find("not an HTTP server") != std::string::npos);
  CHECK_FALSE(asked(1, "no.such.host.invalid").empty());
}

TEST_CASE("health probe: server accepts but sends nothing: the probe fails after its timeout") {
  CHECK(ping("", 1).find("no reply in time") != std::string::npos);
}

TEST_CASE("health probe: metrics port is off: the server is healthy if it replies to PING with PONG or NOAUTH") {
  CHECK(ping("+PONG\r\n").empty());
  CHECK(ping("-NOAUTH Authentication required.\r\n").empty());
  CHECK(ping("-LOADING the database is being opened\r\n").find(": -LOADING the database is being opened") != std::string::npos);
  CHECK(ping("-ERR max number of clients reached\r\n").find("-ERR max number") != std::string::npos);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
