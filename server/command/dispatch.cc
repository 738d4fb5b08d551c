#include "command/dispatch.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <utility>

#include "command/arg_cursor.h"
#include "command/blocked_clients.h"
#include "command/key_locks.h"
#include "command/offload.h"
#include "store/key_codec.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kNanosPerMilli = 1'000'000;
constexpr int kMaxRevocations = 3;
/// Keys of a window for which the stages of prefetching remember what they find.
constexpr std::size_t kStates = 1024;
/// When a command that the write stall stopped asks again.
constexpr std::uint32_t kStopPollMs = 10;

/// From which argument on a command's arguments may be passwords.
std::size_t first_secret(const CommandSpec& spec, const Args& args) {
  if (spec.name == "auth") return 1;
  if (spec.name == "hello") return 2;
  for (std::size_t i = 2; spec.container == "config" && spec.name == "set" && i < args.size(); i += 2) {
    if (to_lower(args[i]).find("pass") != std::string::npos) return i + 1;
  }
  return args.size();
}

/// Whether the command gives a password to be judged.
bool authenticates(const CommandSpec& spec, const Args& args) {
  if (spec.name == "auth") return true;
  bool found = false;
  for (std::size_t i = 2; spec.name == "hello" && i < args.size(); ++i) found |= equal_ignoring_case(args[i], "auth");
  return found;
}

/// "(waited: disk 12034 us, stall 500 us)"; nothing if there was none.
std::string text_of(const StageNanos& waits) {
  std::string text;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (waits[i] < 1000) continue;
    text += (text.empty() ? "(waited: " : ", ") + std::string(kStageNames[i]) + " " + std::to_string(waits[i] / 1000) + " us";
  }
  return text.empty() ? text : text + ")";
}

bool starts_with_code(Bytes message) {
  std::size_t i = 0;
  while (i < message.size() && message[i] >= 'A' && message[i] <= 'Z') ++i;
  return i > 1 && i < message.size() && message[i] == ' ';
}

/// The keys of a command as engine keys with hashes; `escaped` holds those that had to be changed.
Status collect_keys(const KeySpec& spec, const Args& args, std::vector<LookupKey>* keys, std::deque<std::string>* escaped,
                    std::size_t* escaped_used) {
  const int argc = static_cast<int>(args.size());
  const int last = std::min(spec.last_of(argc), argc - 1);
  for (int i = spec.first; i != 0 && i <= last; i += spec.step) {
    const Bytes user_key = args[static_cast<std::size_t>(i)];
    Bytes key = user_key;
    if (needs_escape(key)) [[unlikely]] {
      if (*escaped_used == escaped->size()) escaped->emplace_back();
      key = escape_key(key, &(*escaped)[(*escaped_used)++]);
    }
    if (key.size() > kMaxKeyBytes) [[unlikely]] {
      return reply_error("ERR a key of " + std::to_string(user_key.size()) +
                         " bytes is too long: " + std::to_string(kMaxKeyBytes) + " bytes are allowed, zero bytes counting twice");
    }
    keys->push_back({key, hash_key(key)});
  }
  return Status::ok();
}

}  // namespace

std::string error_reply(const Status& status) {
  switch (status.code()) {
    case Code::kInvalidArgument:
      return starts_with_code(status.message()) ? std::string(status.message()) : "ERR " + std::string(status.message());
    case Code::kNoSpace:
      return "MISCONF Writes are refused, no space is left: " + std::string(status.message());
    case Code::kReadOnly:
      return "MISCONF Writes are refused: " + std::string(status.message());
    case Code::kOutOfMemory:
      return "OOM command not allowed when used memory > 'memory_budget'.";
    case Code::kRevoked:
      return "ERR the read took so long that its view was taken back; try again";
    default:
      return "ERR " + status.to_string();
  }
}

/// A command that runs, or waits, off its loop. Shared by the continuation and the work.
struct Dispatcher::Job final : OffloadWork {
  CommandEnv* env = nullptr;
  const Command* command = nullptr;
  std::vector<std::string> storage;
  std::vector<Bytes> list;
  Session session;
  int protocol = 2;
  std::uint64_t client_id = 0;
  ClientLoop* loop = nullptr;
  std::uint64_t random = 0;
  std::uint64_t waited_ms = 0;
  std::uint32_t again_ms = 0;            ///< result: it blocks, and is to be run again after so long
  bool unblocked = false;                ///< by CLIENT UNBLOCK: it replies, whatever it waits for
  bool wait_only = false;                ///< the command has run: `seen_seq` is to be synced
  std::atomic<bool> client_gone{false};  ///< nobody waits for the results

