#include "dispatch/dispatcher.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <utility>

#include "dispatch/arg_cursor.h"
#include "dispatch/command_keys.h"
#include "dispatch/dispatch_state.h"
#include "dispatch/intents.h"
#include "dispatch/key_locks.h"
#include "dispatch/long_write.h"
#include "dispatch/permissions.h"
#include "index/index_catalog.h"
#include "index/index_maintenance.h"
#include "store/numbers.h"
#include "store/rank_indexes.h"

namespace ebbtide {
namespace {

/// The most keys of a window whose prefetch results are kept between the stages.
constexpr std::size_t kStates = 1024;
/// A command that the write stall has stopped runs again after this many ms.
constexpr std::uint32_t kStopPollMs = 10;

/// Returns the index of the first argument that may be a password, which the slow log must not show.
std::size_t first_secret(const CommandSpec& spec, const Args& args) {
  if (spec.name == "auth") return 1;
  if (spec.name == "hello") return 2;
  if (spec.container == "acl" && spec.name == "setuser") return 2;
  constexpr std::size_t kNameBytes = 128;  // no key of the configuration has a longer name
  const std::size_t end = std::min(args.size(), SlowLog::kMaxArguments);
  for (std::size_t i = 2; spec.container == "config" && spec.name == "set" && i < end; i += 2) {
    if (to_lower(args[i].substr(0, kNameBytes)).find("pass") != std::string::npos) return i + 1;
  }
  return args.size();
}

/// Formats waits like "(waited: disk 12034 us, stall 500 us)"; returns "" if there was no wait.
std::string text_of(const StageNanos& waits) {
  std::string text;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (waits[i] < 1000) continue;
    text += (text.empty() ? "(waited: " : ", ") + std::string(kStageNames[i]) + " " + std::to_string(waits[i] / 1000) + " us";
  }
  return text.empty() ? text : text + ")";
}

/// Fails if arguments are far longer than the command can use, since copying or comparing them would take long. Commands that
/// store or send values accept any length of a value; the length of a channel is limited.
Status check_lengths(const CommandSpec& spec, const Args& args) {
  constexpr std::size_t kLongest = kMaxKeyBytes + 64;  // the longest key, or channel of its notifications
  // The most bytes of all arguments above 64 KiB together, in a command without keys.
  constexpr std::size_t kLongestTogether = std::size_t{8} << 20;
  constexpr Bytes kTakeValues[] = {"ping", "echo", "publish", "spublish"};
  if (spec.has(kWrite) && spec.scope == KeyScope::kNone) return Status::ok();  // the command stores its arguments
  if (spec.has(kRunsScript)) return Status::ok();                              // the script may store its arguments
  const bool takes_values = std::find(std::begin(kTakeValues), std::end(kTakeValues), spec.name) != std::end(kTakeValues);
  const bool has_channel = takes_values && spec.has(kPubSub);
  std::size_t together = 0;
  for (const SharedArg& arg : args.shared_list) {
    const std::size_t bytes = takes_values && !(has_channel && arg.index == 1) ? 0 : arg.value->size();
    if (bytes > kLongest) {
      return reply_error("ERR an argument of " + std::to_string(bytes) + " bytes is too long: " + std::to_string(kLongest) +
                         " bytes are allowed");
    }
    together += bytes;
  }
  if (spec.keys.first != 0 || spec.has(kSliced) || together <= kLongestTogether) return Status::ok();
  return reply_error("ERR arguments of " + std::to_string(together) + " bytes are too long: " + std::to_string(kLongestTogether) +
                     " bytes are allowed");
}

bool starts_with_code(Bytes message) {
  std::size_t i = 0;
  while (i < message.size() && message[i] >= 'A' && message[i] <= 'Z') ++i;
  return i > 1 && i < message.size() && message[i] == ' ';
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
      return "OOM command not allowed when used memory > 'memory_budget'." +
             (status.refused_bytes() == 0 ? "" : " " + std::string(status.message()) + ".");
    case Code::kRevoked:
      return "ERR read view revoked to meet a delete deadline; retry";
    default:
      return "ERR " + status.to_string();
  }
}

Dispatcher::Dispatcher(CommandEnv& env, std::uint64_t seed)
    : env_(env),
      counters_(env.stats->add_dispatcher()),
      random_state_(seed),
      misses_(std::make_shared<Fetched>()),
      fetches_(env.db == nullptr ? nullptr : env.db->new_fetch_queue()) {
  prepared_.reserve(kWindow);
}

