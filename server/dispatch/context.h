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
#include "store/collections.h"
#include "store/pending_writes.h"
#include "store/strings.h"

namespace ebbtide {

struct CommandEnv;
class KeySet;
class ScriptCalls;

/// An effect of a command or transaction, which its loop calls after the commit. Returns false if the slice ended before the
/// effect was complete; then the loop calls it again.
using Effect = std::function<bool(const Origin& origin, const Slice& slice)>;
using Effects = std::vector<Effect>;

/// The additional context of a run inside EXEC.
struct ExecCtx {
  /// The writes of the transaction's earlier commands. Null in after_commit.
  const PendingWrites* pending = nullptr;
  Effects* effects = nullptr;          ///< effects that happen once the transaction is committed; null for after_commit
  std::uint64_t* keys_left = nullptr;  ///< on a loop: the keys and versions that walks may still read (exec_walk.h)
  std::size_t first_op = 0, ops_end = ~std::size_t{0};  ///< the command's operations in the batch (Ctx::first_op)
  ScriptCalls* calls = nullptr;                         ///< of a kRunsScript command: runs the commands of its script
};

/// The additional context of a run off its event loop.
struct OffLoopCtx {
  const std::atomic<bool>* cancelled = nullptr;  ///< set once no client waits for the reply
  bool on_short_thread = false;                  ///< the command runs on a thread for short work (Ctx::go_on_for_long)
  std::uint64_t waited_ms = 0;                   ///< how long the client of a kBlocking command has waited
  bool unblocked = false;                        ///< CLIENT UNBLOCK has ended the wait of a kBlocking command
  Effects* effects = nullptr;                    ///< happen on the loop, after the reply; null inside EXEC
  /// For a long write: collects the keys that a command passes to Ctx::note_also_read(). It stops at kMostAlsoRead + 1 keys,
  /// which means that there are too many.
  KeySet* also_read = nullptr;
  static constexpr std::size_t kMostAlsoRead = 64 << 10;  ///< half a megabyte of hashes

  // --- results
  bool wants_long = false;     ///< the command is to run again on a thread for long work
  std::uint32_t again_ms = 0;  ///< the command blocks: there is no reply, and it runs again after this many ms; 0: it has replied
};

/// The values that dispatch and a command that waits for an element (BLPOP) exchange.
struct ElementWait {
  bool has_waited = false;       ///< the command has waited, and looks at its keys again
  bool is_over = false;          ///< its time is over, or CLIENT UNBLOCK has ended the wait
  bool wanted = false;           ///< result: the command has found nothing, and waits
  std::uint64_t timeout_ms = 0;  ///< result: how long it waits in all; 0: without end
};

/// A handle of the server. Only env_of() (command_env.h) uses its content.
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
  /// The connection's session. Off the loop it is a copy, whose changes are lost.
  Session& session;
  /// The connection. Null off the loop.
  Client* client = nullptr;
  std::uint64_t client_id = 0;
  /// Engine time of this run, in ms.
  Millis now = 0;
  /// A random number, the same for all runs of the command.
  std::uint64_t random = 0;

  const ExecCtx* exec = nullptr;   ///< null outside EXEC
  OffLoopCtx* off_loop = nullptr;  ///< null on a loop
  /// The views of other databases inside EXEC and off the loop; null elsewhere (view_of).
  const std::function<ReadView(DatabaseId)>* other_view = nullptr;

  ElementWait element_wait = {};  ///< state of the wait of a kBlocking command that writes

  // --- results
  /// Set by a handler. Dispatch calls it once the batch is committed, or at once if the batch is empty. It writes the part of the
  /// reply that depends on the commit, and must not fail.
  void (*after_commit)(Ctx&) = nullptr;
  ReadCounts counts = {};
  /// Memory that this run has reserved. Values that it has built are not in it: each has a charge of its own.
  MemoryCharge charge = {};
  /// Bytes of values that the run may still process on its thread. A transaction's commands share them.
  std::uint64_t work_left = ~std::uint64_t{0};
  bool too_long = false;  ///< work() has failed, so the run leaves its loop
  /// For a kSliced command outside EXEC: the number of arguments that earlier runs have processed. Replies and effects of those
  /// runs stay.
  std::size_t args_done = 0;
  bool unfinished = false;  ///< arguments are left for the next run, in the loop's next round

