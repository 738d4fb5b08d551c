// The HTTP port, asked over a real socket.
#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include "admin/admin_server.h"

using namespace ebbtide;

namespace {

std::string ask(std::uint16_t port, const std::string& path) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  REQUIRE(::send(fd, request.data(), request.size(), 0) == static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n; (n = ::recv(fd, buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, static_cast<std::size_t>(n));
  ::close(fd);
  return answer;
}

}  // namespace

TEST_CASE("metrics, health and readiness") {
  std::atomic<bool> ready{false};
  AdminServer server(
      {[] { return std::string("ebbtide_up 1\n"); }, [&] { return ready ? std::string() : std::string("opening"); }, nullptr});
  REQUIRE(server.start("127.0.0.1", 0).empty());
  const std::string metrics = ask(server.port(), "/metrics");
  CHECK(metrics.find("HTTP/1.1 200") == 0);
  CHECK(metrics.find("text/plain; version=0.0.4") != std::string::npos);
  CHECK(metrics.find("ebbtide_up 1\n") != std::string::npos);
  CHECK(ask(server.port(), "/healthz").find("HTTP/1.1 200") == 0);
  const std::string opening = ask(server.port(), "/ready");
  CHECK(opening.find("HTTP/1.1 503") == 0);
  CHECK(opening.find("opening\n") != std::string::npos);
  ready = true;
  CHECK(ask(server.port(), "/ready").find("HTTP/1.1 200") == 0);
  const std::string other = ask(server.port(), "/other");
  CHECK(other.find("HTTP/1.1 404") == 0);
  CHECK(other.find("there are /metrics, /healthz and /ready\n") != std::string::npos);
  CHECK(ask(server.port(), "/").find("HTTP/1.1 404") == 0);
  CHECK(ask(server.port(), "/console.json").find("HTTP/1.1 404") == 0);
  AdminServer second({nullptr, nullptr, nullptr});
  const std::string why = second.start("127.0.0.1", server.port());
  CHECK(why == "metrics: cannot listen on 127.0.0.1:" + std::to_string(server.port()) +
                   ": Address already in use. metrics.port takes another port, or 0 for none");
  server.stop();
}
