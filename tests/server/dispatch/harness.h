// A server without sockets for tests: it takes commands and returns replies, over a database in memory.
//
// The test decides when time passes (advance), background work runs (settle) and power fails (reopen). A command that waits for
// pages, an offload thread or the log runs again once it is resumed, as on a real loop.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/background_pool.h"
#include "base/clock.h"
#include "blocking/key_waiters.h"
#include "dispatch/blocked_clients.h"
#include "dispatch/dispatcher.h"
#include "dispatch/intents.h"
#include "dispatch/key_locks.h"
#include "dispatch/offload.h"
#include "dispatch/permissions.h"
#include "dispatch/scan_cursors.h"
#include "dispatch/script_cache.h"
#include "index/index_builder.h"
#include "io/fault_fs.h"
#include "io/memory_fs.h"
#include "pubsub/pubsub.h"
#include "store/glob.h"
#include "store/rank_indexes.h"
#include "tuning/tuning_board.h"

namespace ebbtide::test {

/// A fake of the server around the commands, with a configuration that the test sets.
class FakeControl final : public ServerControl {
 public:
  explicit FakeControl(Clock& clock) : clock_(clock) {}

  std::uint64_t unix_micros() const override { return clock_.wall_ms() * 1000; }
  std::uint64_t mono_nanos() const override { return clock_.mono_ns() + (looked_nanos_ += nanos_per_look); }
  Status shutdown(const ShutdownRequest& request) override {
    if (refuse_shutdown) return Status::invalid_argument("ERR Errors trying to SHUTDOWN. Check logs.");
    shutdown_asked = true;
    last_shutdown = request;
    return Status::ok();
  }
  Status abort_shutdown() override { return shutdown_asked ? Status::ok() : Status::not_found(); }
  void config_get(std::span<const Bytes> patterns, std::vector<std::pair<std::string, std::string>>* items) const override {
    for (const auto& [name, value] : config) {
      for (const Bytes pattern : patterns) {
        if (!glob_match(pattern, name, true)) continue;
        items->emplace_back(name, value);
        break;
      }
    }
  }
  Status config_set(std::span<const std::pair<Bytes, Bytes>> items) override {
    for (const auto& [name, value] : items) {
      if (!config.contains(std::string(name))) {
        return Status::invalid_argument("ERR Unknown option or number of arguments for CONFIG SET - '" + std::string(name) + "'");
      }
      config[std::string(name)] = std::string(value);
    }
    return Status::ok();
  }
  Status config_rewrite() override { return Status::invalid_argument("ERR The server is running without a config file"); }
  bool begin_save() override { return !std::exchange(saving, true); }
  Status save() override {
    saving = false;
    ++saves;
    return save_result;
  }
  SaveState save_state() const override { return {.last_unix_seconds = 1234, .running_since_micros = saving ? 1u : 0u}; }
  bool password_required() const override { return !password.empty(); }
  std::shared_ptr<const Users> users() const override {
    if (changed_users != nullptr) return changed_users;
    Users all = Users().with_default_password(password).value();
    for (const auto& [name, secret] : passwords) {
      const std::string given = ">" + secret;
      all = all.with_rules(name, std::vector<Bytes>{"on", given, "~*", "&*", "+@all"}, catalog).value();
    }
    return std::make_shared<const Users>(std::move(all));
  }
  Status set_user(Bytes name, std::span<const Bytes> rules, std::uint64_t) override {
    TRY_ASSIGN(changed, users()->with_rules(name, rules, catalog));
    change(std::move(changed));
    return Status::ok();
  }
  Result<std::uint64_t> delete_users(std::span<const Bytes> names, std::uint64_t) override {
    std::uint64_t removed = 0;
    TRY_ASSIGN(changed, users()->without(names, &removed));
    change(std::move(changed));
    return removed;
  }
  Status load_users(std::uint64_t) override { return Status::invalid_argument("ERR no file of users"); }
  Status save_users() override { return Status::invalid_argument("ERR no file of users"); }
  void access_denied(AclDenial denial, Bytes, Bytes user, Bytes command) override {
    denials.push_back(std::to_string(static_cast<int>(denial)) + " " + std::string(user) + " " + std::string(command));
  }
  std::string random_secret(std::size_t bits) override { return std::string((bits + 3) / 4, 'a'); }
  void authentication_failed(Bytes network, Bytes, Bytes) override {
    ++auth_failures;
    failed_network = network;
  }
  std::uint32_t authentication_delay_ms(Bytes network) override {
    delayed_network = network;
    return auth_delay_ms;
  }
  Debugging debugging() const override { return debug; }
  void log_message(const std::string& text) override { logged = text; }
  void log_change(const std::string& text) override { logged = text; }
  void pause_compactions(std::uint64_t ms) override { paused_ms = ms; }
  void resume_compactions() override { paused_ms = std::nullopt; }
  void sleep_ms(std::uint64_t) override {}
  bool has_client(std::uint64_t id) const override { return id < 100; }
  std::uint32_t databases() const override { return database_count; }
  ServerInfo info() const override {
    ServerInfo info;
    info.version = "0.1.0";
    info.run_id = std::string(40, 'a');
    info.connected_clients = 1;
    return info;
  }
  void reset_stats() override {}
  Status client_list(const ClientFilter& filter, const std::function<Status(std::string)>& add) override {
    return list_clients ? add(list_clients(filter)) : Status::ok();
  }
  std::uint64_t kill_clients(const ClientFilter& filter, std::uint64_t) override { return filter.addr == "1.2.3.4:5" ? 1 : 0; }

