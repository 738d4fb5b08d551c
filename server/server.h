// The whole server: starts and stops all parts in order.
//
// Start: log, sockets (commands get -LOADING), HTTP port, then the database on a thread of its own. When the database is open,
// each loop gets its dispatcher.
//
// Stop (SIGTERM, SIGINT, SHUTDOWN): new clients are refused. Loops finish their pass and close their connections, and offload
// threads finish. Then the engine writes and syncs its log.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>

#include <engine/db.h>
#include <engine/events.h>

#include "acl/auth_guard.h"
#include "admin/admin_server.h"
#include "blocking/key_waiters.h"
#include "checkpoint/backup_verifier.h"
#include "checkpoint/backups.h"
#include "client_memory.h"
#include "config/config.h"
#include "config/live_config.h"
#include "dispatch/blocked_clients.h"
#include "dispatch/command_env.h"
#include "dispatch/expiry_reports.h"
#include "dispatch/intents.h"
#include "dispatch/key_locks.h"
#include "dispatch/offload.h"
#include "dispatch/rate_meter.h"
#include "dispatch/scan_cursors.h"
#include "dispatch/server_control.h"
#include "dispatch/server_stats.h"
#include "dispatch/table.h"
#include "index/index_builder.h"
#include "index/index_catalog.h"
#include "log/server_log.h"
#include "machine/machine.h"
#include "machine/service_manager.h"
#include "metrics/metrics.h"
#include "net/event_loop.h"
#include "net/listener.h"
#include "pubsub/pubsub.h"
#include "store/rank_indexes.h"
#include "tuning/auto_tuning.h"
#include "tuning/tuning_board.h"

namespace ebbtide {

class Server final : public ServerControl, public EventListener, public ReplyGate {
 public:
  /// `executable` is argv[0], for INFO.
  Server(Config config, std::string executable);
  ~Server() override;

  /// Runs until shutdown; returns the exit status.
  int run();

  // ServerControl
  [[nodiscard]] std::uint64_t unix_micros() const override;
  [[nodiscard]] std::uint64_t mono_nanos() const override;
  [[nodiscard]] std::uint64_t uptime_micros() const { return (mono_nanos() - start_nanos_) / 1000; }
  Status shutdown(const ShutdownRequest& request) override;
  Status abort_shutdown() override;
  void config_get(std::span<const Bytes> patterns, std::vector<std::pair<std::string, std::string>>* items) const override;
  Status config_set(std::span<const std::pair<Bytes, Bytes>> items) override;
  Status config_rewrite() override;
  bool begin_save() override;
  Status save() override;
  [[nodiscard]] SaveState save_state() const override;
  [[nodiscard]] bool password_required() const override;
  [[nodiscard]] std::shared_ptr<const Users> users() const override;
  Status set_user(Bytes name, std::span<const Bytes> rules, std::uint64_t self_id) override;
  Result<std::uint64_t> delete_users(std::span<const Bytes> names, std::uint64_t self_id) override;
  Status load_users(std::uint64_t self_id) override;
  Status save_users() override;
  void access_denied(AclDenial denial, Bytes address, Bytes user, Bytes command) override;
  [[nodiscard]] std::string random_secret(std::size_t bits) override;
  void authentication_failed(Bytes network, Bytes address, Bytes user) override;
  [[nodiscard]] std::uint32_t authentication_delay_ms(Bytes network) override;
  [[nodiscard]] Debugging debugging() const override;
  void log_message(const std::string& text) override;
  void log_change(const std::string& text) override;
  void pause_compactions(std::uint64_t ms) override;
  void resume_compactions() override;
  void sleep_ms(std::uint64_t ms) override;
  [[nodiscard]] ServerInfo info() const override;
  [[nodiscard]] std::uint32_t databases() const override { return engine_settings_.databases; }
  void reset_stats() override;
  [[nodiscard]] bool has_client(std::uint64_t id) const override { return net_.live.contains(id); }
  [[nodiscard]] Status client_list(const ClientFilter& filter, const std::function<Status(std::string lines)>& add) override;
  std::uint64_t kill_clients(const ClientFilter& filter, std::uint64_t self_id) override;

  // EventListener
  void on_message(Severity severity, const std::string& text) override;
  void on_recovery_progress(std::uint64_t done, std::uint64_t total) override;

