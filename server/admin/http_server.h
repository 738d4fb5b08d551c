// A small HTTP/1.1 server for the admin port, on Boost.Beast. The caller gives the routes.
//
// One thread does all input and output without blocking, so no client delays another. These rules hold for any behaviour of
// clients:
//   - Every wait for a client has a deadline in total, not from byte to byte: a request header that arrives slowly is cut off.
// - There are never more than `connections`. A new connection replaces the connection that has waited longest for a request, or
//   if none waits, the connection that has been sending longest. So a probe is accepted however many idle clients there are.
// - Routes that only read atomics run on the I/O thread. Each other route runs on the worker thread of its class, and waits only
//   for requests of that class.
//   - Requests for a `shared` route that wait for its worker get one reply, computed once, after all of them came. So clients
//     that request /metrics and do not read the reply neither fill the worker's queue nor delay a scrape.
// Request bodies are not read: every route replies to GET and HEAD.
//
// Connections may be encrypted, and routes may require a user and a password (HttpAccess). A TLS handshake has the deadline of a
// header, and a connection in it counts as one that waits for a request.
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

/// Returns the value of `name` in a query, not decoded; null data() if the query does not have it.
std::string_view query_argument(std::string_view query, std::string_view name);

struct HttpReply {
  unsigned status = 200;
  std::string type = "text/plain";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

struct HttpRoute {
  /// The thread of a route. kIo: the I/O thread; the route must not block, lock or compute for long. kQuick and kLong each have a
  /// worker thread: a kQuick route may take a lock, a kLong route may also take long.
  enum class Where : std::uint8_t { kIo, kQuick, kLong };
  std::string path;
  Where where = Where::kIo;
  std::function<HttpReply(const HttpRequest&)> answer;
  bool shared = false;  ///< the answer does not depend on the request; not for kIo
  bool open = false;    ///< requires no credentials
};

/// TLS, and the credentials that a client needs to get an answer.
struct HttpAccess {
  std::shared_ptr<const TlsContext> tls = nullptr;  ///< null: plain HTTP
  std::string credentials;                          ///< basic_credentials(); "" = none are required
};

struct HttpLimits {
  /// Enough for a dashboard's scrapes, probes, and a few browsers with six connections each. Each connection takes a file
  /// descriptor.
  std::size_t connections = 64;
  std::int64_t header_ms = 5'000;  ///< from the start of the connection, or the first byte of a later request, to the end of the
                                   ///< header
  std::int64_t idle_ms = 75'000;   ///< between requests; longer than the usual scrape interval of a minute
  std::int64_t send_ms = 10'000;   ///< time limit for sending a whole reply
  std::size_t header_bytes = 8'192;
  std::size_t queued_jobs = 16;  ///< limit of each worker; beyond it the reply is 503. A shared route has at most two jobs
};

class HttpServer {
 public:
  /// `bad_request` is called with one line for each request that breaks the protocol, on the I/O thread; the caller limits the
  /// rate. `not_found` is the body of the reply 404.
  HttpServer(std::vector<HttpRoute> routes, std::string not_found, HttpLimits limits,
             std::function<void(const std::string&)> bad_request);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Sets the access for new connections, and for all later requests. TLS must be on in all calls, or in none. Thread-safe.
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