Dispatcher::~Dispatcher() = default;

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

void Dispatcher::note_slow(Client& client, const Command& command, const Args& args, std::uint64_t nanos, const StageNanos& waits,
                           Unlogged* unlogged) {
  noted_ = true;
  const auto unix_seconds = [this] { return static_cast<std::int64_t>(env_.control->unix_micros() / 1'000'000); };
  Observers& observers = *env_.observers;
  if (observers.latency.threshold_ms() != 0) {
    observers.latency.add(command.spec->has(kFast) ? "fast-command" : "command", nanos / kNanosPerMilli, unix_seconds());
  }
  const bool runs_queue = command.spec->has(kRunsQueue);
  if (command.spec->has(kSkipSlowlog) && !runs_queue) return;
  // The commands inside EXEC have slow-log entries of their own. EXEC's own entry shows only how long EXEC waited.
  const std::uint64_t total = std::accumulate(waits.begin(), waits.end(), runs_queue ? 0 : nanos);
  if (unlogged == nullptr && (total < observers.slow_log.threshold_nanos() || (runs_queue && total == 0))) return;
  std::size_t hidden = first_secret(*command.spec, args);
  const bool has_arguments = observers.slow_log.keeps_arguments();
  if (!has_arguments) hidden = std::min<std::size_t>(hidden, command.spec->container.empty() ? 1 : 2);
  std::vector<std::string> arguments = SlowLog::shorten(args, hidden);
  if (std::string waited = text_of(waits); !waited.empty()) arguments.push_back(std::move(waited));
  SlowLog::Entry entry{.unix_seconds = unix_seconds(),
                       .micros = total / 1000,
                       .arguments = std::move(arguments),
                       .address = client.address,
                       .name = session_of(client).name,
                       .has_arguments = has_arguments};
  if (unlogged == nullptr) return observers.slow_log.add(std::move(entry));
  unlogged->entry = std::move(entry);
  unlogged->entry_nanos = total;
}

void Dispatcher::settle_unlogged() {
  if (unlogged_.empty()) return;
  const SeqNum durable = env_.db->durable_seq();
  const std::uint64_t now = env_.control->mono_nanos();
  std::erase_if(unlogged_, [&](Unlogged& command) {
    if (command.seq > durable && !env_.db->write_status().is_ok()) return true;  // the log has failed, so no reply leaves
    if (command.seq > durable) return false;
    const std::uint64_t waited = now - std::min(now, command.since);
    counters_->call(command.command, command.nanos + waited);
    const std::uint64_t total = command.entry_nanos + waited;
    if (!command.entry || total < env_.observers->slow_log.threshold_nanos()) return true;
    if (waited >= 1000) command.entry->arguments.push_back("(log: " + std::to_string(waited / 1000) + " us)");
    command.entry->micros = total / 1000;
    env_.observers->slow_log.add(std::move(*command.entry));
    return true;
  });
}

void Dispatcher::logged(std::uint64_t nanos) {
  counters_->stage(Stage::kWal, nanos);
  settle_unlogged();
}

void Dispatcher::run_pass(std::span<PendingCommand> commands) {
  counters_->passes.add(1);
  pass_charge_.release();
  refresh_time();
  const std::uint64_t start = begun_ = nanos_;
  ClientLoop* const here = commands.empty() ? nullptr : commands.front().client->loop;
  pass_end_ = start + kPassNanos;
  pass_bytes_ = 0;
  while (!commands.empty() && nanos_ < pass_end_) {
    const std::size_t n = std::min(commands.size(), kWindow);
    run_window(commands.first(n));
    commands = commands.subspan(n);
  }
  env_.observers->tracking.send_broadcasts(here);
  if (!waited_for_.empty()) [[unlikely]]
    env_.key_waiters->wake(std::exchange(waited_for_, {}));
  counters_->stage(Stage::kQueue, begun_ - start);
  if (nanos_ != begun_) counters_->stage(Stage::kMemory, nanos_ - begun_);
  look_around();  // starts the reads that this pass has requested, so that they run while the replies are sent
}

void Dispatcher::poll() {
  pass_charge_.release();
  look_around();
}

