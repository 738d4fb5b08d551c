#include "server.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>

#include <engine/seeded_hash.h>
#include <engine/verify_checkpoint.h>
#include <asio/post.hpp>

#include "commands/config_access.h"
#include "commands/families.h"
#include "config/start_report.h"
#include "dispatch/dispatcher.h"
#include "dispatch/script_cache.h"
#include "log/failure_log.h"
#include "machine/directory_access.h"
#include "machine/machine.h"
#include "resp/freed_memory.h"
#include "server_settings.h"

namespace ebbtide {
namespace {

constexpr unsigned kShortThreads = 4, kLongThreads = 2;
/// While the database is being opened, queued transactions of clients may use 1 / n of the memory budget.
constexpr std::uint64_t kLoadingPart = 8;
/// Connections are accepted only after this time, or once the database is open. So if it opens quickly, no client gets -LOADING.
constexpr std::chrono::milliseconds kQuickOpen{250};
constexpr std::uint64_t kIdCheckMs = 10'000;  // such a check reads a file of one line
constexpr std::uint64_t kStartMs = 120'000;   // how much longer the service manager waits after each report of a start

// Returns the value of an environment variable that the service manager sets; "" if it is not set.
std::string from_manager(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::uint64_t unix_micros_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count(), 1));
}

std::uint64_t mono_nanos_now() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) ^ device();
}

std::string make_run_id() {
  std::string id;
  std::random_device device;
  while (id.size() < 40) {
    char text[9];
    std::snprintf(text, sizeof(text), "%08x", device());
    id += text;
  }
  return id;
}

/// Returns the configuration without the users of the file. Later changes of users are in Server::users(). So copies of the
/// configuration do not copy all users, or keep deleted ones.
Config without_users(Config config) {
  config.file_users = Users();
  return config;
}

class Call final : public OffloadWork {
 public:
  explicit Call(std::function<void()> f) : f_(std::move(f)) {}
  void run() override { f_(); }

 private:
  const std::function<void()> f_;
};

}  // namespace

Server::Server(Config config, std::string executable)
    : executable_(std::move(executable)),
      run_id_(make_run_id()),
      start_micros_(unix_micros_now()),
      start_nanos_(mono_nanos_now()),
      memory_(usable_memory()),
      engine_settings_(resolved_settings(config, memory_.bytes)),
      log_(std::make_unique<ServerLog>(config.log_level, config.log_file, config.log_format)),
      service_manager_(from_manager("NOTIFY_SOCKET")),
      watchdog_ms_(watchdog_period_ms(from_manager("WATCHDOG_USEC"), from_manager("WATCHDOG_PID"), ::getpid())),
      config_(
          without_users(config), [this](const Config& before, const Config& after) { return apply_config(before, after); },
          [this](Config held) { return effective(std::move(held)); }),
      table_(command_families()),
      stats_(table_.all().size()),
      locks_(loop_count(config)),
      cursors_(random_seed()) {
  seed_hash_tables(random_seed());
  set_users(config.file_users.with_default_password(config.secret()).value());  // cannot fail: load_config() has checked this
  net_env_.unix_ms = [] { return static_cast<std::int64_t>(unix_micros_now() / 1000); };
  net_env_.mono_ns = mono_nanos_now;
  net_env_.memory = &client_memory_;
  connect_observers();
  use_observer_settings(config, engine_settings_.memory_budget);
  observers_.notifications.set_flags(parse_notify_flags(config.notify_keyspace_events).value_or(0));
  net_env_.log = [this](NetLog level, const std::string& text) {
    log_->write(level == NetLog::kWarning ? ServerLog::Level::kWarning
                : level == NetLog::kInfo  ? ServerLog::Level::kInfo
                                          : ServerLog::Level::kDebug,
                text);
  };
}