  // Results, published by `done`.
  OutputBuffer out;
  Status status;
  SeqNum seen_seq = 0;
  std::uint64_t nanos = 0;
  ReadCounts counts;
  std::atomic<bool> done{false};

  void complete() {
    done.store(true, std::memory_order_release);
    loop->resume(client_id);
  }

  Status attempt(Reply& reply) {
    std::vector<LookupKey> keys;
    std::deque<std::string> escaped;
    std::size_t escaped_used = 0;
    const Args args{list, {}};
    TRY(collect_keys(command->spec->keys, args, &keys, &escaped, &escaped_used));
    const ReadView view = env->db == nullptr ? ReadView() : env->db->lease(session.database);
    WriteBatch batch;
    Ctx ctx{*env, *command, args, keys, view, batch, reply, session};
    ctx.client_id = client_id;
    ctx.now = env->now();
    ctx.random = random;
    ctx.cancelled = &client_gone;
    ctx.waited_ms = waited_ms;
    ctx.unblocked = unblocked;
    const Status ran = command->spec->run(ctx);
    // What asks the engine itself (counts, descriptions of a tree) may have seen more than the view has. Commands that look at no
    // data, INFO above all, answer also while the log cannot be written.
    if (env->db != nullptr && command->spec->has(kReadOnly | kWrite)) seen_seq = std::max(seen_seq, env->db->visible_seq());
    TRY(ran);
    again_ms = ctx.again_ms;
    counts = ctx.counts;
    // Writes are locked and committed on loops only.
    if (!batch.empty()) return reply_error("ERR '" + command->full_name + "' tried to write outside its event loop");
    return Status::ok();
  }

  [[nodiscard]] bool wanted() const override { return !client_gone.load(std::memory_order_relaxed); }

  void run() override {
    if (wait_only) {
      status = env->db->wait_synced(seen_seq);
      return complete();
    }
    const std::uint64_t start = env->control->mono_nanos();
    Reply reply(&out, protocol);
    const Reply::Mark mark = reply.mark();
    for (int i = 0; i < kMaxRevocations; ++i) {
      status = attempt(reply);
      if (status.code() != Code::kRevoked) break;
      reply.rollback(mark);
    }
    nanos = env->control->mono_nanos() - start;
    complete();
  }
};

/// What a command lacked, and has fetched. Belongs to whoever fetches while `busy`.
struct Dispatcher::Fetched {
  MissSet set;
  std::uint32_t rounds = 0;
  std::atomic<bool> busy{false};
};

struct Dispatcher::Waiting final : Continuation {
  std::shared_ptr<Fetched> fetched;        ///< one set for all tries: a later one finds what the earlier ones fetched
  std::shared_ptr<Job> job;                ///< set once it runs or waits off the loop
  Stage stage = Stage::kDisk;              ///< what it waits for
  std::optional<std::uint64_t> since;      ///< when that wait began, monotonic ns
  StageNanos waits{};                      ///< those that are over
  bool stalled = false;                    ///< the write stall held its commit back, as long as it asked for
  std::uint32_t stalls = 0;                ///< how often
  std::uint64_t blocked_since = 0;         ///< monotonic ns; of a kBlocking command
  std::optional<std::uint64_t> judged_at;  ///< monotonic ns; of an AUTH that waits since others have failed
  std::optional<BlockedClients::Wait> blocked;
};

Dispatcher::Dispatcher(CommandEnv& env, std::uint64_t seed)
    : env_(env),
      counters_(env.stats->add_dispatcher()),
      random_state_(seed),
      misses_(std::make_shared<Fetched>()),
      fetches_(env.db == nullptr ? nullptr : env.db->new_fetch_queue()) {
  prepared_.reserve(kWindow);
}

Dispatcher::~Dispatcher() = default;

