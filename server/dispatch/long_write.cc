#include "dispatch/long_write.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "dispatch/command_keys.h"
#include "dispatch/dispatch_state.h"
#include "dispatch/dispatcher.h"
#include "dispatch/key_locks.h"
#include "dispatch/planted_bug.h"
#include "index/index_maintenance.h"
#include "store/numbers.h"
#include "store/rank_indexes.h"

namespace ebbtide {
namespace {

/// If a transaction has more operations or commands, its effects are delivered in slices.
constexpr std::size_t kFewOperations = 8;

/// The combined effect of all SWAPDB commands before a given command in a queue.
class Swaps {
 public:
  /// Adds a SWAPDB with arguments `args`. Ignores invalid arguments, since the command will fail.
  void add(std::span<const Bytes> args) {
    const auto a = args.size() == 3 ? parse_integer(args[1]) : std::nullopt, b = a ? parse_integer(args[2]) : std::nullopt;
    if (!b) return;
    const auto first = static_cast<DatabaseId>(*a), second = static_cast<DatabaseId>(*b);
    const DatabaseId source_of_first = source(first);
    sources_[first] = source(second);
    sources_[second] = source_of_first;
  }
  /// Returns the database that had, before the queue began, the data that a read of `database` finds after these swaps.
  [[nodiscard]] DatabaseId source(DatabaseId database) const {
    const auto it = sources_.find(database);
    return it == sources_.end() ? database : it->second;
  }
  [[nodiscard]] bool none() const { return sources_.empty(); }

 private:
  std::map<DatabaseId, DatabaseId> sources_;
};

/// Returns how many bytes of the arguments a batch would copy.
std::uint64_t copied_bytes(const Args& args) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 1; i < args.size(); ++i) bytes += args.shared(i) == nullptr ? args[i].size() : 0;
  return bytes;
}

}  // namespace

void LongWrite::run() {
  const std::uint64_t start = env->control->mono_nanos();
  if (step == Step::kMark) {
    status = collect();
  } else {
    for (int i = 0; i < kMaxRevocations; ++i) {
      status = attempt();
      if (status.code() != Code::kRevoked) break;
    }
  }
  if (!status.is_ok()) forget_run();
  nanos += env->control->mono_nanos() - start;
  if (planted(PlantedServerBug::kMarksEndEarly) && step == Step::kRun) env->intents->unmark(marks);
  complete();
}

void LongWrite::forget_collected() {
  collected = false;
  marks = std::make_shared<Intents::Marks>();
  known = whole = {};
  reads_patterns = marks_are_exact = false;
  stripes = {};
  forget_keys();
}

Status LongWrite::collect() {
  std::vector<DatabaseId> patterned;  // databases in which SORT will use keys that are not known yet
  const auto add = [this](DatabaseId database, const LookupKey& key) {
    marks->keys.add(database, key.hash);
    stripes.push_back(KeyLocks::stripe_of(key, database));
  };
  if (transaction == nullptr) {
    TRY(collect_reads());
    const DatabaseId target = target_database(*command->spec, args, session.database);
    one_view = target == session.database;
    for (const LookupKey& key : keys) add(session.database, key);
    for (std::size_t i = 0; !one_view && i < keys.size(); ++i) add(target, keys[i]);
    if (stores_from_patterns(*command->spec, args.list)) patterned.push_back(session.database);
  } else {
    one_view = !transaction->selects;
    bool has_script = false;
    for (const auto& [place, watched] : transaction->watched) add(place.first, {place.second, watched.hash});
    // FLUSHDB and SWAPDB read nothing, so they need no marks. A command after SWAPDB reads keys of the database that was swapped
    // in.
    Swaps swaps;
    const auto add_keys = [&](DatabaseId database, const QueuedCommand& queued) {
      const DatabaseId source = swaps.source(database);
      for (const LookupKey& key : queued.keys) add(database, key);
      for (std::size_t i = 0; source != database && i < queued.keys.size(); ++i) add(source, queued.keys[i]);
    };
    for (const QueuedCommand& queued : transaction->queue) {
      const CommandSpec& spec = *queued.command->spec;
      has_script |= spec.has(kRunsScript);
      changes_databases |= spec.changes_databases();
      if (spec.name == "swapdb") swaps.add(queued.list);
      add_keys(queued.database, queued);
      if (!pattern_option(spec, queued.list).empty()) {
        patterned.push_back(queued.database);
        patterned.push_back(swaps.source(queued.database));
      }
      if (spec.walks()) {
        marks->keys.add_all(queued.database);
        marks->keys.add_all(swaps.source(queued.database));
        locks_all = true;
      }
      if (queued.target == queued.database) continue;
      one_view = false;
      add_keys(queued.target, queued);
    }
    one_view = one_view && swaps.none();
    locks_all = locks_all || changes_databases;
    for (DatabaseId each = 0; has_script && each < env->databases; ++each) patterned.push_back(each);
  }
  reads_patterns = !patterned.empty();
  if (reads_patterns) known = marks->keys;
  if (is_script()) {  // marks only the keys that the script declares; learn_keys() adds the keys that it has used
    marks->keys.seal();
    marks_are_exact = true;
    whole = marks->keys;
    for (const DatabaseId each : patterned) whole.add_all(each);
    whole.seal();
  } else {
    for (const DatabaseId each : patterned) marks->keys.add_all(each);
    marks->keys.seal();
    if (reads_patterns) whole = marks->keys;
  }
  locks_all = locks_all || reads_patterns;
  std::sort(stripes.begin(), stripes.end());
  stripes.erase(std::unique(stripes.begin(), stripes.end()), stripes.end());
  collected = true;
  return Status::ok();
}