  // --- arguments and keys
  [[nodiscard]] std::size_t argc() const { return args.size(); }
  [[nodiscard]] Bytes arg(std::size_t i) const { return args[i]; }
  /// Returns argument `i` if it was received as a separate value, else null. The value owns its charge (EventLoop::hand_over).
  [[nodiscard]] SharedValue shared_arg(std::size_t i) const { return args.shared(i); }
  [[nodiscard]] const LookupKey& key(std::size_t i = 0) const { return keys[i]; }

  // --- data
  [[nodiscard]] Strings strings() { return strings_in(view); }
  /// Like strings(), in another database's view.
  [[nodiscard]] Strings strings_in(const ReadView& other) { return Strings(other, batch, counts, pending()); }
  [[nodiscard]] Collections collections() { return collections_in(view); }
  /// Like collections(), in another database's view.
  [[nodiscard]] Collections collections_in(const ReadView& other) { return Collections(other, batch, counts, pending()); }
  /// Returns true if the command's database was ever written to.
  [[nodiscard]] bool has_tree() const { return has_tree(view); }
  [[nodiscard]] bool has_tree(const ReadView& other) const {
    return pending() == nullptr ? other.has_tree() : pending()->has_tree(other);
  }
  /// Returns a walk over the command's database. Inside EXEC a walk may keep its loop busy, so the caller limits it there.
  [[nodiscard]] std::unique_ptr<Iterator> iterate(const IteratorOptions& options) const;
  /// Returns the view of another database at the moment of this run, for COPY and MOVE. Taking it now is safe: the command holds
  /// all locks, or has set marks (intents.h) on its keys in that database.
  [[nodiscard]] ReadView view_of(DatabaseId database) const;
  /// Called before a command reads a key that is not in `keys`. A long write sets marks (intents.h) on such keys in its next run.
  void note_also_read(const LookupKey& key) const {
    if (off_loop != nullptr && off_loop->also_read != nullptr) add_also_read(key);
  }
  /// Returns true if a command that reads may store a result that it has computed: on a loop or in EXEC, while the engine accepts
  /// writes without a wait.
  [[nodiscard]] bool may_store_result() const;

  // --- where it runs
  [[nodiscard]] bool in_exec() const { return exec != nullptr; }
  /// Returns true once no client waits for the reply. Long walks check this.
  [[nodiscard]] bool is_cancelled() const {
    return off_loop != nullptr && off_loop->cancelled != nullptr && off_loop->cancelled->load(std::memory_order_relaxed);
  }
  /// A handler calls this before work without a bound. kNotResident: dispatch runs the command again, on a thread for long work.
  [[nodiscard]] Status go_on_for_long() {
    if (off_loop == nullptr || !off_loop->on_short_thread) return Status::ok();
    off_loop->wants_long = true;
    return Status::not_resident();
  }
  /// For a kBlocking command outside EXEC: how long its client has waited, in ms.
  [[nodiscard]] std::uint64_t waited_ms() const { return off_loop->waited_ms; }
  /// For a kBlocking command outside EXEC: true if CLIENT UNBLOCK has ended the wait, so that the command replies now.
  [[nodiscard]] bool unblocked() const { return off_loop->unblocked; }
  /// For a kBlocking command outside EXEC that has no reply yet: runs it again after `ms`. It holds no thread meanwhile.
  void run_again_after(std::uint32_t ms) { off_loop->again_ms = ms; }

  /// For a kBlocking command that writes and has found no element: the command waits until one of its keys has elements, and runs
  /// again. Returns false if it replies now instead: inside EXEC, or once its time is over.
  [[nodiscard]] bool wait_for_element(std::uint64_t timeout_ms) {
    element_wait.wanted = !in_exec() && !element_wait.is_over;
    element_wait.timeout_ms = timeout_ms;
    return element_wait.wanted;
  }
  /// Returns true if the command has waited for an element. It then ignores keys of other types.
  [[nodiscard]] bool has_waited() const { return element_wait.has_waited; }

