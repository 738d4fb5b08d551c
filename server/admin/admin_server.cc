#include "admin/admin_server.h"

#include <charconv>

#include "admin/console.h"

namespace ebbtide {
namespace {

std::optional<DatabaseId> database_argument(const HttpRequest& request) {
  const std::string_view text = query_argument(request.query, "db");
  if (text.data() == nullptr) return 0;
  DatabaseId database = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), database);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return database;
}

// Returns a reply that already has the headers of all console replies; nullopt if the request's Host is not a name of this
// machine.
std::optional<HttpReply> console_reply(const HttpRequest& request, const std::string& address) {
  HttpReply reply;
  reply.headers = {{"X-Content-Type-Options", "nosniff"},
                   {"Referrer-Policy", "no-referrer"},
                   {"Cache-Control", "no-store"},
                   {"Cross-Origin-Resource-Policy", "same-origin"}};
  if (console_host_allowed(request.host, address)) return reply;
  return std::nullopt;
}

HttpReply wrong_host() {
  return {403,
          "text/plain",
          "the console is available at localhost or a loopback address; set metrics.bind to reach it from a network\n",
          {}};
}

std::vector<HttpRoute> routes_of(const AdminHandlers& handlers, const std::string& address) {
  using Where = HttpRoute::Where;
  std::vector<HttpRoute> routes;
  // Probes of orchestrators have no credentials. Their replies reveal no data: "ok", or why the server is not ready.
  routes.push_back({"/healthz", Where::kIo,
                    [](const HttpRequest&) {
                      return HttpReply{200, "text/plain", "ok\n", {}};
                    },
                    false, true});
  routes.push_back({"/ready", Where::kQuick,
                    [not_ready = handlers.not_ready](const HttpRequest&) {
                      const std::string why = not_ready();
                      return HttpReply{why.empty() ? 200u : 503u, "text/plain", (why.empty() ? "ok" : why) + "\n", {}};
                    },
                    true, true});
  routes.push_back({"/metrics", Where::kLong,
                    [metrics = handlers.metrics](const HttpRequest&) {
                      return HttpReply{200, "text/plain; version=0.0.4; charset=utf-8", metrics(), {}};
                    },
                    true});
  if (handlers.console == nullptr) return routes;
  routes.push_back({"/", Where::kIo, [address](const HttpRequest& request) {
                      auto reply = console_reply(request, address);
                      if (!reply) return wrong_host();
                      reply->headers.emplace_back("Content-Security-Policy", console_policy());
                      reply->type = "text/html; charset=utf-8";
                      reply->body = console_page();
                      return *reply;
                    }});
  routes.push_back({"/console.json", Where::kLong, [address, console = handlers.console](const HttpRequest& request) {
                      auto reply = console_reply(request, address);
                      if (!reply) return wrong_host();
                      const std::optional<DatabaseId> database = database_argument(request);
                      std::optional<std::string> json = database ? console(*database) : std::nullopt;
                      if (!json) reply->status = 400;
                      reply->type = "application/json";
                      reply->body = json ? std::move(*json) : "{\"error\":\"db: must be the number of a database\"}";
                      return *reply;
                    }});
  return routes;
}

}  // namespace

AdminServer::AdminServer(AdminHandlers handlers, HttpLimits limits) : handlers_(std::move(handlers)), limits_(limits) {}

std::string AdminServer::start(const std::string& address, std::uint16_t port) {
  const std::string there = handlers_.console == nullptr ? "/metrics, /healthz and /ready" : "/, /metrics, /healthz and /ready";
  http_ = std::make_unique<HttpServer>(routes_of(handlers_, address), "not found; there are " + there, limits_,
                                       handlers_.bad_request);
  http_->set_access(access_);
  const std::string why = http_->start(address, port);
  if (why.empty()) return {};
  return "metrics: cannot listen on " + address + ":" + std::to_string(port) + ": " + why +
         ". Set metrics.port to another port, or to 0 for none";
}

void AdminServer::set_access(HttpAccess access) {
  if (http_ == nullptr) {
    access_ = std::move(access);
  } else {
    http_->set_access(std::move(access));
  }
}

std::uint16_t AdminServer::port() const { return http_ == nullptr ? 0 : http_->port(); }

void AdminServer::stop() {
  if (http_ != nullptr) http_->stop();
}

}  // namespace ebbtide
