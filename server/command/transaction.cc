// MULTI and EXEC in dispatch: queueing, and running what was queued as one.
//
// A transaction is run like a command: against one view, into one batch, with one commit, so that all of it is visible or none.
// Its commands write into a batch of their own each, which joins the transaction's if the command does not fail, and read through
// PendingWrites what those before them wrote. Nothing leaves an attempt that does not count: replies, writes and the session are
// taken back, and the queue stays; nor is it counted. Before the first command runs, all keys of all of them are looked up, so
// that the disk is asked once.
//
// What writes holds the locks of its keys, as a single command does. A transaction that walks, or looks at several databases,
// holds all: a walk begins on a lease of its own, and another database's view is taken when it is come to, both later than the
// transaction's view, and nothing may be committed in between.
#include <algorithm>
#include <deque>
#include <optional>

#include "command/arg_cursor.h"
#include "command/dispatch.h"
#include "command/key_locks.h"
#include "store/pending_writes.h"

namespace ebbtide {
namespace {

/// What a queued argument costs beside its bytes.
constexpr std::uint64_t kArgumentBytes = 64;

/// Appends the operations of `from`.
void append(const WriteBatch& from, WriteBatch* to, PendingWrites* pending) {
  std::size_t cursor = 0;
  for (WriteBatch::Op op; from.next_op(&cursor, &op);) {
    if (pending != nullptr) pending->apply(op);
    const WriteBatch::PutOptions options{.stamp = op.stamp, .expiry = op.expiry};
    switch (op.kind) {
      case OpKind::kPut:
        op.shared != nullptr ? to->put_shared(op.tree, op.key, *op.shared, options) : to->put(op.tree, op.key, op.value, options);
        break;
      case OpKind::kTombstone:
        to->del(op.tree, op.key);
        break;
      case OpKind::kRangeTombstone:
        to->delete_range(op.tree, op.key, op.end);
        break;
      case OpKind::kFlushDatabase:
        to->flush_database(static_cast<DatabaseId>(op.lo));
        break;
      case OpKind::kSwapDatabases:
        to->swap_databases(static_cast<DatabaseId>(op.lo), static_cast<DatabaseId>(op.hi));
        break;
      case OpKind::kSecondaryDelete:
        to->delete_stamps(op.tree, op.lo, op.hi);
        break;
      case OpKind::kHeader:
      case OpKind::kCreateTree:
        break;  // no handler writes these
    }
  }
  to->rely_on_expiry(from.relied_expiry());
}

/// Held from before the view is taken until the commit is visible, as of a single command.
void lock(KeyLocks& locks, const Transaction& transaction, DatabaseId database, std::optional<KeyLocks::Guard>* guard) {
  if (!locks.enabled()) return;
  if (transaction.locks_all) guard->emplace(locks);
  if (transaction.locks_all || !transaction.writes) return;
  std::vector<std::uint16_t> stripes;
  for (const auto& [place, key] : transaction.watched) {
    stripes.push_back(KeyLocks::stripe_of({place.second, key.hash}, place.first));
  }
  for (const QueuedCommand& queued : transaction.queue) {
    for (const LookupKey& key : queued.keys) stripes.push_back(KeyLocks::stripe_of(key, database));
  }
  guard->emplace(locks, std::move(stripes));
}

}  // namespace

/// One run of a transaction: all that goes if it does not count.
struct Dispatcher::Attempt {
  /// Replies up to a command that has to write its own once the commit is known, and that command.
  struct Part {
    OutputBuffer out;
    const QueuedCommand* last = nullptr;
    void (*after_commit)(Ctx&) = nullptr;
    DatabaseId database = 0;                ///< in which it ran
    std::size_t first_op = 0, ops_end = 0;  ///< what it has written
  };
  struct Outcome {
    const QueuedCommand* queued;
    std::string error;  ///< "" = none
    std::uint64_t nanos;
    ReadCounts counts;
  };