// Connects the observers with the subscribers, the loops and the memory account.
void Server::connect_observers() {
  observers_.notifications.publish = [this](Bytes channel, Bytes message, ClientLoop* here, std::uint64_t seq) {
    pubsub_.publish(PubSub::Kind::kChannel, channel, message, here, seq);
  };
  observers_.notifications.publish_in_parts = [this](Bytes channel, Bytes message, ClientLoop* here, std::uint64_t seq) {
    auto publishing = std::make_shared<PubSub::Publishing>(pubsub_, PubSub::Kind::kChannel, channel, message, here, seq);
    return [publishing](const Slice& slice) { return publishing->go_on([&slice] { return slice.over(); }); };
  };
  observers_.notifications.work = [this](std::size_t channel_bytes) { return pubsub_.pattern_work(channel_bytes); };
  observers_.notifications.together = [](const std::function<void()>& publish_all) {
    const PubSub::Gathering gathering;
    publish_all();
  };
  observers_.notifications.listeners = [this] { return pubsub_.keyspace_listeners(); };
  observers_.after_all_loops = [this](ClientLoop* here, const std::function<void()>& then) {
    auto missing = std::make_shared<std::atomic<std::size_t>>(loops_.size());
    for (const auto& loop : loops_) {
      loop->post([missing, here, then, l = loop.get()] {
        if (missing->fetch_sub(1) != 1) return;
        l == here ? then() : here->post(then);
      });
    }
  };
  observers_.tracking.to_client = [this](std::uint64_t id, const std::function<void(Client&)>& f) {
    for (const auto& loop : loops_) {
      loop->post([l = loop.get(), id, f] {
        if (Client* client = l->find(id)) f(*client);
      });
    }
  };
  observers_.tracking.is_connected = [this](std::uint64_t id) { return net_.live.contains(id); };
  for (SteppedCharge* memory :
       {&observers_.tracking.memory, &cursors_.memory, &observers_.slow_log.memory, &observers_.acl_log.memory}) {
    memory->charge = [this](std::size_t bytes) { client_memory_.charge_buffers(bytes); };
    memory->release = [this](std::size_t bytes) { client_memory_.release_buffers(bytes); };
  }
  for (SharedTexts* texts : {&observers_.tracking.texts, &observers_.monitors.texts, &pubsub_.texts}) {
    texts->charge = [this](std::size_t bytes) { client_memory_.charge_buffers(bytes); };
    texts->release = [this](std::size_t bytes) { client_memory_.release_buffers(bytes); };
  }
}

Server::~Server() { end(); }

// --- start and stop

int Server::run() {
  const Config config = config_.get();
  install_failure_log(config.log_file, config.log_format == "json");
  report_refused_allocations(note_refused_allocation);
  set_failure_log_budget(engine_settings_.memory_budget);
  share_blocks_within(engine_settings_.memory_budget);
  file_limit_ = raise_file_limit(file_limit_for(config.max_clients));
  const FileShares files = share_files(file_limit_, config.max_clients);
  client_cap_ = files.clients;
  engine_settings_ = settings_of(config);
  if (const std::string why = why_unusable(engine_settings_.dir); !why.empty()) {
    log_->write(ServerLog::Level::kError, "the database cannot be opened: storage.dir: " + why);
    return 1;
  }
  if (client_cap_ < config.max_clients) {
    log_->write(ServerLog::Level::kWarning,
                "the limit of open files is " + std::to_string(file_limit_) + ", so at most " +
                    std::to_string(client_cap_.load()) + " clients are served instead of " + std::to_string(config.max_clients) +
                    ", and at most " + std::to_string(engine_settings_.max_open_files) +
                    " files of tables stay open. A limit of " + std::to_string(file_limit_for(config.max_clients)) +
                    " is enough for all clients (LimitNOFILE, ulimit -n)");
  }
  const NetSettings net = net_settings(config);
  freed_memory_collectors.own = collect_freed_memory;
  offload_ = std::make_unique<ThreadOffload>(kShortThreads, kLongThreads, collect_freed_memory);
  freed_memory_collectors.others = [this, offload = offload_.get()] {
    offload->collect();
    collect_on_loops();
  };
  disposer_ = std::make_unique<OffloadDisposer>(*offload_);
  set_disposer(disposer_.get());
  loading_memory_->set_limit(engine_settings_.memory_budget / kLoadingPart, 0);
  loading_env_ = command_env(nullptr);
  for (unsigned i = 0; i < loop_count(config); ++i) {
    loops_.push_back(std::make_unique<EventLoop>(static_cast<int>(i), net, &net_, &net_env_));
    if (const std::string why = loops_.back()->start(std::make_unique<Dispatcher>(loading_env_, random_seed())); !why.empty()) {
      const std::string remedy = remedy_for(why, engine_settings_.dir, file_limit_);
      log_->write(ServerLog::Level::kError, why + (remedy.empty() ? "" : "; " + remedy));
      return 1;
    }
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a write past the limit of file sizes (ulimit -f) then fails like a write to a full disk
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) signals_.add(signal);
  wait_for_signals();
  if (!start_listening() || !start_admin()) return 1;
  report_start();
  // Most databases open at once. Clients that connect meanwhile wait in the socket's queue, and get no -LOADING.
  accept_timer_.expires_after(kQuickOpen);
  accept_timer_.async_wait([this](const asio::error_code& error) {
    if (!error && !stopping_) listener_->start();
  });
  if (const std::string why = service_manager_.starting("opening the database", kStartMs); !why.empty())
    log_->write(ServerLog::Level::kWarning, why + "; the service manager may get no reports");
  if (watchdog_ms_ != 0) beat();
  opener_ = std::thread([this] { open_database(); });
  io_.run();
  end();
  log_->write(ServerLog::Level::kInfo, "bye");
  return exit_status_;
}

