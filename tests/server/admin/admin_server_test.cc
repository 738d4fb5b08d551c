// Tests of the HTTP port over a real socket.
#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <memory>
#include <vector>

#include "admin/admin_server.h"

namespace TEST_FILE {

using namespace ebbtide;

// A client's socket. Reads wait at most 20 s, so that a failing test ends.
class Link {
 public:
  explicit Link(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience{20, 0};
    (void)::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  }
  ~Link() { ::close(fd_); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  Link& send(const std::string& text) {
    (void)!::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
    return *this;
  }
  // Reads until the server closes. The result ends with "(timeout)" if it does not close.
  std::string all() {
    std::string answer;
    char buffer[4096];
    ssize_t n = 0;
    while ((n = ::recv(fd_, buffer, sizeof(buffer), 0)) > 0) answer.append(buffer, static_cast<std::size_t>(n));
    return n < 0 && errno == EAGAIN ? answer + "(timeout)" : answer;
  }
  // Reads until the received text ends with `end`.
  std::string until(const std::string& end) {
    std::string answer;
    for (char c = 0; !answer.ends_with(end) && ::recv(fd_, &c, 1, 0) == 1;) answer += c;
    return answer;
  }

  int fd() const { return fd_; }

 private:
  int fd_;
};

std::string ask(std::uint16_t port, const std::string& path, const std::string& method = "GET") {
  return Link(port).send(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").all();
}

AdminHandlers handlers() {
  return {[] { return std::string("ebbtide_up 1\n"); }, [] { return std::string(); }};
}

TEST_CASE("HTTP port: /metrics, /healthz and /ready are served, and /ready gives 503 while the database is being opened") {
  std::atomic<bool> ready{false};
  AdminServer server(
      {[] { return std::string("ebbtide_up 1\n"); }, [&] { return ready ? std::string() : std::string("opening"); }});
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
  AdminServer second({nullptr, nullptr});
  const std::string why = second.start("127.0.0.1", server.port());
  CHECK(why == "metrics: cannot listen on 127.0.0.1:" + std::to_string(server.port()) +
                   ": Address already in use. Set metrics.port to another port, or to 0 for none");
  server.stop();
}

TEST_CASE("HTTP request has another method than GET: HEAD gets only the header of GET, others get 405 with Allow") {
  AdminServer server(handlers());
  REQUIRE(server.start("127.0.0.1", 0).empty());
  const std::string head = ask(server.port(), "/metrics", "HEAD");
  CHECK(head.find("HTTP/1.1 200") == 0);
  CHECK(head.find("Content-Length: 13\r\n") != std::string::npos);
  CHECK(head.ends_with("\r\n\r\n"));
  const std::string post = ask(server.port(), "/metrics", "POST");
  CHECK(post.find("HTTP/1.1 405") == 0);
  CHECK(post.find("Allow: GET, HEAD\r\n") != std::string::npos);
  CHECK(ask(server.port(), "/other", "POST").find("HTTP/1.1 404") == 0);
}

TEST_CASE("HTTP/1.1 client sends several requests: the connection stays open until the client asks to close it") {
  AdminServer server(handlers());
  REQUIRE(server.start("127.0.0.1", 0).empty());
  Link link(server.port());
  CHECK(link.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /ready HTTP/1.1\r\nHost: a\r\n\r\n").until("ok\n").find("200") !=
        std::string::npos);
  CHECK(link.until("ok\n").find("HTTP/1.1 200") == 0);
  const std::string last = link.send("GET /healthz?x=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").all();
  CHECK(last.find("HTTP/1.1 200") == 0);
  CHECK(last.find("Connection: close\r\n") != std::string::npos);
  // A client of HTTP/1.0, and then one that asks to keep the connection.
  CHECK(Link(server.port()).send("GET /healthz HTTP/1.0\r\n\r\n").all().ends_with("\r\n\r\nok\n"));
  Link old(server.port());
  CHECK(old.send("GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").until("ok\n").find("Connection: keep-alive\r\n") !=
        std::string::npos);
  CHECK(old.send("GET /healthz HTTP/1.0\r\n\r\n").all().ends_with("ok\n"));
}

TEST_CASE("HTTP header is too long or malformed: the reply is 414, 431 or 400, and the connection is closed") {
  std::vector<std::string> lines;
  AdminHandlers with_log = handlers();
  with_log.bad_request = [&](const std::string& line) { lines.push_back(line); };
  AdminServer server(with_log);
  REQUIRE(server.start("127.0.0.1", 0).empty());
  const std::string long_text(9'000, 'x');
  CHECK(ask(server.port(), "/" + long_text).find("HTTP/1.1 414") == 0);
  const std::string header = Link(server.port()).send("GET / HTTP/1.1\r\nHost: a\r\nX: " + long_text + "\r\n\r\n").all();
  CHECK(header.find("HTTP/1.1 431") == 0);
  CHECK(header.ends_with("the header has over 8192 bytes\n"));
  const std::string bad =
      GENERATE("*1\r\n$4\r\nPING\r\n", "GET  HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01\r\n\r\n", "GET / HTTP/9.9\r\n\r\n");
  CHECK(Link(server.port()).send(bad).all().find("HTTP/1.1 400") == 0);
  // A body is not read, so the connection closes after the reply.
  const std::string body =
      Link(server.port()).send("POST /ready HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\nabc").all();
  CHECK(body.find("HTTP/1.1 405") == 0);
  CHECK(body.find("Connection: close") != std::string::npos);
  server.stop();
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "HTTP request from 127.0.0.1 refused: its request line has over 8192 bytes");
}

TEST_CASE("HTTP request header arrives slowly: the connection is closed at a deadline that further bytes do not move") {
  HttpLimits limits;
  limits.header_ms = 300;
  AdminServer server(handlers(), limits);
  REQUIRE(server.start("127.0.0.1", 0).empty());
  Link link(server.port());
  link.send("GET /healthz HTTP/1.1\r\nHost: a\r\n");
  // The bytes of another header are sent one by one, each after a request of another client got its reply.
  std::size_t sent = 0;
  while (sent < 100'000 && ::send(link.fd(), "X", 1, MSG_NOSIGNAL) == 1) {
    ++sent;
    REQUIRE(ask(server.port(), "/healthz").find("HTTP/1.1 200") == 0);
  }
  CHECK(sent < 8'000);  // the deadline ended the connection, not the header's size
  CHECK(link.all().empty());
}

TEST_CASE("HTTP connections exceed the limit: the connection that waited longest is closed, and the new one is served") {
  HttpLimits limits;
  limits.connections = 4;
  limits.header_ms = 60'000;
  AdminServer server(handlers(), limits);
  REQUIRE(server.start("127.0.0.1", 0).empty());
  std::vector<std::unique_ptr<Link>> idle;
  for (int i = 0; i < 4; ++i) idle.push_back(std::make_unique<Link>(server.port()));
  // The second connection has sent a request since, so the first and the third have waited longer.
  CHECK(idle[1]->send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").until("ok\n").find("200") != std::string::npos);
  Link fresh(server.port());
  CHECK(fresh.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").until("ok\n").find("200") != std::string::npos);
  CHECK(idle[0]->all().empty());
  CHECK(ask(server.port(), "/healthz").find("200") != std::string::npos);
  CHECK(idle[2]->all().empty());
  CHECK(idle[1]->send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").until("ok\n").find("200") != std::string::npos);
}

TEST_CASE("reply to /metrics takes long: /healthz and /ready reply meanwhile, and all waiting requests get one page") {
  std::promise<void> go;
  const std::shared_future<void> going = go.get_future().share();
  std::atomic<int> computed{0};
  AdminServer server(
      {[&, going] { return going.wait(), "late " + std::to_string(++computed) + "\n"; }, [] { return std::string(); }});
  REQUIRE(server.start("127.0.0.1", 0).empty());
  std::vector<std::unique_ptr<Link>> slow;
  for (int i = 0; i < 40; ++i) {
    slow.push_back(std::make_unique<Link>(server.port()));
    slow.back()->send("GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    // Only the first request has begun when the others arrive.
    if (i == 0) CHECK(ask(server.port(), "/ready").find("HTTP/1.1 200") == 0);
  }
  slow[5].reset();  // a client that disconnects does not delay the replies to others
  CHECK(ask(server.port(), "/healthz").find("HTTP/1.1 200") == 0);
  CHECK(ask(server.port(), "/ready").find("HTTP/1.1 200") == 0);
  go.set_value();
  for (auto& link : slow) {
    if (link == nullptr) continue;
    const std::string answer = link->all();
    CHECK(answer.find("HTTP/1.1 200") == 0);
    CHECK(answer.find("late ") != std::string::npos);
  }
  CHECK(computed <= 3);  // the first page, one for requests that came during it, and one for a request that came as it began
  CHECK(ask(server.port(), "/metrics").ends_with("late " + std::to_string(computed.load()) + "\n"));
}

TEST_CASE("HTTP: 16 console requests are waiting: the next one gets 503, and a request for metrics is still served") {
  std::promise<void> go;
  const std::shared_future<void> going = go.get_future().share();
  AdminHandlers handlers{[] { return std::string("m\n"); }, [] { return std::string(); }};
  handlers.console = [going](DatabaseId) -> std::optional<std::string> { return going.wait(), "{}"; };
  AdminServer server(handlers);
  REQUIRE(server.start("127.0.0.1", 0).empty());
  std::vector<std::unique_ptr<Link>> slow;
  const auto get = [&](const std::string& path) {
    slow.push_back(std::make_unique<Link>(server.port()));
    slow.back()->send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  };
  for (int i = 0; i < 16; ++i) get("/console.json");
  CHECK(ask(server.port(), "/healthz").find("HTTP/1.1 200") == 0);
  get("/metrics");
  CHECK(ask(server.port(), "/console.json").find("HTTP/1.1 503") == 0);
  go.set_value();
  for (auto& link : slow) CHECK(link->all().find("HTTP/1.1 200") == 0);
}

}  // namespace TEST_FILE
