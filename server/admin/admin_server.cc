#include "admin/admin_server.h"

#include <httplib.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <thread>

#include "admin/console.h"

namespace ebbtide {

struct AdminServer::Impl {
  AdminHandlers handlers;
  httplib::Server http;
  std::thread thread;
  std::string address;
  int port = 0;

  void serve_console();
  bool may_look(const httplib::Request& request, httplib::Response& response) const;
};

namespace {

std::optional<DatabaseId> database_argument(const httplib::Request& request) {
  if (!request.has_param("db")) return 0;
  const std::string text = request.get_param_value("db");
  DatabaseId database = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), database);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return database;
}

}  // namespace

bool AdminServer::Impl::may_look(const httplib::Request& request, httplib::Response& response) const {
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("Referrer-Policy", "no-referrer");
  response.set_header("Cache-Control", "no-store");
  response.set_header("Cross-Origin-Resource-Policy", "same-origin");
  if (console_host_allowed(request.get_header_value("Host"), address)) return true;
  response.status = 403;
  response.set_content("the console is asked for at localhost or a loopback address; metrics.bind opens it to a network\n",
                       "text/plain");
  return false;
}

void AdminServer::Impl::serve_console() {
  http.Get("/", [this](const httplib::Request& request, httplib::Response& response) {
    if (!may_look(request, response)) return;
    response.set_header("Content-Security-Policy", std::string(console_policy()));
    const std::string_view page = console_page();
    response.set_content(page.data(), page.size(), "text/html; charset=utf-8");
  });
  http.Get("/console.json", [this](const httplib::Request& request, httplib::Response& response) {
    if (!may_look(request, response)) return;
    const std::optional<DatabaseId> database = database_argument(request);
    std::optional<std::string> json = database ? handlers.console(*database) : std::nullopt;
    if (!json) response.status = 400;
    response.set_content(json ? *json : "{\"error\":\"db: must be the number of a database\"}", "application/json");
  });
}

AdminServer::AdminServer(AdminHandlers handlers) : impl_(std::make_unique<Impl>()) { impl_->handlers = std::move(handlers); }

AdminServer::~AdminServer() { stop(); }

std::string AdminServer::start(const std::string& address, std::uint16_t port) {
  httplib::Server& http = impl_->http;
  http.new_task_queue = [] { return new httplib::ThreadPool(2); };
  http.set_socket_options([](socket_t socket) {  // the library's default, SO_REUSEPORT, would let two servers share a port
    const int yes = 1;
    (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  http.set_keep_alive_max_count(1);  // with two threads, idle connections must not hold one
  http.set_read_timeout(5);
  http.set_write_timeout(5);
  http.set_payload_max_length(4096);
  http.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
    response.set_content(impl_->handlers.metrics(), "text/plain; version=0.0.4; charset=utf-8");
  });
  http.Get("/healthz", [](const httplib::Request&, httplib::Response& response) { response.set_content("ok\n", "text/plain"); });
  http.Get("/ready", [this](const httplib::Request&, httplib::Response& response) {
    const std::string why = impl_->handlers.not_ready();
    if (!why.empty()) response.status = 503;
    response.set_content((why.empty() ? "ok" : why) + "\n", "text/plain");
  });
  impl_->address = address;
  if (impl_->handlers.console != nullptr) impl_->serve_console();
  const std::string there =
      impl_->handlers.console == nullptr ? "/metrics, /healthz and /ready" : "/, /metrics, /healthz and /ready";
  http.set_error_handler([there](const httplib::Request&, httplib::Response& response) {
    if (response.status == 404) response.set_content("not found; there are " + there + "\n", "text/plain");
  });
  errno = 0;
  impl_->port = port == 0 ? http.bind_to_any_port(address) : (http.bind_to_port(address, port) ? port : -1);
  if (impl_->port <= 0) {
    // What the library does after a refused bind() leaves errno as it was; a name that does not resolve sets none.
    const std::string why = errno == 0 ? "no such address" : std::strerror(errno);
    return "metrics: cannot listen on " + address + ":" + std::to_string(port) + ": " + why +
           ". metrics.port takes another port, or 0 for none";
  }
  impl_->thread = std::thread([this] { impl_->http.listen_after_bind(); });
  while (!http.is_running()) std::this_thread::yield();  // else stop() could come too early to be heard
  return {};
}

std::uint16_t AdminServer::port() const { return static_cast<std::uint16_t>(impl_->port); }

void AdminServer::stop() {
  if (!impl_->thread.joinable()) return;
  impl_->http.stop();
  impl_->thread.join();
}

}  // namespace ebbtide
