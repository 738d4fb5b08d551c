#include "admin/http_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "admin/basic_auth.h"

namespace ebbtide {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using Tcp = asio::ip::tcp;
using Where = HttpRoute::Where;

constexpr std::chrono::milliseconds kAcceptPause{50};  // after a failure that an immediate attempt would repeat
constexpr std::chrono::milliseconds kLinger{1'000};
constexpr std::size_t kLingerBytes = std::size_t{1} << 16;

HttpReply plain(unsigned status, std::string text) { return {status, "text/plain", std::move(text) + "\n", {}}; }

}  // namespace

std::string_view query_argument(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view item = query.substr(0, query.find('&'));
    if (item.substr(0, item.find('=')) == name)
      return item.size() > name.size() ? item.substr(name.size() + 1) : item.substr(name.size());
    query.remove_prefix(std::min(query.size(), item.size() + 1));
  }
  return {};
}

struct HttpServer::Impl {
  class Session;
  using Sessions = std::list<std::shared_ptr<Session>>;
  // A reply that a worker computes, and the connections that wait for it.
  struct Job {
    const HttpRoute* route = nullptr;
    HttpRequest request = {};
    std::vector<std::shared_ptr<Session>> sessions = {};  // those that wait for this reply; used on the I/O thread
    std::atomic<bool> begun{false};                       // true once a worker runs this job; later requests then need a new job
  };
  struct Worker {
    asio::thread_pool threads{1};
    // Jobs that are queued or running, the oldest first. Used on the I/O thread.
    std::list<std::shared_ptr<Job>> jobs = {};
  };

  Impl(std::vector<HttpRoute> r, std::string n, HttpLimits l, std::function<void(const std::string&)> b)
      : routes(std::move(r)), not_found(std::move(n)), limits(l), bad_request(std::move(b)) {}

  std::string listen(const std::string& address, std::uint16_t wanted);
  void accept();
  void evict();
  void post(Worker* worker, const HttpRoute* route, HttpRequest request, std::shared_ptr<Session> session);
  void stop();
  const HttpRoute* find(std::string_view path) const;
  std::shared_ptr<const HttpAccess> current_access() {
    const std::lock_guard lock(access_mutex);
    return access;
  }

  // Constant after construction.
  const std::vector<HttpRoute> routes;
  const std::string not_found;
  const HttpLimits limits;
  const std::function<void(const std::string&)> bad_request;

  std::mutex access_mutex;
  std::shared_ptr<const HttpAccess> access = std::make_shared<HttpAccess>();  // guarded by access_mutex

  asio::io_context io{1};
  Tcp::acceptor acceptor{io};
  asio::steady_timer pause{io};
  std::uint16_t port = 0;
  std::thread thread;
  Worker quick, slow;
  // Used on the I/O thread. Each connection is in one of two lists, ordered by when it entered the list.
  Sessions waiting;  // connections that wait for a request, the longest first
  Sessions busy;     // connections that wait for a reply or send one, the longest first
};