std::uint64_t Dispatcher::next_random() {
  // splitmix64
  std::uint64_t z = random_state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

ReadView Dispatcher::view_of(DatabaseId database, ReadMode mode, MissSet* misses) const {
  return env_.db == nullptr ? ReadView() : env_.db->view(database, now_, mode, misses);
}

bool Dispatcher::refresh_time() {
  nanos_ = env_.control->mono_nanos();
  if (nanos_ - now_nanos_ < kNanosPerMilli) return false;
  now_ = env_.now();
  now_nanos_ = nanos_;
  return true;
}

void Dispatcher::note_slow(Client& client, const Command& command, const Args& args, std::uint64_t nanos,
                           const StageNanos& waits) {
  noted_ = true;
  const auto unix_seconds = [this] { return static_cast<std::int64_t>(env_.control->unix_micros() / 1'000'000); };
  Observers& observers = *env_.observers;
  if (observers.latency.threshold_ms() != 0) {
    observers.latency.add(command.spec->has(kFast) ? "fast-command" : "command", nanos / kNanosPerMilli, unix_seconds());
  }
  const bool runs_queue = command.spec->has(kRunsQueue);
  if (command.spec->has(kSkipSlowlog) && !runs_queue) return;
  // What EXEC has run is noted by itself; what all of that waited for is EXEC's.
  const std::uint64_t total = std::accumulate(waits.begin(), waits.end(), runs_queue ? 0 : nanos);
  if (total < observers.slow_log.threshold_nanos() || (runs_queue && total == 0)) return;
  std::size_t hidden = first_secret(*command.spec, args);
  const bool has_arguments = observers.slow_log.keeps_arguments();
  if (!has_arguments) hidden = std::min<std::size_t>(hidden, command.spec->container.empty() ? 1 : 2);
  std::vector<std::string> arguments = SlowLog::shorten(args, hidden);
  if (std::string waited = text_of(waits); !waited.empty()) arguments.push_back(std::move(waited));
  observers.slow_log.add({.unix_seconds = unix_seconds(),
                          .micros = total / 1000,
                          .arguments = std::move(arguments),
                          .address = client.address,
                          .name = session_of(client).name,
                          .has_arguments = has_arguments});
}

void Dispatcher::run_pass(std::span<PendingCommand> commands) {
  counters_->passes.add(1);
  refresh_time();
  const std::uint64_t start = begun_ = nanos_;
  ClientLoop* const here = commands.empty() ? nullptr : commands.front().client->loop;
  while (!commands.empty()) {
    const std::size_t n = std::min(commands.size(), kWindow);
    run_window(commands.first(n));
    commands = commands.subspan(n);
  }
  env_.observers->send_broadcasts(here);
  counters_->stage(Stage::kQueue, begun_ - start);
  if (nanos_ != begun_) counters_->stage(Stage::kMemory, nanos_ - begun_);
  poll();  // what the pass has asked for is read while its replies are sent
}

void Dispatcher::poll() {
  if (fetches_ != nullptr) fetches_->poll();
}

int Dispatcher::descriptor() const { return fetches_ == nullptr ? -1 : fetches_->descriptor(); }

void Dispatcher::run_window(std::span<PendingCommand> commands) {
  window_ = commands;
  prepared_.clear();
  keys_.clear();
  escaped_used_ = 0;
  for (const PendingCommand& pending : commands) prepare(pending, &prepared_.emplace_back());
  std::optional<PassGuard> guard;
  if (env_.db != nullptr) [[likely]] {
    guard.emplace(*env_.db);
    prefetch(commands);
  }
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (!commands[i].client->may_run()) continue;
    begun_ = nanos_;
    run(commands[i], prepared_[i]);
  }
}

Status Dispatcher::resolve(const Args& args, const Command** out) const {
  const Command* command = env_.table->find(args[0]);
  if (command == nullptr) return unknown_command(args);
  if (!command->spec->subcommands.empty() && args.size() > 1) {
    const Command* container = command;
    command = env_.table->find_subcommand(*container, args[1]);
    if (command == nullptr) return unknown_subcommand(*container, args[1]);
  }
  *out = command;
  const bool runs = command->spec->arity_ok(args.size()) && command->spec->run != nullptr;
  return runs ? Status::ok() : wrong_arity(*command);
}