void Dispatcher::look_around() {
  settle_unlogged();
  if (finished_ != nullptr) dispose_finished();
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
  std::size_t alone_before = 0;  // commands before this index are in no write group: each runs by itself
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (nanos_ >= pass_end_) [[unlikely]]
      return;
    if (!commands[i].client->may_run()) continue;
    begun_ = nanos_;
    if (std::size_t end = 0; i >= alone_before) {
      if (run_group(i, &end)) {
        i = end - 1;
        continue;
      }
      alone_before = end;
    }
    run(commands[i], prepared_[i]);
    // The command may have run for milliseconds before it had to wait, so the clock is read again.
    if (commands[i].state == PendingCommand::State::kWaiting) [[unlikely]]
      refresh_time();
  }
}

Status Dispatcher::resolve(const Args& args, const Command** out) {
  const Command* command = recent_.find(*env_.table, args[0]);
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
  if (pending.args.size() > kLoopArguments && prepared->command->may_leave_loop) [[unlikely]] {
    prepared->long_by_arguments = true;
    return;
  }
  if (pending.args.size() > Ctx::kSliceArguments && prepared->command->spec->has(kSliced))
    return;  // the command collects its keys itself, slice by slice
  prepared->error = collect(pending.args, prepared);
}

Status Dispatcher::collect(const Args& args, Prepared* prepared) {
  prepared->first_key = static_cast<std::uint32_t>(keys_.size());
  const Status status = collect_keys(prepared->command->spec->keys, args, &keys_, &escaped_, &escaped_used_);
  prepared->keys = static_cast<std::uint32_t>(keys_.size()) - prepared->first_key;
  return status;
}

void Dispatcher::prefetch(std::span<PendingCommand> commands) {
  if (keys_.size() < 2) return;
  const std::size_t states = std::min(keys_.size(), kStates);
  if (states_.size() < states) states_.resize(states);
  for (std::size_t k = 0; k < states; ++k) {
    states_[k].tables = nullptr;  // clears results of an earlier window, since its PassGuard has ended
    keys_[k].state = &states_[k];
  }
  // Each iteration handles consecutive commands of one database. Nearly always one iteration handles all commands.
  ReadView view;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const Prepared& prepared = prepared_[i];
    if (prepared.keys == 0) continue;
    const DatabaseId database = session_of(*commands[i].client).database;
    if (!view.has_tree() || view.database() != database) {
      prefetch_collected(view);
      view = env_.db->view(database, now_, ReadMode::kResident, nullptr);
      if (!view.has_tree()) continue;
    }
    // A command that overwrites without a read looks its key up only to see if it may have a collection (Strings::set).
    const bool blind = prepared.command->spec->keys.blind(commands[i].args.size());
    for (std::uint32_t k = prepared.first_key; k < prepared.first_key + prepared.keys; ++k) {
      (blind ? overwritten_ : ahead_).push_back(&keys_[k]);
    }
  }
  prefetch_collected(view);
}

void Dispatcher::prefetch_collected(const ReadView& view) {
  view.prefetch(ahead_);
  view.prefetch_collections(overwritten_);
  ahead_.clear();
  overwritten_.clear();
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
  if (!pending.args.shared_list.empty()) [[unlikely]] {
    if (const Status status = check_lengths(*command->spec, pending.args); !status.is_ok())
      return reject(pending, command, status);
  }
  if (env_.db == nullptr && !command->spec->has(kLoading)) [[unlikely]]
    return reject(pending, command, Status::invalid_argument("LOADING Redis is loading the dataset in memory"));
  if ((session_of(client).modes | env_.observers->switches.word()) != 0) [[unlikely]]
    return run_in_mode(pending, prepared);
  run_admitted(pending, prepared);
}

void Dispatcher::run_in_mode(PendingCommand& pending, const Prepared& prepared) {
  const Session& session = session_of(*pending.client);
  // A command that has already begun continues, even if its user's rights have changed meanwhile.
  const bool in_check = (session.modes & Session::kInCheck) != 0;
  const bool begins = (session.modes & Session::kChecked) != 0 && pending.continuation == nullptr;
  if ((begins || in_check) && !permitted(pending, prepared)) return;
  const bool other_modes = (session.modes & static_cast<std::uint8_t>(~Session::kChecked)) != 0;
  if (other_modes || env_.observers->switches.word() != 0) return run_observed(pending, prepared);
  run_admitted(pending, prepared);
}

