// The loop's part of commands that run off it: the loop sends the inputs to a thread, and takes back the results.
#include "dispatch/off_loop.h"

#include <algorithm>
#include <span>
#include <utility>

#include "dispatch/arg_cursor.h"
#include "dispatch/command_keys.h"
#include "dispatch/dispatch_state.h"
#include "dispatch/dispatcher.h"
#include "dispatch/transaction_run.h"

namespace ebbtide {
namespace {

/// The most keys that TrackingTable notes under one lock.
constexpr std::size_t kKeysAtOnce = 1024;
/// The memory of a collected key: its entry in `keys`, and its hash among the marks, in a vector that grows by doubling.
constexpr std::uint64_t kKeyBytes = sizeof(LookupKey) + 2 * sizeof(std::uint64_t);
/// Estimated memory of an entry in `had`.
constexpr std::uint64_t kHadBytes = 64;

}  // namespace

Status OffLoopWork::charge_keys(std::size_t count) {
  keys_charge.release();
  const std::uint64_t bytes = kKeyBytes * count;
  if (bytes > kLargeValueBytes && env->db != nullptr) {  // fewer bytes are not charged, as in Ctx::reserve()
    if (!env->db->try_charge(MemoryAccount::Kind::kCommands, bytes)) return refused_charge(env->db->memory(), bytes);
    keys_charge.took(env->db->memory(), MemoryAccount::Kind::kCommands, bytes);
  }
  keys.reserve(count);
  return Status::ok();
}

void OffLoopWork::forget_keys() {
  keys = {};
  escaped = {};
  keys_charge.release();
}

Status OffLoopWork::collect_reads() {
  keys.clear();
  const KeySpec& places = command->spec->keys;
  const int last = last_key(places, args.list);
  if (places.first == 0 || last < places.first) return Status::ok();
  TRY(charge_keys(static_cast<std::size_t>((last - places.first) / places.step) + 1));
  std::size_t escaped_used = 0;
  TRY(collect_keys(command->spec->keys, args, &keys, &escaped, &escaped_used));
  if (!reports_keys || !notes_reads) return Status::ok();
  // The keys are noted in groups, since the event loops need the table's lock in between.
  for (std::size_t i = 0; i < keys.size(); i += kKeysAtOnce) {
    env->observers->tracking.note_reads(client_id, std::span(keys).subspan(i, std::min(kKeysAtOnce, keys.size() - i)));
  }
  return Status::ok();
}

Status OffLoopWork::look_before(const ReadView& view) {
  if (!reports_keys || env->db == nullptr) return Status::ok();
  Observers& observers = *env->observers;
  const Millis now = env->now();
  for (const LookupKey& key : keys) {
    if (!observers.expiries.on()) break;
    if (observers.expiries.take_due(database, key.key, now)) observers.expired(database, key.key, nullptr);
  }
  had.clear();
  if ((observers.notifications.flags() & (kNotifyMiss | kNotifyNew)) == 0) return Status::ok();
  had_charge.release();
  const std::uint64_t bytes = kHadBytes * keys.size();
  if (!env->db->try_charge(MemoryAccount::Kind::kCommands, bytes)) return refused_charge(env->db->memory(), bytes);
  had_charge.took(env->db->memory(), MemoryAccount::Kind::kCommands, bytes);
  for (const LookupKey& key : keys) {
    Found found;
    if (view.has_tree() && view.locate(key, &found).is_ok()) had.insert(key.key);
  }
  return Status::ok();
}

void OffLoopWork::look_after(const ReadView& view) {
  if (!reports_keys || env->db == nullptr) return;
  Observers& observers = *env->observers;
  for (const LookupKey& key : keys) {
    if (!tracks || !observers.expiries.on()) break;
    Found found;
    if (view.has_tree() && view.locate(key, &found).is_ok()) observers.expiries.seen(database, key.key, found, view.now());
  }
  if ((observers.notifications.flags() & kNotifyMiss) == 0) return;
  effects.push_back([this, progress = Notifications::Misses()](const Origin& origin, const Slice& slice) mutable {
    return env->observers->notifications.missed(*command, args, keys, had, database, origin.loop, origin.seen_seq, &progress,
                                                slice);
  });
}

Status OffLoopRun::attempt(Reply& reply) {
  TRY(collect_reads());
  const ReadView view = env->db == nullptr ? ReadView() : env->db->lease(session.database);
  effects.clear();
  TRY(look_before(view));
  WriteBatch batch;
  Ctx ctx{*env, *command, args, keys, view, batch, reply, session};
  ctx.client_id = client_id;
  ctx.now = env->now();
  ctx.random = random;
  OffLoopCtx off_loop{.cancelled = &client_gone,
                      .on_short_thread = threads == OffloadClass::kShort,
                      .waited_ms = waited_ms,
                      .unblocked = unblocked,
                      .effects = &effects};
  ctx.off_loop = &off_loop;
  const Status ran = command->spec->run(ctx);
  // A handler may query the engine directly, for counts or a tree's description. It may then have seen operations that are not in
  // its view. Commands without kReadOnly or kWrite, such as INFO, read no data: they reply even while the log cannot be written.
  if (env->db != nullptr && command->spec->has(kReadOnly | kWrite)) seen_seq = std::max(seen_seq, env->db->visible_seq());
  wants_long = off_loop.wants_long;
  did_much = ~std::uint64_t{0} - ctx.work_left > Dispatcher::kLoopWorkBytes;
  TRY(ran);
  look_after(view);
  charge = std::move(ctx.charge);
  again_ms = off_loop.again_ms;
  counts = ctx.counts;
  // Only loops may lock keys and commit.
  if (!batch.empty()) return reply_error("ERR '" + command->full_name + "' tried to write outside its event loop");
  return Status::ok();
}

void OffLoopRun::run() {
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

void Dispatcher::send_off_loop(PendingCommand& pending, const Prepared& prepared, OffLoopWork& work) {
  Client& client = *pending.client;
  work.env = &env_;
  work.command = prepared.command;
  work.args = pending.args;
  session_of(client).last_command = prepared.command;  // CLIENT LIST shows it
  work.session = session_of(client);
  work.protocol = client.protocol;
  work.out.set_limit(client.out.limit());
  work.client_id = client.id;
  work.loop = client.loop;
  work.random = random_of(pending);
  work.database = work.session.database;
  work.address = client.address;
  work.reports_keys = prepared.long_by_arguments;
  work.tracks = (work.session.modes & Session::kTracks) != 0;
  const CommandSpec& spec = *prepared.command->spec;
  const bool reads_keys = (spec.has(kReadOnly) && spec.keys.first != 0) || spec.has(kRunsQueue);
  if (work.tracks && reads_keys) keep_invalidations(client);
  work.notes_reads = work.tracks && spec.has(kReadOnly | kRunsQueue) && tracking_of(client).notes_reads();
  misses_of(pending).clear();
  counters_->offloaded.add(1);
}

void Dispatcher::leave_waiting(PendingCommand& pending) {
  pending.state = PendingCommand::State::kWaiting;
  pending.client->waiting = true;
}

void Dispatcher::start_offload(PendingCommand& pending, const Prepared& prepared) {
  Client& client = *pending.client;
  auto job = std::make_shared<OffLoopRun>();
  send_off_loop(pending, prepared, *job);
  Waiting& waiting = waiting_of(pending);
  if (prepared.command->spec->has(kBlocking)) {
    if (!waiting.blocked) {
      waiting.blocked_since = nanos_;
      waiting.blocked.emplace(*env_.blocked, client);
    }
    job->waited_ms = (nanos_ - waiting.blocked_since) / kNanosPerMilli;
    job->unblocked = waiting.blocked->end() == BlockedClients::End::kTimeout;
  }
  // ACL SETUSER may match subscriptions for seconds. CLIENT KILL must be able to end that, so CLIENT commands have other threads.
  const CommandSpec& spec = *prepared.command->spec;
  if (spec.has(kNeverInline)) job->threads = spec.group == Group::kConnection ? OffloadClass::kClients : OffloadClass::kControl;
  if (prepared.command->spec->has(kLong)) job->threads = OffloadClass::kLong;
  waiting.job = job;
  leave_waiting(pending);
  begin_wait(waiting, Stage::kThread);
  const OffloadClass threads = job->threads;
  env_.offload->submit(threads, std::move(job));
}

void Dispatcher::wait_for_sync(PendingCommand& pending, const Prepared& prepared, std::shared_ptr<OffLoopRun> job,
                               std::uint64_t start) {
  Client& client = *pending.client;
  refresh_time();
  job->env = &env_;
  job->command = prepared.command;
  job->client_id = client.id;
  job->loop = client.loop;
  // A purge ticket covers earlier deletes, too, so its reply waits for the sync even if this command has deleted nothing.
  job->seen_seq = batch_.empty() ? env_.db->visible_seq() : batch_.last_seq();
  job->nanos = nanos_ - start;
  large_commit_ = 0;  // the wait for the sync is counted in `waits`
  Waiting& waiting = waiting_of(pending);
  waiting.job = job;
  begin_wait(waiting, Stage::kWal);
  leave_waiting(pending);
  job->wait_only = true;
  env_.offload->submit(OffloadClass::kSync, std::move(job));
}

void Dispatcher::finish_job(PendingCommand& pending, const Prepared& prepared) {
  auto& waiting = static_cast<Waiting&>(*pending.continuation);
  const std::shared_ptr<OffLoopRun> job = waiting.job;
  if (!job->done.load(std::memory_order_acquire)) return leave_waiting(pending);
  if (job->wants_long && job->threads == OffloadClass::kShort) {
    job->threads = OffloadClass::kLong;
    job->out.clear();
    job->done.store(false, std::memory_order_relaxed);
    leave_waiting(pending);
    return env_.offload->submit(OffloadClass::kLong, job);
  }
  end_wait(waiting);
  if (const std::uint32_t ms = memory_wait_ms(pending, job->status); ms != 0) {
    waiting.job = nullptr;
    send_kept_invalidations(*pending.client);
    return park_for_memory(pending, ms);
  }
  if (job->again_ms != 0 && job->status.is_ok()) {
    waiting.job = nullptr;
    if (waiting.blocked->end() != BlockedClients::End::kNotYet)
      return run_admitted(pending, prepared);  // CLIENT UNBLOCK has ended the wait meanwhile
    pending.retry_ms = job->again_ms;
    return leave_waiting(pending);
  }
  if (waiting.blocked) waiting.waits = {};  // the client has requested this wait, so the slow log omits it
  if (deliver_first(pending, waiting, job)) return;
  reported_ = job->reports_keys;
  finish_off_loop(pending, prepared, *job, waiting);
  if (job->reports_keys) let_go(job, true);
}

void Dispatcher::finish_off_loop(PendingCommand& pending, const Prepared& prepared, OffLoopWork& work, Waiting& waiting,
                                 TransactionRun* run) {
  Client& client = *pending.client;
  Reply reply(&client.out, client.protocol);
  const Reply::Mark mark = reply.mark();
  client.seen_seq = std::max(client.seen_seq, work.seen_seq);
  const bool has_effects = work.status.is_ok() && work.delivery == OffLoopWork::Delivery::kNotBegun && !work.effects.empty();
  if (run != nullptr && work.status.is_ok()) begin_effects(client, *run);
  Session& session = session_of(client);
  session.wrote_pushes |= has_effects && is_quiet(session);  // messages from effects to this client are pushes
  if (work.status.is_ok() && !session.wrote_pushes) client.out.take(work.out);
  pass_charge_.join(std::move(work.charge));
  if (work.out.overflown()) client.out.overflow();
  if (has_effects) {
    for (const Effect& effect : work.effects) effect(client, Slice());
  }
  count_reads(work.counts);
  nanos_ -= std::min(nanos_, work.nanos);  // the command's time is the attempt's, without the time between its steps
  std::uint64_t& off_loop = waiting.waits[static_cast<std::size_t>(Stage::kThread)];
  off_loop -= std::min(off_loop, work.nanos);
  finish(pending, *prepared.command, work.status, reply, mark);
  send_kept_invalidations(client);
}

}  // namespace ebbtide