void Dispatcher::prepare(const PendingCommand& pending, Prepared* prepared) {
  prepared->first_key = static_cast<std::uint32_t>(keys_.size());
  if (!pending.client->may_run()) return;
  prepared->error = resolve(pending.args, &prepared->command);
  if (!prepared->error.is_ok() || prepared->command->spec->keys.first == 0) return;
  prepared->error = collect_keys(prepared->command->spec->keys, pending.args, &keys_, &escaped_, &escaped_used_);
  prepared->keys = static_cast<std::uint32_t>(keys_.size()) - prepared->first_key;
}

void Dispatcher::prefetch(std::span<PendingCommand> commands) {
  if (keys_.size() < 2) return;
  const std::size_t states = std::min(keys_.size(), kStates);
  if (states_.size() < states) states_.resize(states);
  for (std::size_t k = 0; k < states; ++k) {
    states_[k].tables = nullptr;  // what was found under the guard of another window holds no more
    keys_[k].state = &states_[k];
  }
  // Runs of commands in one database: nearly always there is but one.
  ahead_.clear();
  ReadView view;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const Prepared& prepared = prepared_[i];
    if (prepared.keys == 0) continue;
    const DatabaseId database = session_of(*commands[i].client).database;
    if (!view.has_tree() || view.database() != database) {
      view.prefetch(ahead_);
      ahead_.clear();
      view = env_.db->view(database, now_, ReadMode::kResident, nullptr);
      if (!view.has_tree()) continue;
    }
    // Whoever overwrites without looking needs the memtable's bucket and nothing of the tables.
    const bool blind = prepared.command->spec->keys.blind(commands[i].args.size());
    for (std::uint32_t k = prepared.first_key; k < prepared.first_key + prepared.keys; ++k) {
      blind ? view.prefetch(keys_[k], 0) : ahead_.push_back(&keys_[k]);
    }
  }
  view.prefetch(ahead_);
}

void Dispatcher::run(PendingCommand& pending, const Prepared& prepared) {
  Client& client = *pending.client;
  const Command* command = prepared.command;
  if (!client.authenticated && (command == nullptr || !command->spec->has(kNoAuth))) {
    return reject(pending, command, Status::invalid_argument("NOAUTH Authentication required."));
  }
  if (!prepared.error.is_ok()) return reject(pending, command, prepared.error);
  if (pending.args.refused) [[unlikely]]
    return reject(pending, command, Status::out_of_memory("the command's values did not fit into memory"));
  if (env_.db == nullptr && !command->spec->has(kLoading)) [[unlikely]]
    return reject(pending, command, Status::invalid_argument("LOADING Redis is loading the dataset in memory"));
  if ((session_of(client).modes | env_.observers->switches()) != 0) [[unlikely]]
    return run_observed(pending, prepared);
  run_admitted(pending, prepared);
}

void Dispatcher::run_admitted(PendingCommand& pending, const Prepared& prepared) {
  Client& client = *pending.client;
  const Command* command = prepared.command;
  auto* waiting = static_cast<Waiting*>(pending.continuation.get());
  if (waiting != nullptr && waiting->job != nullptr) return finish_job(pending, prepared);
  if (waiting != nullptr && waiting->fetched != nullptr && waiting->fetched->busy.load(std::memory_order_acquire)) [[unlikely]] {
    pending.state = PendingCommand::State::kWaiting;  // resumed by somebody else
    client.waiting = true;
    return;
  }
  if (waiting != nullptr && waiting->blocked && waiting->blocked->end() == BlockedClients::End::kError) [[unlikely]] {
    Reply reply(&client.out, client.protocol);
    const Status ended = Status::invalid_argument("UNBLOCKED client unblocked via CLIENT UNBLOCK");
    return finish(pending, *command, ended, reply, reply.mark());
  }
  if (waiting != nullptr && waiting->stalled && env_.db->writes_stopped()) return park(pending, kStopPollMs);
  if (command->spec->has(kNoAuth) && authenticates(*command->spec, pending.args) && delay_authentication(pending)) [[unlikely]]
    return;
  if (waiting != nullptr) end_wait(*waiting);
  if (command->spec->has(kOffload)) return start_offload(pending, prepared);
  if (command->spec->has(kReplySynced | kRunsQueue)) [[unlikely]] {
    const Transaction* transaction = transaction_of(client);
    if (command->spec->has(kReplySynced) || (transaction != nullptr && transaction->synced)) return run_synced(pending, prepared);
  }
  Reply reply(&client.out, client.protocol);
  const Reply::Mark mark = reply.mark();
  Status status;
  if (run_resident(pending, prepared, reply, &status)) finish(pending, *command, status, reply, mark);
}

