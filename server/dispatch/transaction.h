// The state of MULTI and WATCH of a connection.
//
// WATCH has no cost for other clients. It stores for each key whether the key exists and in which version; EXEC compares. A
// version is a seq, and no two versions share a seq. So EXEC notices overwrites, FLUSHDB, SWAPDB, range deletes and expirations.
// If an absent key was created and deleted again, EXEC notices the seq of its tombstone, while the tombstone exists.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <engine/charged_value.h>
#include <engine/memory_account.h>
#include <engine/types.h>

#include "resp/args.h"
#include "resp/disposal.h"
#include "resp/gathered_memory.h"

namespace ebbtide {

struct Command;
struct User;

/// A queued command: copies of its arguments, and its keys as engine keys.
struct QueuedCommand {
  const Command* command = nullptr;
  DatabaseId database = 0;  ///< the database in which the command will run
  DatabaseId target = 0;    ///< target database of COPY and MOVE; for other commands, `database`
  std::span<const Bytes> list;
  std::vector<SharedArg> shared;
  std::span<const LookupKey> keys;
  QueuedCommand* next = nullptr;
};

/// Queued commands in order, with the bytes of their arguments. A command does not move in memory until the queue is cleared.
class CommandQueue {
 public:
  class Iterator {
   public:
    explicit Iterator(const QueuedCommand* at) : at_(at) {}
    const QueuedCommand& operator*() const { return *at_; }
    Iterator& operator++() { return at_ = at_->next, *this; }
    bool operator==(const Iterator&) const = default;

   private:
    const QueuedCommand* at_;
  };

  CommandQueue() = default;
  ~CommandQueue() { clear(); }
  CommandQueue(const CommandQueue&) = delete;
  CommandQueue& operator=(const CommandQueue&) = delete;
  CommandQueue(CommandQueue&& other) noexcept { *this = std::move(other); }
  CommandQueue& operator=(CommandQueue&& other) noexcept {
    clear();
    memory_ = std::move(other.memory_);
    first_ = std::exchange(other.first_, nullptr);
    last_ = std::exchange(other.last_, nullptr);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  /// Copies the arguments and keys. Shared arguments are not copied, only referenced.
  QueuedCommand& add(const Args& args, std::span<const LookupKey> keys);
  [[nodiscard]] Iterator begin() const { return Iterator(first_); }
  [[nodiscard]] Iterator end() const { return Iterator(nullptr); }
  [[nodiscard]] std::size_t size() const { return size_; }
  void clear();

 private:
  GatheredMemory memory_;
  QueuedCommand *first_ = nullptr, *last_ = nullptr;
  std::size_t size_ = 0;
};

struct WatchedKey {
  std::uint64_t hash = 0;
  SeqNum seen_seq = 0;   ///< Client::seen_seq at the time of WATCH
  SeqNum entry_seq = 0;  ///< seq of the key's entry, if it existed
  bool present = false;
};
/// Watched keys by database and engine key. They lie in few blocks of memory (GatheredMemory), so that any thread can free them
/// quickly.
class WatchedKeys {
 public:
  using Place = std::pair<DatabaseId, Bytes>;

  [[nodiscard]] bool contains(const Place& place) const { return kept_ != nullptr && kept_->keys.contains(place); }
  /// Adds a copy of the key, unless it is watched already.
  void add(const Place& place, const WatchedKey& key) {
    if (kept_ == nullptr) kept_ = std::make_unique<Kept>();
    kept_->keys.emplace(Place(place.first, kept_->memory.copy(place.second)), key);
  }
  [[nodiscard]] std::size_t size() const { return kept_ == nullptr ? 0 : kept_->keys.size(); }
  void clear() { kept_ = nullptr; }
  [[nodiscard]] auto begin() const { return keys().begin(); }
  [[nodiscard]] auto end() const { return keys().end(); }

