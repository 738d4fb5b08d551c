// Changes of the configuration while the server runs, and how they take effect in all parts.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "log/failure_log.h"
#include "machine/machine.h"
#include "server.h"
#include "server_settings.h"

namespace ebbtide {

NetSettings Server::net_settings(const Config& config) const {
  NetSettings net;
  net.max_clients = std::min(config.max_clients, client_cap_.load());
  net.max_strangers = config.unauthenticated_clients;
  net.auth_timeout_ms = static_cast<std::int64_t>(config.authentication_timeout_ms);
  net.idle_timeout_ms = static_cast<std::int64_t>(config.timeout_ms);
  net.tcp_keepalive_ms = static_cast<std::int64_t>(config.tcp_keepalive_ms);
  net.query_buffer_bytes = config.client_query_buffer_limit;
  net.max_bulk_bytes = config.proto_max_bulk_len;
  net.memory_budget = resolved_settings(config, memory_.bytes).memory_budget;
  const auto limits = [](const OutputBufferLimits& l) {
    return OutputLimits{l.hard, l.soft, static_cast<std::int64_t>(l.soft_ms)};
  };
  net.output = limits(config.output_buffer);
  net.subscriber_output = limits(config.pubsub_output_buffer);
  net.password_required = password_required_;
  net.protected_mode = config.protected_mode;
  net.tcp_backlog = static_cast<int>(config.tcp_backlog);
  return net;
}

void Server::config_get(std::span<const Bytes> patterns, std::vector<std::pair<std::string, std::string>>* items) const {
  config_.get(patterns, items);
}

Status Server::config_set(std::span<const std::pair<Bytes, Bytes>> items) { return config_.set(items); }

Status Server::config_rewrite() {
  std::string warning;
  const Status status = config_.rewrite(&warning);
  if (!warning.empty()) log_->write(ServerLog::Level::kWarning, warning);
  return status;
}

Config Server::effective(Config config) const {
  config.max_clients = std::min(config.max_clients, client_cap_.load());
  return config;
}

Settings Server::settings_of(const Config& config) const {
  Settings settings = resolved_settings(config, memory_.bytes);
  if (settings.max_open_files == 0) settings.max_open_files = share_files(file_limit_, config.max_clients).tables;
  for (DatabaseId database = 0; indexes_.any() && database < settings.databases; ++database) {
    for (const auto& [name, index] : *indexes_.of(database)) {
      TreeSettings tree = settings.tree_for(database);
      tree.filter_bits_per_key = 0;  // every read is a range
      tree.filter_memory = 0;
      if (index.policy) tree.policy = *index.policy;
      settings.overrides[index.tree(database)] = tree;
    }
  }
  return settings;
}

void Server::use_index_settings() {
  const Status status = config_.with([this](const Config& config) { return db_->reconfigure(settings_of(config)); });
  if (!status.is_ok()) log_->write(ServerLog::Level::kWarning, "settings of indexes: " + status.to_string());
}

Status Server::apply_config(const Config& before, const Config& after) {
  Db* db = ready_.load();
  // Changes that may fail come first, so that after an error nothing has changed.
  FileShares files = share_files(file_limit_, after.max_clients);
  if (after.max_clients != before.max_clients && files.clients < after.max_clients) {
    file_limit_ = raise_file_limit(file_limit_for(after.max_clients));
    files = share_files(file_limit_, after.max_clients);
    if (files.clients < after.max_clients) {
      return Status::invalid_argument("the limit of open files allows " + std::to_string(files.clients) + " clients");
    }
  }
  if (!(after.tls == before.tls)) {
    TRY_ASSIGN(access, admin_access(after));
    TRY(load_tls(after));
    if (admin_ != nullptr) admin_->set_access(std::move(access));
  }
  std::optional<Users> changed_users;
  if (after.secret() != before.secret()) {
    TRY_ASSIGN(changed, users()->with_changed_password(after.secret()));
    changed_users = std::move(changed);
  }
  const Settings settings = settings_of(after);
  if (db == nullptr) {
    configured_while_loading_ = true;
  } else {
    TRY(db->reconfigure(settings));
  }
  client_cap_ = files.clients;
  client_memory_.set_budget(settings.memory_budget);
  set_failure_log_budget(settings.memory_budget);
  share_blocks_within(settings.memory_budget);
  use_observer_settings(after, settings.memory_budget);
  if (db != nullptr) auto_tuning_->configure(tuning_settings(after));
  if (after.notify_keyspace_events != before.notify_keyspace_events) {
    observers_.notifications.set_flags(parse_notify_flags(after.notify_keyspace_events).value_or(0));
    if (db != nullptr) observers_.refresh_expiries(db->now());  // before the timer does so: a key may expire earlier
  }
  if (changed_users) set_users(std::move(*changed_users));
  if (after.log_level != before.log_level) log_->set_level(after.log_level);
  use_net_settings(after);
  return Status::ok();
}

void Server::use_observer_settings(const Config& config, std::uint64_t memory_budget) {
  observers_.tracking.set_budget(memory_budget);
  observers_.slow_log.set_budget(memory_budget);
  observers_.acl_log.set_budget(memory_budget);
  cursors_.set_budget(memory_budget);
  observers_.slow_log.configure(config.slowlog_slower_than_us, config.slowlog_max_len, config.slowlog_arguments);
  observers_.acl_log.set_limit(config.acl_log_max_len);
  observers_.latency.set_threshold(config.latency_threshold_ms);
  stats_.set_shown_percentiles(config.percentiles());
}

void Server::use_net_settings(const Config& config) {
  const NetSettings net = net_settings(config);
  listener_->set_settings(
      net);  // first, so that connections accepted under the old settings reach their loop before it gets the new ones
  for (const auto& loop : loops_) loop->set_settings(net);
}

Server::Debugging Server::debugging() const {
  switch (config_.get().debug_commands) {
    case DebugCommands::kNo:
      return Debugging::kNo;
    case DebugCommands::kLocal:
      return Debugging::kLocal;
    case DebugCommands::kYes:
      return Debugging::kYes;
  }
  return Debugging::kNo;
}

}  // namespace ebbtide