bool Dispatcher::run_resident(PendingCommand& pending, const Prepared& prepared, Reply& reply, Status* status) {
  const Reply::Mark mark = reply.mark();
  *status = run_once(pending, prepared, reply);
  while (status->is_not_resident()) {
    reply.rollback(mark);
    const auto* waiting = static_cast<Waiting*>(pending.continuation.get());
    const bool may_leave = !prepared.command->spec->has(kWrite | kMayReplicate | kOnLoop | kRunsQueue);
    if (may_leave && waiting != nullptr && waiting->fetched != nullptr && waiting->fetched->rounds >= kFetchRounds) {
      start_offload(pending, prepared);
      return false;
    }
    if (!fetch_pages(pending)) return false;
    *status = run_once(pending, prepared, reply);
  }
  if (stall_ms_ == 0) [[likely]]
    return true;
  reply.rollback(mark);
  park(pending, stall_ms_);
  return false;
}

Status Dispatcher::run_once(PendingCommand& pending, const Prepared& prepared, Reply& reply) {
  if (!prepared.command->spec->has(kRunsQueue)) return run_and_commit(pending, prepared, reply);
  const auto* waiting = static_cast<Waiting*>(pending.continuation.get());
  const bool block = waiting != nullptr && waiting->fetched != nullptr && waiting->fetched->rounds >= kWriteRounds;
  Status status = run_transaction(pending, block, waiting != nullptr && waiting->stalled, reply);
  if (session_of(*pending.client).modes & Session::kInTransaction) {
    if (!status.is_not_resident() && stall_ms_ == 0) end_transaction(*pending.client);
  }
  return status;
}

Status Dispatcher::run_and_commit(PendingCommand& pending, const Prepared& prepared, Reply& reply) {
  Client& client = *pending.client;
  Session& session = session_of(client);
  const CommandSpec& spec = *prepared.command->spec;
  const std::span<const LookupKey> keys(keys_.data() + prepared.first_key, prepared.keys);
  const auto* waiting = static_cast<Waiting*>(pending.continuation.get());
  const bool block = waiting != nullptr && waiting->fetched != nullptr && waiting->fetched->rounds >= kWriteRounds;
  MissSet& misses = misses_of(pending);
  stall_ms_ = 0;
  const std::uint64_t random = next_random();
  const Reply::Mark mark = reply.mark();
  for (int i = 0; i < kMaxRetries; ++i) {
    batch_.clear();
    // Held from before the view is taken until the commit is visible.
    std::optional<KeyLocks::Guard> lock;
    if (spec.has(kWrite | kMayReplicate) && env_.locks->enabled()) {
      spec.has(kLockAll) ? lock.emplace(*env_.locks) : lock.emplace(*env_.locks, keys, session.database);
    }
    const ReadMode mode = block ? ReadMode::kBlocking : ReadMode::kResident;
    Ctx ctx{env_, *prepared.command, pending.args, keys, view_of(session.database, mode, &misses), batch_, reply, session};
    ctx.client = &client;
    ctx.client_id = client.id;
    ctx.now = now_;
    ctx.random = random;
    if (spec.has(kWrite | kReadOnly)) client.seen_seq = std::max(client.seen_seq, ctx.view.seq());
    Status status = spec.run(ctx);
    if (status.is_ok() && !batch_.empty()) {
      stall_ms_ = 0;
      status = env_.db->try_commit(batch_, waiting != nullptr && waiting->stalled, &stall_ms_);
      if (status.is_ok()) client.seen_seq = std::max(client.seen_seq, batch_.last_seq());
    }
    if (status.is_ok()) [[likely]] {
      if (ctx.after_commit != nullptr) ctx.after_commit(ctx);
      count_reads(ctx.counts);
      return status;
    }
    if (status.code() != Code::kRetry) return status;
    reply.rollback(mark);
    misses.pages.clear();
    counters_->retries.add(1);
    now_ = env_.now();
  }
  return Status::busy("expiries passed during each of " + std::to_string(kMaxRetries) + " attempts");
}

