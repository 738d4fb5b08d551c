// The context of a handler: one run of one command.
//
// Every run has a Ctx. A run inside EXEC adds an ExecCtx, a run off its event loop an OffLoopCtx; a long transaction's runs have
// both. Handlers call Ctx, which uses the contexts that are there.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <engine/charged_value.h>
#include <engine/db.h>

#include "dispatch/server_control.h"
#include "dispatch/session.h"
#include "dispatch/spec.h"
#include "dispatch/table.h"
#include "resp/args.h"
#include "resp/reply.h"
#include "store/pending_writes.h"
#include "store/strings.h"

namespace ebbtide {

struct CommandEnv;

/// An effect of a command or transaction, which its loop runs after the commit. Returns false if the slice ended before the
/// effect was complete: it is called again.
using Effect = std::function<bool(const Origin& origin, const Slice& slice)>;
using Effects = std::vector<Effect>;

/// The additional context of a run inside EXEC.
struct ExecCtx {
  /// The writes of the transaction's earlier commands; null for after_commit.
  const PendingWrites* pending = nullptr;
  Effects* effects = nullptr;                           ///< null for after_commit
  std::size_t first_op = 0, ops_end = ~std::size_t{0};  ///< for after_commit: Ctx::first_op
};

/// The additional context of a run off its event loop.
struct OffLoopCtx {
  const std::atomic<bool>* cancelled = nullptr;  ///< set once no client waits for the reply
  bool on_short_thread = false;                  ///< it runs on a thread for short work (Ctx::go_on_for_long)
  std::uint64_t waited_ms = 0;                   ///< of a kBlocking command: how long its client has waited
  bool unblocked = false;                        ///< of a kBlocking command: CLIENT UNBLOCK has ended its wait
  Effects* effects = nullptr;                    ///< happen on the loop, after the reply; null inside EXEC

  // --- results
  bool wants_long = false;     ///< it is to run again on a thread for long work
  std::uint32_t again_ms = 0;  ///< it blocks: there is no reply, and it is to run again after so many ms
};

/// The server around a run; only env_of() (command_env.h) gives access to it.
class EnvHandle {
 public:
  EnvHandle(CommandEnv& env) : env_(&env) {}  // NOLINT(google-explicit-constructor): Ctx is made of a CommandEnv

 private:
  friend struct Ctx;
  friend CommandEnv& env_of(const Ctx& ctx);
  CommandEnv* env_;
};

struct Ctx {
  EnvHandle env;
  const Command& command;
  Args args;
  /// The command's keys in order, as engine keys with their hashes.
  std::span<const LookupKey> keys;
  ReadView view;
  /// The run's writes. Dispatch commits them if the handler returns ok.
  WriteBatch& batch;
  Reply& reply;
  /// The connection's session; off the loop a copy, whose changes are lost.
  Session& session;
  /// Null off the loop.
  Client* client = nullptr;
  std::uint64_t client_id = 0;
  /// Engine time of this run, in ms.
  Millis now = 0;
  /// A random number of this run.
  std::uint64_t random = 0;

  const ExecCtx* exec = nullptr;   ///< null outside EXEC
  OffLoopCtx* off_loop = nullptr;  ///< null on a loop
  /// The views of other databases inside EXEC and off the loop; null elsewhere (view_of).
  const std::function<ReadView(DatabaseId)>* other_view = nullptr;

  // --- results
  /// Set by a handler: called once its batch is committed, or at once if the batch is empty. It writes the part of the reply that
  /// depends on the commit, and must not fail.
  void (*after_commit)(Ctx&) = nullptr;
  ReadCounts counts = {};
  /// Memory that this run has reserved, except for values that it has built: those carry their charge themselves.
  MemoryCharge charge = {};
  /// Bytes of values that the run may still process where it is. A transaction's commands share them.
  std::uint64_t work_left = ~std::uint64_t{0};
  bool too_long = false;  ///< work() has refused: the run leaves its loop
  /// For a kSliced command outside EXEC: how many arguments earlier runs have processed. Replies and effects of those runs stand.
  std::size_t args_done = 0;
  bool unfinished = false;  ///< some arguments are left for the next run, in the loop's next round

  // --- arguments and keys
  [[nodiscard]] std::size_t argc() const { return args.size(); }
  [[nodiscard]] Bytes arg(std::size_t i) const { return args[i]; }
  /// Argument `i` if it was received as a value of its own, else null. Such a value carries its charge (EventLoop::hand_over).
  [[nodiscard]] SharedValue shared_arg(std::size_t i) const { return args.shared(i); }
  [[nodiscard]] const LookupKey& key(std::size_t i = 0) const { return keys[i]; }

