// The clients that wait for an element of a key: those in BLPOP, BZPOPMIN and other commands that block on lists and sorted sets.
//
// Each key has a queue of waiting clients. A write of the key wakes the first client, whose command runs again. That client then
// has the key's baton. If its command ends without reading this key, the client passes the baton on, which wakes the next client.
// This happens after a timeout, an error or a disconnection, or if another of its keys had an element. If the command pops an
// element and others remain, its own commit wakes the next client, like any other write.
//
// No wake-up is lost. A waiting client enters the queues before it reads the keys. It reads them under their locks
// (dispatch/key_locks.h), and a writer checks the queues and commits under the same locks. So if the read comes first, the writer
// finds the client in the queue; otherwise the read finds the written element.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <engine/read_view.h>
#include <engine/seeded_hash.h>
#include <engine/types.h>
#include <engine/write_batch.h>

#include "resp/client.h"

namespace ebbtide {

/// Thread-safe.
class KeyWaiters {
 public:
  class Wait;

 private:
  /// A waiting client's entry in the queue of one of its keys.
  struct Sleeper {
    Wait* wait;
    std::size_t place;
  };
  using Asleep = std::multimap<std::uint64_t, Sleeper>;
  struct Queue;

 public:
  /// The most keys that one command waits for.
  static constexpr std::size_t kMaxKeys = 16'384;
  /// Estimated memory in bytes of one key in one Wait, without the key itself.
  static constexpr std::uint64_t kBytesPerKey = 256;

  /// A key that a batch writes and that clients wait for.
  struct Written {
    DatabaseId database;
    std::string key;
    bool has_elements;  ///< false: the batch deletes the key, or replaces it by another type
  };

  /// A command that waits until one of its keys has an element. It is in the queues of these keys as long as this object lives.
  /// Used on the client's loop.
  class Wait {
   public:
    /// `keys`: engine keys (store/key_codec.h), at most kMaxKeys; a key may be given twice.
    Wait(KeyWaiters& waiters, const Client& client, DatabaseId database, std::span<const LookupKey> keys);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

    /// Begins a look: the waiting command is about to read its keys again. A write during the look wakes the client again.
    void begin_look();
    /// Ends a look that has found no element. Drops the batons that the client had when the look began: their keys have no
    /// element for the next client. Returns true if the client was woken during the look, so that it must look again.
    [[nodiscard]] bool found_nothing();
    /// Drops the batons of keys that the command itself has written, after its commit. If these keys still have elements, the
    /// commit wakes the next client.
    void has_written(const std::vector<Written>& keys);

   private:
    friend class KeyWaiters;
    enum class Baton : std::uint8_t {
      kNone,
      kWoken,    ///< the client was woken, and no look has begun since
      kLooking,  ///< the client was woken, and has begun to look at its keys
    };
    struct Place {
      Queue* queue;
      Baton baton;
      std::optional<Asleep::iterator> sleeper;  ///< set while a write may wake this entry: finds it in the queue at once
    };
    /// The most queue entries that are added or removed under one lock. Thousands at once would delay the commits of all other
    /// loops.
    static constexpr std::size_t kPlacesAtOnce = 256;
    static void let_others_in(std::unique_lock<std::mutex>& lock);

    KeyWaiters& waiters_;
    ClientLoop* const loop_;
    const std::uint64_t client_id_;
    std::uint64_t ticket_ = 0;         ///< order of this wait among all waits; the lowest ticket is woken first
    std::vector<Place> places_;        // guarded by waiters_.mutex_
    std::vector<std::size_t> batons_;  // guarded by waiters_.mutex_: indexes of the entries with a baton
  };

  /// Returns true if any client waits. If none does, this check is the only cost of a commit.
  [[nodiscard]] bool any() const { return waits_.load(std::memory_order_relaxed) != 0; }
  /// Returns the keys of the batch for which clients wait, in the batch's order. Call it before the commit, under the locks of
  /// the batch's keys. Considers only puts of collections. If `own` is true, the batch is that of a waiting command, and all
  /// writes are considered.
  [[nodiscard]] std::vector<Written> waited_for(const WriteBatch& batch, bool own) const;
  /// Wakes the first client of each key that has elements. Call it after the commit, once the batch's notifications are sent.
  void wake(const std::vector<Written>& keys);

  /// Returns the number of commands that wait.
  [[nodiscard]] std::size_t size() const { return waits_.load(std::memory_order_relaxed); }

 private:
  using Name = std::pair<DatabaseId, std::string>;
  struct NameHash {
    std::size_t operator()(const Name& name) const { return SeededHash{}(name.second) + name.first; }
  };
  struct Queue {
    const Name* name = nullptr;
    std::size_t waits = 0;  ///< number of entries in this queue, whether a write may wake them or not
    Asleep asleep;          ///< the entries that a write may wake, by ticket
  };

  void wake_first(Queue& queue);
  void fall_asleep(Wait& wait, std::size_t place);

  mutable std::mutex mutex_;
  std::unordered_map<Name, Queue, NameHash> queues_;  // guarded by mutex_
  std::uint64_t next_ticket_ = 0;                     // guarded by mutex_
  std::atomic<std::size_t> waits_{0};
};

}  // namespace ebbtide