  std::map<std::string, std::string> config{{"maxmemory", "0"}, {"appendfsync", "everysec"}};
  std::string password;
  std::map<std::string, std::string, std::less<>> passwords;  ///< passwords of users with all rights, by name, without "default"
  AclCatalog catalog;
  std::shared_ptr<const Users> changed_users;  ///< the users after the first ACL SETUSER or DELUSER
  std::function<void()> on_users_changed;
  std::vector<std::string> denials;
  int auth_failures = 0;
  std::uint32_t auth_delay_ms = 0;
  std::string failed_network, delayed_network;  ///< network of the last failure, and of the last attempt
  std::uint32_t database_count = 16;
  bool saving = false;
  int saves = 0;
  Status save_result;
  Debugging debug = Debugging::kNo;
  std::string logged;
  std::optional<std::uint64_t> paused_ms;
  bool shutdown_asked = false, refuse_shutdown = false;
  ShutdownRequest last_shutdown;
  std::function<std::string(const ClientFilter&)> list_clients;
  std::uint64_t nanos_per_look = 0;  ///< time by which the monotonic clock moves whenever it is read

 private:
  void change(Users changed) {
    changed_users = std::make_shared<const Users>(std::move(changed));
    if (on_users_changed) on_users_changed();
  }

  mutable std::uint64_t looked_nanos_ = 0;
  Clock& clock_;
};

/// A fake loop, which stores which clients were resumed.
class FakeLoop final : public ClientLoop {
 public:
  void post(std::function<void()> task) override { task(); }
  void resume(std::uint64_t client_id) override {
    std::lock_guard lock(mutex_);
    resumed_.insert(client_id);
    changed_.notify_all();
  }
  Client* find(std::uint64_t) override { return nullptr; }
  void touch(Client*) override {}
  int index() const override { return 0; }
  void for_each(const std::function<void(Client&)>&) override {}
  /// Blocks until a thread resumes the client.
  void wait(std::uint64_t client_id) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return resumed_.contains(client_id); });
    resumed_.erase(client_id);
  }
  /// Returns true if the client was resumed since its last wait().
  [[nodiscard]] bool has_resumed(std::uint64_t client_id) {
    std::lock_guard lock(mutex_);
    return resumed_.contains(client_id);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::uint64_t> resumed_;
};

/// Splits a line into arguments, with quotes as in redis-cli and inline commands.
std::vector<std::string> split_line(Bytes line);
/// Returns a reply as text for people: OK, (integer) 1, "bulk", (nil), (error) ERR ..., [a, b], {k: v}. Of several replies each
/// has its line.
std::string show(Bytes resp);

class CommandHarness {
 public:
  explicit CommandHarness(std::span<const std::span<const CommandSpec>> families, Settings settings = small())
      : table(families), stats(table.all().size()), settings_(std::move(settings)) {
    env.control = &control;
    env.table = &table;
    env.locks = &locks;
    env.offload = &*offload;
    env.cursors = &cursors;
    env.stats = &stats;
    env.pubsub = &pubsub;
    env.observers = &observers;
    env.blocked = &blocked;
    env.databases = control.database_count = settings_.databases;
    env.intents = &intents;
    env.key_waiters = &key_waiters;
    env.tuning = &tuning;
    env.ranks = &ranks;
    env.indexes = &indexes;
    control.catalog = acl_catalog(table);
    control.on_users_changed = [this] {
      for (const auto& [number, c] : clients_) forget_rights(session_of(*c));
    };
    open();
    dispatcher = std::make_unique<Dispatcher>(env, 42);
  }
  ~CommandHarness() {
    clients_.clear();  // their queued commands are charged to the database's account
    close();
  }

