// What a handler gets: one run of one command.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <engine/db.h>

#include "command/observers.h"
#include "command/server_control.h"
#include "command/session.h"
#include "command/spec.h"
#include "command/table.h"
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
    return pending == nullptr ? env.db->iterate(view, options) : pending->iterate(view.database(), options);
  }
  /// Another database at the moment of this run, for COPY and MOVE. Only on a loop thread, in a command with kLockAll: the view
  /// is taken now, and must not be later than what its client waits for.
  [[nodiscard]] ReadView view_of(DatabaseId database) const {
    return database == view.database() ? view : env.db->view(database, now, view.mode(), view.misses());
  }
  /// Of argument `i` if it was received as one, else null.
  [[nodiscard]] SharedValue shared_arg(std::size_t i) const { return args.shared(i); }
};

}  // namespace ebbtide
