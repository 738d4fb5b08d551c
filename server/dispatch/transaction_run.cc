#include "dispatch/transaction_run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "dispatch/dispatcher.h"
#include "dispatch/permissions.h"
#include "dispatch/random.h"

namespace ebbtide {
namespace {

/// Memory is charged in steps of this many bytes.
constexpr std::uint64_t kChargeStep = std::uint64_t{1} << 20;
/// A growing batch copies its bytes, so for a moment they are in memory twice.
constexpr std::uint64_t kCopies = 2;
/// Estimated memory of an operation in PendingWrites, and of a command's Outcome, without their bytes.
constexpr std::uint64_t kOperationBytes = 256;
/// Work (Ctx::work) on a loop. kWalkBytes: of a walk, which may visit kLeastExecKeys in any case. kDescribedByteWork: of each
/// byte in the reply of a command that describes the server, such as INFO.
constexpr std::uint64_t kWalkBytes = 16 << 10, kDescribedByteWork = 16;

/// Appends the operations of `from` to a batch.
void append(const WriteBatch& from, WriteBatch* to) {
  std::size_t cursor = 0;
  for (WriteBatch::Op op; from.next_op(&cursor, &op);) {
    const WriteBatch::PutOptions options{.stamp = op.stamp,
                                         .expiry = op.expiry,
                                         .kind = op.value_kind,
                                         .debt = op.debt,
                                         .shrinks = !from.adds_data(),
                                         .element = op.element};
    switch (op.kind) {
      case OpKind::kPut:
      case OpKind::kHeader:
        op.shared != nullptr ? to->put_shared(op.tree, op.key, *op.shared, options) : to->put(op.tree, op.key, op.value, options);
        break;
      case OpKind::kTombstone:
        to->del(op.tree, op.key, op.element);
        break;
      case OpKind::kRangeTombstone:
        to->delete_range(op.tree, op.key, op.end, op.birth);
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
      case OpKind::kCreateTree:
        break;  // no handler writes these operations
    }
  }
  to->rely_on_expiry(from.relied_expiry());
}

/// Returns Redis's error for a queued command whose user has lost the right to it.
Status permission_lost(const AclVerdict& verdict) {
  const char* const why = verdict.denial == AclDenial::kCommand ? "no permission to execute the command or subcommand"
                          : verdict.denial == AclDenial::kKey   ? "no permission to touch the specified keys"
                                                                : "no permission to access one of the channels used as arguments";
  return Status::invalid_argument(
      std::string("NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command "
                  "is no longer allowed for the following reason: ") +
      why);
}

}  // namespace

std::size_t TransactionRun::pass_ops() {
  for (WriteBatch::Op op; batch_.next_op(&cursor_, &op);) {
  }
  return cursor_;
}

ReadView TransactionRun::view_in(DatabaseId database, const ReadView& view) {
  if (database == view.database()) return view;
  if (env_.db == nullptr) return view;  // while the database is being opened, all databases are empty
  for (const ReadView& lease : leases_) {
    if (lease.database() == database) return lease;
  }
  ReadView other = client_ == nullptr ? env_.db->lease(database) : env_.db->view(database, now, view.mode(), view.misses());
  seen_seq = std::max(seen_seq, other.seq());
  if (client_ == nullptr) leases_.push_back(other);
  return other;
}

Status TransactionRun::run(const ReadView& view) {
  seen_seq = std::max(seen_seq, view.seq());
  began_micros_ = env_.control->unix_micros();
  first_view_ = &view;
  other_view_ = [this, &view](DatabaseId database) { return view_in(database, view); };
  TRY(look_ahead(view));
  if (changed) return Status::ok();
  PendingWrites writes(env_.db, now, view.mode(), view.misses(), batch_);
  if (client_ == nullptr) writes.read_through(&other_view_);
  writes_ = &writes;
  begin_part();
  for (const QueuedCommand& queued : transaction_.queue) TRY(run_queued(queued, view_in(session_.database, view)));
  return Status::ok();
}

Status TransactionRun::look_ahead(const ReadView& view) {
  bool resident = true;
  Status failure;
  const auto look = [&](const ReadView& at, const LookupKey& key, Found* found) {
    const Status status = at.locate(key, found);
    resident &= !status.is_not_resident();
    if (!status.is_ok() && !status.is_not_found() && !status.is_not_resident()) failure = status;
    return status;
  };
  for (const auto& [place, watched] : transaction_.watched) {
    Found found;
    const Status status = look(view_in(place.first, view), {place.second, watched.hash}, &found);
    if (status.is_ok()) changed |= !watched.present || found.seq != watched.entry_seq;
    if (status.is_not_found()) changed |= watched.present || found.seq > watched.seen_seq;
  }
  if (!failure.is_ok()) return failure;
  if (changed) return Status::ok();
  const bool looks = view.mode() != ReadMode::kBlocking;
  for (const QueuedCommand& queued : transaction_.queue) {
    if (!looks) break;
    const ReadView at = view_in(queued.database, view);
    const bool blind = queued.command->spec->keys.blind(queued.list.size());
    for (const LookupKey& key : queued.keys) {
      if (blind && !at.may_have_collection(key)) continue;
      Found found;
      const bool large = look(at, key, &found).is_ok() && found.large.table != nullptr;
      const bool is_read = (queued.command->spec->keys.access & KeySpec::kAccess) != 0;
      // Larger values are not read ahead: the command may need only a part, or may fail because memory is short.
      if (large && is_read && found.length <= Dispatcher::kLoopWorkBytes) resident &= !at.read(&found).is_not_resident();
    }
  }
  return resident ? Status::ok() : Status::not_resident();
}

Status TransactionRun::note_present(Ctx& ctx, PresentKeys* had) const {
  if ((env_.observers->notifications.flags() & (kNotifyNew | kNotifyMiss)) == 0) return Status::ok();
  for (const LookupKey& key : ctx.keys) {
    std::optional<Found> found;
    TRY(ctx.strings().locate_any(key, &found));
    if (found) had->insert(key.key);
  }
  ctx.counts = {};
  return Status::ok();
}

void TransactionRun::observe_later(const QueuedCommand& queued, DatabaseId database, PresentKeys had, bool failed) {
  Observers& observers = *env_.observers;
  if (!failed && (observers.notifications.flags() & kNotifyMiss) != 0) {
    effects.push_back([&observers, &queued, had, database, progress = Notifications::Misses()](const Origin& origin,
                                                                                               const Slice& slice) mutable {
      const Args args{queued.list, queued.shared};
      return observers.notifications.missed(*queued.command, args, queued.keys, had, database, origin.loop, origin.seen_seq,
                                            &progress, slice);
    });
  }
  if (observers.switches.has(Switches::kMonitors)) {
    effects.push_back([this, &queued, selected = session_.database](const Origin& origin, const Slice&) {
      show_to_monitors(env_, origin, *queued.command, Args{queued.list, queued.shared}, selected);
      return true;
    });
  }
  if (observers.switches.word() == 0 || own_.empty()) return;
  // Off the loop, a command that empties or swaps databases is not announced: commit_long_write() makes the expiry watch read all
  // keys after the commit. So earlier commands need not be announced to the watch, either; their notifications are still sent.
  if (client_ == nullptr && queued.command->spec->changes_databases()) {
    for (const auto& progress : announced_) progress->watched = true;
    return announced_.clear();
  }
  auto batch = std::make_shared<WriteBatch>();
  append(own_, batch.get());
  announced_bytes_ += batch->payload_bytes() - batch->shared_bytes();
  auto progress = std::make_shared<Observers::Progress>();
  if (client_ == nullptr) announced_.push_back(progress);
  effects.push_back(
      [this, &observers, &queued, database, batch, had = std::move(had), progress](const Origin& origin, const Slice& slice) {
        const Args args{queued.list, queued.shared};
        return observers.announce({*queued.command, args, database, *batch, origin.seen_seq, had, commit_time}, origin,
                                  progress.get(), slice);
      });
}

void TransactionRun::append_own() { append(own_, &batch_); }

Status TransactionRun::account() {
  TRY(batch_.check_length());
  const std::uint64_t held = kCopies * (batch_.payload_bytes() - batch_.shared_bytes()) +
                             kOperationBytes * (batch_.count() + outcomes.size()) + announced_bytes_ + kept_bytes_ + replies_ +
                             parts.back().out.memory();
  if (held < charge.bytes() + kChargeStep || env_.db == nullptr) return Status::ok();
  const std::uint64_t more = held - charge.bytes();
  if (!env_.db->try_charge(MemoryAccount::Kind::kCommands, more)) return refused_charge(env_.db->memory(), held);
  charge.took(env_.db->memory(), MemoryAccount::Kind::kCommands, more);
  return Status::ok();
}

MemoryCharge TransactionRun::take_batch_charge() {
  const std::uint64_t bytes = batch_.payload_bytes() - batch_.shared_bytes();
  MemoryCharge own = charge.split(bytes);
  (void)charge.split((kCopies - 1) * bytes);
  return own;
}

Status TransactionRun::check_rights(const QueuedCommand& queued, Ctx& ctx, AclVerdict* verdict) {
  if ((session_.modes & Session::kChecked) == 0) return Status::ok();
  const User& user = rights_of(session_, *env_.control);
  if (&user == transaction_.rights.get()) return Status::ok();
  AclBudget budget = check_budget(ctx);
  const std::optional<AclVerdict> checked = check_permission(user, *queued.command, queued.list, budget);
  if (checked) *verdict = *checked;
  return note_check(ctx, budget, checked.has_value());
}

Status TransactionRun::run_handler(const QueuedCommand& queued, Ctx& ctx, AclVerdict* verdict) {
  const CommandSpec& spec = *queued.command->spec;
  const DatabaseId selected = session_.database;
  const bool runs_script = spec.has(kRunsScript);
  if (runs_script) {
    script_ = &ctx;
    declared_.clear();
    for (const LookupKey& key : queued.keys) declared_.insert(key.hash);
    declared_in_ = selected;
  }
  Status status = check_rights(queued, ctx, verdict);
  if (status.is_ok()) status = ctx.work(client_ != nullptr && spec.walks() ? kWalkBytes : 0);
  if (status.is_ok()) status = verdict->allowed() ? spec.run(ctx) : permission_lost(*verdict);
  if (runs_script) {
    script_ = nullptr;
    session_.database = selected;  // as in Redis, a SELECT in a script ends with the script
  }
  return status;
}

void TransactionRun::keep_writes(const QueuedCommand& queued, DatabaseId database, void (*after_commit)(Ctx&)) {
  Part& part = parts.back();
  const bool ends_part = after_commit != nullptr;
  if (ends_part) part.first_op = pass_ops();
  append_own();
  writes_->apply_new();
  if (!ends_part) return;
  part.last = &queued;
  part.after_commit = after_commit;
  part.database = database;
  part.ops_end = pass_ops();
  begin_part();
}

Status TransactionRun::run_queued(const QueuedCommand& queued, const ReadView& view) {
  const std::uint64_t start = env_.control->mono_nanos();
  const CommandSpec& spec = *queued.command->spec;
  const bool runs_script = spec.has(kRunsScript);
  Part& part = parts.back();
  own_.clear();
  Reply reply(&part.out, current_protocol());
  const Reply::Mark mark = reply.mark();
  const Args args{queued.list, queued.shared};
  Ctx ctx{env_, *queued.command, args, queued.keys, view, own_, reply, session_};
  ctx.client = client_;
  ctx.client_id = client_id;
  ctx.now = now;
  ctx.random = next_random(&random);
  ExecCtx exec{.pending = writes_,
               .effects = &effects,
               .keys_left = client_ == nullptr ? nullptr : &keys_left_,
               .unix_micros = began_micros_};
  OffLoopCtx off_loop{.cancelled = cancelled, .also_read = also_read};
  ctx.exec = &exec;
  if (client_ == nullptr) ctx.off_loop = &off_loop;
  ctx.work_left = work_left;
  ctx.other_view = &other_view_;
  ctx.reply_charged = part.out.memory();
  if (runs_script) exec.calls = this;
  if (notes_reads && spec.has(kReadOnly)) env_.observers->tracking.note_reads(client_id, queued.keys);
  PresentKeys had;
  TRY(note_present(ctx, &had));
  AclVerdict verdict;
  Status status = run_handler(queued, ctx, &verdict);
  if (status.is_ok() && client_ != nullptr && spec.keys.first == 0 && !spec.walks() && !runs_script) {
    status = ctx.work(kDescribedByteWork * (part.out.end() - mark.out.position));
  }
  work_left = ctx.work_left;
  too_long |= ctx.too_long;
  // The whole transaction fails, because its earlier commands hold memory that this command lacks.
  if (status.code() == Code::kOutOfMemory) {
    if (status.refused_bytes() == 0) return status;
    return refused_charge(env_.db->memory(), status.refused_bytes() + charge.bytes() + batch_.shared_bytes());
  }
  if (script_killed_) return status;
  if (status.is_not_resident() || (client_ == nullptr && status.code() == Code::kRevoked) || ctx.is_cancelled()) return status;
  // A handler that queries the engine directly may have seen operations that are not in its view.
  if (spec.has(kOffload) && env_.db != nullptr) seen_seq = std::max(seen_seq, env_.db->visible_seq());
  std::string error;
  if (!status.is_ok()) {
    error = error_reply(status);
    own_.clear();
    reply.rollback(mark);
    reply.error(error);
  }
  if (runs_script && status.is_ok()) error = std::move(script_error);
  observe_later(queued, view.database(), std::move(had), !status.is_ok());
  if (status.is_ok()) keep_writes(queued, view.database(), ctx.after_commit);
  if (is_script) {
    script_error = std::move(error);
    ctx.charge.release();
    called_counts.hits += ctx.counts.hits;
    return account();
  }
  script_error.clear();
  outcomes.push_back({&queued, std::move(error), env_.control->mono_nanos() - start, ctx.counts, verdict,
                      std::string(verdict.allowed() ? Bytes() : user_of(session_))});
  ctx.charge.release();  // the transaction charges all replies together
  return account();
}

void show_to_monitors(CommandEnv& env, const Origin& client, const Command& command, const Args& args, DatabaseId database) {
  if (!env.observers->switches.has(Switches::kMonitors)) return;
  // As in Redis, monitors do not get administrative commands, or those with a password.
  if (command.spec->has(kAdmin) || command.spec->name == "auth" || command.spec->name == "hello") return;
  env.observers->monitors.show(args, database, client, env.control->unix_micros());
}

}  // namespace ebbtide