  static Settings small() {
    Settings s;
    s.dir = "data";
    s.memory_budget = 64 << 20;
    s.tree.memtable_size = 1 << 20;
    s.wal_segment_size = 1 << 20;
    s.tree.page_size = 1024;
    s.tree.file_size = 1 << 20;
    return s;
  }

  void reopen() {
    for (auto& [number, c] : clients_) {  // their queued commands are charged to the account of the database, which is closed now
      if (c->state != nullptr) static_cast<SessionState&>(*c->state).transaction.reset();
    }
    close();
    open();
  }
  FaultFileSystem& faults() { return faults_; }
  void settle() { pool.run_all(); }
  void advance(Millis ms) {
    clock.advance(ms);
    db->tick();
    db->tick();
  }

  /// Builds all indexes. The harness has no thread that does so.
  void build_indexes() {
    MissSet misses;
    while (const auto index = unfinished_index(indexes, settings_.databases)) {
      std::uint32_t wait_ms = 0;
      const Status status = build_step(*db, indexes, index->first, index->second, &misses, &wait_ms);
      if (status.is_not_resident()) {
        REQUIRE(db->fetch(&misses, [] {}));
      } else {
        REQUIRE(status.is_ok());
        misses.clear();
      }
    }
    db->write_log();
  }

  /// Makes too many sorted runs, so that writes are stopped until settle().
  void stop_writes() {
    db->pause_compactions();
    for (int run = 0; run < 80; ++run) {
      (*this)("SET k 1");
      REQUIRE(db->flush(0).is_ok());
    }
    db->resume_compactions();
    db->tick();
    REQUIRE(db->writes_stopped());
  }

  Client& client(int number = 1) {
    auto& slot = clients_[number];
    if (slot == nullptr) {
      slot = std::make_unique<Client>();
      slot->id = static_cast<std::uint64_t>(number);
      slot->loop = &loop;
      slot->address = "127.0.0.1:5000" + std::to_string(number);
      slot->network = "127.0.0.1";
      slot->local_address = "127.0.0.1:6379";
      slot->fd = 7 + number;
      slot->authenticated = !control.password_required();
      slot->created_ms = static_cast<std::int64_t>(clock.wall_ms());
    }
    return *slot;
  }

  /// Runs one command, and returns its reply as RESP.
  std::string raw(const std::vector<std::string>& argv, int client_number = 1) { return raw_pipeline({argv}, client_number); }
  /// Runs all commands as one pipeline, and returns their replies as RESP.
  std::string raw_pipeline(const std::vector<std::vector<std::string>>& commands, int client_number = 1) {
    Client& c = client(client_number);
    std::vector<std::vector<Bytes>> argv;
    for (const auto& command : commands) argv.emplace_back(command.begin(), command.end());
    std::vector<PendingCommand> pending(commands.size());
    for (std::size_t i = 0; i < commands.size(); ++i) {
      pending[i].client = &c;
      pending[i].args.list = argv[i];
    }
    run(pending);
    std::string out = c.out.to_string();
    c.out.consume(c.out.size());
    return out;
  }
  std::string operator()(Bytes line, int client_number = 1) { return show(raw(split_line(line), client_number)); }

  /// Runs passes until all commands of one client are done, or the client is closed.
  void run(std::vector<PendingCommand>& pending) {
    std::size_t done = 0;
    while (done < pending.size()) {
      dispatcher->run_pass(std::span(pending).subspan(done));
      while (done < pending.size() && pending[done].state == PendingCommand::State::kDone) ++done;
      db->write_log();
      if (done == pending.size()) return;
      Client& c = *pending[done].client;
      if (pending[done].state != PendingCommand::State::kWaiting) {
        if (c.close_after_reply || c.close_now) return;
        REQUIRE(c.may_run());
        continue;
      }
      ++waits;
      if (on_wait) on_wait();
      while (pool.run_one()) {
      }
      if (pending[done].retry_ms != 0) {
        advance(std::exchange(pending[done].retry_ms, 0));
      } else {
        loop.wait(c.id);
      }
      c.waiting = false;
      ++pending[done].attempt;
    }
  }

  SimulatedClock clock;
  ManualPool pool;
  FakeControl control{clock};
  FakeLoop loop;
  std::optional<ThreadOffload> offload{std::in_place, 1, 1};
  KeyLocks locks{2};
  Intents intents;
  ScanCursors cursors{99};
  CommandTable table;
  ServerStats stats;
  PubSub pubsub;
  Observers observers;
  BlockedClients blocked;
  KeyWaiters key_waiters;
  TuningBoard tuning;
  RankIndexes ranks;
  IndexCatalog indexes;
  std::vector<std::string> warnings;  ///< warnings of the catalog of indexes
  CommandEnv env;
  std::unique_ptr<Db> db;
  std::unique_ptr<Dispatcher> dispatcher;
  int waits = 0;  ///< number of times that a command had to wait
  std::function<void()> on_wait;

