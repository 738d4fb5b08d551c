// MULTI and EXEC in dispatch: queues commands, and runs the queue as one command.
//
// A transaction runs against one view, into one batch, with one commit. So its writes become visible together, or not at all.
// Each of its commands writes into a batch of its own, which joins the transaction's batch if the command does not fail. A
// command reads the writes of earlier commands through PendingWrites. If an attempt has to be repeated, its replies and writes
// are dropped, and the session is restored. The queue stays, and nothing is counted. Before the first command runs, all keys of
// all commands are looked up, so that their missing pages are read together.
//
// A long transaction runs off the loop (long_write.h), unless one of its commands must stay there. Many arguments, many processed
// bytes, or a walk make a transaction long.
//
// A transaction that writes holds the locks of its keys, like a single command. So does a transaction that reads several
// databases: it takes the view of another database later than its first view, and no key may change in between. A transaction
// that walks on its loop holds all locks, because a walk begins on a lease of its own.
#include <algorithm>
#include <optional>
#include <utility>

#include "dispatch/arg_cursor.h"
#include "dispatch/command_keys.h"
#include "dispatch/dispatch_state.h"
#include "dispatch/dispatcher.h"
#include "dispatch/key_locks.h"
#include "dispatch/permissions.h"
#include "dispatch/transaction_run.h"
#include "store/numbers.h"

