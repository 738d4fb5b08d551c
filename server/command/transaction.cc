// MULTI and EXEC in dispatch: queueing, and running what was queued as one.
//
// A transaction is run like a command: against one view, into one batch, with one commit, so that all of it is visible or none.
// Its commands write into a batch of their own each, which joins the transaction's if the command does not fail, and read through
// PendingWrites what those before them wrote. Nothing leaves an attempt that does not count: replies, writes and the session are
// taken back, and the queue stays. Before the first command runs, all keys of all of them are looked up, so that the disk is
// asked once.
#include <algorithm>
#include <deque>
#include <optional>

#include "command/arg_cursor.h"
#include "command/dispatch.h"
#include "command/key_locks.h"
#include "store/pending_writes.h"

namespace ebbtide {
namespace {

constexpr int kMaxRetries = 16;
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
  if (!locks.enabled() || !transaction.writes) return;
  if (transaction.locks_all || transaction.selects) {
    guard->emplace(locks);
    return;
  }
  std::vector<std::uint16_t> stripes;
  for (const WatchedKey& key : transaction.watched) stripes.push_back(KeyLocks::stripe_of(key.lookup(), key.database));
  for (const QueuedCommand& queued : transaction.queue) {
    for (const LookupKey& key : queued.keys) stripes.push_back(KeyLocks::stripe_of(key, database));
  }
  guard->emplace(locks, std::move(stripes));
}

}  // namespace

/// Replies up to a command that has to write its own once the commit is known.
struct Dispatcher::Part {
  OutputBuffer out;
  const QueuedCommand* last = nullptr;
  void (*after_commit)(Ctx&) = nullptr;
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

void Dispatcher::run_observed(PendingCommand& pending, const Prepared& prepared) {
  Client& client = *pending.client;
  const CommandSpec& spec = *prepared.command->spec;
  const Session& session = session_of(client);
  // What has begun goes on; CLIENT PAUSE holds back what is new.
  if ((env_.observers->switches() & Observers::kPause) != 0 && pending.continuation == nullptr) {
    const Transaction* transaction = transaction_of(client);
    const bool queues = (session.modes & Session::kInTransaction) != 0 && !spec.has(kImmediate);
    const bool writes = spec.has(kWrite | kMayReplicate) || spec.name == "publish" || spec.name == "spublish" ||
                        (spec.has(kRunsQueue) && transaction != nullptr && transaction->writes);
    const std::uint32_t ms = queues || spec.container == "client" ? 0 : env_.observers->paused_for(nanos_ / 1'000'000, writes);
    if (ms != 0) {
      pending.retry_ms = ms;
      pending.state = PendingCommand::State::kWaiting;
      client.waiting = true;
      return;
    }
  }
  pending.retry_ms = 0;
  if (session.modes != 0 && !admit(pending, prepared)) return;
  const DatabaseId database = session.database;
  Tracking* tracking = (session.modes & Session::kTracks) != 0 ? &tracking_of(client) : nullptr;
  if (tracking != nullptr && spec.has(kReadOnly) && tracking->notes_reads()) {
    env_.observers->note_reads(client.id, std::span<const LookupKey>(keys_.data() + prepared.first_key, prepared.keys));
  }
  const std::span<const LookupKey> keys(keys_.data() + prepared.first_key, prepared.keys);
  std::vector<bool> there;
  if (pending.continuation == nullptr && (env_.observers->notify_flags() & (kNotifyMiss | kNotifyNew)) != 0) {
    there = which_are_there(keys, database);
  }
  if (env_.observers->expiries.on()) {
    for (const LookupKey& key : keys) {
      if (env_.observers->expiries.take_due(database, key.key, now_)) env_.observers->expired(database, key.key, client.loop);
    }
  }
  failed_ = false;
  batch_.clear();
  batch_.set_header(0, 0, 0);
  const std::uint64_t start = nanos_, before_ms = now_nanos_;
  run_admitted(pending, prepared);
  if (tracking != nullptr && pending.state == PendingCommand::State::kDone && env_.observers->expiries.on()) {
    watch_what_was_read(keys, database);
  }
  // Afterwards, as Redis: SELECT is shown with the database that it selects.
  if (pending.state == PendingCommand::State::kDone) show(client, *prepared.command, pending.args, session.database);
  // finish() has looked if a millisecond has passed.
  if ((env_.observers->switches() & Observers::kQuick) != 0 && pending.state == PendingCommand::State::kDone &&
      now_nanos_ == before_ms) {
    note_slow(pending, *prepared.command, nanos_ - std::min(nanos_, start));
  }
  if (tracking != nullptr && spec.container != "client" && pending.state == PendingCommand::State::kDone &&
      (session.modes & Session::kInTransaction) == 0) {
    tracking->caching.reset();
  }
  if (pending.state == PendingCommand::State::kDone && !failed_ && !there.empty() &&
      (env_.observers->notify_flags() & kNotifyMiss) != 0) {
    env_.observers->missed(*prepared.command, pending.args, keys, there, database, client.loop, client.seen_seq);
  }
  // EXEC has told of its commands itself.
  if (batch_.empty() || batch_.first_seq() == 0 || spec.has(kRunsQueue)) return;
  std::vector<std::string> had;
  for (std::size_t i = 0; i < there.size(); ++i) {
    if (there[i]) had.emplace_back(keys[i].key);
  }
  env_.observers->committed({*prepared.command, pending.args, database, batch_, batch_.last_seq(), had}, client);
}

// What a client-side cache now holds is told of when it expires. It was just read, and is looked up where it is at hand.
void Dispatcher::watch_what_was_read(std::span<const LookupKey> keys, DatabaseId database) {
  MissSet misses;
  const ReadView view = env_.db->view(database, now_, ReadMode::kResident, &misses);
  for (const LookupKey& key : keys) {
    Found found;
    if (view.has_tree() && view.get({key.key, key.hash}, &found).is_ok())
      env_.observers->expiries.seen(database, key.key, found.expiry);
  }
}

// Reads from disk if it must: whoever wants to hear of new and of missing keys pays for it.
std::vector<bool> Dispatcher::which_are_there(std::span<const LookupKey> keys, DatabaseId database) const {
  std::vector<bool> there;
  const ReadView view = env_.db->view(database, now_, ReadMode::kBlocking, nullptr);
  for (const LookupKey& key : keys) {
    Found found;
    there.push_back(view.has_tree() && view.get({key.key, key.hash}, &found).is_ok());
  }
  return there;
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
    std::uint64_t bytes = sizeof(QueuedCommand);
    for (const Bytes argument : pending.args) bytes += kArgumentBytes + argument.size();
    if (!transaction.charge(bytes)) {
      transaction.forget_queue();
      return reject(pending, prepared.command, Status::out_of_memory("the transaction's commands did not fit into memory"));
    }
    QueuedCommand& queued = transaction.queue.emplace_back();
    queued.command = prepared.command;
    queued.shared.assign(pending.args.shared_list.begin(), pending.args.shared_list.end());
    for (std::size_t i = 0; i < pending.args.size(); ++i) {
      const auto shared = pending.args.shared(i);
      queued.list.push_back(shared != nullptr ? Bytes(*shared) : Bytes(queued.storage.emplace_back(pending.args[i])));
    }
    for (std::uint32_t k = 0; k < prepared.keys; ++k) {
      const LookupKey& key = keys_[prepared.first_key + k];
      queued.keys.push_back({queued.escaped.emplace_back(key.key), key.hash});
    }
    transaction.writes |= spec.has(kWrite | kMayReplicate);
    transaction.locks_all |= spec.has(kLockAll);
    transaction.synced |= spec.has(kReplySynced);
    transaction.selects |= spec.name == "select";
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
    const ReadView view = env_.db->view(session.database, now_, block ? ReadMode::kBlocking : ReadMode::kResident, &misses);
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
    now_ = env_.db->now();
  }
  return transaction_discarded(Status::busy("expiries passed during each of " + std::to_string(kMaxRetries) + " attempts"));
}