  /// For a command inside EXEC or off its loop: calls `effect` later on the loop, inside EXEC once the transaction is committed.
  void after_run(std::function<void(const Origin&)> effect) {
    (in_exec() ? *exec->effects : *off_loop->effects).push_back([effect = std::move(effect)](const Origin& origin, const Slice&) {
      effect(origin);
      return true;
    });
  }
  /// For after_commit: the range of the command's own operations in the batch, as cursors of WriteBatch::next_op.
  [[nodiscard]] std::size_t first_op() const { return exec == nullptr ? 0 : exec->first_op; }
  [[nodiscard]] std::size_t ops_end() const { return exec == nullptr ? ~std::size_t{0} : exec->ops_end; }

  // --- limits
  /// The most keys and skipped versions that a walk inside EXEC looks at: about 20 milliseconds of work.
  static constexpr std::uint64_t kExecKeys = 100'000;
  /// The work() of a range delete inside EXEC, and of each byte of its bounds.
  static constexpr std::uint64_t kRangeDeleteWork = 16 << 10, kBoundByteWork = 8;
  /// A handler calls this before it copies or computes on `bytes` of values. kNotResident: they are too many for the loop, so
  /// dispatch runs the command off it, where any number is allowed. kAborted: the client has disconnected.
  [[nodiscard]] Status work(std::uint64_t bytes) {
    if (bytes <= work_left) [[likely]] {
      work_left -= bytes;
      return is_cancelled() ? Status::aborted("the client has disconnected") : Status::ok();
    }
    too_long = true;
    return Status::not_resident();
  }
  /// For a kSliced command: the first argument that this run processes, and the end of its arguments.
  [[nodiscard]] std::size_t slice_begin() const { return std::max<std::size_t>(args_done, 1); }
  [[nodiscard]] std::size_t slice_end() const { return in_exec() ? argc() : std::min(argc(), slice_begin() + kSliceArguments); }
  /// Notes that the arguments before slice_end() are processed.
  void end_slice() { end_slice(slice_end()); }
  /// Notes that the arguments before `end` are processed.
  void end_slice(std::size_t end) {
    args_done = end;
    unfinished = args_done < argc();
  }
  static constexpr std::size_t kSliceArguments = 1024;  ///< about a millisecond of work

  /// A handler calls this before it allocates `bytes` for a value or a reply. kOutOfMemory: the budget has no room for them. Up
  /// to kLargeValueBytes are free of charge, since a batch copies such a value into its own memory.
  [[nodiscard]] Status reserve(std::uint64_t bytes) { return bytes <= kLargeValueBytes ? Status::ok() : reserve_slowly(bytes); }
  /// A handler calls this while its reply grows: charges, in steps, the memory that the reply's buffer has taken since the last
  /// call.
  [[nodiscard]] Status reserve_reply() {
    return reply.out().memory() <= reply_charged + kReplyStep ? Status::ok() : reserve_reply_slowly();
  }
  /// Wraps `value` so that a batch or a reply can share it. The result takes over its part of this run's memory charge, and
  /// releases it when its last owner does.
  [[nodiscard]] SharedValue share(std::string value) { return charged_value(std::move(value), &charge); }
  /// Bytes by which a reply may grow before they are charged.
  static constexpr std::uint64_t kReplyStep = std::uint64_t{1} << 20;
  std::uint64_t reply_charged = 0;  ///< bytes of the reply's buffer that are charged, or were in it before this run

  // --- the server
  /// The server: all that a handler may use outside the database and its connection.
  [[nodiscard]] ServerControl& server() const;

 private:
  [[nodiscard]] const PendingWrites* pending() const { return exec == nullptr ? nullptr : exec->pending; }
  void add_also_read(const LookupKey& key) const;
  [[nodiscard]] Status reserve_slowly(std::uint64_t bytes);
  [[nodiscard]] Status reserve_reply_slowly();
};

}  // namespace ebbtide
