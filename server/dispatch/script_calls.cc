// Runs the commands that a script calls, as parts of a TransactionRun.
#include "dispatch/script_calls.h"

#include <deque>
#include <optional>
#include <utility>

#include "dispatch/arg_cursor.h"
#include "dispatch/command_keys.h"
#include "dispatch/dispatcher.h"
#include "dispatch/intents.h"
#include "dispatch/permissions.h"
#include "dispatch/random.h"
#include "dispatch/transaction_run.h"

namespace ebbtide {
namespace {

/// The work (Ctx::work) of a call, without the work that its handler counts. So a loop runs some thousands of calls.
constexpr std::uint64_t kCallWork = 512;
/// Estimated memory of a call that is kept for observers, without its bytes.
constexpr std::uint64_t kKeptBytes = 256;
/// The most different errors of called commands that an attempt counts.
constexpr std::size_t kCountedErrors = 128;

/// Returns true for a command that Redis replicates although it writes no key, so that a read-only script may not call it.
bool publishes(const CommandSpec& spec) { return spec.name == "publish" || spec.name == "spublish"; }

void write_error(OutputBuffer* out, int protocol, Bytes text) { Reply(out, protocol).error(text); }

}  // namespace

Status TransactionRun::resolve_call(std::span<const Bytes> arguments, const ScriptCall& options, const Command** command) {
  const Command* found = env_.table->find(arguments[0]);
  if (found != nullptr && !found->spec->subcommands.empty() && arguments.size() > 1) {
    found = env_.table->find_subcommand(*found, arguments[1]);
  }
  if (found == nullptr) return reply_error("ERR Unknown Redis command called from script");
  const CommandSpec& spec = *found->spec;
  if (spec.run == nullptr || !spec.arity_ok(arguments.size())) {
    return reply_error("ERR Wrong number of args calling Redis command from script");
  }
  // Commands that keep state with their connection, or wait for the log or other threads, are not allowed in scripts.
  if (spec.has(kNoScript | kNoMulti | kNeverInline | kReplySynced | kOnLoop | kImmediate | kRunsQueue) || spec.has(kRunsScript)) {
    return reply_error("ERR This Redis command is not allowed from script");
  }
  if (options.read_only && (spec.has(kWrite | kMayReplicate) || publishes(spec))) {
    return reply_error("ERR Write commands are not allowed from read-only scripts.");
  }
  if (env_.db == nullptr && !spec.has(kLoading)) return reply_error("LOADING Redis is loading the dataset in memory");
  *command = found;
  return Status::ok();
}

Status TransactionRun::check_call(std::span<const Bytes> arguments, const Command& command, std::string* denial) {
  if ((session_.modes & Session::kChecked) == 0) return Status::ok();
  const User& user = rights_of(session_, *env_.control);
  if ((session_.modes & Session::kChecked) == 0) return Status::ok();
  AclBudget budget = check_budget(*script_);
  const std::optional<AclVerdict> verdict = check_permission(user, command, arguments, budget);
  TRY(note_check(*script_, budget, verdict.has_value()));
  if (!verdict->allowed()) *denial = "NOPERM " + denial_text(*verdict, user_of(session_), command, arguments, false);
  return Status::ok();
}

Status TransactionRun::may_run(std::span<const Bytes> arguments, bool* allowed) {
  const Command* found = env_.table->find(arguments[0]);
  if (found != nullptr && !found->spec->subcommands.empty() && arguments.size() > 1) {
    found = env_.table->find_subcommand(*found, arguments[1]);
  }
  if (found == nullptr || found->spec->run == nullptr) {
    return reply_error("ERR Invalid command passed to redis.acl_check_cmd()");
  }
  std::string denial;
  TRY(check_call(arguments, *found, &denial));
  *allowed = denial.empty();
  return Status::ok();
}

Status TransactionRun::note_call(const Command& command, const Args& args, std::span<const LookupKey> keys) {
  const CommandSpec& spec = *command.spec;
  const bool may_write = script_->command.spec->has(kMayReplicate);
  const DatabaseId target = target_database(spec, args, session_.database);
  const bool unnamed = spec.walks() || spec.has(kLockAll) || !pattern_option(spec, args.list).empty();
  if (client_ != nullptr) {
    const bool many = args.size() > Dispatcher::kLoopArguments || keys.size() > Dispatcher::kLoopArguments;
    if (spec.has(kOffload) || many) {
      too_long = true;
      return Status::not_resident();
    }
    // A script that only reads needs no locks while it reads one database: its reads are of one moment.
    if (holds_all_locks || (!may_write && session_.database == declared_in_)) return Status::ok();
    bool declared = may_write && !unnamed && target == session_.database && (keys.empty() || session_.database == declared_in_);
    for (const LookupKey& key : keys) declared = declared && declared_.contains(key.hash);
    if (declared) return Status::ok();
    wants_all_locks = true;
    return Status::not_resident();
  }
  changes_databases |= spec.changes_databases();
  reads_all |= unnamed && !spec.changes_databases() && (spec.walks() || spec.keys.first == 0);
  if (also_read == nullptr) return Status::ok();
  for (const LookupKey& key : keys) {
    if (also_read->size() > OffLoopCtx::kMostAlsoRead) break;
    also_read->add(session_.database, key.hash);
    if (target != session_.database) also_read->add(target, key.hash);
  }
  return Status::ok();
}

void TransactionRun::count_call(const Command& command, const std::string& error, std::uint64_t nanos) {
  Called& counts = called[&command];
  ++counts.calls;
  counts.nanos += nanos;
  if (error.empty()) return;
  ++counts.failed;
  const std::string code = error.substr(0, error.find(' '));
  if (called_errors.size() < kCountedErrors || called_errors.contains(code)) ++called_errors[code];
}

Status TransactionRun::call(std::span<const Bytes> arguments, const ScriptCall& options, OutputBuffer* out) {
  TRY(script_->work(kCallWork));
  const Command* command = nullptr;
  if (const Status refused = resolve_call(arguments, options, &command); !refused.is_ok()) {
    return write_error(out, options.protocol, error_reply(refused)), Status::ok();
  }
  std::string denial;
  TRY(check_call(arguments, *command, &denial));
  if (!denial.empty()) return write_error(out, options.protocol, denial), Status::ok();
  const Args args{arguments, {}};
  std::vector<LookupKey> keys;
  std::deque<std::string> escaped;
  std::size_t escaped_used = 0;
  if (const Status bad = collect_keys(command->spec->keys, args, &keys, &escaped, &escaped_used); !bad.is_ok()) {
    return write_error(out, options.protocol, error_reply(bad)), Status::ok();
  }
  TRY(note_call(*command, args, keys));
  Observers& observers = *env_.observers;
  QueuedCommand local;
  local.list = arguments;
  local.keys = keys;
  QueuedCommand* queued = &local;
  if (observers.switches.word() != 0 || observers.notifications.flags() != 0) {  // effects use the command after this call
    queued = &kept_calls_.add(args, keys);
    kept_bytes_ += kKeptBytes;
    for (const Bytes argument : arguments) kept_bytes_ += argument.size();
  }
  queued->command = command;
  queued->database = queued->target = session_.database;
  const std::uint64_t start = env_.control->mono_nanos();
  std::string error;
  TRY(run_call(*queued, options, out, &error));
  count_call(*command, error, env_.control->mono_nanos() - start);
  return account();
}

Status TransactionRun::run_call(const QueuedCommand& queued, const ScriptCall& options, OutputBuffer* out, std::string* error) {
  const CommandSpec& spec = *queued.command->spec;
  own_.clear();
  Reply reply(out, options.protocol);
  const Reply::Mark mark = reply.mark();
  const Args args{queued.list, queued.shared};
  const ReadView view = view_in(session_.database, *first_view_);
  Ctx ctx{env_, *queued.command, args, queued.keys, view, own_, reply, session_};
  ctx.client = client_;
  ctx.client_id = client_id;
  ctx.now = now;
  ctx.random = next_random(&random);
  const ExecCtx exec{.pending = writes_,
                     .effects = &effects,
                     .keys_left = client_ == nullptr ? nullptr : &keys_left_,
                     .unix_micros = began_micros_};
  OffLoopCtx off_loop{.cancelled = cancelled, .also_read = also_read};
  ctx.exec = &exec;
  if (client_ == nullptr) ctx.off_loop = &off_loop;
  ctx.work_left = script_->work_left;
  ctx.other_view = &other_view_;
  ctx.reply_charged = out->memory();
  if (notes_reads && spec.has(kReadOnly)) env_.observers->tracking.note_reads(client_id, queued.keys);
  PresentKeys had;
  TRY(note_present(ctx, &had));
  Status status = spec.run(ctx);
  if (status.is_ok() && ctx.after_commit != nullptr) status = reply_error("ERR This Redis command is not allowed from script");
  script_->work_left = ctx.work_left;
  too_long |= ctx.too_long;
  if (status.code() == Code::kOutOfMemory || status.is_not_resident() || ctx.is_cancelled() ||
      (client_ == nullptr && status.code() == Code::kRevoked)) {
    return status.is_ok() ? Status::aborted("the client has disconnected") : status;
  }
  if (spec.has(kOffload) && env_.db != nullptr) seen_seq = std::max(seen_seq, env_.db->visible_seq());
  if (!status.is_ok()) {
    *error = error_reply(status);
    own_.clear();
    reply.rollback(mark);
    reply.error(*error);
  }
  observe_later(queued, view.database(), std::move(had), !status.is_ok());
  if (status.is_ok() && !own_.empty()) {
    append_own();
    own_.clear();  // EVAL itself writes nothing
    writes_->apply_new();
  }
  called_counts.hits += ctx.counts.hits;
  called_counts.misses += ctx.counts.misses;
  return Status::ok();
}

}  // namespace ebbtide
