// The users of a running server, and the effect of a change on their connections.
//
// Users change under config_'s lock, one change at a time, since the configured password belongs to the user "default".
// Afterwards each loop applies the change to its sessions.
//
// All users together may take a part of the memory budget (Users::kBudgetPart), and are charged to it. A change that needs more
// memory is refused if the users would exceed their part, or if the budget has no room. A change that needs less is always
// allowed.
#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/users_file.h"
#include "dispatch/permissions.h"
#include "server.h"

namespace ebbtide {
namespace {

constexpr const char* kNoUsersFile =
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and "
    "then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis "
    "configuration.";

constexpr std::uint64_t kTextParts = 4;  ///< users and their text together take at most this many times the text's bytes

Status too_many_users(std::uint64_t most_bytes) {
  return Status::invalid_argument(
      "OOM command not allowed when used memory > 'memory_budget'. All users and their rules together can have " +
      std::to_string(most_bytes) + " bytes.");
}

/// Finds subscriptions that a user has no right to. They may be many, and each is matched with many patterns. So the loop copies
/// some names at a time, and another thread matches them.
struct SubscriptionLook {
  struct Subscription {
    std::uint64_t client_id;
    bool is_pattern;
    std::string name;
  };
  std::vector<std::uint64_t> ids;   ///< ids of the user's clients
  std::size_t next_client = 0;      ///< index in `ids` of the client at which to continue
  std::size_t next_kind = 0;        ///< index of the kind of subscription at which to continue
  std::optional<std::string> last;  ///< the last name that was copied; continue after it
  std::vector<Subscription> found;  ///< subscriptions that the latest step has copied
  std::set<std::uint64_t> denied;   ///< clients with a subscription to which their user has no right
};

/// Copies the next subscriptions, about a thousand; none at the end.
void find_more(EventLoop& loop, Bytes user, SubscriptionLook* look) {
  constexpr std::size_t kAtOnce = 1024, kBytesAtOnce = 1 << 20;
  constexpr PubSub::Kind kKinds[] = {PubSub::Kind::kChannel, PubSub::Kind::kPattern, PubSub::Kind::kShard};
  look->found.clear();
  std::size_t bytes = 0;
  for (; look->next_client < look->ids.size(); look->last.reset(), look->next_kind = 0, ++look->next_client) {
    const std::uint64_t id = look->ids[look->next_client];
    Client* const client = look->denied.contains(id) ? nullptr : loop.find(id);
    if (client == nullptr || user_of(session_of(*client)) != user) continue;
    const auto* subscriptions = static_cast<const Subscriptions*>(state_of(*client).subscriptions.get());
    for (; subscriptions != nullptr && look->next_kind < std::size(kKinds); ++look->next_kind, look->last.reset()) {
      const PubSub::Kind kind = kKinds[look->next_kind];
      const auto& names = subscriptions->names(kind);
      for (auto name = look->last ? names.upper_bound(*look->last) : names.begin(); name != names.end(); ++name) {
        look->found.push_back({id, kind == PubSub::Kind::kPattern, *name});
        bytes += name->size();
        if (look->found.size() < kAtOnce && bytes < kBytesAtOnce) continue;
        look->last = *name;
        return;
      }
    }
  }
}

}  // namespace

void Server::set_users(Users users) {
  password_required_ = users.password_required();
  client_memory_.charge_users(users.memory_bytes());
  auto shared = std::make_shared<const Users>(std::move(users));
  std::lock_guard lock(users_mutex_);
  users_ = std::move(shared);
}

std::shared_ptr<const Users> Server::users() const {
  std::lock_guard lock(users_mutex_);
  return users_;
}

bool Server::password_required() const { return password_required_; }

void Server::authentication_failed(Bytes network, Bytes address, Bytes user) {
  auth_failures_.fetch_add(1);
  const auto line = auth_guard_.failed(network, address, user, static_cast<std::int64_t>(mono_nanos() / 1'000'000));
  if (line) log_->write(ServerLog::Level::kWarning, *line);
}

std::uint32_t Server::authentication_delay_ms(Bytes network) {
  return auth_guard_.delay_ms(network, static_cast<std::int64_t>(mono_nanos() / 1'000'000));
}

void Server::access_denied(AclDenial denial, Bytes address, Bytes user, Bytes command) {
  constexpr std::size_t kShownUserBytes = 64;
  denials_[static_cast<std::size_t>(denial)].fetch_add(1);
  const char* const what = denial == AclDenial::kCommand ? "the command "
                           : denial == AclDenial::kKey   ? "a key of "
                                                         : "a channel of ";
  const auto line = denied_log_.pass("user '" + std::string(user.substr(0, kShownUserBytes)) + "' from " + std::string(address) +
                                         " has no right to " + what + std::string(command),
                                     static_cast<std::int64_t>(mono_nanos() / 1'000'000));
  if (line) log_->write(ServerLog::Level::kWarning, *line);
}

Status Server::check_room_for_users(const Config& config, std::uint64_t all, std::uint64_t more) const {
  const std::uint64_t most = most_bytes_of_users(config);
  if (all > most) return too_many_users(most);
  // Small changes are always allowed, so that an administrator can take away rights while the budget is used up.
  return more <= kLargeValueBytes || client_memory_.has_room(more) ? Status::ok() : Status::out_of_memory("");
}

std::uint64_t Server::most_bytes_of_users(const Config& config) const {
  return memory_budget_of(config, memory_.bytes) / Users::kBudgetPart;
}

Status Server::change_users(const std::function<Result<Users>(const Users&, const Config&)>& change) {
  return config_.with([&](const Config& config) -> Status {
    const auto before = users();
    TRY_ASSIGN(changed, change(*before, config));
    if (changed.memory_bytes() > before->memory_bytes()) {
      TRY(check_room_for_users(config, changed.memory_bytes(), changed.memory_bytes() - before->memory_bytes()));
    }
    set_users(std::move(changed));
    use_net_settings(config);
    return Status::ok();
  });
}

void Server::refresh_sessions(const std::string& name, std::uint64_t self_id) {
  std::vector<SubscriptionLook> looks(loops_.size());
  const auto look_of = [&](const EventLoop& loop) { return &looks[static_cast<std::size_t>(loop.index())]; };
  on_every_loop([&](EventLoop& loop) {
    loop.for_each([&](Client& client) {
      if (client.state == nullptr) return;  // the client has run no command, and will look up its rights then
      Session& session = session_of(client);
      if (user_of(session) != name) return;
      forget_rights(session);
      if (client.subscriber) look_of(loop)->ids.push_back(client.id);
    });
  });
  const auto user = users()->find(name);
  if (user == nullptr || user->all_channels()) return;
  AclBudget no_limit;
  for (bool more = true; more;) {
    on_every_loop([&](EventLoop& loop) { find_more(loop, name, look_of(loop)); });
    more = false;
    for (SubscriptionLook& look : looks) {
      more |= !look.found.empty();
      for (const auto& [id, is_pattern, channel] : look.found) {
        if (look.denied.contains(id)) continue;
        if (!user->allows_channel(channel, is_pattern, no_limit).value_or(false)) look.denied.insert(id);
      }
      look.found.clear();
    }
  }
  on_every_loop([&](EventLoop& loop) {
    for (const std::uint64_t id : look_of(loop)->denied) {
      Client* const client = loop.find(id);
      if (client == nullptr) continue;
      (id == self_id ? client->close_after_command : client->close_now) = true;
      if (id != self_id) loop.touch(client);
    }
  });
}

void Server::close_clients_of(const std::vector<std::string>& names, std::uint64_t self_id) {
  for (const std::string& name : names) {
    ClientFilter filter;
    filter.user = name;
    kill_clients(filter, self_id);
  }
}

Status Server::set_user(Bytes name, std::span<const Bytes> rules, std::uint64_t self_id) {
  TRY(change_users([&](const Users& users, const Config& config) -> Result<Users> {
    const std::uint64_t bytes = Users::most_memory_of(rules);  // checked before any memory is allocated
    TRY(check_room_for_users(config, bytes, bytes));
    return users.with_rules(name, rules, *config.commands);
  }));
  refresh_sessions(std::string(name), self_id);
  return Status::ok();
}

Result<std::uint64_t> Server::delete_users(std::span<const Bytes> names, std::uint64_t self_id) {
  std::uint64_t removed = 0;
  TRY(change_users([&](const Users& users, const Config&) { return users.without(names, &removed); }));
  close_clients_of({names.begin(), names.end()}, self_id);
  return removed;
}

Status Server::load_users(std::uint64_t self_id) {
  const auto before = users();
  TRY(change_users([this](const Users&, const Config& config) -> Result<Users> {
    if (config.users_file.empty()) return Status::invalid_argument(kNoUsersFile);
    if (!client_memory_.has_room(users_file_bytes(config.users_file) * kTextParts)) return Status::out_of_memory("");
    auto read = read_users(config, most_bytes_of_users(config));
    if (!read.is_ok())
      return Status::invalid_argument("ERR " + std::string(read.status().message()) + ". The users are unchanged");
    return read->with_default_password(config.secret());
  }));
  close_clients_of(before->names_changed_in(*users()), self_id);
  return Status::ok();
}

Status Server::save_users() {
  return config_.with([&](const Config& config) -> Status {
    if (config.users_file.empty()) return Status::invalid_argument(kNoUsersFile);
    const auto all = users();
    if (!client_memory_.has_room(all->memory_bytes())) return Status::out_of_memory("");
    auto text = all->file_text(config.secret());
    if (!text.is_ok()) return Status::invalid_argument("ERR ACL SAVE: " + std::string(text.status().message()));
    const Status status = write_users_file(config.users_file, *text);
    if (status.is_ok()) return status;
    log_->write(ServerLog::Level::kError, "ACL SAVE: " + status.to_string());
    return Status::invalid_argument(
        "ERR There was an error trying to save the ACLs. Please check the server logs for more information");
  });
}

}  // namespace ebbtide