void Server::report_start() const {
  StartFacts facts;
  facts.version = EBBTIDE_VERSION;
  facts.port = listener_->port();
  facts.tls_port = listener_->tls_port();
  facts.admin_port = admin_ == nullptr ? 0 : admin_->port();
  facts.pid = ::getpid();
  facts.loops = loops_.size();
  facts.memory_bytes = memory_.bytes;
  facts.memory_source = memory_.source;
  facts.cores_source = usable_cores().source;
  facts.password_required = password_required_;
  for (const StartLine& line : start_report(config_.get(), engine_settings_, facts)) {
    log_->write(line.warning ? ServerLog::Level::kWarning : ServerLog::Level::kInfo, line.text);
  }
}

IndexBuilder::Env Server::index_builder_env() {
  return {.db = db_.get(),
          .catalog = &indexes_,
          .databases = engine_settings_.databases,
          .locked =
              [this](const std::function<void()>& work) {
                const KeyLocks::Guard guard(locks_);
                work();
              },
          .warn = [this](const std::string& text) { log_->write(ServerLog::Level::kWarning, text); },
          .use_settings = [this] { use_index_settings(); }};
}

CommandEnv Server::command_env(Db* db) {
  return {db,
          this,
          &table_,
          &locks_,
          offload_.get(),
          &cursors_,
          &stats_,
          &pubsub_,
          &observers_,
          &blocked_,
          engine_settings_.databases,
          db == nullptr ? loading_memory_.get() : &db->memory(),
          &intents_,
          &key_waiters_,
          &tuning_board_,
          &ranks_,
          db == nullptr ? nullptr : &indexes_};
}

void Server::open_database() {
  Components components;
  components.events = this;
  auto db = std::make_shared<Result<std::unique_ptr<Db>>>(Db::open(engine_settings_, components));
  asio::post(io_, [this, db] { database_opened(std::move(*db)); });
}

void Server::database_opened(Result<std::unique_ptr<Db>> db) {
  opener_.join();
  if (!db.is_ok()) {
    const std::string why = db.status().to_string(), remedy = remedy_for(why, engine_settings_.dir, file_limit_);
    log_->write(ServerLog::Level::kError, "the database cannot be opened: " + why + (remedy.empty() ? "" : "; " + remedy));
    exit_status_ = 1;
    begin_stop("the database could not be opened");
    return io_.stop();
  }
  db_ = std::move(db).value();
  if (stopping_) return io_.stop();
  client_memory_.attach(&db_->memory(), engine_settings_.memory_budget);
  if (keeps_to_budget()) db_->set_resident_source([this] { return measure_resident(); });
  db_->set_durable_listener([this] {
    for (const auto& loop : loops_) loop->notify_durable();
  });
  ranks_.start(db_->memory().shared_from_this());
  const auto warn = [this](const std::string& text) { log_->write(ServerLog::Level::kWarning, text); };
  if (const Status status = indexes_.load(*db_, engine_settings_.databases, warn); !status.is_ok()) {
    log_->write(ServerLog::Level::kError, "the definitions of indexes cannot be read: " + status.to_string());
    exit_status_ = 1;
    begin_stop("the definitions of indexes could not be read");
    return io_.stop();
  }
  if (indexes_.any()) locks_.enable();
  index_builder_ = std::make_unique<IndexBuilder>(index_builder_env());
  indexes_.set_listener([this] { index_builder_->wake(); });
  env_ = command_env(db_.get());
  if (const std::string why = exposed_directory(engine_settings_.dir); !why.empty()) log_->write(ServerLog::Level::kWarning, why);
  auto id = database_id(engine_settings_.dir, random_seed());
  if (!id.is_ok())
    log_->write(ServerLog::Level::kWarning, id.status().to_string() + "; backups fail until the file can be written");
  id_was_read_ = id.is_ok();
  database_id_ = id.is_ok() ? std::move(id).value() : "";
  backups_ = std::make_unique<Backups>(Backups::newest(backup_directory(config_.get()), database_id_, start_micros_ / 1'000'000));
  backup_verifier_ = std::make_unique<BackupVerifier>(backup_checks());
  saved_seq_ = db_->visible_seq();
  auto_tuning_ = std::make_unique<AutoTuning>(tuning_env());
  const Status configured = config_.with([this](const Config& config) {
    ready_ = db_.get();
    auto_tuning_->configure(tuning_settings(config));
    return configured_while_loading_ ? db_->reconfigure(settings_of(config)) : Status::ok();
  });
  if (!configured.is_ok()) {
    log_->write(ServerLog::Level::kError,
                "the settings that were changed while the database was being opened do not apply: " + configured.to_string());
  }
  bool threads_read = false;
  for (const auto& loop : loops_) {
    auto dispatcher = std::make_unique<Dispatcher>(env_, random_seed());
    threads_read |= dispatcher->descriptor() < 0;
    loop->set_sink(std::move(dispatcher), this);
  }
  if (threads_read && engine_settings_.io_uring) {
    log_->write(ServerLog::Level::kInfo,
                "the system does not allow io_uring here: threads (storage.fetch_threads) read missing pages");
  }
  // If the timer has already ended, connections are already accepted.
  if (accept_timer_.cancel() != 0) listener_->start();
  watch_expiries();
  service_manager_.ready();
  log_->write(ServerLog::Level::kInfo, "ready to accept connections");
}

