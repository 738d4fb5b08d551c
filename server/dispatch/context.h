// The context of a handler: one attempt of one command. Dispatch makes another attempt if, for example, pages are missing.
//
// Every attempt has a Ctx. An attempt inside EXEC also has an ExecCtx, and an attempt off its event loop an OffLoopCtx; the
// attempts of a long transaction have both. Handlers call Ctx only.
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

/// An effect of a command or transaction. The loop calls it after the commit. If it returns false, the slice has ended before the
/// effect was complete, and the loop calls it again.
using Effect = std::function<bool(const Origin& origin, const Slice& slice)>;
using Effects = std::vector<Effect>;

/// The additional context of an attempt inside EXEC.
struct ExecCtx {
  /// The writes of the transaction's earlier commands; null while after_commit runs.
  const PendingWrites* pending = nullptr;
  Effects* effects = nullptr;          ///< run on the loop once the transaction is committed; null while after_commit runs
  std::uint64_t* keys_left = nullptr;  ///< on a loop: the keys and versions that walks may still read (exec_walk.h)
  std::size_t first_op = 0, ops_end = ~std::size_t{0};  ///< the command's operations in the batch (Ctx::first_op)
  ScriptCalls* calls = nullptr;   ///< only for a kRunsScript command: runs the commands that its script calls
  std::uint64_t unix_micros = 0;  ///< when the attempt began: TIME for all its commands; 0 while after_commit runs
};

/// The additional context of an attempt off its event loop.
struct OffLoopCtx {
  const std::atomic<bool>* cancelled = nullptr;  ///< set once no client waits for the reply
  bool on_short_thread = false;                  ///< the command runs on a thread for short work (Ctx::go_on_for_long)
  std::uint64_t waited_ms = 0;                   ///< how long the client of a kBlocking command has waited
  bool unblocked = false;                        ///< CLIENT UNBLOCK has ended the wait of a kBlocking command
  Effects* effects = nullptr;                    ///< run on the loop, after the reply; null inside EXEC
  /// For a long write: collects the keys that the command passes to Ctx::note_also_read(). It keeps at most kMostAlsoRead + 1
  /// keys; if it is full, the keys are too many to mark.
  KeySet* also_read = nullptr;
  static constexpr std::size_t kMostAlsoRead = 64 << 10;  ///< half a megabyte of hashes

  // --- results
  bool wants_long = false;  ///< the command is to run again on a thread for long work
  /// The command blocks: it has not replied, and runs again after this many ms; 0: the command has replied.
  std::uint32_t again_ms = 0;
};

/// The values by which dispatch and a command that waits for an element (BLPOP) communicate.
struct ElementWait {
  bool has_waited = false;       ///< the command has waited for an element, and now looks at its keys again
  bool is_over = false;          ///< the wait must end: its timeout has passed, or CLIENT UNBLOCK was called
  bool wanted = false;           ///< result: the command found no element, and has to wait
  std::uint64_t timeout_ms = 0;  ///< result: the timeout of the whole wait; 0: none
};