bool Dispatcher::permitted(PendingCommand& pending, const Prepared& prepared) {
  Client& client = *pending.client;
  Session& session = session_of(client);
  const User& user = rights_of(session, *env_.control);
  const Command& command = *prepared.command;
  if ((session.modes & (Session::kChecked | Session::kInCheck)) == 0) return true;
  const bool in_transaction = (session.modes & Session::kInTransaction) != 0;
  if (in_transaction && !command.spec->has(kImmediate) && command.spec->has(kNoMulti | kNeverInline)) return true;  // see queue()
  const std::span<const Bytes> arguments = pending.args.list;
  std::optional<AclVerdict> verdict;
  if (pending.continuation != nullptr) [[unlikely]] {
    verdict = end_check(pending, prepared);
    if (!verdict) return false;
  } else {
    AclBudget budget(kLoopCheckSteps);
    if (arguments.size() <= kLoopArguments) verdict = check_permission(user, command, arguments, budget);
    if (!verdict) return check_off_loop(pending, prepared), false;
  }
  if (verdict->allowed()) return true;
  const std::string name(user_of(session));
  note_denial(env_, client, *verdict, name, command, arguments, in_transaction);
  reject(pending, &command, Status::invalid_argument("NOPERM " + denial_text(*verdict, name, command, arguments, false)));
  return false;
}

void Dispatcher::run_admitted(PendingCommand& pending, const Prepared& prepared) {
  if (finished_ != nullptr) [[unlikely]]
    dispose_finished();
  if (pending.continuation != nullptr && !resume(pending, prepared)) [[unlikely]]
    return;
  Client& client = *pending.client;
  const CommandSpec& spec = *prepared.command->spec;
  if (spec.has(kNoAuth | kRunsQueue) && delay_authentication(pending, spec)) [[unlikely]]
    return;
  std::shared_ptr<OffLoopRun> synced;  // keeps the reply while the log is synced
  if (spec.has(kReplySynced | kRunsQueue) && replies_synced(client, spec)) [[unlikely]]
    synced = std::make_shared<OffLoopRun>();
  Reply reply(synced == nullptr ? &client.out : &synced->out, client.protocol);
  const Reply::Mark mark = reply.mark();
  const std::uint64_t start = nanos_;
  Status status;
  RunEnd end = run_resident(pending, prepared, reply, &status);
  if (synced != nullptr && end == RunEnd::kDone) [[unlikely]] {
    if (!status.is_ok()) {
      Reply direct(&client.out, client.protocol);
      return finish(pending, *prepared.command, status, direct, direct.mark());
    }
    end = RunEnd::kWaitsForSync;
  }
  switch (end) {
    case RunEnd::kDone:
      return finish(pending, *prepared.command, status, reply, mark);
    case RunEnd::kSliced:
      return continue_later(pending);
    case RunEnd::kWaitsForSync:
      return wait_for_sync(pending, prepared, std::move(synced), start);
    case RunEnd::kMissesPages:
      return;  // the pages are being read
    case RunEnd::kWaitsForMemory:
      reply.rollback(mark);
      return park_for_memory(pending, memory_ms_);
    case RunEnd::kWaitsForStall:
      reply.rollback(mark);
      return park(pending, stall_ms_);
    case RunEnd::kWaitsForMarks:
      reply.rollback(mark);
      begin_wait(waiting_of(pending), Stage::kThread);
      return leave_waiting(pending);
    case RunEnd::kWaitsForElement:
      reply.rollback(mark);
      return wait_for_element(pending, prepared, std::span(keys_).subspan(prepared.first_key, prepared.keys), block_ms_);
    case RunEnd::kLeavesLoop:
      reply.rollback(mark);
      return leave_loop(pending, prepared);
  }
}

bool Dispatcher::resume(PendingCommand& pending, const Prepared& prepared) {
  auto& waiting = static_cast<Waiting&>(*pending.continuation);
  if (waiting.memory.wanted != 0 && waits_for_memory(pending, waiting)) return false;
  if (waiting.job != nullptr) return finish_job(pending, prepared), false;
  if (waiting.long_write != nullptr) return continue_long_write(pending, prepared), false;
  if (waiting.fetched != nullptr && waiting.fetched->busy.load(std::memory_order_acquire)) {
    return leave_waiting(pending), false;  // the command was resumed for another reason, so it continues to wait
  }
  if (waiting.blocked && waiting.blocked->end() == BlockedClients::End::kError) {
    Reply reply(&pending.client->out, pending.client->protocol);
    const Status ended = Status::invalid_argument("UNBLOCKED client unblocked via CLIENT UNBLOCK");
    return finish(pending, *prepared.command, ended, reply, reply.mark()), false;
  }
  if (waiting.stalled && env_.db->writes_stopped()) return park(pending, kStopPollMs), false;
  if (waiting.for_element) waiting.for_element->begin_look();
  end_wait(waiting);
  return true;
}