// A connection: waits for a request, reads its header, waits for the reply, sends it, and starts again. Runs on the I/O thread.
class HttpServer::Impl::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Impl* server, Tcp::socket socket)
      : server_(server), stream_(std::move(socket)), buffer_(2 * server->limits.header_bytes) {
    error_code ignored;
    const auto peer = stream_.socket().remote_endpoint(ignored);
    if (!ignored) peer_ = peer.address().to_string();
    const auto access = server_->current_access();
    if (access->tls == nullptr) return;
    SSL_CTX_up_ref(access->tls->native());  // for the asio context below, which releases it
    asio::ssl::context context(access->tls->native());
    tls_.emplace(stream_, context);
  }

  // Sends the worker's reply, unless the connection was closed meanwhile.
  void answered(HttpReply reply) {
    if (!closed_) send(std::move(reply));
  }

  void begin() {
    place_ = server_->waiting.insert(server_->waiting.end(), shared_from_this());
    if (!tls_) return read_header();
    stream_.expires_after(std::chrono::milliseconds(server_->limits.header_ms));
    tls_->async_handshake(asio::ssl::stream_base::server, [self = shared_from_this()](const error_code& error) {
      if (self->closed_) return;
      if (!error) return self->read_header();
      if (error.category() == asio::error::get_ssl_category()) self->complain("TLS handshake: " + error.message());
      self->close();
    });
  }

  // Closes the connection at once. Its pending operations fail then.
  void close() {
    if (closed_) return;
    closed_ = true;
    stream_.close();
    const auto self = shared_from_this();
    (waiting_ ? server_->waiting : server_->busy).erase(place_);
  }

 private:
  // Calls `operation` with the TLS stream if the connection is encrypted, otherwise with the plain one.
  template <typename Operation>
  void on_stream(Operation operation) {
    tls_ ? operation(*tls_) : operation(stream_);
  }

  void move_to(bool waiting) {
    Sessions& from = waiting_ ? server_->waiting : server_->busy;
    Sessions& to = waiting ? server_->waiting : server_->busy;
    to.splice(to.end(), from, place_);
    waiting_ = waiting;
  }

  // Waits for the next request on a connection that stays open. The deadline for the header begins with the request's first byte.
  void wait_for_next() {
    move_to(true);
    if (buffer_.size() > 0) return read_header();
    stream_.expires_after(std::chrono::milliseconds(server_->limits.idle_ms));
    const auto received = [self = shared_from_this()](const error_code& error, std::size_t bytes) {
      if (self->closed_) return;
      if (error) return self->close();
      self->buffer_.commit(bytes);
      self->read_header();
    };
    on_stream([&](auto& stream) { stream.async_read_some(buffer_.prepare(1024), received); });
  }

  void read_header() {
    parser_.emplace();
    parser_->body_limit(std::numeric_limits<std::uint64_t>::max());  // no body is read
    parser_->header_limit(static_cast<std::uint32_t>(server_->limits.header_bytes));
    stream_.expires_after(std::chrono::milliseconds(server_->limits.header_ms));
    const auto received = [self = shared_from_this()](const error_code& error, std::size_t) {
      if (!self->closed_) error ? self->header_failed(error) : self->answer();
    };
    on_stream([&](auto& stream) { http::async_read_header(stream, buffer_, *parser_, received); });
  }

  void header_failed(const error_code& error) {
    const bool silent = buffer_.size() == 0;  // a connection that sends no request is not an error
    if (error == beast::error::timeout) {
      if (!silent) complain("its header was not complete after " + std::to_string(server_->limits.header_ms) + " ms");
      return close();
    }
    if (error == http::error::end_of_stream || error == http::error::partial_message ||
        error.category() != http::make_error_code(http::error::end_of_stream).category()) {
      return close();
    }
    move_to(false);
    keep_alive_ = false;
    const std::string limit = std::to_string(server_->limits.header_bytes);
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      const auto data = buffer_.data();
      const std::string_view head(static_cast<const char*>(data.data()), data.size());
      const bool line = head.find('\n') == std::string_view::npos;  // true: not even the first line is complete
      complain((line ? "its request line" : "its header") + (" has over " + limit) + " bytes");
      return send(
          plain(line ? 414 : 431, std::string(line ? "the request line" : "the header") + " has over " + limit + " bytes"));
    }
    complain(error.message());
    send(plain(400, "bad request: " + error.message()));
  }

  void complain(const std::string& what) const {
    if (server_->bad_request) server_->bad_request("HTTP request from " + peer_ + " refused: " + what);
  }

  void answer() {
    move_to(false);
    const auto& header = parser_->get();
    head_ = header.method() == http::verb::head;
    // Request bodies are not read, so a connection that sends one cannot be used again.
    keep_alive_ = header.keep_alive() && !parser_->chunked() && parser_->content_length().value_or(0) == 0;
    const std::string_view target(header.target().data(), header.target().size());
    const std::size_t mark = target.find('?');
    HttpRequest request;
    request.path = target.substr(0, mark);
    if (mark != std::string_view::npos) request.query = target.substr(mark + 1);
    const auto host = header[http::field::host];
    request.host.assign(host.data(), host.size());
    const HttpRoute* route = server_->find(request.path);
    if (route == nullptr) return send(plain(404, server_->not_found));
    if (!head_ && header.method() != http::verb::get) {
      HttpReply reply = plain(405, "only GET and HEAD are answered");
      reply.headers.emplace_back("Allow", "GET, HEAD");
      return send(std::move(reply));
    }
    if (!route->open && !authorized(header[http::field::authorization]))
      return refuse(header.count(http::field::authorization) != 0);
    if (route->where == Where::kIo) return send(route->answer(request));
    run(route->where == Where::kQuick ? &server_->quick : &server_->slow, route, std::move(request));
  }

  [[nodiscard]] bool authorized(beast::string_view given) const {
    const auto access = server_->current_access();
    return access->credentials.empty() || has_credentials({given.data(), given.size()}, access->credentials);
  }

  void refuse(bool wrong) {
    // A browser's first request has no credentials, so missing ones are not logged.
    if (wrong) complain("wrong user or password");
    HttpReply reply = plain(401, wrong ? "wrong user or password" : "a user and a password are required: metrics.password_file");
    reply.headers.emplace_back("WWW-Authenticate", "Basic realm=\"ebbtide\", charset=\"UTF-8\"");
    send(std::move(reply));
  }

  void run(Worker* worker, const HttpRoute* route, HttpRequest request) {
    if (route->shared) {
      const auto same = std::find_if(worker->jobs.begin(), worker->jobs.end(),
                                     [&](const auto& job) { return job->route == route && !job->begun.load(); });
      if (same != worker->jobs.end()) {
        stream_.expires_never();
        return (*same)->sessions.push_back(shared_from_this());
      }
    } else if (worker->jobs.size() >= server_->limits.queued_jobs) {
      return send(plain(503, "too many requests at once"));
    }
    stream_.expires_never();
    server_->post(worker, route, std::move(request), shared_from_this());
  }

  void send(HttpReply reply) {
    // An HTTP/1.0 client keeps its connection only if the reply has that version and allows it.
    reply_.emplace(static_cast<http::status>(reply.status), keep_alive_ ? parser_->get().version() : 11);
    reply_->set(http::field::content_type, reply.type);
    for (const auto& [name, value] : reply.headers) reply_->set(name, value);
    reply_->keep_alive(keep_alive_);
    reply_->content_length(reply.body.size());
    if (!head_) reply_->body() = std::move(reply.body);
    stream_.expires_after(std::chrono::milliseconds(server_->limits.send_ms));
    serializer_.emplace(*reply_);
    const auto sent = [self = shared_from_this()](const error_code& error, std::size_t) {
      if (self->closed_) return;
      if (error) return self->close();
      self->serializer_.reset();
      self->reply_.reset();
      self->keep_alive_ ? self->wait_for_next() : self->finish();
    };
    on_stream([&](auto& stream) {
      head_ ? http::async_write_header(stream, *serializer_, sent) : http::async_write(stream, *serializer_, sent);
    });
  }

  // Ends the connection after its last reply. Closing while the client still sends would reset the connection, and the client
  // might lose the reply. So this only shuts down the sending side, and then waits for the client.
  void finish() {
    if (tls_) return finish_tls();
    error_code ignored;
    stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
    stream_.expires_after(kLinger);
    buffer_.consume(buffer_.size());
    linger();
  }

  // Sends TLS's closing notice, and waits for that of the client.
  void finish_tls() {
    stream_.expires_after(kLinger);
    tls_->async_shutdown([self = shared_from_this()](const error_code&) { self->close(); });
  }

  void linger() {
    stream_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](const error_code& error, std::size_t bytes) {
      if (self->closed_) return;
      self->lingered_ += bytes;
      if (error || self->lingered_ > kLingerBytes) return self->close();
      self->linger();
    });
  }

  Impl* const server_;
  beast::tcp_stream stream_;
  std::optional<asio::ssl::stream<beast::tcp_stream&>> tls_;  // nullopt: plain HTTP
  beast::flat_buffer buffer_;
  std::string peer_ = "?";
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::optional<http::response<http::string_body>> reply_;
  std::optional<http::response_serializer<http::string_body>> serializer_;
  Sessions::iterator place_;
  bool waiting_ = true, closed_ = false, keep_alive_ = false, head_ = false;
  std::size_t lingered_ = 0;
};