  // ReplyGate
  bool end_of_pass() override;
  [[nodiscard]] std::uint64_t durable_seq() const override;
  [[nodiscard]] bool failed() const override;

 private:
  BackupVerifier::Env backup_checks();
  AutoTuning::Env tuning_env();
  /// Sums of the counts of all loops and the listener.
  struct NetTotals {
    std::uint64_t connections = 0, rejected = 0, in = 0, out = 0, query_limit = 0, output_limit = 0, auth_failures = 0;
    std::array<std::uint64_t, 4> denials{};  ///< denied commands, by AclDenial
  };

  void connect_observers();
  /// Ends the pause of compactions with this number; does nothing if a newer pause has begun.
  void end_pause(std::uint64_t number);
  /// Turns the expiry watch on or off, and reports expirations. Runs ten times a second on the main thread.
  void watch_expiries();
  void keep_id();
  /// Publishes expirations that are due, for a few milliseconds at a time.
  void report_expiries();
  void sample_rates();
  bool start_listening();
  bool start_tls(const Config& config);
  bool start_admin();
  void reload_admin_access();
  void report_start() const;
  /// Returns the environment of commands. `db` is null while the database is being opened.
  CommandEnv command_env(Db* db);
  [[nodiscard]] IndexBuilder::Env index_builder_env();
  /// Gives the tree of each index the settings of its database, with the policy of its definition.
  void use_index_settings();
  void open_database();
  void database_opened(Result<std::unique_ptr<Db>> db);
  /// Returns the resident bytes of the process. If they exceed the budget, makes threads return memory that other threads have
  /// freed.
  std::uint64_t measure_resident();
  /// Makes the loops return memory that other threads have freed.
  void collect_on_loops();
  void wait_for_signals();
  /// Reports to the watchdog if every loop has answered since the last call. A timer calls this again.
  void beat();
  void begin_stop(const std::string& why);
  void end();
  /// Returns the network's settings.
  [[nodiscard]] NetSettings net_settings(const Config& config) const;
  /// Returns the configuration in effect: max_clients is reduced to what the limit of open files allows.
  [[nodiscard]] Config effective(Config config) const;
  /// Returns the engine's settings with `auto` resolved.
  [[nodiscard]] Settings settings_of(const Config& config) const;
  Status apply_config(const Config& before, const Config& after);
  void use_net_settings(const Config& config);
  /// Applies the settings of the observers of commands, and of the counts of commands.
  void use_observer_settings(const Config& config, std::uint64_t memory_budget);
  /// Reads certificate and key again, for new connections. Does nothing if TLS is off.
  Status load_tls(const Config& config);
  Result<HttpAccess> admin_access(const Config& config) const;
  void set_users(Users users);
  /// Returns -OOM if the users do not fit into their part of the memory budget. `all`: the memory that they take; `more`: how
  /// much more than before.
  [[nodiscard]] Status check_room_for_users(const Config& config, std::uint64_t all, std::uint64_t more) const;
  [[nodiscard]] std::uint64_t most_bytes_of_users(const Config& config) const;
  /// Replaces the users by the result of `change`, for later logins, first commands and new connections.
  Status change_users(const std::function<Result<Users>(const Users&, const Config&)>& change);
  /// Applies the rights of a changed user to its connections. Closes those with a subscription to which the user has no right.
  void refresh_sessions(const std::string& name, std::uint64_t self_id);
  void close_clients_of(const std::vector<std::string>& names, std::uint64_t self_id);
  /// Calls `f` on each loop's thread, and waits for all calls to end. Must not be called on a loop's thread.
  void on_every_loop(const std::function<void(EventLoop&)>& f);
  [[nodiscard]] MetricsSnapshot snapshot() const;
  void add_net(MetricsSnapshot* snapshot) const;
  [[nodiscard]] std::string not_ready() const;
  /// Returns the console's data of a database, as JSON; nullopt if the database does not exist.
  [[nodiscard]] std::optional<std::string> console(DatabaseId database) const;
  [[nodiscard]] NetTotals net_totals() const;

  // Constant after construction.
  const std::string executable_;
  std::string run_id_;
  std::uint64_t start_micros_ = 0;  ///< Unix time
  std::uint64_t start_nanos_ = 0;   ///< the monotonic clock at the start
  UsableMemory memory_;             ///< memory of the machine or the cgroup
  Settings engine_settings_;        ///< the engine's settings, with `auto` resolved
  std::unique_ptr<ServerLog> log_;
  NetEnv net_env_;
  const ServiceManager service_manager_;
  const std::uint64_t watchdog_ms_;