  Attempt(Client& of, PendingWrites overlay) : client(of), writes(std::move(overlay)) { begin_part(); }
  void begin_part() { parts.emplace_back().out.set_limit(client.out.limit()); }
  /// The cursor behind the operations that are in the transaction's batch by now.
  std::size_t pass_ops(const WriteBatch& all) {
    for (WriteBatch::Op op; all.next_op(&cursor, &op);) {
    }
    return cursor;
  }

  Client& client;
  PendingWrites writes;
  WriteBatch batch;        ///< of the command at hand
  std::size_t cursor = 0;  ///< how far pass_ops has got
  std::deque<Part> parts;
  std::vector<Outcome> outcomes;
  std::vector<std::function<void()>> effects;  ///< to happen once it is committed
};

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
  // What has begun goes on; only what is new waits.
  if ((env_.observers->switches() & Observers::kPause) == 0 || pending.continuation != nullptr) return false;
  Client& client = *pending.client;
  const bool queues = (session_of(client).modes & Session::kInTransaction) != 0 && !spec.has(kImmediate);
  if (queues || spec.container == "client") return false;
  const Transaction* transaction = transaction_of(client);
  const bool writes = spec.has(kWrite | kMayReplicate) || spec.name == "publish" || spec.name == "spublish" ||
                      (spec.has(kRunsQueue) && transaction != nullptr && transaction->writes);
  const std::uint32_t ms = env_.observers->paused_for(nanos_ / 1'000'000, writes);
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

void Dispatcher::run_observed(PendingCommand& pending, const Prepared& prepared) {
  Client& client = *pending.client;
  const CommandSpec& spec = *prepared.command->spec;
  const Session& session = session_of(client);
  Observers& observers = *env_.observers;
  if (hold_back(pending, spec)) return;
  if ((session.modes & Session::kPaused) != 0) {
    state_of(client).paused.reset();
    session_of(client).modes &= static_cast<std::uint8_t>(~Session::kPaused);
  }
  if (session.modes != 0 && !admit(pending, prepared)) return;
  const DatabaseId database = session.database;
  const std::span<const LookupKey> keys(keys_.data() + prepared.first_key, prepared.keys);
  Tracking* tracking = (session.modes & Session::kTracks) != 0 ? &tracking_of(client) : nullptr;
  if (tracking != nullptr && spec.has(kReadOnly) && tracking->notes_reads()) observers.note_reads(client.id, keys);
  PresentKeys had;
  const std::uint32_t asked = observers.notify_flags() & (kNotifyMiss | kNotifyNew);
  if (asked != 0) had = which_are_there(keys, database);
  if (observers.expiries.on()) {
    for (const LookupKey& key : keys) {
      if (observers.expiries.take_due(database, key.key, now_)) observers.expired(database, key.key, client.loop);
    }
  }
  failed_ = false;
  batch_.clear();
  const std::uint64_t start = nanos_;
  run_admitted(pending, prepared);
  if (pending.state == PendingCommand::State::kDone) {
    if (tracking != nullptr && observers.expiries.on()) watch_what_was_read(keys, database);
    // Afterwards, as Redis: SELECT is shown with the database that it selects.
    show(client, *prepared.command, pending.args, session.database);
    // finish() has noted it if a millisecond has passed, or if it had to wait.
    if ((observers.switches() & Observers::kQuick) != 0 && !noted_) {
      note_slow(client, *prepared.command, pending.args, nanos_ - std::min(nanos_, start), {});
    }
    if (tracking != nullptr && spec.container != "client" && (session.modes & Session::kInTransaction) == 0) {
      tracking->caching.reset();
    }
    if (!failed_ && (asked & kNotifyMiss) != 0) {
      observers.missed(*prepared.command, pending.args, keys, had, database, client.loop, client.seen_seq);
    }
  }
  // EXEC has told of its commands itself.
  if (batch_.empty() || batch_.first_seq() == 0 || spec.has(kRunsQueue)) return;
  observers.committed({*prepared.command, pending.args, database, batch_, batch_.last_seq(), had, batch_.time()}, client);
}

// What a client-side cache now holds is told of when it expires. It was just read, and is looked up where it is at hand.
void Dispatcher::watch_what_was_read(std::span<const LookupKey> keys, DatabaseId database) {
  MissSet misses;
  const ReadView view = view_of(database, ReadMode::kResident, &misses);
  for (const LookupKey& key : keys) {
    Found found;
    if (view.has_tree() && view.get({key.key, key.hash}, &found).is_ok())
      env_.observers->expiries.seen(database, key.key, found.expiry);
  }
}

// Reads from disk if it must: whoever wants to hear of new and of missing keys pays for it.
PresentKeys Dispatcher::which_are_there(std::span<const LookupKey> keys, DatabaseId database) const {
  PresentKeys had;
  const ReadView view = view_of(database, ReadMode::kBlocking, nullptr);
  for (const LookupKey& key : keys) {
    Found found;
    if (view.has_tree() && view.get({key.key, key.hash}, &found).is_ok()) had.insert(key.key);
  }
  return had;
}

void Dispatcher::show(const Client& client, const Command& command, const Args& args, DatabaseId database) {
  if ((env_.observers->switches() & Observers::kMonitor) == 0) return;
  // Neither what administrates nor what carries a password.
  if (command.spec->has(kAdmin) || command.spec->name == "auth" || command.spec->name == "hello") return;
  env_.observers->show_command(args, database, client, env_.control->unix_micros());
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
    std::uint64_t bytes = sizeof(QueuedCommand) + kArgumentBytes * args.size();
    std::size_t text_bytes = 0;
    for (std::size_t i = 0; i < args.size(); ++i) (args.shared(i) != nullptr ? bytes : text_bytes) += args[i].size();
    for (const LookupKey& key : keys) text_bytes += key.key.size();
    if (!transaction.charge(bytes + text_bytes)) {
      transaction.forget_queue();
      return reject(pending, prepared.command, Status::out_of_memory("the transaction's commands did not fit into memory"));
    }
    QueuedCommand& queued = transaction.queue.emplace_back();
    queued.command = prepared.command;
    queued.text.reserve(text_bytes);  // so that it stays where it is
    const auto keep = [&text = queued.text](Bytes part) {
      text += part;
      return Bytes(text).substr(text.size() - part.size());
    };
    queued.shared.assign(args.shared_list.begin(), args.shared_list.end());
    for (std::size_t i = 0; i < args.size(); ++i) {
      const auto shared = args.shared(i);
      queued.list.push_back(shared != nullptr ? Bytes(*shared) : keep(args[i]));
    }
    for (const LookupKey& key : keys) queued.keys.push_back({keep(key.key), key.hash});
    transaction.writes |= spec.has(kWrite | kMayReplicate);
    transaction.synced |= spec.has(kReplySynced);
    transaction.selects |= spec.name == "select";
    const bool walks = spec.has(kOffload) && spec.has(kReadOnly) && spec.keys.first == 0;
    transaction.locks_all |= spec.has(kLockAll) || transaction.selects || walks;
  }
  Reply reply(&client.out, client.protocol);
  const Reply::Mark mark = reply.mark();
  reply.simple("QUEUED");
  end_of_command(pending, reply, mark);
}