MissSet& Dispatcher::misses_of(const PendingCommand& pending) {
  const auto* waiting = static_cast<const Waiting*>(pending.continuation.get());
  if (waiting != nullptr && waiting->fetched != nullptr) return waiting->fetched->set;
  return misses_->set;  // NOLINT: never null, fetch_pages puts another in its place
}

bool Dispatcher::fetch_pages(PendingCommand& pending) {
  Client& client = *pending.client;
  if (pending.continuation == nullptr) pending.continuation = std::make_unique<Waiting>();
  auto& waiting = static_cast<Waiting&>(*pending.continuation);
  if (waiting.fetched == nullptr) waiting.fetched = std::exchange(misses_, std::make_shared<Fetched>());
  std::shared_ptr<Fetched> fetched = waiting.fetched;
  ++fetched->rounds;
  // Before the fetch, which may be over, and resume, before this function is.
  fetched->busy.store(true, std::memory_order_relaxed);
  pending.state = PendingCommand::State::kWaiting;
  client.waiting = true;
  MissSet* set = &fetched->set;
  look_ahead(pending, set);
  // The callback keeps the set, also when the client goes meanwhile.
  auto done = [fetched, loop = client.loop, id = client.id] {
    fetched->busy.store(false, std::memory_order_release);
    loop->resume(id);
  };
  if (env_.db->fetch(set, std::move(done), fetches_.get())) {
    fetched->busy.store(false, std::memory_order_relaxed);
    pending.state = PendingCommand::State::kNotRun;
    client.waiting = false;
    return true;
  }
  counters_->waits_for_disk.add(1);
  begin_wait(waiting, Stage::kDisk);
  return false;
}

void Dispatcher::begin_wait(Waiting& waiting, Stage stage) {
  if (waiting.since && waiting.stage == stage) return;  // it goes on
  end_wait(waiting);
  waiting.stage = stage;
  waiting.since = env_.control->mono_nanos();
}

void Dispatcher::end_wait(Waiting& waiting) {
  if (!waiting.since) return;
  const std::uint64_t waited = nanos_ - std::min(nanos_, *waiting.since);
  counters_->stage(waiting.stage, waited);
  waiting.waits[static_cast<std::size_t>(waiting.stage)] += waited;
  waiting.since.reset();
}

// The client's next commands wait for this one: what they will lack is read with it, not after it.
void Dispatcher::look_ahead(const PendingCommand& pending, MissSet* misses) {
  ReadView view;
  for (auto i = static_cast<std::size_t>(&pending - window_.data()) + 1; i < window_.size(); ++i) {
    if (window_[i].client != pending.client) return;
    const Prepared& next = prepared_[i];
    if (next.keys == 0 || next.command->spec->keys.blind(window_[i].args.size())) continue;
    if (!view.has_tree()) view = env_.db->view(session_of(*pending.client).database, now_, ReadMode::kResident, misses);
    for (const LookupKey& key : std::span(keys_).subspan(next.first_key, next.keys)) view.add_expected_miss(key, misses);
  }
}

// The write stall holds the command back. It has written nothing; its loop hands it in again, and other clients go on. Where
// writes are stopped, the more often a command has asked the less often it asks: thousands of clients may wait.
void Dispatcher::park(PendingCommand& pending, std::uint32_t ms) {
  if (pending.continuation == nullptr) pending.continuation = std::make_unique<Waiting>();
  auto& waiting = static_cast<Waiting&>(*pending.continuation);
  waiting.stalled = true;
  // A stall may last: meanwhile it keeps no table open that others have replaced.
  if (waiting.fetched != nullptr) waiting.fetched->set.clear();
  stall_ms_ = 0;
  pending.retry_ms = ms + std::min<std::uint32_t>(waiting.stalls++ * 10, 90);
  pending.state = PendingCommand::State::kWaiting;
  pending.client->waiting = true;
  counters_->stalled.add(1);
  begin_wait(waiting, Stage::kStall);
}

// True if it waits: others from the same network have failed. A right password waits as long, so that haste gives nothing away.
bool Dispatcher::delay_authentication(PendingCommand& pending) {
  Client& client = *pending.client;
  auto* waiting = static_cast<Waiting*>(pending.continuation.get());
  if (waiting == nullptr || !waiting->judged_at) {
    const std::uint32_t ms = env_.control->authentication_delay_ms(client.network);
    if (ms == 0) return false;
    if (waiting == nullptr) {
      pending.continuation = std::make_unique<Waiting>();
      waiting = static_cast<Waiting*>(pending.continuation.get());
    }
    waiting->judged_at = nanos_ + ms * kNanosPerMilli;
  }
  if (nanos_ >= *waiting->judged_at) return false;
  pending.retry_ms = static_cast<std::uint32_t>((*waiting->judged_at - nanos_ + kNanosPerMilli - 1) / kNanosPerMilli);
  pending.state = PendingCommand::State::kWaiting;
  client.waiting = true;
  return true;
}

