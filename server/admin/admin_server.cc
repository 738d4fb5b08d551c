#include "admin/admin_server.h"

#include <httplib.h>

#include <cerrno>
#include <cstring>
#include <thread>

namespace ebbtide {

struct AdminServer::Impl {
  AdminHandlers handlers;
  httplib::Server http;
  std::thread thread;
  int port = 0;
};

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
  http.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.status == 404) response.set_content("not found; there are /metrics, /healthz and /ready\n", "text/plain");
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
