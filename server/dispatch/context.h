// What a handler gets: one run of one command.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <engine/charged_value.h>
#include <engine/db.h>

#include "dispatch/observers.h"
#include "dispatch/server_control.h"
#include "dispatch/session.h"
#include "dispatch/spec.h"
#include "dispatch/table.h"
#include "resp/args.h"
#include "resp/reply.h"
#include "store/pending_writes.h"
#include "store/strings.h"

namespace ebbtide {

class BlockedClients;
class Intents;
class CommandTable;
class KeyLocks;
class PubSub;
class Offload;
class ScanCursors;
class ServerStats;

/// What all dispatchers of a server share. Everything in it outlives them and is thread-safe.
struct CommandEnv {
  Db* db = nullptr;  ///< null while the database is being opened
  ServerControl* control = nullptr;
  const CommandTable* table = nullptr;
  KeyLocks* locks = nullptr;
  Offload* offload = nullptr;
  ScanCursors* cursors = nullptr;
  ServerStats* stats = nullptr;
  PubSub* pubsub = nullptr;
  Observers* observers = nullptr;
  BlockedClients* blocked = nullptr;
  std::uint32_t databases = 16;
  MemoryAccount* memory = nullptr;  ///< what clients keep is charged to it
  Intents* intents = nullptr;

  /// Engine time in ms; Unix time while the database is being opened.
  [[nodiscard]] Millis now() const { return db == nullptr ? control->unix_micros() / 1000 : db->now(); }
};

/// What is to happen once a transaction is committed and has replied, with its client, on its loop.
using Effects = std::vector<std::function<void(Client&)>>;

struct Ctx {
  CommandEnv& env;
  const Command& command;
  Args args;
  /// The command's keys in order, as engine keys with their hashes.
  std::span<const LookupKey> keys;
  ReadView view;
  /// What this run writes; dispatch commits it if the handler returns ok and it is not empty.
  WriteBatch& batch;
  Reply& reply;
  /// Of the connection; a copy on an offload thread, where changes are lost.
  Session& session;
  /// Null on an offload thread.
  Client* client = nullptr;
  std::uint64_t client_id = 0;
  /// Engine time of this run, in ms.
  Millis now = 0;
  /// A random number of this run.
  std::uint64_t random = 0;

  /// Set by a handler: called once its batch is committed (or at once if it is empty), to write what the reply needs to know of
  /// the commit. May not fail.
  void (*after_commit)(Ctx&) = nullptr;
  /// For after_commit: where the command's own operations are in `batch`, as cursors of WriteBatch::next_op.
  std::size_t first_op = 0, ops_end = ~std::size_t{0};
  ReadCounts counts = {};
  /// Inside EXEC: what the commands before this one have written; else null.
  const PendingWrites* pending = nullptr;
  /// Inside EXEC: what is to happen once the transaction is committed and has replied; else null.
  Effects* effects = nullptr;
  /// Of a kBlocking command on an offload thread: for how long its client has waited, and, set by the handler, that there is no
  /// reply yet: it is run again after so many ms, and holds no thread meanwhile.
  std::uint64_t waited_ms = 0;
  std::uint32_t again_ms = 0;
  /// Of a kBlocking command: CLIENT UNBLOCK has ended its wait, so it replies now.
  bool unblocked = false;
  /// On an offload thread: set once nobody waits for the reply. Long walks look at it.
  const std::atomic<bool>* cancelled = nullptr;
  /// Bytes that the run may still process where it is. On a loop kLoopWorkBytes, of a whole transaction together.
  std::uint64_t work_left = ~std::uint64_t{0};
  bool too_long = false;  ///< work() has refused: the run leaves its loop
  /// Inside EXEC and off the loop: what view_of() asks for another database.
  const std::function<ReadView(DatabaseId)>* other_view = nullptr;
  /// Of a kSliced command outside EXEC: how many arguments earlier runs have dealt with, and, set by the handler, that others are
  /// left. What such a run has replied and done stands; the next one is in the loop's next round.
  std::size_t args_done = 0;
  bool unfinished = false;
  /// What this run has reserved. Values that it has built carry their part themselves; the rest goes with the run's reply.
  MemoryCharge charge = {};