void Dispatcher::continue_later(PendingCommand& pending) {
  Waiting& waiting = waiting_of(pending);
  waiting.fetched = nullptr;  // the next slice misses other pages than this one
  leave_waiting(pending);
  pending.unfinished = true;
  pending.client->loop->resume(pending.client->id);
}

Dispatcher::RunEnd Dispatcher::run_resident(PendingCommand& pending, const Prepared& prepared, Reply& reply, Status* status) {
  const CommandSpec& spec = *prepared.command->spec;
  if (spec.has(kOffload) || prepared.long_by_arguments) [[unlikely]]
    return RunEnd::kLeavesLoop;
  if (spec.has(kRunsQueue)) [[unlikely]] {
    const Transaction* transaction = transaction_of(*pending.client);
    if (is_long(transaction) && !transaction->synced) return RunEnd::kLeavesLoop;
  }
  const Reply::Mark mark = reply.mark();
  while (true) {
    const RunEnd end = run_once(pending, prepared, reply, status);
    if (end != RunEnd::kMissesPages) [[likely]]
      return end;
    reply.rollback(mark);
    const auto* waiting = static_cast<Waiting*>(pending.continuation.get());
    const std::uint32_t most = spec.has(kWrite | kMayReplicate | kRunsQueue) ? kWriteRounds : kFetchRounds;
    const bool missed_often = waiting != nullptr && waiting->fetched != nullptr && waiting->fetched->rounds >= most;
    const bool leaves = spec.has(kRunsQueue) ? transaction_of(*pending.client)->may_leave : prepared.command->may_leave_loop;
    if (missed_often && leaves) return RunEnd::kLeavesLoop;
    if (!fetch_pages(pending)) return RunEnd::kMissesPages;
  }
}

Dispatcher::RunEnd Dispatcher::end_of_failed(PendingCommand& pending, const Status& status, bool too_long) {
  if (status.is_not_resident()) return too_long ? RunEnd::kLeavesLoop : RunEnd::kMissesPages;
  memory_ms_ = memory_wait_ms(pending, status);
  if (memory_ms_ != 0) return RunEnd::kWaitsForMemory;
  if (stall_ms_ != 0) return RunEnd::kWaitsForStall;
  return marked_ ? RunEnd::kWaitsForMarks : RunEnd::kDone;
}

bool Dispatcher::replies_synced(Client& client, const CommandSpec& spec) {
  const Transaction* transaction = transaction_of(client);
  return spec.has(kReplySynced) || (transaction != nullptr && transaction->synced);
}

bool Dispatcher::is_long(const Transaction* transaction) const {
  return transaction != nullptr && transaction->open && !transaction->failed && transaction->may_leave &&
         (transaction->is_long || transaction->arguments + transaction->watched.size() > kLoopArguments ||
          transaction->bytes > kLoopWorkBytes || (transaction->writes && notifies_many(transaction->arguments)) ||
          env_.observers->notifications.work_of(transaction->arguments, transaction->bytes) > kLoopWorkBytes);
}

void Dispatcher::leave_loop(PendingCommand& pending, const Prepared& prepared) {
  const CommandSpec& spec = *prepared.command->spec;
  const bool commits =
      (spec.has(kWrite | kRunsQueue) || spec.has(kRunsScript)) && !spec.has(kOffload) && !only_reads(spec, pending.args.list);
  commits ? start_long_write(pending, prepared) : start_offload(pending, prepared);
}

Status Dispatcher::maintain(const ReadView& view, IndexChanges* changes) {
  const IndexRun run{.db = env_.db,
                     .now = view.now(),
                     .mode = view.mode(),
                     .misses = view.misses(),
                     .holds_all_locks = true,  // commands that delete ranges of keys are kLockAll
                     .view = [&](DatabaseId database) {
                       return database == view.database() ? view
                                                          : env_.db->view(database, view.now(), view.mode(), view.misses());
                     }};
  return maintain_indexes(*env_.indexes, run, &batch_, changes);
}