void LongWrite::learn_keys() {
  also_read.seal();
  const bool reads_all = transaction_run != nullptr && transaction_run->reads_all;
  marks_cover_reads = !marks_are_exact || (marks->keys.has_keys_of(also_read) && !reads_all);
  next_are_exact = also_read.size() <= OffLoopCtx::kMostAlsoRead && !changes_databases && !reads_all;
  if (next_are_exact) {
    known.add_all_of(also_read);
    known.seal();
  }
  next_marks = std::make_shared<Intents::Marks>();
  next_marks->keys = next_are_exact ? known : whole;
}

void LongWrite::forget_run() {
  also_read = {};
  next_marks = nullptr;
  marks_cover_reads = true;
  out.clear();
  batch = WriteBatch();
  staged = nullptr;
  batch_charge.release();
  written = {};
  effects.clear();
  had_charge.release();
  transaction_run = nullptr;
  charge.release();
}

Status LongWrite::attempt() {
  forget_run();
  counts = {};
  session.database = database;  // an earlier attempt may have selected another database
  const ReadView view = env->db->lease(database);
  seen_seq = std::max(seen_seq, view.seq());
  TRY(look_before(view));
  if (transaction == nullptr) TRY(charge_batch(copied_bytes(args)));  // an estimate of what the batch will copy
  TRY(transaction == nullptr ? run_command(view) : run_transaction(view));
  TRY(charge_batch(batch.payload_bytes() - batch.shared_bytes()));
  look_after(view);
  if (reads_patterns) learn_keys();
  catalog_version = env->indexes == nullptr ? 0 : env->indexes->version();
  TRY(maintain(view));
  written = KeySet(batch);
  return stages(batch) ? stage() : Status::ok();
}

Status LongWrite::maintain(const ReadView& view) {
  index_changes = {};
  if (env->indexes == nullptr || !env->indexes->any() || batch.empty()) return Status::ok();
  const std::uint64_t own_bytes = batch.payload_bytes() - batch.shared_bytes();
  const IndexRun run{.db = env->db,
                     .now = view.now(),
                     .mode = view.mode(),
                     .misses = view.misses(),
                     .charge = [&](std::uint64_t bytes) { return charge_batch(own_bytes + bytes); },
                     .view = [&](DatabaseId number) { return number == view.database() ? view : env->db->lease(number); }};
  TRY(maintain_indexes(*env->indexes, run, &batch, &index_changes));
  return charge_batch(batch.payload_bytes() - batch.shared_bytes());
}

Status LongWrite::charge_batch(std::uint64_t bytes) {
  if (bytes <= kLargeValueBytes) bytes = 0;  // not charged, as in Ctx::reserve()
  const std::uint64_t have = batch_charge.bytes();
  if (bytes <= have) {
    (void)batch_charge.split(have - bytes);
    return Status::ok();
  }
  constexpr auto kKind = MemoryAccount::Kind::kCommands;
  // Waits for all memory that a repeated attempt needs, including what this attempt has already charged.
  if (!env->db->try_charge(kKind, bytes - have)) return refused_charge(env->db->memory(), bytes + charge.bytes());
  batch_charge.took(env->db->memory(), kKind, bytes - have);
  return Status::ok();
}

Status LongWrite::stage() {
  auto made = env->db->stage(std::move(batch), &client_gone);
  if (made.is_ok()) {
    staged = std::move(made).value();
    // kUnsupported: StagedBatch does not accept this batch, so it is committed without staging.
  } else if (made.status().code() != Code::kUnsupported) {
    return made.status();
  }
  return Status::ok();
}