Status Dispatcher::look_ahead(const Transaction& transaction, const ReadView& view, bool* changed) {
  bool resident = true;
  Status failure;
  const auto look = [&](const ReadView& at, const LookupKey& key, Found* found) {
    const Status status = at.get(key, found);
    resident &= !status.is_not_resident();
    if (!status.is_ok() && !status.is_not_found() && !status.is_not_resident()) failure = status;
    return status;
  };
  for (const WatchedKey& watched : transaction.watched) {
    const ReadView at =
        watched.database == view.database() ? view : env_.db->view(watched.database, now_, view.mode(), view.misses());
    Found found;
    const Status status = look(at, watched.lookup(), &found);
    if (status.is_ok()) *changed |= !watched.present || found.seq != watched.entry_seq;
    if (status.is_not_found()) *changed |= watched.present || found.seq > watched.seen_seq;
  }
  if (!failure.is_ok()) return failure;
  if (*changed) return Status::ok();
  // In which database the keys behind a SELECT are is not known yet.
  for (const QueuedCommand& queued : transaction.queue) {
    if (transaction.selects || view.mode() == ReadMode::kBlocking) break;
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
  const Transaction& transaction = *transaction_of(client);
  bool changed = false;
  TRY(look_ahead(transaction, view, &changed));
  if (changed) {
    reply.null_array();
    return Status::ok();
  }
  effects_.clear();
  const Reply::Mark begin = reply.mark();
  PendingWrites pending_writes(*env_.db, now_, view.mode(), view.misses());
  std::deque<Part> parts(1);
  parts.back().out.set_limit(client.out.limit());
  for (const QueuedCommand& queued : transaction.queue) {
    const ReadView at =
        session.database == view.database() ? view : env_.db->view(session.database, now_, view.mode(), view.misses());
    TRY(run_queued(client, queued, at, pending_writes, parts.back()));
    if (parts.back().after_commit != nullptr) parts.emplace_back().out.set_limit(client.out.limit());
  }
  if (!batch_.empty()) {
    TRY(env_.db->try_commit(batch_, waited, &stall_ms_));
    client.seen_seq = std::max(client.seen_seq, batch_.last_seq());
  }
  reply.array(transaction.queue.size());
  for (Part& part : parts) {
    if (part.out.overflown()) client.out.overflow();
    reply.out().take(part.out);
    if (part.after_commit == nullptr) continue;
    const Args args{part.last->list, part.last->shared};
    Ctx ctx{env_, *part.last->command, args, part.last->keys, view, batch_, reply, session};
    ctx.client = &client;
    ctx.client_id = client.id;
    ctx.now = now_;
    part.after_commit(ctx);
  }
  // What the effects send this very client are pushes.
  if (is_quiet(session) && !effects_.empty()) {
    reply.rollback(begin);
    session.wrote_pushes = true;
  }
  for (const auto& effect : effects_) effect();
  return Status::ok();
}

void Dispatcher::observe_later(Client& client, const QueuedCommand& queued, DatabaseId database, std::vector<std::string> had) {
  auto batch = std::make_shared<WriteBatch>();
  append(command_batch_, batch.get(), nullptr);
  effects_.push_back([this, &client, &queued, database, batch, had = std::move(had)] {
    const Args args{queued.list, queued.shared};
    env_.observers->committed({*queued.command, args, database, *batch, client.seen_seq, had}, client);
  });
}

Status Dispatcher::run_queued(Client& client, const QueuedCommand& queued, const ReadView& view, PendingWrites& pending_writes,
                              Part& part) {
  const std::uint64_t start = env_.control->mono_nanos();
  const CommandSpec& spec = *queued.command->spec;
  command_batch_.clear();
  Reply reply(&part.out, client.protocol);
  const Reply::Mark mark = reply.mark();
  const Args args{queued.list, queued.shared};
  Ctx ctx{env_, *queued.command, args, queued.keys, view, command_batch_, reply, session_of(client)};
  ctx.client = &client;
  ctx.client_id = client.id;
  ctx.now = now_;
  ctx.random = next_random();
  ctx.pending = &pending_writes;
  ctx.effects = &effects_;
  if ((session_of(client).modes & Session::kTracks) != 0 && spec.has(kReadOnly) && tracking_of(client).notes_reads()) {
    env_.observers->note_reads(client.id, queued.keys);
  }
  std::vector<std::string> had;
  if ((env_.observers->notify_flags() & (kNotifyNew | kNotifyMiss)) != 0) {
    std::vector<bool> there;
    for (const LookupKey& key : queued.keys) {
      std::optional<Found> found;
      TRY(ctx.strings().get_any(key, &found));
      there.push_back(found.has_value());
      if (found) had.emplace_back(key.key);
    }
    ctx.counts = {};
    if ((env_.observers->notify_flags() & kNotifyMiss) != 0) {
      effects_.push_back([this, &client, &queued, there, database = view.database()] {
        const Args asked{queued.list, queued.shared};
        env_.observers->missed(*queued.command, asked, queued.keys, there, database, client.loop, client.seen_seq);
      });
    }
  }
  const Status status = spec.run(ctx);
  if (status.is_not_resident()) return status;
  // What asks the engine itself may have seen more than the view has.
  if (spec.has(kOffload)) client.seen_seq = std::max(client.seen_seq, env_.db->visible_seq());
  if ((env_.observers->switches() & Observers::kMonitor) != 0) {
    effects_.push_back([this, &client, &queued, database = session_of(client).database] {
      show(client, *queued.command, Args{queued.list, queued.shared}, database);
    });
  }
  if (status.is_ok()) {
    if (env_.observers->switches() != 0 && !command_batch_.empty())
      observe_later(client, queued, view.database(), std::move(had));
    append(command_batch_, &batch_, &pending_writes);
    part.last = &queued;
    part.after_commit = ctx.after_commit;
    counters_->keyspace_hits.add(ctx.counts.hits);
    counters_->keyspace_misses.add(ctx.counts.misses);
  } else {
    reply.rollback(mark);
    send_error(reply, status);
    counters_->failed(queued.command->index);
  }
  counters_->call(queued.command->index, env_.control->mono_nanos() - start);
  return Status::ok();
}

}  // namespace ebbtide