  /// Of a kOffload command without kLong: whether it runs on a thread for short work, and, set by go_on_for_long(), that it is to
  /// run again on one for long work.
  bool on_short_thread = false;
  bool wants_long = false;
  /// Asked before work that nothing bounds. kNotResident: dispatch runs the command again, where it may take its time.
  [[nodiscard]] Status go_on_for_long() {
    wants_long = on_short_thread;
    return on_short_thread ? Status::not_resident() : Status::ok();
  }

  [[nodiscard]] bool is_cancelled() const { return cancelled != nullptr && cancelled->load(std::memory_order_relaxed); }

  /// Asked before `bytes` of values are copied or computed on. kNotResident: that is too long for the loop, and dispatch runs the
  /// command off it, where all is allowed until the client goes: kAborted.
  [[nodiscard]] Status work(std::uint64_t bytes) {
    if (bytes <= work_left) [[likely]] {
      work_left -= bytes;
      return is_cancelled() ? Status::aborted("the client has gone") : Status::ok();
    }
    too_long = true;
    return Status::not_resident();
  }
  /// Of a kSliced command: the first argument that this run deals with, and the end of them.
  [[nodiscard]] std::size_t slice_begin() const { return std::max<std::size_t>(args_done, 1); }
  [[nodiscard]] std::size_t slice_end() const {
    return pending != nullptr ? argc() : std::min(argc(), slice_begin() + kSliceArguments);
  }
  /// The arguments before slice_end() are dealt with.
  void end_slice() {
    args_done = slice_end();
    unfinished = args_done < argc();
  }
  static constexpr std::size_t kSliceArguments = 1024;  ///< about a millisecond of work

  /// Asked before `bytes` are allocated for a value or a reply. kOutOfMemory: the budget has no room for them, and the handler
  /// builds nothing. Free of charge up to kLargeValueBytes: a batch copies such a value into its own memory.
  [[nodiscard]] Status reserve(std::uint64_t bytes) { return bytes <= kLargeValueBytes ? Status::ok() : reserve_slowly(bytes); }
  /// Asked while a reply grows: charges what its buffer has taken since the last time, in steps.
  [[nodiscard]] Status reserve_reply() {
    return reply.out().memory() <= reply_charged + kReplyStep ? Status::ok() : reserve_reply_slowly();
  }
  /// `value` for a batch, or to be replied, with its part of what is reserved.
  [[nodiscard]] SharedValue share(std::string value) { return charged_value(std::move(value), &charge); }

  [[nodiscard]] std::size_t argc() const { return args.size(); }
  [[nodiscard]] Bytes arg(std::size_t i) const { return args[i]; }
  [[nodiscard]] const LookupKey& key(std::size_t i = 0) const { return keys[i]; }
  [[nodiscard]] Strings strings() { return strings_in(view); }
  /// The same for another database's view.
  [[nodiscard]] Strings strings_in(const ReadView& other) { return Strings(other, batch, counts, pending); }
  /// Whether anything was ever written to the command's database.
  [[nodiscard]] bool has_tree() const { return pending == nullptr ? view.has_tree() : pending->has_tree(view); }
  /// Walks the command's database. Inside EXEC, where it keeps its loop busy, the caller bounds the walk.
  [[nodiscard]] std::unique_ptr<Iterator> iterate(const IteratorOptions& options) const {
    return pending == nullptr ? env.db->iterate(view, options) : pending->iterate(view, options);
  }
  /// Another database at the moment of this run, for COPY and MOVE. The view is taken now, while the command holds all locks, or
  /// while its keys in that database are marked.
  [[nodiscard]] ReadView view_of(DatabaseId database) const {
    if (database == view.database()) return view;
    return other_view != nullptr ? (*other_view)(database) : env.db->view(database, now, view.mode(), view.misses());
  }
  /// Of argument `i` if it was received as one, else null. It carries its charge (EventLoop::hand_over).
  [[nodiscard]] SharedValue shared_arg(std::size_t i) const { return args.shared(i); }

  /// Bytes that a reply may grow by before they are charged.
  static constexpr std::uint64_t kReplyStep = std::uint64_t{1} << 20;
  std::uint64_t reply_charged = 0;  ///< of the reply's buffer, or in it before this run

 private:
  [[nodiscard]] Status reserve_slowly(std::uint64_t bytes);
  [[nodiscard]] Status reserve_reply_slowly();
};

}  // namespace ebbtide