Status LongWrite::run_command(const ReadView& view) {
  Reply reply(&out, protocol);
  Ctx ctx{*env, *command, args, keys, view, batch, reply, session};
  ctx.client_id = client_id;
  ctx.now = env->db->now();
  ctx.random = random;
  OffLoopCtx off_loop{.cancelled = &client_gone, .also_read = reads_patterns ? &also_read : nullptr};
  ctx.off_loop = &off_loop;
  ctx.element_wait = element_wait;
  const std::function<ReadView(DatabaseId)> other_view = [this](DatabaseId other) {
    ReadView lease = env->db->lease(other);
    seen_seq = std::max(seen_seq, lease.seq());
    return lease;
  };
  ctx.other_view = &other_view;
  TRY(command->spec->run(ctx));
  element_wait = ctx.element_wait;
  charge = std::move(ctx.charge);
  counts = ctx.counts;
  return Status::ok();
}

Status LongWrite::run_transaction(const ReadView& view) {
  transaction_run = std::make_unique<TransactionRun>(*env, *transaction, session, nullptr, batch);
  TransactionRun& run = *transaction_run;
  run.client_id = client_id;
  run.protocol = protocol;
  run.reply_limit = out.limit();
  run.now = env->db->now();
  run.random = random;
  run.notes_reads = notes_reads;
  run.cancelled = &client_gone;
  run.also_read = reads_patterns ? &also_read : nullptr;
  run.is_script = is_script();
  TRY(run.run(view));
  changes_databases |= run.changes_databases;
  one_view = one_view && !(is_script() && run.reads_several());
  did_much = ~std::uint64_t{0} - run.work_left > Dispatcher::kLoopWorkBytes;
  batch_charge = run.take_batch_charge();
  charge = std::move(run.charge);
  seen_seq = std::max(seen_seq, run.seen_seq);
  Reply reply(&out, protocol);
  if (run.changed) {
    reply.null_array();
    return Status::ok();
  }
  if (!is_script()) reply.array(run.outcomes.size());
  for (TransactionRun::Part& part : run.parts) {
    if (part.out.overflown()) out.overflow();
    out.take(part.out);
  }
  return Status::ok();
}

bool LongWrite::has_many_effects() const {
  if (effects.empty()) return false;
  const bool compares_many =
      transaction != nullptr &&
      env->observers->notifications.work_of(transaction->arguments, transaction->bytes) > Dispatcher::kLoopWorkBytes;
  return reports_keys || did_much || writes().count() > kFewOperations || effects.size() > kFewOperations || compares_many;
}

void LongWrite::add_effects() {
  Observers& observers = *env->observers;
  const bool has_written = !writes().empty();
  const bool reports = transaction != nullptr || reports_keys;
  Effects first;
  if (has_written && reports && observers.switches.has(Switches::kTracking)) {
    first.push_back([this, cursor = std::size_t{0}](const Origin& origin, const Slice& slice) mutable {
      return env->observers->tracking.committed(writes(), origin, origin.seen_seq, &cursor, slice);
    });
  }
  if (transaction_run != nullptr) {
    transaction_run->commit_time = has_written ? writes().time() : 0;
    std::move(transaction_run->effects.begin(), transaction_run->effects.end(), std::back_inserter(first));
    transaction_run->effects.clear();
  }
  std::move(effects.begin(), effects.end(), std::back_inserter(first));
  if (has_written && reports_keys && observers.switches.word() != 0) {
    first.push_back([this, progress = std::make_shared<Observers::Progress>()](const Origin& origin, const Slice& slice) {
      const WriteBatch& batch = writes();
      const CommittedCommand commit{*command, args, database, batch, batch.last_seq(), had, batch.time()};
      return env->observers->announce(commit, origin, progress.get(), slice);
    });
  }
  effects = std::move(first);
}

void Dispatcher::start_long_write(PendingCommand& pending, const Prepared& prepared) {
  auto work = std::make_shared<LongWrite>();
  send_off_loop(pending, prepared, *work);
  work->firm_marks = std::exchange(firm_marks_, false);
  if (prepared.command->spec->has(kRunsQueue)) {
    work->transaction = std::move(state_of(*pending.client).transaction);
  } else if (prepared.command->spec->has(kRunsScript)) {
    work->reports_keys = false;  // TransactionRun reports the keys of each command itself
    work->transaction = std::make_unique<Transaction>(*env_.memory);
    Prepared whole = prepared;
    if (whole.long_by_arguments) {
      const Status status = collect(pending.args, &whole);
      if (!status.is_ok()) return reject(pending, prepared.command, status);
    }
    queue_script(pending, whole, work->transaction.get());
  }
  Waiting& waiting = waiting_of(pending);
  work->element_wait = element_wait_of(waiting);
  waiting.fetched = nullptr;  // the thread of the long write reads missing pages itself
  waiting.long_write = work;
  submit_long_write(pending, waiting);
}