void Dispatcher::start_offload(PendingCommand& pending, const Prepared& prepared) {
  Client& client = *pending.client;
  auto job = std::make_shared<Job>();
  job->env = &env_;
  job->command = prepared.command;
  job->storage.assign(pending.args.begin(), pending.args.end());
  job->list.assign(job->storage.begin(), job->storage.end());
  session_of(client).last_command = prepared.command;  // CLIENT LIST shows what runs
  job->session = session_of(client);
  job->protocol = client.protocol;
  job->out.set_limit(client.out.limit());
  job->client_id = client.id;
  job->loop = client.loop;
  job->random = next_random();
  if (pending.continuation == nullptr) pending.continuation = std::make_unique<Waiting>();
  auto& waiting = static_cast<Waiting&>(*pending.continuation);
  if (prepared.command->spec->has(kBlocking)) {
    if (!waiting.blocked) {
      waiting.blocked_since = nanos_;
      waiting.blocked.emplace(*env_.blocked, client);
    }
    job->waited_ms = (nanos_ - waiting.blocked_since) / kNanosPerMilli;
    job->unblocked = waiting.blocked->end() == BlockedClients::End::kTimeout;
  }
  waiting.job = job;
  pending.state = PendingCommand::State::kWaiting;
  client.waiting = true;
  misses_of(pending).clear();
  counters_->offloaded.add(1);
  begin_wait(waiting, Stage::kThread);
  env_.offload->submit(prepared.command->spec->has(kLong) ? OffloadClass::kLong : OffloadClass::kShort, std::move(job));
}

void Dispatcher::run_synced(PendingCommand& pending, const Prepared& prepared) {
  Client& client = *pending.client;
  auto job = std::make_shared<Job>();
  Reply reply(&job->out, client.protocol);
  const std::uint64_t start = nanos_;
  Status status;
  if (!run_resident(pending, prepared, reply, &status)) return;
  if (!status.is_ok()) {
    Reply direct(&client.out, client.protocol);
    return finish(pending, *prepared.command, status, direct, direct.mark());
  }
  refresh_time();
  job->env = &env_;
  job->command = prepared.command;
  job->client_id = client.id;
  job->loop = client.loop;
  // A ticket stands for deletes before it, too: where there was nothing to delete its reply waits all the same.
  job->seen_seq = batch_.empty() ? env_.db->visible_seq() : batch_.last_seq();
  job->nanos = nanos_ - start;
  if (pending.continuation == nullptr) pending.continuation = std::make_unique<Waiting>();
  auto& waiting = static_cast<Waiting&>(*pending.continuation);
  waiting.job = job;
  begin_wait(waiting, Stage::kWal);
  pending.state = PendingCommand::State::kWaiting;
  client.waiting = true;
  job->wait_only = true;
  env_.offload->submit(OffloadClass::kSync, std::move(job));
}

void Dispatcher::finish_job(PendingCommand& pending, const Prepared& prepared) {
  Client& client = *pending.client;
  auto& waiting = static_cast<Waiting&>(*pending.continuation);
  const std::shared_ptr<Job> job = waiting.job;
  if (!job->done.load(std::memory_order_acquire)) {
    pending.state = PendingCommand::State::kWaiting;
    client.waiting = true;
    return;
  }
  end_wait(waiting);
  if (job->again_ms != 0 && job->status.is_ok()) {
    waiting.job = nullptr;
    if (waiting.blocked->end() != BlockedClients::End::kNotYet) return run_admitted(pending, prepared);  // told while the job ran
    pending.retry_ms = job->again_ms;
    pending.state = PendingCommand::State::kWaiting;
    client.waiting = true;
    return;
  }
  Reply reply(&client.out, client.protocol);
  const Reply::Mark mark = reply.mark();
  client.seen_seq = std::max(client.seen_seq, job->seen_seq);
  if (job->status.is_ok()) client.out.take(job->out);
  if (job->out.overflown()) client.out.overflow();
  count_reads(job->counts);
  nanos_ -= std::min(nanos_, job->nanos);  // its own time counts as the command's; what lay between does not
  std::uint64_t& off_loop = waiting.waits[static_cast<std::size_t>(Stage::kThread)];
  off_loop -= std::min(off_loop, job->nanos);
  if (waiting.blocked) waiting.waits = {};  // as long as its client asked for
  finish(pending, *prepared.command, job->status, reply, mark);
}