  // The following members have synchronization of their own.
  /// The limit of open files. Set before the first client; afterwards config_'s lock guards it.
  std::uint64_t file_limit_ = 0;
  std::atomic<std::uint64_t> client_cap_{~std::uint64_t{0}};  ///< the most clients that the limit of open files allows
  ClientMemoryAccount client_memory_;
  LogLimiter bad_http_{60'000};
  LiveConfig config_;
  NetShared net_;
  PubSub pubsub_;
  Observers observers_;
  BlockedClients blocked_;
  KeyWaiters key_waiters_;
  RankIndexes ranks_;
  std::vector<std::unique_ptr<EventLoop>> loops_;
  CommandTable table_;
  ServerStats stats_;
  KeyLocks locks_;
  Intents intents_;
  ScanCursors cursors_;
  TuningBoard tuning_board_;
  IndexCatalog indexes_;
  std::unique_ptr<IndexBuilder> index_builder_;
  std::atomic<std::uint64_t> auth_failures_{0};
  std::array<std::atomic<std::uint64_t>, 4> denials_{};  ///< denied commands, by AclDenial
  LogLimiter denied_log_{10'000};
  AuthGuard auth_guard_;
  std::atomic<std::uint64_t> recovery_logged_ms_{0};
  std::atomic<std::uint64_t> recovered_bytes_{0}, recovery_bytes_{0};
  bool configured_while_loading_ = false;  // guarded by config_'s lock
  mutable std::mutex users_mutex_;
  std::shared_ptr<const Users> users_;  // guarded by users_mutex_; replaced under config_'s lock; never null
  std::atomic<bool> password_required_{false};
  std::atomic<std::int64_t> certificate_expires_at_{0};  ///< Unix time; 0: no TLS
  mutable std::mutex base_mutex_;
  NetTotals base_;                                     // guarded by base_mutex_: the sums at the last CONFIG RESETSTAT
  RateMeter command_rate_, input_rate_, output_rate_;  // guarded by base_mutex_
  std::atomic<SeqNum> saved_seq_{0};                   ///< SaveState::last_seq

  // Used on the main thread. `ready_` publishes `db_` to the other threads.
  asio::io_context io_{1};
  asio::signal_set signals_{io_};
  bool reporting_expiries_ = false;  ///< report_expiries() is under way
  ExpiryReports expiry_reports_{{&observers_, [this] { return db_->now(); }, [this] { return mono_nanos(); }}};
  asio::steady_timer expiry_timer_{
      io_};  ///< checks for expired keys ten times a second, while a client listens to `expired` events
  asio::steady_timer resume_timer_{io_};  ///< ends TREE.PAUSE
  asio::steady_timer accept_timer_{io_};  ///< connections are accepted when it ends, or once the database is open
  asio::steady_timer watchdog_timer_{io_};
  /// Loops that have answered since the last report; null: no report yet.
  std::shared_ptr<std::atomic<std::size_t>> loops_alive_;
  std::mutex pause_mutex_;
  bool compactions_paused_ = false;  // guarded by pause_mutex_
  std::uint64_t pauses_ = 0;         // guarded by pause_mutex_; number of pauses so far
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<AdminServer> admin_;
  std::unique_ptr<ThreadOffload> offload_;
  std::unique_ptr<Disposer> disposer_;
  /// Charged with transactions that clients begin while the database is being opened.
  const std::shared_ptr<MemoryAccount> loading_memory_ = std::make_shared<MemoryAccount>();
  CommandEnv loading_env_, env_;
  std::unique_ptr<Db> db_;
  std::unique_ptr<Backups> backups_;
  std::string database_id_;  ///< set before backups_; later only by save(), if id_was_read_ is false
  bool id_was_read_ = false;
  std::uint64_t next_id_check_ms_ = 0;  ///< used by the main thread
  std::unique_ptr<BackupVerifier> backup_verifier_;
  std::unique_ptr<AutoTuning> auto_tuning_;
  std::thread opener_;
  std::atomic<Db*> ready_{nullptr};
  std::atomic<bool> stopping_{false};
  int exit_status_ = 0;
};

}  // namespace ebbtide