Status Dispatcher::run_transaction(PendingCommand& pending, bool block, bool waited, Reply& reply) {
  Client& client = *pending.client;
  Session& session = session_of(client);
  batch_.clear();
  stall_ms_ = 0;
  Transaction* transaction = transaction_of(client);
  if (transaction == nullptr || !transaction->open) return reply_error("ERR EXEC without MULTI");
  if (transaction->failed) return reply_error("EXECABORT Transaction discarded because of previous errors.");
  MissSet& misses = misses_of(pending);
  const Reply::Mark mark = reply.mark();
  const Session before = session;
  const int protocol = client.protocol;
  for (int i = 0; i < kMaxRetries; ++i) {
    batch_.clear();
    std::optional<KeyLocks::Guard> guard;
    lock(*env_.locks, *transaction, session.database, &guard);
    const ReadView view = view_of(session.database, block ? ReadMode::kBlocking : ReadMode::kResident, &misses);
    client.seen_seq = std::max(client.seen_seq, view.seq());
    const Status status = attempt_transaction(client, waited, view, reply);
    if (status.is_ok()) return status;
    reply.rollback(mark);
    session = before;
    client.protocol = protocol;
    if (status.is_not_resident() || stall_ms_ != 0) return status;
    if (status.code() != Code::kRetry) return transaction_discarded(status);
    misses.pages.clear();
    counters_->retries.add(1);
    now_ = env_.now();
  }
  return transaction_discarded(Status::busy("expiries passed during each of " + std::to_string(kMaxRetries) + " attempts"));
}

