// Loads the users of the users file, and the configured password of "default".
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server.h"

namespace ebbtide {

void Server::set_users(Users users) {
  password_required_ = users.password_required();
  auto shared = std::make_shared<const Users>(std::move(users));
  std::lock_guard lock(users_mutex_);
  users_ = std::move(shared);
}

std::shared_ptr<const Users> Server::users() const {
  std::lock_guard lock(users_mutex_);
  return users_;
}

bool Server::password_required() const { return password_required_; }
bool Server::check_password(Bytes user, Bytes password) const { return users()->check(user, password); }

void Server::authentication_failed(Bytes network, Bytes address, Bytes user) {
  auth_failures_.fetch_add(1);
  const auto line = auth_guard_.failed(network, address, user, static_cast<std::int64_t>(mono_nanos() / 1'000'000));
  if (line) log_->write(ServerLog::Level::kWarning, *line);
}

std::uint32_t Server::authentication_delay_ms(Bytes network) {
  return auth_guard_.delay_ms(network, static_cast<std::int64_t>(mono_nanos() / 1'000'000));
}

std::vector<std::string> Server::user_lines() const { return users()->lines(); }

Status Server::load_users(std::uint64_t self_id) {
  const auto before = users();
  TRY(config_.with([this](const Config& config) {
    if (config.users_file.empty()) {
      return Status::invalid_argument(
          "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER "
          "command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in "
          "the Redis configuration.");
    }
    auto users = read_users(config);
    if (!users.is_ok())
      return Status::invalid_argument("ERR " + std::string(users.status().message()) + ". The users are as they were");
    file_users_ = std::move(users).value();
    set_users(file_users_.with_default_password(config.secret()).value());
    use_net_settings(config);
    return Status::ok();
  }));
  for (const std::string& name : before->names_changed_in(*users())) {
    ClientFilter filter;
    filter.user = name;
    kill_clients(filter, self_id);
  }
  return Status::ok();
}

}  // namespace ebbtide