 private:
  template <typename T>
  struct Allocator {
    using value_type = T;
    explicit Allocator(GatheredMemory* gathered) : memory(gathered) {}
    template <typename U>
    Allocator(const Allocator<U>& other) : memory(other.memory) {}  // NOLINT(google-explicit-constructor): as allocators must
    T* allocate(std::size_t n) { return static_cast<T*>(memory->allocate(n * sizeof(T))); }
    void deallocate(T*, std::size_t) noexcept {}
    bool operator==(const Allocator&) const = default;
    GatheredMemory* memory;
  };
  using Keys = std::map<Place, WatchedKey, std::less<>, Allocator<std::pair<const Place, WatchedKey>>>;
  struct Kept {
    GatheredMemory memory;
    Keys keys{Allocator<std::pair<const Place, WatchedKey>>(&memory)};
  };
  [[nodiscard]] const Keys& keys() const {
    static const Kept kNone{};
    return kept_ == nullptr ? kNone.keys : kept_->keys;
  }
  std::unique_ptr<Kept> kept_;
};

/// The state of MULTI and WATCH of one connection. It belongs to its client's loop thread.
struct Transaction {
  explicit Transaction(MemoryAccount& account) : memory(account) {}
  ~Transaction() {
    forget_queue();
    forget_watched();
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  MemoryAccount& memory;  ///< charged with queued commands and watched keys
  bool open = false;      ///< MULTI was called
  bool failed = false;    ///< a command could not be queued, so EXEC replies with an error
  /// These say whether one of the queued commands writes, locks all keys, needs a synced log, or selects a database.
  bool writes = false, locks_all = false, synced = false, selects = false;
  bool walks = false;           ///< one of the queued commands reads a whole database
  bool is_long = false;         ///< one of the queued commands is flagged kOffload
  bool may_leave = true;        ///< all of the queued commands may run off the loop
  std::uint64_t arguments = 0;  ///< arguments of all queued commands
  std::uint64_t passwords = 0;  ///< number of passwords that EXEC will check
  DatabaseId database = 0;      ///< the selected database after the queued commands: SELECT changes it
  /// The user whose rights to all queued commands were checked; null: the rights have changed between two commands.
  std::shared_ptr<const User> rights;
  CommandQueue queue;
  std::uint64_t charged = 0;  ///< bytes charged for the queue; large arguments are not in it, since each has a charge of its own
  std::uint64_t bytes = 0;    ///< bytes of queued commands
  WatchedKeys watched;

  /// Returns false if the memory budget has no room for `n` more bytes.
  [[nodiscard]] bool charge(std::uint64_t n) {
    if (!memory.try_charge(MemoryAccount::Kind::kConnections, n)) return false;
    charged += n;
    return true;
  }
  /// Clears the queue. A large queue is freed on another thread, and its charge is released after that.
  void forget_queue() {
    MemoryCharge charge;
    if (charged != 0) charge.took(memory, MemoryAccount::Kind::kConnections, charged);
    if (queue.size() > kDisposedPieces || charged > kDisposedBytes) {
      let_go(std::make_shared<Forgotten>(memory.weak_from_this().lock(), std::move(charge), std::move(queue)), true);
    }
    queue.clear();
    charged = bytes = 0;
  }
  void forget_watched() {
    if (watched.size() > kDisposedPieces) let_go(std::make_shared<WatchedKeys>(std::move(watched)), true);
    watched.clear();
  }
  /// Frees the queue and the watched keys, after EXEC and DISCARD.
  void end() {
    forget_queue();
    forget_watched();
    open = failed = writes = locks_all = synced = selects = walks = is_long = false;
    may_leave = true;
    arguments = passwords = 0;
    rights = nullptr;
  }

 private:
  struct Forgotten {  // members are destroyed in reverse order: the queue first, then its charge, then the account
    std::shared_ptr<MemoryAccount> account;
    MemoryCharge charge;
    CommandQueue queue;

    Forgotten(std::shared_ptr<MemoryAccount> a, MemoryCharge c, CommandQueue q)
        : account(std::move(a)), charge(std::move(c)), queue(std::move(q)) {}
  };
};

}  // namespace ebbtide