/// A handle of the server's CommandEnv. Only env_of() (command_env.h) can open it, so that handlers without that include cannot.
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
  /// The attempt's writes. Dispatch commits them if the handler returns ok.
  WriteBatch& batch;
  Reply& reply;
  /// The connection's session. Off the loop it is a copy, and changes to the copy are lost.
  Session& session;
  /// The connection. Null off the loop.
  Client* client = nullptr;
  std::uint64_t client_id = 0;
  /// Engine time of this attempt, in ms.
  Millis now = 0;
  /// A random number, the same for all attempts of the command.
  std::uint64_t random = 0;

  const ExecCtx* exec = nullptr;   ///< null outside EXEC
  OffLoopCtx* off_loop = nullptr;  ///< null on a loop
  /// Returns the views of other databases (view_of), inside EXEC and off the loop; null elsewhere.
  const std::function<ReadView(DatabaseId)>* other_view = nullptr;

  ElementWait element_wait = {};  ///< for a kBlocking command that writes: the state of its wait

  // --- results
  /// A handler sets this if a part of its reply depends on the commit. Dispatch calls the function once the batch is committed,
  /// or at once if the batch is empty. The function writes that part, and must not fail.
  void (*after_commit)(Ctx&) = nullptr;
  ReadCounts counts = {};
  /// The memory that this attempt has reserved, except for values that it has built: each of those has a charge of its own.
  MemoryCharge charge = {};
  /// Bytes of values that the attempt may still process on its thread. The commands of a transaction share this amount.
  std::uint64_t work_left = ~std::uint64_t{0};
  bool too_long = false;  ///< work() has failed, so dispatch runs the command again off its loop
  /// With `too_long`: the marks of the command's keys are firm from the first attempt on (intents.h). A handler sets this if
  /// other clients will surely write its keys meanwhile.
  bool firm_marks = false;
  /// For a kSliced command outside EXEC: the number of arguments that earlier slices have processed. The replies and effects of
  /// those slices are kept.
  std::size_t args_done = 0;
  bool unfinished = false;  ///< arguments are left, which the next slice processes in the loop's next round

  // --- arguments and keys
  [[nodiscard]] std::size_t argc() const { return args.size(); }
  [[nodiscard]] Bytes arg(std::size_t i) const { return args[i]; }
  /// Returns argument `i` as a shared value if the parser received it as one (large arguments), else null. The value owns its
  /// charge (EventLoop::hand_over).
  [[nodiscard]] SharedValue shared_arg(std::size_t i) const { return args.shared(i); }
  [[nodiscard]] const LookupKey& key(std::size_t i = 0) const { return keys[i]; }

  // --- data
  [[nodiscard]] Strings strings() { return strings_in(view); }
  /// Like strings(), in another database's view.
  [[nodiscard]] Strings strings_in(const ReadView& other) { return Strings(other, batch, counts, pending()); }
  [[nodiscard]] Collections collections() { return collections_in(view); }
  /// Like collections(), in another database's view.
  [[nodiscard]] Collections collections_in(const ReadView& other) { return Collections(other, batch, counts, pending()); }
  /// Returns true if a command has ever written to this database.
  [[nodiscard]] bool has_tree() const { return has_tree(view); }
  [[nodiscard]] bool has_tree(const ReadView& other) const {
    return pending() == nullptr ? other.has_tree() : pending()->has_tree(other);
  }
  /// Returns an iterator over the command's database. Inside EXEC the caller must limit its walk (kExecKeys), since the walk
  /// keeps the loop busy.
  [[nodiscard]] std::unique_ptr<Iterator> iterate(const IteratorOptions& options) const;
  /// For COPY and MOVE: returns a view of another database at the moment of the call. The view cannot be outdated at the commit:
  /// the command holds all locks, or has set marks (intents.h) on its keys in that database.
  [[nodiscard]] ReadView view_of(DatabaseId database) const;
  /// A command calls this before it reads a key that is not in `keys`. If the command is a long write, its next attempt marks the
  /// key (intents.h).
  void note_also_read(const LookupKey& key) const {
    if (off_loop != nullptr && off_loop->also_read != nullptr) add_also_read(key);
  }
  /// Returns true if a read command such as PFCOUNT may store the result that it computed. It may do so only on a loop or in
  /// EXEC, and only while the engine accepts writes without a stop.
  [[nodiscard]] bool may_store_result() const;

  // --- where it runs
  [[nodiscard]] bool in_exec() const { return exec != nullptr; }
  /// Returns true once no client waits for the reply. Long walks check this, and stop.
  [[nodiscard]] bool is_cancelled() const {
    return off_loop != nullptr && off_loop->cancelled != nullptr && off_loop->cancelled->load(std::memory_order_relaxed);
  }
  /// A handler calls this before work without a bound. On kNotResident the handler returns that status: dispatch then runs the
  /// command again on a thread for long work.
  [[nodiscard]] Status go_on_for_long() {
    if (off_loop == nullptr || !off_loop->on_short_thread) return Status::ok();
    off_loop->wants_long = true;
    return Status::not_resident();
  }
  /// For a kBlocking command outside EXEC: returns how long its client has waited, in ms.
  [[nodiscard]] std::uint64_t waited_ms() const { return off_loop->waited_ms; }
  /// For a kBlocking command outside EXEC: true if CLIENT UNBLOCK has ended the wait, so that the command replies now.
  [[nodiscard]] bool unblocked() const { return off_loop->unblocked; }
  /// For a kBlocking command outside EXEC that has no reply yet: runs the command again after `ms`. The wait occupies no thread.
  void run_again_after(std::uint32_t ms) { off_loop->again_ms = ms; }

  /// For a kBlocking command that writes and has found no element. Returns true if the command has to wait: it runs again once
  /// one of its keys has elements. Returns false if it must reply now: inside EXEC, or when its timeout has passed.
  [[nodiscard]] bool wait_for_element(std::uint64_t timeout_ms) {
    element_wait.wanted = !in_exec() && !element_wait.is_over;
    element_wait.timeout_ms = timeout_ms;
    return element_wait.wanted;
  }
  /// Returns true if the command has waited for an element. After a wait, keys of other types are ignored instead of an error.
  [[nodiscard]] bool has_waited() const { return element_wait.has_waited; }

  /// For a command inside EXEC or off its loop: calls `effect` later on the loop. Inside EXEC, that is once the transaction is
  /// committed.
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
  /// The most keys and skipped versions that all walks inside one EXEC may visit: about 20 milliseconds of work.
  static constexpr std::uint64_t kExecKeys = 100'000;
  /// The cost of a range delete inside EXEC, and of each byte of its bounds, as an argument of work().
  static constexpr std::uint64_t kRangeDeleteWork = 16 << 10, kBoundByteWork = 8;
  /// A handler calls this before it copies `bytes` of values or computes on them. kNotResident: this is too much work for the
  /// loop, so dispatch runs the command again off the loop, where work is unlimited. kAborted: the client has disconnected.
  [[nodiscard]] Status work(std::uint64_t bytes) {
    if (bytes <= work_left) [[likely]] {
      work_left -= bytes;
      return is_cancelled() ? Status::aborted("the client has disconnected") : Status::ok();
    }
    too_long = true;
    return Status::not_resident();
  }
  /// For a kSliced command: the first argument that this slice processes, and the argument after the last one.
  [[nodiscard]] std::size_t slice_begin() const { return std::max<std::size_t>(args_done, 1); }
  [[nodiscard]] std::size_t slice_end() const { return in_exec() ? argc() : std::min(argc(), slice_begin() + kSliceArguments); }
  /// Records that the arguments before slice_end() are processed.
  void end_slice() { end_slice(slice_end()); }
  /// Records that the arguments before `end` are processed.
  void end_slice(std::size_t end) {
    args_done = end;
    unfinished = args_done < argc();
  }
  static constexpr std::size_t kSliceArguments = 1024;  ///< arguments per slice: about a millisecond of work

  /// A handler calls this before it allocates `bytes` for a value or a reply. kOutOfMemory: the memory budget has no room. Up to
  /// kLargeValueBytes are not charged, since a batch copies a value of that size into memory of its own.
  [[nodiscard]] Status reserve(std::uint64_t bytes) { return bytes <= kLargeValueBytes ? Status::ok() : reserve_slowly(bytes); }
  /// A handler calls this while its reply grows. Charges, in steps, the memory by which the reply's buffer has grown since the
  /// last call.
  [[nodiscard]] Status reserve_reply() {
    return reply.out().memory() <= reply_charged + kReplyStep ? Status::ok() : reserve_reply_slowly();
  }
  /// Wraps `value` so that a batch or a reply can share it. The value's part of this attempt's memory charge moves to the result,
  /// and is released with the result's last owner.
  [[nodiscard]] SharedValue share(std::string value) { return charged_value(std::move(value), &charge); }
  /// A reply may grow by this many bytes before they are charged.
  static constexpr std::uint64_t kReplyStep = std::uint64_t{1} << 20;
  std::uint64_t reply_charged = 0;  ///< bytes of the reply's buffer that are charged, or were in it before this attempt

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