const HttpRoute* HttpServer::Impl::find(std::string_view path) const {
  const auto at = std::find_if(routes.begin(), routes.end(), [&](const HttpRoute& route) { return route.path == path; });
  return at == routes.end() ? nullptr : &*at;
}

void HttpServer::Impl::post(Worker* worker, const HttpRoute* route, HttpRequest request, std::shared_ptr<Session> session) {
  auto job = std::make_shared<Job>();
  job->route = route;
  job->request = std::move(request);
  job->sessions.push_back(std::move(session));
  worker->jobs.push_back(job);
  asio::post(worker->threads, [this, worker, job = std::move(job)] {
    job->begun.store(true);
    HttpReply reply;
    try {
      reply = job->route->answer(job->request);
    } catch (const std::exception& e) {  // nearly always std::bad_alloc
      reply = plain(500, e.what());
    }
    asio::post(io, [worker, job, reply = std::move(reply)] {
      worker->jobs.remove(job);
      for (const auto& waiting : job->sessions) waiting->answered(reply);
    });
  });
}

std::string HttpServer::Impl::listen(const std::string& address, std::uint16_t wanted) {
  error_code error;
  Tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(address, std::to_string(wanted), Tcp::resolver::passive | Tcp::resolver::numeric_service, error);
  if (error || found.empty()) return "no such address";
  const Tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return error.message();
  port = acceptor.local_endpoint(error).port();
  return {};
}

