// What MULTI and WATCH keep with a connection.
//
// WATCH costs nobody else anything: it notes of each key whether it was there and in which version, and EXEC looks again. A
// version is a seq, and no two versions ever share one, so that every overwrite, FLUSHDB, SWAPDB, range delete and expiry shows.
// A key that was absent, came and went again is told by the seq of what deleted it, for as long as that is kept.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <engine/memory_account.h>
#include <engine/types.h>

#include "resp/args.h"
#include "resp/disposal.h"

namespace ebbtide {

struct Command;

/// A command that waits for EXEC: copies of its arguments, and its keys as engine keys.
struct QueuedCommand {
  const Command* command = nullptr;
  DatabaseId database = 0;  ///< in which it will run
  std::string text;         ///< what `list` and `keys` point into, but for shared arguments
  std::vector<Bytes> list;
  std::vector<SharedArg> shared;
  std::vector<LookupKey> keys;
};

struct WatchedKey {
  std::uint64_t hash = 0;
  SeqNum seen_seq = 0;   ///< what the client has seen when it asked
  SeqNum entry_seq = 0;  ///< of the entry, if it was there
  bool present = false;
};
/// By database and engine key.
using WatchedKeys = std::map<std::pair<DatabaseId, std::string>, WatchedKey>;

/// Belongs to its client's loop thread.
struct Transaction {
  explicit Transaction(MemoryAccount& account) : memory(account) {}
  ~Transaction() {
    forget_queue();
    forget_watched();
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  MemoryAccount& memory;                                                    ///< what is queued and watched is charged to it
  bool open = false;                                                        ///< after MULTI
  bool failed = false;                                                      ///< a command could not be queued: EXEC will say so
  bool writes = false, locks_all = false, synced = false, selects = false;  ///< what its commands ask for
  bool may_leave = true;                                                    ///< all of them may run off the loop
  std::uint64_t arguments = 0;                                              ///< of all of them
  DatabaseId database = 0;          ///< after the commands that are queued: SELECT changes it
  std::deque<QueuedCommand> queue;  ///< stay put: their keys and arguments refer to themselves
  std::uint64_t charged = 0;        ///< of what is queued, but for large arguments that carry their charge
  std::uint64_t bytes = 0;          ///< of what is queued
  WatchedKeys watched;

  /// False if the memory budget has no room for `n` bytes more.
  [[nodiscard]] bool charge(std::uint64_t n) {
    if (!memory.try_charge(MemoryAccount::Kind::kConnections, n)) return false;
    charged += n;
    return true;
  }
  void forget_queue() {
    if (queue.size() > kDisposedPieces || charged > kDisposedBytes) {
      let_go(std::make_shared<std::deque<QueuedCommand>>(std::move(queue)), true);
      queue = {};
    }
    queue.clear();
    queue.shrink_to_fit();
    if (charged != 0) memory.release(MemoryAccount::Kind::kConnections, charged);
    charged = bytes = 0;
  }
  void forget_watched() {
    if (watched.size() > kDisposedPieces) let_go(std::make_shared<WatchedKeys>(std::move(watched)), true);
    watched.clear();
  }
  /// After EXEC and DISCARD: nothing queued, nothing watched.
  void end() {
    forget_queue();
    forget_watched();
    open = failed = writes = locks_all = synced = selects = false;
    may_leave = true;
    arguments = 0;
  }
};

}  // namespace ebbtide