void Dispatcher::submit_long_write(PendingCommand& pending, Waiting& waiting) {
  waiting.long_write->done.store(false, std::memory_order_relaxed);
  leave_waiting(pending);
  begin_wait(waiting, Stage::kThread);
  env_.offload->submit(waiting.long_write->is_script() ? OffloadClass::kScript : OffloadClass::kWrite, waiting.long_write);
}

void Dispatcher::continue_long_write(PendingCommand& pending, const Prepared& prepared) {
  auto& waiting = static_cast<Waiting&>(*pending.continuation);
  LongWrite& work = *waiting.long_write;
  // The thread is not done: the command was resumed for another reason, so it continues to wait.
  if (!work.done.load(std::memory_order_acquire)) return leave_waiting(pending);
  if (work.status.is_ok() && work.delivery == OffLoopWork::Delivery::kNotBegun) {
    if (!work.collected) return submit_long_write(pending, waiting);  // the thread had to wait for memory
    if (work.step == LongWrite::Step::kMark) return mark_long_write(pending, waiting);
    if (!commit_long_write(pending, waiting)) return;
    if (work.status.is_ok() && work.element_wait.wanted) {
      env_.intents->unmark(work.marks);
      end_wait(waiting);
      const std::shared_ptr<LongWrite> ended = std::move(waiting.long_write);  // keeps the collected keys for the call below
      return wait_for_element(pending, prepared, ended->collected_keys(), ended->element_wait.timeout_ms);
    }
    if (work.status.is_ok()) work.add_effects();
  }
  env_.intents->unmark(work.marks);
  end_wait(waiting);
  if (const std::uint32_t ms = memory_wait_ms(pending, work.status); ms != 0) {
    work.status = Status::ok();
    work.step = LongWrite::Step::kMark;  // the command starts from the beginning, since no attempt of it counts yet
    work.forget_collected();
    return park_for_memory(pending, ms);
  }
  if (deliver_first(pending, waiting, waiting.long_write)) return;
  if (work.ordering_marks != nullptr) env_.intents->unmark(work.ordering_marks);
  if (work.large_commit != 0) large_commit_ = work.large_commit;
  reported_ = work.reports_keys;
  if (work.is_script() && work.status.is_ok() && !work.transaction_run->script_error.empty()) {
    count_script_error(*prepared.command, work.transaction_run->script_error);
  }
  if (work.transaction != nullptr && !work.is_script()) {
    end_transaction(*pending.client);
    if (work.status.is_ok()) session_of(*pending.client).database = work.session.database;
    if (!work.status.is_ok()) work.status = transaction_discarded(work.status);
  }
  // finish() frees the wait, which owns the long write, so `kept` keeps the long write alive.
  const std::shared_ptr<LongWrite> kept = waiting.long_write;
  if (work.status.is_ok()) finished_ = kept;
  finish_off_loop(pending, prepared, work, waiting, work.transaction_run.get());
}

void Dispatcher::dispose_finished() {
  const bool is_long = finished_->delivery != OffLoopWork::Delivery::kNotBegun ||
                       finished_->marks->keys.size() > kLoopArguments || finished_->writes().payload_bytes() >= kDisposedBytes;
  let_go(std::move(finished_), is_long);
}

const WriteBatch& Dispatcher::written_batch() const { return finished_ != nullptr ? finished_->writes() : batch_; }

// Sets marks under the key locks; the view is taken after that. So the view has every write whose loop did not see the marks.
void Dispatcher::mark_long_write(PendingCommand& pending, Waiting& waiting) {
  LongWrite& work = *waiting.long_write;
  {
    const KeyLocks::Guard guard = work.locks_all ? KeyLocks::Guard(*env_.locks) : KeyLocks::Guard(*env_.locks, work.stripes);
    const bool firm = work.firm_marks || work.conflicts >= LongWrite::kSoftRuns;
    if (!env_.intents->mark(work.marks, firm, {work.loop, work.client_id})) return leave_waiting(pending);
  }
  work.step = LongWrite::Step::kRun;
  ++work.runs;
  submit_long_write(pending, waiting);
}