ReadView Dispatcher::view_in(DatabaseId database, const ReadView& view, Client& client) const {
  if (database == view.database()) return view;
  ReadView other = view_of(database, view.mode(), view.misses());
  client.seen_seq = std::max(client.seen_seq, other.seq());
  return other;
}

Status Dispatcher::look_ahead(Client& client, const ReadView& view, bool* changed) const {
  const Transaction& transaction = *transaction_of(client);
  bool resident = true;
  Status failure;
  const auto look = [&](const ReadView& at, const LookupKey& key, Found* found) {
    const Status status = at.get(key, found);
    resident &= !status.is_not_resident();
    if (!status.is_ok() && !status.is_not_found() && !status.is_not_resident()) failure = status;
    return status;
  };
  for (const auto& [place, watched] : transaction.watched) {
    Found found;
    const Status status = look(view_in(place.first, view, client), {place.second, watched.hash}, &found);
    if (status.is_ok()) *changed |= !watched.present || found.seq != watched.entry_seq;
    if (status.is_not_found()) *changed |= watched.present || found.seq > watched.seen_seq;
  }
  if (!failure.is_ok()) return failure;
  if (*changed) return Status::ok();
  // In which database the keys behind a SELECT are is not known yet.
  const bool looks = !transaction.selects && view.mode() != ReadMode::kBlocking;
  for (std::size_t i = 0; looks && i < transaction.queue.size(); ++i) {
    const QueuedCommand& queued = transaction.queue[i];
    if (queued.command->spec->keys.blind(queued.list.size())) continue;
    for (const LookupKey& key : queued.keys) {
      Found found;
      (void)look(view, key, &found);
    }
  }
  return resident ? Status::ok() : Status::not_resident();
}

Status Dispatcher::attempt_transaction(Client& client, bool waited, const ReadView& view, Reply& reply) {
  Session& session = session_of(client);
  bool changed = false;
  TRY(look_ahead(client, view, &changed));
  if (changed) {
    reply.null_array();
    return Status::ok();
  }
  Attempt attempt(client, PendingWrites(env_.db, now_, view.mode(), view.misses()));
  for (const QueuedCommand& queued : transaction_of(client)->queue) {
    TRY(run_queued(queued, view_in(session.database, view, client), attempt));
  }
  if (!batch_.empty()) {
    TRY(env_.db->try_commit(batch_, waited, &stall_ms_));
    client.seen_seq = std::max(client.seen_seq, batch_.last_seq());
  }
  count_queued(attempt);
  // What the effects send this very client are pushes.
  if (is_quiet(session) && !attempt.effects.empty()) {
    session.wrote_pushes = true;
  } else {
    write_replies(attempt, view, reply);
  }
  for (const auto& effect : attempt.effects) effect();
  return Status::ok();
}

void Dispatcher::write_replies(Attempt& attempt, const ReadView& view, Reply& reply) {
  Client& client = attempt.client;
  reply.array(attempt.outcomes.size());
  for (Attempt::Part& part : attempt.parts) {
    if (part.out.overflown()) client.out.overflow();
    reply.out().take(part.out);
    if (part.after_commit == nullptr) continue;
    const Args args{part.last->list, part.last->shared};
    const ReadView at = view_in(part.database, view, client);
    Ctx ctx{env_, *part.last->command, args, part.last->keys, at, batch_, reply, session_of(client)};
    ctx.client = &client;
    ctx.client_id = client.id;
    ctx.now = now_;
    ctx.first_op = part.first_op;
    ctx.ops_end = part.ops_end;
    part.after_commit(ctx);
  }
}