  // --- data
  [[nodiscard]] Strings strings() { return strings_in(view); }
  /// The same in another database's view.
  [[nodiscard]] Strings strings_in(const ReadView& other) { return Strings(other, batch, counts, pending()); }
  /// True if the command's database was ever written to.
  [[nodiscard]] bool has_tree() const { return has_tree(view); }
  [[nodiscard]] bool has_tree(const ReadView& other) const {
    return pending() == nullptr ? other.has_tree() : pending()->has_tree(other);
  }
  /// Walks the command's database. Inside EXEC, where a walk may keep its loop busy, the caller limits it.
  [[nodiscard]] std::unique_ptr<Iterator> iterate(const IteratorOptions& options) const;
  /// Another database at the moment of this run, for COPY and MOVE. The view is taken now: the command holds all locks, or its
  /// keys in that database are marked.
  [[nodiscard]] ReadView view_of(DatabaseId database) const;
  /// True if a command that reads may store what it has computed: on a loop or in EXEC, while the engine accepts writes without
  /// waiting.
  [[nodiscard]] bool may_store_result() const;

  // --- where it runs
  [[nodiscard]] bool in_exec() const { return exec != nullptr; }
  /// True once no client waits for the reply. Long walks look at it.
  [[nodiscard]] bool is_cancelled() const {
    return off_loop != nullptr && off_loop->cancelled != nullptr && off_loop->cancelled->load(std::memory_order_relaxed);
  }
  /// Called before work without a bound. kNotResident: dispatch runs the command again, on a thread for long work.
  [[nodiscard]] Status go_on_for_long() {
    if (off_loop == nullptr || !off_loop->on_short_thread) return Status::ok();
    off_loop->wants_long = true;
    return Status::not_resident();
  }
  /// For a kBlocking command outside EXEC: how long its client has waited.
  [[nodiscard]] std::uint64_t waited_ms() const { return off_loop->waited_ms; }
  /// For a kBlocking command outside EXEC: CLIENT UNBLOCK has ended its wait, so it replies now.
  [[nodiscard]] bool unblocked() const { return off_loop->unblocked; }
  /// Called by a kBlocking command outside EXEC that has no reply yet. It runs again after `ms`, and holds no thread meanwhile.
  void run_again_after(std::uint32_t ms) { off_loop->again_ms = ms; }

  /// Called by a command inside EXEC or off its loop: `effect` is called on the loop, inside EXEC once the transaction is committed.
  void after_run(std::function<void(const Origin&)> effect) {
    (in_exec() ? *exec->effects : *off_loop->effects).push_back([effect = std::move(effect)](const Origin& origin, const Slice&) {
      effect(origin);
      return true;
    });
  }
  /// For after_commit: where the command's own operations are in the batch, as cursors of WriteBatch::next_op.
  [[nodiscard]] std::size_t first_op() const { return exec == nullptr ? 0 : exec->first_op; }
  [[nodiscard]] std::size_t ops_end() const { return exec == nullptr ? ~std::size_t{0} : exec->ops_end; }

  // --- limits
  /// Called before `bytes` of values are copied or computed on. kNotResident: too long for the loop; dispatch runs the command
  /// off it. There any number is allowed; kAborted once the client has disconnected.
  [[nodiscard]] Status work(std::uint64_t bytes) {
    if (bytes <= work_left) [[likely]] {
      work_left -= bytes;
      return is_cancelled() ? Status::aborted("the client has disconnected") : Status::ok();
    }
    too_long = true;
    return Status::not_resident();
  }
  /// For a kSliced command: the first argument that this run processes, and the end of them.
  [[nodiscard]] std::size_t slice_begin() const { return std::max<std::size_t>(args_done, 1); }
  [[nodiscard]] std::size_t slice_end() const { return in_exec() ? argc() : std::min(argc(), slice_begin() + kSliceArguments); }
  /// The arguments before slice_end() are processed.
  void end_slice() {
    args_done = slice_end();
    unfinished = args_done < argc();
  }
  static constexpr std::size_t kSliceArguments = 1024;  ///< about a millisecond of work

  /// Called before `bytes` are allocated for a value or a reply. kOutOfMemory: the budget has no room for them. Nothing is charged
  /// up to kLargeValueBytes: a batch copies such a value into its own memory.
  [[nodiscard]] Status reserve(std::uint64_t bytes) { return bytes <= kLargeValueBytes ? Status::ok() : reserve_slowly(bytes); }
  /// Called while a reply grows: charges, in steps, what its buffer has taken since the last call.
  [[nodiscard]] Status reserve_reply() {
    return reply.out().memory() <= reply_charged + kReplyStep ? Status::ok() : reserve_reply_slowly();
  }
  /// `value` for a batch or a reply. It carries its part of what is reserved.
  [[nodiscard]] SharedValue share(std::string value) { return charged_value(std::move(value), &charge); }
  /// Bytes that a reply may grow by before they are charged.
  static constexpr std::uint64_t kReplyStep = std::uint64_t{1} << 20;
  std::uint64_t reply_charged = 0;  ///< of the reply's buffer, or in it before this run

  // --- the server
  /// All that a handler may ask of the server around it.
  [[nodiscard]] ServerControl& server() const;

 private:
  [[nodiscard]] const PendingWrites* pending() const { return exec == nullptr ? nullptr : exec->pending; }
  [[nodiscard]] Status reserve_slowly(std::uint64_t bytes);
  [[nodiscard]] Status reserve_reply_slowly();
};

}  // namespace ebbtide