// The allocator returns memory only on the thread that allocated it, at that thread's next allocation, even if other threads have
// freed it. So an idle thread would keep such memory. Offload threads collect theirs before the budget is exceeded, since
// commands may take the rest within milliseconds.
std::uint64_t Server::measure_resident() {
  const std::uint64_t bytes = resident_bytes(), budget = db_->memory().budget();
  if (bytes > budget - budget / 8) offload_->collect();
  if (bytes > budget) collect_on_loops();
  return bytes;
}

void Server::collect_on_loops() {
  for (const auto& loop : loops_) loop->post(collect_freed_memory);
}

void Server::wait_for_signals() {
  signals_.async_wait([this](const asio::error_code& error, int signal) {
    if (error) return;
    if (signal == SIGHUP) {
      const std::string why = log_->reopen();
      log_->write(why.empty() ? ServerLog::Level::kInfo : ServerLog::Level::kError,
                  why.empty() ? "SIGHUP: the log file, if any, was reopened" : "SIGHUP: " + why + ". The old file stays in use");
      const Status tls = config_.with([this](const Config& config) { return load_tls(config); });
      if (!tls.is_ok())
        log_->write(ServerLog::Level::kError, "SIGHUP: " + tls.to_string() + ". The old certificate stays in use");
      reload_admin_access();
    } else if (stopping_) {
      std::_Exit(1);  // the second signal ends the process without a clean stop; every acknowledged write is in the log
    } else {
      begin_stop(signal == SIGTERM ? "SIGTERM" : "SIGINT");
    }
    wait_for_signals();
  });
}

void Server::beat() {
  if (loops_alive_ == nullptr || *loops_alive_ == loops_.size()) {
    service_manager_.alive();
    loops_alive_ = std::make_shared<std::atomic<std::size_t>>(0);
    for (const auto& loop : loops_) loop->post([alive = loops_alive_] { ++*alive; });
  }
  watchdog_timer_.expires_after(std::chrono::milliseconds(watchdog_ms_));
  watchdog_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) beat();
  });
}

void Server::begin_stop(const std::string& why) {
  if (stopping_.exchange(true)) return;
  service_manager_.stopping();
  log_->write(ServerLog::Level::kInfo, "stopping: " + why);
  if (listener_ != nullptr) listener_->stop();
  // Opening the database cannot be cancelled, so database_opened() completes the stop. Until then signals are handled, such as a
  // second one.
  if (!opener_.joinable()) io_.stop();
}

void Server::end() {
  if (opener_.joinable()) opener_.join();
  if (admin_ != nullptr) admin_->stop();
  for (const auto& loop : loops_) loop->stop();
  set_disposer(nullptr);
  if (db_ != nullptr) db_->set_resident_source(nullptr);
  offload_.reset();
  index_builder_.reset();
  backup_verifier_.reset();
  ready_ = nullptr;
  client_memory_.detach();
  if (db_ == nullptr) return;
  keep_id();
  env_.scripts->clear();  // scripts and rank indexes are charged to the database's account, which ends with it
  ranks_.clear();
  const Status status = db_->close();
  if (!status.is_ok()) {
    log_->write(ServerLog::Level::kError, "closing the database: " + status.to_string());
    exit_status_ = 1;
  }
  db_.reset();
}