void Dispatcher::count_queued(const Attempt& attempt) {
  for (const Attempt::Outcome& outcome : attempt.outcomes) {
    const QueuedCommand& queued = *outcome.queued;
    const Command& command = *queued.command;
    counters_->call(command.index, outcome.nanos);
    note_slow(attempt.client, command, Args{queued.list, queued.shared}, outcome.nanos, {});
    if (outcome.error.empty()) {
      count_reads(outcome.counts);
    } else {
      counters_->failed(command.index);
      count_error(outcome.error);
    }
  }
}

void Dispatcher::observe_later(Attempt& attempt, const QueuedCommand& queued, DatabaseId database, PresentKeys had, bool failed) {
  Observers& observers = *env_.observers;
  Client& client = attempt.client;
  if (!failed && (observers.notify_flags() & kNotifyMiss) != 0) {
    attempt.effects.push_back([&observers, &client, &queued, had, database] {
      const Args args{queued.list, queued.shared};
      observers.missed(*queued.command, args, queued.keys, had, database, client.loop, client.seen_seq);
    });
  }
  if ((observers.switches() & Observers::kMonitor) != 0) {
    attempt.effects.push_back([this, &client, &queued, selected = session_of(client).database] {
      show(client, *queued.command, Args{queued.list, queued.shared}, selected);
    });
  }
  if (observers.switches() == 0 || attempt.batch.empty()) return;
  auto batch = std::make_shared<WriteBatch>();
  append(attempt.batch, batch.get(), nullptr);
  attempt.effects.push_back([this, &observers, &client, &queued, database, batch, had = std::move(had)] {
    const Args args{queued.list, queued.shared};
    observers.committed({*queued.command, args, database, *batch, client.seen_seq, had, batch_.time()}, client);
  });
}

Status Dispatcher::run_queued(const QueuedCommand& queued, const ReadView& view, Attempt& attempt) {
  const std::uint64_t start = env_.control->mono_nanos();
  Client& client = attempt.client;
  const CommandSpec& spec = *queued.command->spec;
  Attempt::Part& part = attempt.parts.back();
  attempt.batch.clear();
  Reply reply(&part.out, client.protocol);
  const Reply::Mark mark = reply.mark();
  const Args args{queued.list, queued.shared};
  Ctx ctx{env_, *queued.command, args, queued.keys, view, attempt.batch, reply, session_of(client)};
  ctx.client = &client;
  ctx.client_id = client.id;
  ctx.now = now_;
  ctx.random = next_random();
  ctx.pending = &attempt.writes;
  ctx.effects = &attempt.effects;
  if ((session_of(client).modes & Session::kTracks) != 0 && spec.has(kReadOnly) && tracking_of(client).notes_reads()) {
    env_.observers->note_reads(client.id, queued.keys);
  }
  PresentKeys had;
  if ((env_.observers->notify_flags() & (kNotifyNew | kNotifyMiss)) != 0) {
    for (const LookupKey& key : queued.keys) {
      std::optional<Found> found;
      TRY(ctx.strings().get_any(key, &found));
      if (found) had.insert(key.key);
    }
    ctx.counts = {};
  }
  const Status status = spec.run(ctx);
  if (status.is_not_resident()) return status;
  // What asks the engine itself may have seen more than the view has.
  if (spec.has(kOffload) && env_.db != nullptr) client.seen_seq = std::max(client.seen_seq, env_.db->visible_seq());
  std::string error;
  if (!status.is_ok()) {
    error = error_reply(status);
    attempt.batch.clear();
    reply.rollback(mark);
    reply.error(error);
  }
  observe_later(attempt, queued, view.database(), std::move(had), !status.is_ok());
  if (status.is_ok()) {
    const bool ends_part = ctx.after_commit != nullptr;
    if (ends_part) part.first_op = attempt.pass_ops(batch_);
    append(attempt.batch, &batch_, &attempt.writes);
    if (ends_part) {
      part.last = &queued;
      part.after_commit = ctx.after_commit;
      part.database = view.database();
      part.ops_end = attempt.pass_ops(batch_);
      attempt.begin_part();
    }
  }
  attempt.outcomes.push_back({&queued, std::move(error), env_.control->mono_nanos() - start, ctx.counts});
  return Status::ok();
}

}  // namespace ebbtide