// Returns true if the batch of a long write is outdated because of indexes, so that the command must run again. Either a
// definition has changed since the attempt, or the position of a build is now at a record that the batch writes.
bool Dispatcher::indexes_have_changed(const LongWrite& work) const {
  if (env_.indexes->version() != work.catalog_version) return true;
  if (!env_.indexes->any()) return false;
  const auto& known = work.index_changes.left_positions;
  KeySet reached;
  for (const auto& position : env_.indexes->positions()) {
    if (std::find(known.begin(), known.end(), position) != known.end()) continue;
    reached.add(position.first.first, hash_key(position.second));
  }
  reached.seal();
  return reached.size() != 0 && reached.meets(work.written);
}

// Returns true if the command is done, with `status` as its result. False: it waits, or runs again.
bool Dispatcher::commit_long_write(PendingCommand& pending, Waiting& waiting) {
  LongWrite& work = *waiting.long_write;
  if (work.writes().empty() && work.one_view) return true;  // all reads were of one moment, and there is nothing to commit
  if (!work.writes().empty() && hold_back_commit(pending)) return false;
  bool broken = false;
  stall_ms_ = 0;
  {
    const KeyLocks::Guard guard = work.locks_all ? KeyLocks::Guard(*env_.locks) : KeyLocks::Guard(*env_.locks, work.stripes);
    broken =
        (env_.intents->is_broken(*work.marks) && !planted(PlantedServerBug::kCommitDespiteConflict)) || !work.marks_cover_reads;
    broken |= env_.indexes != nullptr && indexes_have_changed(work);
    if (!broken) {
      if (env_.intents->must_wait(work.written, work.marks.get(), {work.loop, work.client_id}))
        return leave_waiting(pending), false;
      KeyWaiters::Wait* const own = waiting.for_element ? &*waiting.for_element : nullptr;
      std::vector<KeyWaiters::Written> waited_for;
      if (env_.key_waiters->any()) waited_for = env_.key_waiters->waited_for(work.writes(), own != nullptr);
      work.status = work.staged != nullptr ? env_.db->try_commit(*work.staged, waiting.stalled, &stall_ms_)
                                           : env_.db->try_commit(work.batch, waiting.stalled, &stall_ms_);
      if (work.status.is_ok()) {
        note_waited_for(std::move(waited_for), own);
        env_.intents->committed(work.written, work.marks.get());
        drop_rank_indexes(work.written);
        if (!work.index_changes.empty()) env_.indexes->take(std::move(work.index_changes));
        order_notifications(work);
        // The expiry watch drops all its keys here, under the locks: later it would also drop keys of commands that have written
        // since.
        if (work.changes_databases) env_.observers->expiries.databases_changed();
      }
    }
    if (broken || work.status.code() == Code::kRetry) env_.intents->unmark(work.marks);
  }
  if (stall_ms_ != 0) {  // the batch and the marks stay during the stall
    work.status = Status::ok();
    park(pending, stall_ms_);
    return false;
  }
  if (!broken && work.status.code() != Code::kRetry) {
    if (work.status.is_ok()) {
      const WriteBatch& written = work.writes();
      if (written.empty()) return true;
      work.seen_seq = std::max(work.seen_seq, written.last_seq());
      note_large_commit(written, work.staged != nullptr);
    }
    return true;
  }
  counters_->retries.add(1);
  if (work.runs >= LongWrite::kMaxRuns) {
    work.status = Status::busy("other clients wrote the command's keys during each of " + std::to_string(LongWrite::kMaxRuns) +
                               " attempts");
    return true;
  }
  work.status = Status::ok();
  work.conflicts += broken ? 1 : 0;
  if (broken && work.next_marks != nullptr) work.take_next_marks();
  work.step = LongWrite::Step::kMark;
  mark_long_write(pending, waiting);
  return false;
}

// A long write changes much of a collection, so updating its rank index would cost about as much as a new one.
void Dispatcher::drop_rank_indexes(const KeySet& written) {
  env_.ranks->drop_if([&written](DatabaseId database, Bytes key) {
    KeySet one;
    one.add(database, hash_key(key));
    one.seal();
    return written.meets(one);
  });
}

// CLIENT PAUSE also delays the commit of a long write that began earlier: after the reply to CLIENT PAUSE no data may change.
bool Dispatcher::hold_back_commit(PendingCommand& pending) {
  if (!env_.observers->switches.has(Switches::kPause)) return false;
  const std::uint32_t ms = env_.observers->pause.wait_ms(nanos_ / kNanosPerMilli, true);
  if (ms == 0) return false;
  pending.retry_ms = ms;
  leave_waiting(pending);
  return true;
}

}  // namespace ebbtide