bool Server::begin_save() { return backups_->begin(unix_micros()); }

Status Server::save() {
  const Config config = config_.get();
  const SeqNum seq = db_->visible_seq();
  if (database_id_.empty()) {  // the disk was full at the start, so there is no id yet
    auto id = database_id(engine_settings_.dir, random_seed());
    if (id.is_ok()) database_id_ = std::move(id).value();
  }
  const auto made = backups_->run(*db_, {config.engine.dir, backup_directory(config), database_id_}, *this);
  log_->write(made.is_ok() ? ServerLog::Level::kInfo : ServerLog::Level::kError,
              made.is_ok() ? "backup: " + *made : "backup failed: " + made.status().to_string());
  if (made.is_ok()) {
    if (const std::uint64_t damaged = backups_->state().last_damaged; damaged != 0) {
      log_->write(ServerLog::Level::kError, "damaged tables in the new backup: " + std::to_string(damaged) +
                                                "; it has only the readable part of them. Keep an older backup");
    }
    saved_seq_ = seq;
    backup_verifier_->check(*made);
  }
  return made.status();
}

BackupVerifier::Env Server::backup_checks() {
  BackupVerifier::Env env;
  env.verify = [](const std::string& path, const std::function<bool(std::uint64_t)>& go_on) {
    return verify_checkpoint(nullptr, path, go_on);
  };
  env.damage = [this]() -> std::string {
    if (const std::vector<std::string> files = db_->damage(); !files.empty()) return files.front();
    const std::uint64_t errors = db_->stats().scrub_errors;
    return errors == 0 ? "" : std::to_string(errors) + " errors were found in its tables since the start";
  };
  env.prune = [this](const std::string& path) { return remove_older_backups(path, database_id_, config_.get().backup_keep); };
  env.log = [this](bool error, const std::string& text) {
    log_->write(error ? ServerLog::Level::kError : ServerLog::Level::kInfo, text);
  };
  env.unix_seconds = [this] { return unix_micros() / 1'000'000; };
  return env;
}

AutoTuning::Env Server::tuning_env() {
  AutoTuning::Env env;
  env.now = [this] { return db_->now(); };
  env.databases = [this] {
    std::vector<DatabaseId> out;
    for (DatabaseId database = 0; database < engine_settings_.databases; ++database) {
      if (const auto tree = db_->tree_info(database); tree.is_ok() && tree->tree != kNoTree) out.push_back(database);
    }
    return out;
  };
  env.workload = [this](DatabaseId database) { return tuning_board_.workload(*db_, database); };
  env.config = config_access(*this);
  env.writable = [this] { return db_->write_status(); };
  env.log = [this](bool warning, const std::string& text) {
    log_->write(warning ? ServerLog::Level::kWarning : ServerLog::Level::kInfo, text);
  };
  env.board = &tuning_board_;
  return env;
}

SaveState Server::save_state() const {
  SaveState state;
  if (ready_.load() != nullptr) {
    state = backups_->state();
    state.check = backup_verifier_->state();
  }
  state.last_seq = saved_seq_;
  return state;
}

Status Server::shutdown(const ShutdownRequest&) {
  asio::post(io_, [this] { begin_stop("SHUTDOWN"); });
  return Status::ok();
}

Status Server::abort_shutdown() { return Status::not_found("no shutdown is under way"); }

// --- events of the engine

void Server::on_message(Severity severity, const std::string& text) {
  constexpr ServerLog::Level kLevels[] = {ServerLog::Level::kDebug, ServerLog::Level::kInfo, ServerLog::Level::kWarning,
                                          ServerLog::Level::kError};
  const bool refuses_writes = severity == Severity::kError && text.starts_with("read-only: ");
  const std::string remedy = refuses_writes ? remedy_for(text, engine_settings_.dir, file_limit_) : "";
  log_->write(kLevels[static_cast<int>(severity)], text + (remedy.empty() ? "" : "; " + remedy));
}

