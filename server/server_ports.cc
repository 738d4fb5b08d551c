// The ports of the server: for clients, with and without TLS, and for HTTP.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "admin/basic_auth.h"
#include "machine/directory_access.h"
#include "machine/machine.h"
#include "server.h"
#include "tls/tls_context.h"

namespace ebbtide {

bool Server::start_listening() {
  const Config config = config_.get();
  std::vector<EventLoop*> loops;
  for (const auto& loop : loops_) loops.push_back(loop.get());
  listener_ = std::make_unique<Listener>(io_, net_settings(config), &net_, &net_env_, std::move(loops));
  std::string skipped;
  for (const std::string& address : config.bind) {
    bool unavailable = false;
    const std::string why = listener_->listen(address, static_cast<std::uint16_t>(config.port), &unavailable);
    if (why.empty()) continue;
    if (!unavailable) {
      const std::string remedy = remedy_for(why, config.engine.dir, file_limit_);
      log_->write(ServerLog::Level::kError,
                  why + (remedy.empty() ? ". Set another address or port: server.bind, server.port or --port" : "; " + remedy));
      return false;
    }
    skipped = why;
    log_->write(ServerLog::Level::kWarning, why);
  }
  if (!config.unixsocket.empty()) {
    if (const std::string why = listener_->listen_unix(config.unixsocket, config.unixsocket_mode); !why.empty()) {
      log_->write(ServerLog::Level::kError, why);
      return false;
    }
  }
  if (listener_->port() == 0) {
    log_->write(ServerLog::Level::kError, "cannot listen on any address of server.bind");
    return false;
  }
  return start_tls(config);
}

bool Server::start_tls(const Config& config) {
  if (config.tls_port == 0) return true;
  if (const Status status = load_tls(config); !status.is_ok()) {
    log_->write(ServerLog::Level::kError, status.to_string());
    return false;
  }
  for (const std::string& address : config.bind) {
    bool unavailable = false;
    const std::string why = listener_->listen(address, static_cast<std::uint16_t>(config.tls_port), &unavailable, true);
    if (why.empty() || unavailable) continue;
    log_->write(ServerLog::Level::kError, why + ". Set another address or port: server.bind or server.tls.port");
    return false;
  }
  return true;
}

Status Server::load_tls(const Config& config) {
  if (config.tls_port == 0) return Status::ok();
  std::string why;
  auto context = TlsContext::make(config.tls, &why);
  if (context == nullptr) return Status::invalid_argument(why);
  certificate_expires_at_ = context->expires_at();
  if (context->expires_at() * 1'000'000 < static_cast<std::int64_t>(unix_micros())) {
    log_->write(ServerLog::Level::kWarning, "the certificate in " + config.tls.cert_file + " has expired, so clients refuse it");
  }
  listener_->set_tls(std::move(context));
  return Status::ok();
}

/// Reads the password and the certificate of the HTTP port from their files.
Result<HttpAccess> Server::admin_access(const Config& config) const {
  HttpAccess access;
  if (!config.metrics_password_file.empty()) {
    auto password = read_secret(config.metrics_password_file);
    if (!password.is_ok()) return password.status().with_context("metrics.password_file");
    access.credentials = basic_credentials(config.metrics_user, *password);
  }
  if (config.metrics_tls) {
    TlsSettings tls = config.tls;
    tls.auth_clients = TlsClients::kNo;
    std::string why;
    access.tls = TlsContext::make(tls, &why);
    if (access.tls == nullptr) return Status::invalid_argument("metrics.tls: " + why);
  }
  return access;
}

void Server::reload_admin_access() {
  if (admin_ == nullptr) return;
  auto access = admin_access(config_.get());
  if (access.is_ok()) return admin_->set_access(std::move(access).value());
  log_->write(ServerLog::Level::kError,
              "SIGHUP: " + access.status().to_string() + ". The HTTP port keeps its password and certificate");
}

bool Server::start_admin() {
  const Config config = config_.get();
  if (config.metrics_port == 0) return true;
  AdminHandlers handlers{[this] { return metrics_text(snapshot()); }, [this] { return not_ready(); }};
  if (config.console) handlers.console = [this](DatabaseId database) { return console(database); };
  handlers.bad_request = [this](const std::string& text) {
    if (const auto line = bad_http_.pass(text, static_cast<std::int64_t>(mono_nanos() / 1'000'000)))
      log_->write(ServerLog::Level::kWarning, *line);
  };
  HttpLimits limits;
  // If file descriptors are few, the HTTP port gets a small part of them.
  limits.connections = std::clamp<std::size_t>(file_limit_ / 16, 4, limits.connections);
  admin_ = std::make_unique<AdminServer>(std::move(handlers), limits);
  auto access = admin_access(config);
  if (!access.is_ok()) {
    log_->write(ServerLog::Level::kError, access.status().to_string());
    return false;
  }
  admin_->set_access(std::move(access).value());
  const std::string why = admin_->start(config.metrics_bind, static_cast<std::uint16_t>(config.metrics_port));
  if (why.empty()) return true;
  log_->write(ServerLog::Level::kError, why);
  return false;
}

}  // namespace ebbtide