Status Dispatcher::transaction_discarded(const Status& error) {
  std::string why = error_reply(error);
  if (why.rfind("ERR ", 0) == 0) why.erase(0, 4);
  return Status::invalid_argument("EXECABORT Transaction discarded because of: " + why);
}

void Dispatcher::send_error(Reply& reply, const Status& error) {
  const std::string message = error_reply(error);
  reply.error(message);
  count_error(message);
}

void Dispatcher::count_reads(const ReadCounts& counts) {
  if (counts.hits != 0) counters_->keyspace_hits.add(counts.hits);
  if (counts.misses != 0) counters_->keyspace_misses.add(counts.misses);
  if (counts.scan_steps) counters_->scan(*counts.scan_steps);
}

void Dispatcher::count_error(Bytes message) {
  counters_->errors.add(1);
  env_.stats->count_error(message);
}

void Dispatcher::reject(PendingCommand& pending, const Command* command, const Status& error) {
  Client& client = *pending.client;
  Reply reply(&client.out, client.protocol);
  const Reply::Mark mark = reply.mark();
  const bool in_transaction = (session_of(client).modes & Session::kInTransaction) != 0;
  if (command != nullptr && command->spec->has(kRunsQueue)) {
    send_error(reply, transaction_discarded(error));
    end_transaction(client);  // what was watched, too, though there was no MULTI
  } else {
    send_error(reply, error);
    if (in_transaction) transaction_of(client)->failed = true;
  }
  if (command != nullptr) counters_->rejected(command->index);
  end_of_command(pending, reply, mark);
}

void Dispatcher::finish(PendingCommand& pending, const Command& command, const Status& status, Reply& reply,
                        const Reply::Mark& mark) {
  if (!status.is_ok()) [[unlikely]] {
    reply.rollback(mark);
    misses_of(pending).clear();
    send_error(reply, status);
    counters_->failed(command.index);
    failed_ = true;
  }
  Session& session = session_of(*pending.client);
  session.last_command = &command;
  const std::uint64_t start = nanos_;
  const auto* waiting = static_cast<const Waiting*>(pending.continuation.get());
  noted_ = false;
  if (refresh_time() || waiting != nullptr) [[unlikely]]
    note_slow(*pending.client, command, pending.args, nanos_ - start, waiting == nullptr ? StageNanos{} : waiting->waits);
  counters_->call(command.index, nanos_ - start);
  end_of_command(pending, reply, mark);
}

void Dispatcher::end_of_command(PendingCommand& pending, Reply& reply, const Reply::Mark& mark) {
  Client& client = *pending.client;
  Session& session = session_of(client);
  client.last_command_ms = static_cast<std::int64_t>(now_);
  ++session.commands;
  if (session.replies != Session::Replies::kOn) [[unlikely]] {
    if (session.replies != Session::Replies::kSkipNext && !session.wrote_pushes) reply.rollback(mark);
    session.wrote_pushes = false;
    if (session.replies == Session::Replies::kSkip) session.replies = Session::Replies::kOn;
    if (session.replies == Session::Replies::kSkipNext) session.replies = Session::Replies::kSkip;
  }
  pending.continuation.reset();
  pending.state = PendingCommand::State::kDone;
}

void Dispatcher::client_closed(Client& client, PendingCommand* waiting_command) {
  // Fetches and jobs under way own what they use; resume() of a client that is gone does nothing.
  (void)client;
  if (waiting_command == nullptr || waiting_command->continuation == nullptr) return;
  const auto& waiting = static_cast<Waiting&>(*waiting_command->continuation);
  if (waiting.job != nullptr) waiting.job->client_gone.store(true, std::memory_order_relaxed);
  waiting_command->continuation.reset();
}

}  // namespace ebbtide