void Server::on_recovery_progress(std::uint64_t done, std::uint64_t total) {
  recovered_bytes_ = done;
  recovery_bytes_ = total;
  const std::uint64_t now_ms = unix_micros_now() / 1000;
  if (done < total && now_ms - recovery_logged_ms_ < 1'000) return;
  recovery_logged_ms_ = now_ms;
  const std::string text =
      "recovery: " + std::to_string(done >> 20) + " of " + std::to_string(total >> 20) + " MiB of the log replayed";
  service_manager_.starting(text, kStartMs);
  log_->write(ServerLog::Level::kInfo, text);
}

bool Server::end_of_pass() { return ready_.load(std::memory_order_relaxed)->write_log(); }
std::uint64_t Server::durable_seq() const { return ready_.load(std::memory_order_relaxed)->durable_seq(); }
bool Server::failed() const { return !ready_.load(std::memory_order_relaxed)->write_status().is_ok(); }

// --- time, configuration, authentication

std::uint64_t Server::unix_micros() const { return unix_micros_now(); }
std::uint64_t Server::mono_nanos() const { return mono_nanos_now(); }

void Server::log_message(const std::string& text) { log_->write(ServerLog::Level::kWarning, text); }

void Server::log_change(const std::string& text) { log_->write(ServerLog::Level::kInfo, text); }

void Server::pause_compactions(std::uint64_t ms) {
  std::uint64_t number = 0;
  {
    std::lock_guard lock(pause_mutex_);
    if (!std::exchange(compactions_paused_, true)) ready_.load()->pause_compactions();
    number = ++pauses_;
  }
  asio::post(io_, [this, ms, number] {
    resume_timer_.cancel();
    if (ms == 0) return;
    resume_timer_.expires_after(std::chrono::milliseconds(ms));
    resume_timer_.async_wait([this, number](const asio::error_code& error) {
      if (!error) end_pause(number);
    });
  });
}

void Server::resume_compactions() {
  std::lock_guard lock(pause_mutex_);
  if (std::exchange(compactions_paused_, false)) ready_.load()->resume_compactions();
}

void Server::sleep_ms(std::uint64_t ms) {
  asio::io_context io;
  asio::steady_timer timer(io, std::chrono::milliseconds(ms));
  asio::error_code error;
  do {
    timer.wait(error);
  } while (error == asio::error::interrupted);  // a signal has interrupted the call
}

void Server::watch_expiries() {
  expiry_timer_.expires_after(std::chrono::milliseconds(100));
  expiry_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) watch_expiries();
  });
  const Millis now = db_->now();
  if (const std::uint64_t ms = mono_nanos_now() / 1'000'000; ms >= next_id_check_ms_) {
    next_id_check_ms_ = ms + kIdCheckMs;
    offload_->submit(OffloadClass::kLong, std::make_shared<Call>([this] { keep_id(); }));
  }
  if (auto_tuning_->due()) offload_->submit(OffloadClass::kLong, std::make_shared<Call>([this] { auto_tuning_->run(); }));
  observers_.refresh_expiries(now);
  sample_rates();
  if (!observers_.expiries.on()) return;
  if (!reporting_expiries_) report_expiries();
  if (const auto sweep = observers_.expiries.begin_sweep(now)) {
    offload_->submit(OffloadClass::kLong,
                     std::make_shared<ExpirySweep>(*db_, observers_.expiries, engine_settings_.databases, *sweep));
  }
}

// Restores the file DATABASE_ID. Without it, the next start would make another id, and would not remove backups of the old one.
// If the file could not be read at the start, save() tries again.
void Server::keep_id() {
  if (!id_was_read_) return;
  const auto written = keep_database_id(engine_settings_.dir, database_id_);
  if (written.is_ok() && *written)
    log_->write(ServerLog::Level::kWarning,
                "DATABASE_ID was removed or changed while the database used it; it was written again");
}

// Works in slices, since this thread also accepts connections.
void Server::report_expiries() {
  reporting_expiries_ = expiry_reports_.report_some();
  if (reporting_expiries_) asio::post(io_, [this] { report_expiries(); });
}

void Server::end_pause(std::uint64_t number) {
  std::lock_guard lock(pause_mutex_);
  if (number == pauses_ && std::exchange(compactions_paused_, false)) ready_.load()->resume_compactions();
}

std::string Server::random_secret(std::size_t bits) {
  std::random_device device;  // the system's generator
  std::string digits;
  while (digits.size() * 4 < bits) {
    char text[9];
    std::snprintf(text, sizeof(text), "%08x", device());
    digits += text;
  }
  digits.resize((bits + 3) / 4);
  return digits;
}

}  // namespace ebbtide