void HttpServer::Impl::accept() {
  acceptor.async_accept([this](const error_code& error, Tcp::socket socket) {
    if (!acceptor.is_open()) return;
    if (!error) {
      while (waiting.size() + busy.size() >= limits.connections) evict();
      std::make_shared<Session>(this, std::move(socket))->begin();
      return accept();
    }
    if (!waiting.empty()) evict();  // no file descriptor is left, so closing an idle client frees one
    pause.expires_after(kAcceptPause);
    pause.async_wait([this](const error_code& stopped) {
      if (!stopped) accept();
    });
  });
}

void HttpServer::Impl::evict() {
  const std::shared_ptr<Session> oldest = (waiting.empty() ? busy : waiting).front();
  oldest->close();
}

void HttpServer::Impl::stop() {
  asio::post(io, [this] {
    error_code ignored;
    acceptor.close(ignored);
    pause.cancel();
    while (!waiting.empty() || !busy.empty()) evict();
  });
  for (Worker* worker : {&quick, &slow}) {
    worker->threads.stop();
    worker->threads.join();
  }
  // Replies that workers post from now on find their connections closed, and are dropped.
  thread.join();
}

HttpServer::HttpServer(std::vector<HttpRoute> routes, std::string not_found, HttpLimits limits,
                       std::function<void(const std::string&)> bad_request)
    : impl_(std::make_unique<Impl>(std::move(routes), std::move(not_found), limits, std::move(bad_request))) {}

HttpServer::~HttpServer() { stop(); }

void HttpServer::set_access(HttpAccess access) {
  auto next = std::make_shared<const HttpAccess>(std::move(access));
  const std::lock_guard lock(impl_->access_mutex);
  impl_->access = std::move(next);
}

std::string HttpServer::start(const std::string& address, std::uint16_t port) {
  if (std::string why = impl_->listen(address, port); !why.empty()) return why;
  impl_->accept();
  impl_->thread = std::thread([impl = impl_.get()] { impl->io.run(); });
  return {};
}

std::uint16_t HttpServer::port() const { return impl_->port; }

void HttpServer::stop() {
  if (impl_->thread.joinable()) impl_->stop();
}

}  // namespace ebbtide