 private:
  void open() {
    Components components;
    components.fs = &faults_;
    components.clock = &clock;
    components.background = &pool;
    components.seed = 1;
    auto opened = Db::open(settings_, components);
    INFO(opened.status().to_string());
    REQUIRE(opened.is_ok());
    db = std::move(opened).value();
    env.db = db.get();
    env.memory = &db->memory();
    ranks.start(db->memory().shared_from_this());
    REQUIRE(indexes.load(*db, settings_.databases, [this](const std::string& text) { warnings.push_back(text); }).is_ok());
  }
  void close() {
    // The threads end before the database, as in a server: the memory that they free is charged to the database's account.
    if (dispatcher != nullptr) dispatcher->buffers_charged();  // a loop calls it after each pass
    const bool used = env.offload == &*offload;
    offload.reset();
    offload.emplace(1, 1);
    if (used) env.offload = &*offload;
    env.scripts->clear();
    ranks.clear();
    CHECK(db->close().is_ok());
    db.reset();
    pool.run_all();
  }

  MemoryFileSystem files_;
  FaultFileSystem faults_{files_};
  Settings settings_;
  std::map<int, std::unique_ptr<Client>> clients_;
};

// --- replies as text

inline int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

inline std::vector<std::string> split_line(Bytes line) {
  std::vector<std::string> words;
  std::size_t i = 0;
  while (true) {
    while (i < line.size() && line[i] == ' ') ++i;
    if (i == line.size()) return words;
    std::string word;
    const char quote = line[i] == '"' || line[i] == '\'' ? line[i++] : '\0';
    for (; i < line.size() && (quote != '\0' ? line[i] != quote : line[i] != ' '); ++i) {
      if (quote != '"' || line[i] != '\\' || i + 1 == line.size()) {
        word += line[i];
        continue;
      }
      const char c = line[++i];
      if (c == 'x' && i + 2 < line.size() && hex_digit(line[i + 1]) >= 0 && hex_digit(line[i + 2]) >= 0) {
        word += static_cast<char>(hex_digit(line[i + 1]) * 16 + hex_digit(line[i + 2]));
        i += 2;
      } else {
        word += c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c;
      }
    }
    if (quote != '\0' && i < line.size()) ++i;
    words.push_back(std::move(word));
  }
}

inline std::string quoted(Bytes text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      out += c;
    }
  }
  return out + "\"";
}

inline std::string take_line(Bytes* resp) {
  const std::size_t end = resp->find("\r\n");
  REQUIRE(end != Bytes::npos);
  std::string line(resp->substr(0, end));
  resp->remove_prefix(end + 2);
  return line;
}

inline std::string show_one(Bytes* resp) {
  const std::string line = take_line(resp);
  const std::string rest = line.substr(1);
  const auto list = [&](std::size_t n, const char* open, const char* close, bool pairs) {
    std::string out = open;
    for (std::size_t i = 0; i < n; ++i) {
      if (i > 0) out += ", ";
      out += show_one(resp);
      if (pairs) out += ": " + show_one(resp);
    }
    return out + close;
  };
  switch (line[0]) {
    case '+':
      return rest;
    case '-':
      return "(error) " + rest;
    case ':':
      return "(integer) " + rest;
    case ',':
      return "(double) " + rest;
    case '#':
      return rest == "t" ? "(true)" : "(false)";
    case '_':
      return "(nil)";
    case '$':
    case '=': {
      if (rest == "-1") return "(nil)";
      const std::size_t n = std::stoul(rest);
      REQUIRE(resp->size() >= n + 2);
      const std::string value(resp->substr(0, n));
      resp->remove_prefix(n + 2);
      return line[0] == '=' ? "(verbatim) " + quoted(value) : quoted(value);
    }
    case '*':
      return rest == "-1" ? "(nil)" : list(std::stoul(rest), "[", "]", false);
    case '~':
      return list(std::stoul(rest), "<", ">", false);
    case '%':
      return list(std::stoul(rest), "{", "}", true);
    default:
      FAIL("not a reply: " << line);
      return "";
  }
}

inline std::string show(Bytes resp) {
  std::string out;
  while (!resp.empty()) {
    if (!out.empty()) out += '\n';
    out += show_one(&resp);
  }
  return out;
}

}  // namespace ebbtide::test