namespace ebbtide {
namespace {

/// Estimated memory of a queued argument, without its bytes.
constexpr std::uint64_t kArgumentBytes = 64;

/// Takes the locks of a transaction's keys. Like those of a single command, they are held from before the view is taken until the
/// commit is visible.
void lock(KeyLocks& locks, const Transaction& transaction, std::optional<KeyLocks::Guard>* guard) {
  if (!locks.enabled()) return;
  if (transaction.locks_all) guard->emplace(locks);
  // A transaction that only reads needs no lock, unless it reads several databases, whose views are of different moments.
  if (transaction.locks_all || (!transaction.writes && !transaction.selects)) return;
  std::vector<std::uint16_t> stripes;
  for (const auto& [place, key] : transaction.watched) {
    stripes.push_back(KeyLocks::stripe_of({place.second, key.hash}, place.first));
  }
  for (const QueuedCommand& queued : transaction.queue) {
    for (const LookupKey& key : queued.keys) stripes.push_back(KeyLocks::stripe_of(key, queued.database));
  }
  guard->emplace(locks, std::move(stripes));
}

/// A transaction with a command that cannot leave its loop (SUBSCRIBE, CLIENT, DELPREFIX ...) keeps that loop busy. So there are
/// limits for its arguments, and for the bytes that it processes (Ctx::work) or matches with patterns. Each limit is some tens of
/// milliseconds of work.
constexpr std::uint64_t kStayingArguments = 64 << 10, kStayingWorkBytes = 32 << 20;

Status stays_too_long_error() {
  return reply_error(
      "a transaction with a command that cannot leave its event loop, such as SUBSCRIBE, CLIENT or DELPREFIX, can have " +
      std::to_string(kStayingArguments) + " arguments and process " + std::to_string(kStayingWorkBytes) +
      " bytes; a range delete counts as " + std::to_string(Ctx::kRangeDeleteWork) + " bytes, and its bounds " +
      std::to_string(Ctx::kBoundByteWork) + " times");
}

bool stays_too_long(const Transaction& transaction, const Notifications& notifications) {
  if (transaction.arguments > kStayingArguments) return true;
  std::size_t keys = 0, bytes = 0;
  for (const QueuedCommand& queued : transaction.queue) {
    keys += queued.keys.size();
    for (const LookupKey& key : queued.keys) bytes += key.key.size();
  }
  return notifications.work_of(keys, bytes) > kStayingWorkBytes;
}

}  // namespace

bool Dispatcher::admit(PendingCommand& pending, const Prepared& prepared) {
  Client& client = *pending.client;
  const CommandSpec& spec = *prepared.command->spec;
  const std::uint8_t modes = session_of(client).modes;
  if ((modes & Session::kSubscribed) != 0 && client.protocol == 2 && !spec.has(kSubscriber)) {
    reject(pending, prepared.command,
           reply_error("ERR Can't execute '" + prepared.command->full_name +
                       "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"));
    return false;
  }
  if ((modes & Session::kInTransaction) == 0 || spec.has(kImmediate)) return true;
  queue(pending, prepared);
  return false;
}

bool Dispatcher::hold_back(PendingCommand& pending, const CommandSpec& spec) {
  // A paused client's command that has already begun continues; only new commands wait.
  if (!env_.observers->switches.has(Switches::kPause) || pending.continuation != nullptr) return false;
  Client& client = *pending.client;
  const bool queues = (session_of(client).modes & Session::kInTransaction) != 0 && !spec.has(kImmediate);
  if (queues || spec.container == "client") return false;
  const Transaction* transaction = transaction_of(client);
  const bool writes = spec.has(kWrite | kMayReplicate) || spec.name == "publish" || spec.name == "spublish" ||
                      (spec.has(kRunsQueue) && transaction != nullptr && transaction->writes);
  const std::uint32_t ms = env_.observers->pause.wait_ms(nanos_ / 1'000'000, writes);
  if (ms == 0) return false;
  if (!state_of(client).paused) {
    state_of(client).paused.emplace(*env_.blocked, client, false);
    session_of(client).modes |= Session::kPaused;
  }
  pending.retry_ms = ms;
  pending.state = PendingCommand::State::kWaiting;
  client.waiting = true;
  return true;
}

void Dispatcher::run_observed(PendingCommand& pending, Prepared prepared) {
  Client& client = *pending.client;
  const CommandSpec& spec = *prepared.command->spec;
  const Session& session = session_of(client);
  Observers& observers = *env_.observers;
  if (hold_back(pending, spec)) return;
  if ((session.modes & Session::kPaused) != 0) {
    state_of(client).paused.reset();
    session_of(client).modes &= static_cast<std::uint8_t>(~Session::kPaused);
  }
  const bool queues = (session.modes & Session::kInTransaction) != 0 && !spec.has(kImmediate);
  if (prepared.long_by_arguments && queues) {  // a queue needs the keys here; otherwise the command collects them off the loop
    const Status status = collect(pending.args, &prepared);
    if (!status.is_ok()) return reject(pending, prepared.command, status);
  }
  if (session.modes != 0 && !admit(pending, prepared)) return;
  if (spec.keys.first != 0 && prepared.command->may_leave_loop && observers.switches.has(Switches::kNotifications) &&
      notifies_long(pending, prepared)) {
    prepared.long_by_arguments = true;
    prepared.keys = 0;
  }
  const DatabaseId database = session.database;
  const std::span<const LookupKey> keys(keys_.data() + prepared.first_key, prepared.keys);
  Tracking* tracking = (session.modes & Session::kTracks) != 0 ? &tracking_of(client) : nullptr;
  if (tracking != nullptr && spec.has(kReadOnly) && tracking->notes_reads()) observers.tracking.note_reads(client.id, keys);
  PresentKeys had;
  const std::uint32_t asked = observers.notifications.flags() & (kNotifyMiss | kNotifyNew);
  if (asked != 0) had = which_are_there(keys, database);
  if (observers.expiries.on()) {
    for (const LookupKey& key : keys) {
      // A command that must stay on its loop publishes no event that takes long here: the server's timer does it.
      if (observers.notifications.work_of(1, key.key.size()) > kLoopWorkBytes) continue;
      if (observers.expiries.take_due(database, key.key, now_)) observers.expired(database, key.key, client.loop);
    }
  }
  failed_ = reported_ = false;
  batch_.clear();
  const std::uint64_t start = nanos_;
  run_admitted(pending, prepared);
  if (pending.state == PendingCommand::State::kDone) {
    if (tracking != nullptr && observers.expiries.on()) watch_what_was_read(keys, database);
    // As in Redis, monitors get a command after it has run: SELECT is shown with the database that it has selected.
    show_to_monitors(env_, client, *prepared.command, pending.args, session.database);
    // Otherwise finish() has called note_slow(): a millisecond has passed, or the command had to wait.
    if (observers.switches.has(Switches::kEveryTime) && !noted_) {
      note_slow(client, *prepared.command, pending.args, nanos_ - std::min(nanos_, start), {});
    }
    if (tracking != nullptr && spec.container != "client" && (session.modes & Session::kInTransaction) == 0) {
      tracking->caching.reset();
    }
    if (!failed_ && !reported_ && (asked & kNotifyMiss) != 0) {
      Notifications::Misses progress;
      observers.notifications.missed(*prepared.command, pending.args, keys, had, database, client.loop, client.seen_seq,
                                     &progress, Slice());
    }
  }
  // EXEC and long commands have already reported their keys.
  const WriteBatch& batch = written_batch();
  if (batch.empty() || batch.first_seq() == 0 || spec.has(kRunsQueue) || reported_) return;
  observers.committed({*prepared.command, pending.args, database, batch, batch.last_seq(), had, batch.time()}, client);
}

// The client-side cache now has these keys, so the watch must know their expiries. The keys were just read, so a look-up in
// memory finds them.
void Dispatcher::watch_what_was_read(std::span<const LookupKey> keys, DatabaseId database) {
  MissSet misses;
  const ReadView view = view_of(database, ReadMode::kResident, &misses);
  for (const LookupKey& key : keys) {
    Found found;
    if (view.has_tree() && view.locate({key.key, key.hash}, &found).is_ok())
      env_.observers->expiries.seen(database, key.key, found, now_);
  }
}

// Returns the keys that exist. Reads from the disk if necessary, since events of new keys and of misses must be exact.
PresentKeys Dispatcher::which_are_there(std::span<const LookupKey> keys, DatabaseId database) const {
  PresentKeys had;
  const ReadView view = view_of(database, ReadMode::kBlocking, nullptr);
  for (const LookupKey& key : keys) {
    Found found;
    if (view.has_tree() && view.locate({key.key, key.hash}, &found).is_ok()) had.insert(key.key);
  }
  return had;
}

QueuedCommand& CommandQueue::add(const Args& args, std::span<const LookupKey> keys) {
  auto* const queued = new (memory_.allocate(sizeof(QueuedCommand))) QueuedCommand;
  (last_ == nullptr ? first_ : last_->next) = queued;
  last_ = queued;
  ++size_;
  queued->shared.assign(args.shared_list.begin(), args.shared_list.end());
  auto* const list = static_cast<Bytes*>(memory_.allocate(args.size() * sizeof(Bytes)));
  for (std::size_t i = 0; i < args.size(); ++i) {
    const auto shared = args.shared(i);
    new (list + i) Bytes(shared != nullptr ? Bytes(*shared) : memory_.copy(args[i]));
  }
  queued->list = {list, args.size()};
  auto* const copies = static_cast<LookupKey*>(memory_.allocate(keys.size() * sizeof(LookupKey)));
  for (std::size_t i = 0; i < keys.size(); ++i) new (copies + i) LookupKey{memory_.copy(keys[i].key), keys[i].hash};
  queued->keys = {copies, keys.size()};
  return *queued;
}

void CommandQueue::clear() {
  for (QueuedCommand *at = first_, *next = nullptr; at != nullptr; at = next) {
    next = at->next;
    at->~QueuedCommand();
  }
  first_ = last_ = nullptr;
  size_ = 0;
  memory_.release();
}

void Dispatcher::queue(PendingCommand& pending, const Prepared& prepared) {
  Client& client = *pending.client;
  Transaction& transaction = *transaction_of(client);
  const CommandSpec& spec = *prepared.command->spec;
  if (spec.has(kNoMulti | kNeverInline)) {
    return reject(pending, prepared.command, reply_error("ERR Command not allowed inside a transaction"));
  }
  if (spec.name == "debug") {
    if (const Status status = check_debugging(*env_.control, &client); !status.is_ok())
      return reject(pending, prepared.command, status);
  }
  if (!transaction.failed) {
    const Args& args = pending.args;
    const std::span<const LookupKey> keys(keys_.data() + prepared.first_key, prepared.keys);
    std::uint64_t bytes = sizeof(QueuedCommand) + kArgumentBytes * args.size(), charged_already = 0;
    std::size_t text_bytes = 0;
    for (std::size_t i = 0; i < args.size(); ++i) {
      const auto shared = args.shared(i);
      (shared != nullptr ? bytes : text_bytes) += args[i].size();
      if (shared != nullptr && is_charged(shared)) charged_already += args[i].size();
    }
    for (const LookupKey& key : keys) text_bytes += key.key.size();
    if (!transaction.charge(bytes + text_bytes - charged_already)) {
      transaction.forget_queue();
      return reject(pending, prepared.command, Status::out_of_memory("the transaction's commands did not fit into memory"));
    }
    transaction.bytes += bytes + text_bytes;
    if (transaction.queue.size() == 0) transaction.rights = session_of(client).rights;
    if (transaction.rights != session_of(client).rights) transaction.rights = nullptr;
    QueuedCommand& queued = transaction.queue.add(args, keys);
    queued.command = prepared.command;
    queued.database = transaction.database;
    queued.target = target_database(spec, args, transaction.database);
    transaction.writes |= spec.has(kWrite | kMayReplicate);
    transaction.synced |= spec.has(kReplySynced);
    if (spec.name == "select") {
      transaction.selects = true;
      const auto index = parse_integer(args[1]);
      if (index && *index >= 0 && *index < env_.databases) transaction.database = static_cast<DatabaseId>(*index);
    }
    transaction.may_leave = transaction.may_leave && (prepared.command->may_leave_loop || spec.has(kAnyThread));
    transaction.walks |= spec.walks();
    transaction.is_long |= spec.has(kOffload);
    transaction.arguments += args.size();
    if (spec.has(kNoAuth) && authenticates(spec, args)) ++transaction.passwords;
    transaction.locks_all |= spec.has(kLockAll) || (spec.has(kRunsScript) && spec.has(kMayReplicate)) || spec.walks() ||
                             !pattern_option(spec, args.list).empty();
  }
  Reply reply(&client.out, client.protocol);
  const Reply::Mark mark = reply.mark();
  reply.simple("QUEUED");
  end_of_command(pending, reply, mark);
}

Dispatcher::RunEnd Dispatcher::run_transaction(PendingCommand& pending, bool block, bool waited, Reply& reply, Status* status) {
  Client& client = *pending.client;
  Session& session = session_of(client);
  batch_.clear();
  stall_ms_ = 0;
  marked_ = false;
  Transaction* transaction = transaction_of(client);
  if (transaction == nullptr || !transaction->open) {
    *status = reply_error("ERR EXEC without MULTI");
    return RunEnd::kDone;
  }
  if (transaction->failed) {
    *status = reply_error("EXECABORT Transaction discarded because of previous errors.");
    return RunEnd::kDone;
  }
  if (!transaction->may_leave && stays_too_long(*transaction, env_.observers->notifications)) {
    *status = transaction_discarded(stays_too_long_error());
    return RunEnd::kDone;
  }
  MissSet& misses = misses_of(pending);
  const Reply::Mark mark = reply.mark();
  const Session before = session;
  const int protocol = client.protocol;
  for (int i = 0; i < kMaxRetries; ++i) {
    batch_.clear();
    std::optional<KeyLocks::Guard> guard;
    lock(*env_.locks, *transaction, &guard);
    const ReadView view = view_of(session.database, block ? ReadMode::kBlocking : ReadMode::kResident, &misses);
    client.seen_seq = std::max(client.seen_seq, view.seq());
    bool too_long = false;
    *status = attempt_transaction(client, waited, view, reply, &too_long);
    if (status->is_ok()) return RunEnd::kDone;
    reply.rollback(mark);
    session = before;
    client.protocol = protocol;
    if (const RunEnd end = end_of_failed(pending, *status, too_long); end != RunEnd::kDone) return end;
    if (status->code() != Code::kRetry) {
      *status = transaction_discarded(*status);
      return RunEnd::kDone;
    }
    misses.pages.clear();
    counters_->retries.add(1);
    now_ = env_.now();
  }
  *status = transaction_discarded(Status::busy("keys expired during each of " + std::to_string(kMaxRetries) + " attempts"));
  return RunEnd::kDone;
}

Status Dispatcher::attempt_transaction(Client& client, bool waited, const ReadView& view, Reply& reply, bool* too_long) {
  Session& session = session_of(client);
  const Transaction& transaction = *transaction_of(client);
  TransactionRun run(env_, transaction, session, &client, batch_);
  prepare_run(client, &run);
  run.now = now_;
  run.holds_all_locks = transaction.locks_all;
  run.work_left = transaction.may_leave ? kLoopWorkBytes : kStayingWorkBytes;
  const Status ran = run.run(view);
  *too_long = run.too_long;
  if (run.too_long && !transaction.may_leave) return stays_too_long_error();
  client.seen_seq = std::max(client.seen_seq, run.seen_seq);
  TRY(ran);
  if (run.changed) {
    reply.null_array();
    return Status::ok();
  }
  return commit_run(client, waited, view, run, reply);
}

// Commits the writes of an attempt, writes its replies and delivers its effects.
Status Dispatcher::commit_run(Client& client, bool waited, const ReadView& view, TransactionRun& run, Reply& reply) {
  if (!batch_.empty()) {
    TRY(commit(client, waited, view));
    client.seen_seq = std::max(client.seen_seq, batch_.last_seq());
  }
  if (begin_effects(client, run)) write_replies(client, run, view, reply);
  if (!batch_.empty()) env_.observers->invalidate(batch_, client, client.seen_seq);
  for (const Effect& effect : run.effects) effect(client, Slice());
  pass_charge_.join(std::move(run.charge));
  return Status::ok();
}

void Dispatcher::queue_script(PendingCommand& pending, const Prepared& prepared, Transaction* transaction) {
  const CommandSpec& spec = *prepared.command->spec;
  QueuedCommand& queued =
      transaction->queue.add(pending.args, std::span<const LookupKey>(keys_.data() + prepared.first_key, prepared.keys));
  queued.command = prepared.command;
  queued.database = queued.target = transaction->database = session_of(*pending.client).database;
  transaction->open = true;
  transaction->writes = spec.has(kMayReplicate);
  transaction->arguments = pending.args.size();
  transaction->rights = session_of(*pending.client).rights;
}

// A script outside MULTI is a transaction of one command, whose calls become known only while it runs. It first runs with the
// locks of the keys that it declares. If it may write and uses another key, this attempt is dropped, and the script runs again
// with all locks.
Dispatcher::RunEnd Dispatcher::run_script(PendingCommand& pending, const Prepared& prepared, Reply& reply, Status* status) {
  Client& client = *pending.client;
  Session& session = session_of(client);
  const auto* waiting = static_cast<Waiting*>(pending.continuation.get());
  stall_ms_ = 0;
  marked_ = false;
  MissSet& misses = misses_of(pending);
  const Reply::Mark mark = reply.mark();
  const DatabaseId database = session.database;
  Transaction transaction(*env_.memory);
  queue_script(pending, prepared, &transaction);
  int retries = 0;
  while (retries < kMaxRetries) {
    batch_.clear();
    std::optional<KeyLocks::Guard> guard;
    lock(*env_.locks, transaction, &guard);
    const ReadView view = view_of(database, ReadMode::kResident, &misses);
    TransactionRun run(env_, transaction, session, &client, batch_);
    run.is_script = true;
    run.holds_all_locks = transaction.locks_all;
    *status = attempt_script(client, waiting != nullptr && waiting->stalled, view, run, reply);
    session.database = database;
    if (status->is_ok()) {
      if (!run.script_error.empty()) count_script_error(*prepared.command, run.script_error);
      return RunEnd::kDone;
    }
    reply.rollback(mark);
    if (run.wants_all_locks && !transaction.locks_all) {
      transaction.locks_all = true;
      misses.clear();
      continue;
    }
    if (const RunEnd end = end_of_failed(pending, *status, run.too_long); end != RunEnd::kDone) return end;
    if (status->code() != Code::kRetry) return RunEnd::kDone;
    misses.pages.clear();
    counters_->retries.add(1);
    now_ = env_.now();
    ++retries;
  }
  *status = Status::busy("keys expired during each of " + std::to_string(kMaxRetries) + " attempts");
  return RunEnd::kDone;
}

Status Dispatcher::attempt_script(Client& client, bool waited, const ReadView& view, TransactionRun& run, Reply& reply) {
  client.seen_seq = std::max(client.seen_seq, view.seq());
  prepare_run(client, &run);
  run.now = now_;
  run.work_left = kLoopWorkBytes;
  const Status ran = run.run(view);
  client.seen_seq = std::max(client.seen_seq, run.seen_seq);
  TRY(ran);
  TRY(commit_run(client, waited, view, run, reply));
  reported_ = true;
  return Status::ok();
}

void Dispatcher::count_script_error(const Command& command, const std::string& error) {
  counters_->failed(command.index);
  count_error(error);
  failed_ = true;
}

void Dispatcher::prepare_run(Client& client, TransactionRun* run) {
  run->client_id = client.id;
  run->protocol = client.protocol;
  run->reply_limit = client.out.limit();
  run->random = random_;
  run->notes_reads = (session_of(client).modes & Session::kTracks) != 0 && tracking_of(client).notes_reads();
}

bool Dispatcher::begin_effects(Client& client, TransactionRun& run) {
  Session& session = session_of(client);
  const WriteBatch& batch = written_batch();
  run.commit_time = batch.empty() ? 0 : batch.time();
  count_queued(client, run);
  // Messages from the effects to this client are pushes.
  if (!is_quiet(session) || run.effects.empty()) return true;
  session.wrote_pushes = true;
  return false;
}

void Dispatcher::write_replies(Client& client, TransactionRun& run, const ReadView& view, Reply& reply) {
  if (!run.is_script) reply.array(run.outcomes.size());
  for (TransactionRun::Part& part : run.parts) {
    if (part.out.overflown()) client.out.overflow();
    reply.out().take(part.out);
    if (part.after_commit == nullptr) continue;
    const Args args{part.last->list, part.last->shared};
    const ReadView at = run.view_in(part.database, view);
    client.seen_seq = std::max(client.seen_seq, run.seen_seq);
    Ctx ctx{env_, *part.last->command, args, part.last->keys, at, batch_, reply, session_of(client)};
    ctx.client = &client;
    ctx.client_id = client.id;
    ctx.now = now_;
    const ExecCtx exec{.first_op = part.first_op, .ops_end = part.ops_end};
    ctx.exec = &exec;
    part.after_commit(ctx);
  }
}

void Dispatcher::count_queued(Client& client, const TransactionRun& run) {
  for (const auto& [command, called] : run.called) {
    for (std::uint64_t i = 0; i < called.calls; ++i) counters_->call(command->index, called.nanos / called.calls);
    for (std::uint64_t i = 0; i < called.failed; ++i) counters_->failed(command->index);
  }
  for (const auto& [error, times] : run.called_errors) count_error(error);
  if (!run.called.empty()) count_reads(run.called_counts);
  for (const TransactionRun::Outcome& outcome : run.outcomes) {
    const QueuedCommand& queued = *outcome.queued;
    const Command& command = *queued.command;
    counters_->call(command.index, outcome.nanos);
    note_slow(client, command, Args{queued.list, queued.shared}, outcome.nanos, {});
    if (outcome.error.empty()) {
      count_reads(outcome.counts);
    } else {
      counters_->failed(command.index);
      count_error(outcome.error);
      if (!outcome.denied.allowed()) note_denial(env_, client, outcome.denied, outcome.user, command, queued.list, true);
    }
  }
}

}  // namespace ebbtide