Status Dispatcher::commit(Client& client, bool waited, const ReadView& view, KeyWaiters::Wait* own) {
  if (env_.indexes == nullptr || !env_.indexes->any()) [[likely]]
    return commit_batch(client, waited, own);
  IndexChanges changes;
  TRY(maintain(view, &changes));
  TRY(commit_batch(client, waited, own));
  env_.indexes->take(std::move(changes));
  return Status::ok();
}

Status Dispatcher::commit_batch(Client& client, bool waited, KeyWaiters::Wait* own) {
  if (env_.intents->any() || env_.key_waiters->any()) [[unlikely]]
    return commit_beside_others(client, waited, own);
  Status status = try_commit(waited);
  if (batch_.payload_bytes() > kMeasuredCommitBytes && status.is_ok()) [[unlikely]]
    note_large_commit(batch_, false);
  return status;
}

Status Dispatcher::try_commit(bool waited) {
  RankIndexes::Changes ranks = env_.ranks->collect(batch_);
  TRY(env_.db->try_commit(batch_, waited, &stall_ms_));
  env_.ranks->apply(ranks, batch_);
  return Status::ok();
}

Status Dispatcher::commit_beside_others(Client& client, bool waited, KeyWaiters::Wait* own) {
  std::optional<KeySet> written;
  if (env_.intents->any()) {
    written.emplace(batch_);
    marked_ = env_.intents->must_wait(*written, nullptr, {client.loop, client.id});
    if (marked_) return Status::busy("the keys are marked by a long write");
  }
  std::vector<KeyWaiters::Written> waited_for = env_.key_waiters->waited_for(batch_, own != nullptr);
  TRY(try_commit(waited));
  if (written) env_.intents->committed(*written, nullptr);
  note_waited_for(std::move(waited_for), own);
  note_large_commit(batch_, false);
  return Status::ok();
}

void Dispatcher::note_large_commit(const WriteBatch& batch, bool logged) {
  if (batch.payload_bytes() > kLargeCommitBytes) large_commit_ = batch.last_seq();
  if (!logged) pass_bytes_ += batch.payload_bytes();
  if (pass_bytes_ >= kPassBytes) pass_end_ = 0;
}

Dispatcher::RunEnd Dispatcher::run_once(PendingCommand& pending, const Prepared& prepared, Reply& reply, Status* status) {
  random_ = random_of(pending);
  if (prepared.command->spec->has(kRunsScript)) [[unlikely]]
    return run_script(pending, prepared, reply, status);
  if (!prepared.command->spec->has(kRunsQueue)) [[likely]]
    return run_and_commit(pending, prepared, reply, status);
  const auto* waiting = static_cast<Waiting*>(pending.continuation.get());
  const Transaction* transaction = transaction_of(*pending.client);
  const bool stays = transaction == nullptr || !transaction->may_leave;
  const bool block = stays && waiting != nullptr && waiting->fetched != nullptr && waiting->fetched->rounds >= kWriteRounds;
  const RunEnd end = run_transaction(pending, block, waiting != nullptr && waiting->stalled, reply, status);
  const bool in_transaction = (session_of(*pending.client).modes & Session::kInTransaction) != 0;
  if (end == RunEnd::kDone && in_transaction) end_transaction(*pending.client);
  return end;
}

Dispatcher::RunEnd Dispatcher::run_and_commit(PendingCommand& pending, const Prepared& prepared, Reply& reply, Status* status) {
  Client& client = *pending.client;
  Session& session = session_of(client);
  const CommandSpec& spec = *prepared.command->spec;
  const std::span<const LookupKey> keys(keys_.data() + prepared.first_key, prepared.keys);
  auto* waiting = static_cast<Waiting*>(pending.continuation.get());
  KeyWaiters::Wait* own = waiting != nullptr && waiting->for_element ? &*waiting->for_element : nullptr;
  const bool leaves = prepared.command->may_leave_loop;
  const bool block = !leaves && waiting != nullptr && waiting->fetched != nullptr && waiting->fetched->rounds >= kWriteRounds;
  MissSet& misses = misses_of(pending);
  stall_ms_ = 0;
  marked_ = false;
  const std::uint64_t work_left = leaves ? kLoopWorkBytes : ~std::uint64_t{0};
  const Reply::Mark mark = reply.mark();
  bool too_long = false;
  for (int i = 0; i < kMaxRetries; ++i) {
    batch_.clear();

    std::optional<KeyLocks::Guard> lock;
    if (spec.has(kWrite | kMayReplicate) && env_.locks->enabled()) {
      const bool all = spec.has(kLockAll) || stores_from_patterns(spec, pending.args.list);
      all ? lock.emplace(*env_.locks) : lock.emplace(*env_.locks, keys, session.database);
    }
    const ReadMode mode = block ? ReadMode::kBlocking : ReadMode::kResident;
    Ctx ctx{env_, *prepared.command, pending.args, keys, view_of(session.database, mode, &misses), batch_, reply, session};
    ctx.client = &client;
    ctx.client_id = client.id;
    ctx.now = now_;
    ctx.random = random_;
    ctx.work_left = work_left;
    if (waiting != nullptr) {
      ctx.args_done = waiting->args_done;
      ctx.element_wait = element_wait_of(*waiting);
    }
    if (spec.has(kWrite | kReadOnly)) client.seen_seq = std::max(client.seen_seq, ctx.view.seq());
    *status = spec.run(ctx);

    if (leaves && status->is_ok() && LongWrite::stages(batch_)) [[unlikely]]
      return RunEnd::kLeavesLoop;
    if (status->is_ok() && !batch_.empty()) {
      stall_ms_ = 0;
      *status = commit(client, waiting != nullptr && waiting->stalled, ctx.view, own);
      if (status->is_ok()) client.seen_seq = std::max(client.seen_seq, batch_.last_seq());
    }
    if (status->is_ok() && ctx.element_wait.wanted) [[unlikely]] {
      block_ms_ = ctx.element_wait.timeout_ms;
      return RunEnd::kWaitsForElement;
    }
    if (status->is_ok()) [[likely]] {
      if (ctx.after_commit != nullptr) ctx.after_commit(ctx);
      if (ctx.charge.bytes() != 0) [[unlikely]]
        pass_charge_.join(std::move(ctx.charge));
      count_reads(ctx.counts);
      if (!ctx.unfinished) [[likely]]
        return RunEnd::kDone;
      waiting_of(pending).args_done = ctx.args_done;
      return RunEnd::kSliced;
    }
    too_long = ctx.too_long;
    firm_marks_ = ctx.firm_marks;
    if (status->code() != Code::kRetry) break;
    reply.rollback(mark);
    misses.pages.clear();
    counters_->retries.add(1);
    now_ = env_.now();
  }
  if (status->code() != Code::kRetry) return end_of_failed(pending, *status, too_long);  // the attempt has released its memory
  *status = Status::busy("keys expired during each of " + std::to_string(kMaxRetries) + " attempts");
  return RunEnd::kDone;
}

MissSet& Dispatcher::misses_of(const PendingCommand& pending) {
  const auto* waiting = static_cast<const Waiting*>(pending.continuation.get());
  if (waiting != nullptr && waiting->fetched != nullptr) return waiting->fetched->set;
  return misses_->set;  // NOLINT: never null, since fetch_pages() makes another one
}

bool Dispatcher::fetch_pages(PendingCommand& pending) {
  Client& client = *pending.client;
  Waiting& waiting = waiting_of(pending);
  if (waiting.fetched == nullptr) waiting.fetched = std::exchange(misses_, std::make_shared<Fetched>());
  std::shared_ptr<Fetched> fetched = waiting.fetched;
  ++fetched->rounds;
  // Set before the fetch begins: the fetch may end, and call resume(), before this function returns.
  fetched->busy.store(true, std::memory_order_relaxed);
  leave_waiting(pending);
  MissSet* set = &fetched->set;
  look_ahead(pending, set);
  // The callback owns the set of misses, which must outlive a client that closes meanwhile.
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
  if (waiting.since && waiting.stage == stage) return;  // this wait has already begun
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

// Reads the missing pages of the client's next commands together with those of this command, since they wait for it.
void Dispatcher::look_ahead(const PendingCommand& pending, MissSet* misses) {
  ReadView view;
  for (auto i = static_cast<std::size_t>(&pending - window_.data()) + 1; i < window_.size(); ++i) {
    if (window_[i].client != pending.client) return;
    const Prepared& next = prepared_[i];
    if (next.keys == 0) continue;
    if (!view.has_tree()) view = env_.db->view(session_of(*pending.client).database, now_, ReadMode::kResident, misses);
    for (const LookupKey& key : std::span(keys_).subspan(next.first_key, next.keys)) view.add_expected_miss(key, misses);
  }
}

// Delays a command because of the write stall. The command has written nothing; its loop runs it again later, and serves other
// clients meanwhile. While writes are stopped, thousands of clients may wait, so the delay grows with each attempt.
void Dispatcher::park(PendingCommand& pending, std::uint32_t ms) {
  Waiting& waiting = waiting_of(pending);
  waiting.stalled = true;
  // A stall may last long, and pinned pages would keep replaced tables open.
  if (waiting.fetched != nullptr) waiting.fetched->set.clear();
  stall_ms_ = 0;
  pending.retry_ms = ms + std::min<std::uint32_t>(waiting.stalls++ * 10, 90);
  leave_waiting(pending);
  counters_->stalled.add(1);
  begin_wait(waiting, Stage::kStall);
}

bool Dispatcher::authenticates(const CommandSpec& spec, const Args& args) {
  if (spec.name == "auth") return true;
  bool found = false;
  for (std::size_t i = 2; spec.name == "hello" && i < args.size(); ++i) found |= equal_ignoring_case(args[i], "auth");
  return found;
}

// Delays a right password as long as a wrong one, so that the delay reveals nothing. An EXEC with several passwords is delayed as
// long as a client after many failures.
bool Dispatcher::delay_authentication(PendingCommand& pending, const CommandSpec& spec) {
  constexpr std::uint64_t kNextPasswordMs = 2'000, kMostMs = 3'600'000;
  Client& client = *pending.client;
  std::uint64_t passwords = 0;
  if (!spec.has(kRunsQueue)) {
    passwords = authenticates(spec, pending.args) ? 1 : 0;
  } else if (const Transaction* transaction = transaction_of(client); transaction != nullptr && !transaction->failed) {
    passwords = transaction->passwords;
  }
  if (passwords == 0) return false;
  auto* waiting = static_cast<Waiting*>(pending.continuation.get());
  if (waiting == nullptr || !waiting->judged_at) {
    const std::uint64_t first = env_.control->authentication_delay_ms(client.network);
    const std::uint64_t ms = std::min(first + (passwords - 1) * kNextPasswordMs, kMostMs);
    if (ms == 0) return false;
    waiting = &waiting_of(pending);
    waiting->judged_at = nanos_ + ms * kNanosPerMilli;
  }
  if (nanos_ >= *waiting->judged_at) return false;
  pending.retry_ms = static_cast<std::uint32_t>((*waiting->judged_at - nanos_ + kNanosPerMilli - 1) / kNanosPerMilli);
  leave_waiting(pending);
  return true;
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
    end_transaction(client);  // called also without MULTI, since it frees watched keys, too
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
  const bool moved = refresh_time();
  const auto waits = [waiting] { return waiting == nullptr ? StageNanos{} : waiting->waits; };
  if (large_commit_ != 0) [[unlikely]] {
    Unlogged& unlogged =
        unlogged_.emplace_back(Unlogged{std::exchange(large_commit_, 0), command.index, nanos_ - start, nanos_, {}});
    note_slow(*pending.client, command, pending.args, nanos_ - start, waits(), &unlogged);
  } else {
    if (moved || waiting != nullptr) [[unlikely]]
      note_slow(*pending.client, command, pending.args, nanos_ - start, waits());
    counters_->call(command.index, nanos_ - start);
  }
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
  // Fetches and threads that still run own everything that they use, except for the arguments. Now they also share the arguments.
  // A later resume() does nothing, since the client has disconnected.
  if (waiting_command == nullptr || waiting_command->continuation == nullptr) return;
  auto& waiting = static_cast<Waiting&>(*waiting_command->continuation);
  if (waiting.rights != nullptr) waiting.rights->input = client.take_input();
  if (waiting.job != nullptr) waiting.job->input = client.take_input();
  if (waiting.long_write != nullptr) waiting.long_write->input = client.take_input();
  if (!waiting.for_element) return waiting_command->continuation.reset();
  // Keeps the wait for an element: leaving the queues of thousands of keys takes milliseconds, so the loop frees it later.
  waiting.give_up();
  waiting.blocked.reset();
}

}  // namespace ebbtide
