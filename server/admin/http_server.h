// A small HTTP/1.1 server for the admin port, on Boost.Beast. The caller defines the routes.
//
// One thread does all input and output without blocking, so no client delays another. Whatever clients do:
//   - Every header and every reply has one deadline as a whole. So a header that arrives byte by byte is cut off.
//   - There are never more than `connections`. A new connection replaces the one that has waited longest for a request. If none
//     waits for one, it replaces the one that has been sending longest. So a probe is accepted however many clients are idle.
//   - Routes that only read atomics run on the I/O thread. Each other route runs on the worker thread of its class (Where), and
//     waits only for requests of that class.
//   - Requests for a `shared` route that wait for its worker all get one reply. It is computed once, after the last of them came.
//     So clients that request /metrics and do not read the reply neither fill the worker's queue nor delay a scrape.
// Request bodies are not read: every route replies to GET and HEAD only.
//
// Connections may be encrypted, and routes may require a user and a password (HttpAccess). A TLS handshake has the same deadline
// as a header, and its connection is treated as one that waits for a request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tls/tls_context.h"

namespace ebbtide {

struct HttpRequest {
  std::string path;   ///< "/console.json"
  std::string query;  ///< the text after the question mark, not decoded: "db=3"
  std::string host;   ///< the header Host, "" without one
};

/// Returns the value of `name` in a query, not decoded. If the query does not have `name`, the result's data() is null.
std::string_view query_argument(std::string_view query, std::string_view name);

struct HttpReply {
  unsigned status = 200;
  std::string type = "text/plain";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

struct HttpRoute {
  /// The thread that runs a route. kIo: the I/O thread, so the route must not block, lock or compute for long. kQuick and kLong
  /// have a worker thread each: kQuick routes may take a lock, kLong routes may also take long.
  enum class Where : std::uint8_t { kIo, kQuick, kLong };
  std::string path;
  Where where = Where::kIo;
  std::function<HttpReply(const HttpRequest&)> answer;
  bool shared = false;  ///< the answer is the same for all requests; not for kIo
  bool open = false;    ///< requires no credentials
};

/// TLS, and the credentials that a client needs.
struct HttpAccess {
  std::shared_ptr<const TlsContext> tls = nullptr;  ///< null: plain HTTP
  std::string credentials;                          ///< basic_credentials(); "" = none are required
};

struct HttpLimits {
  /// The most connections: enough for a dashboard's scrapes, probes, and a few browsers with six connections each. Each
  /// connection takes a file descriptor.
  std::size_t connections = 64;
  /// The time in which the whole header must arrive. It begins with the connection, or with the first byte of a later request.
  std::int64_t header_ms = 5'000;
  std::int64_t idle_ms = 75'000;  ///< between requests; longer than the usual scrape interval of a minute
  std::int64_t send_ms = 10'000;  ///< time limit for sending a whole reply
  std::size_t header_bytes = 8'192;
  /// The most jobs queued for each worker; further requests get 503. A shared route has at most two jobs.
  std::size_t queued_jobs = 16;
};

class HttpServer {
 public:
  /// `bad_request`: called on the I/O thread with one line for each request that breaks the protocol; the callee limits its rate.
  /// `not_found`: the body of the reply 404.
  HttpServer(std::vector<HttpRoute> routes, std::string not_found, HttpLimits limits,
             std::function<void(const std::string&)> bad_request);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Sets TLS and credentials for new connections, and credentials for later requests of existing ones. TLS must be on in all
  /// calls, or in none. Thread-safe.
  void set_access(HttpAccess access);
  /// Listens on an address or host name, and serves. Port 0 takes a free port. Returns "" or the error.
  std::string start(const std::string& address, std::uint16_t port);
  [[nodiscard]] std::uint16_t port() const;
  /// Closes all connections. Returns when no route runs any more.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide
