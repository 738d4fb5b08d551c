// Which keys expire next, while somebody wants to be told: expired events, and invalidations of client-side caches.
//
// Expiry is no operation in the engine: a key that has expired is absent, and nobody notices. So that events can be sent, the
// watch knows every key that expires up to its horizon: from a sweep over the engine's page expiries (Db::expiring_keys) when it
// begins and whenever the horizon comes near, and from every write in between. Each is told of once, when its time has come or
// when a command meets it, whichever is first; a key that was written again is not.
//
// It holds kMaxKeys in kMaxBytes at most: of more, the latest go, and the horizon moves back before them (of more at one moment
// some are not told of). Without sweeping (for caches alone, where the keys that matter are those that were read) the horizon is
// the end of time.
#pragma once

#include <atomic>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <engine/types.h>

#include "dispatch/committed_command.h"
#include "resp/args.h"

namespace ebbtide {

/// Thread-safe. Keys are engine keys.
class ExpiryWatch {
 public:
  static constexpr std::size_t kMaxKeys = 100'000;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;  ///< of the keys; as much again of what a sweep must not find
  static constexpr Millis kHorizon = 60'000;

  struct Key {
    DatabaseId database = 0;
    std::string key;
  };
  struct Sweep {
    Millis after = 0, until = 0;
  };

  /// Off (both false) forgets everything. `now` is engine time.
  void set_mode(bool on, bool sweeping, Millis now);
  /// One load.
  [[nodiscard]] bool on() const { return on_.load(std::memory_order_relaxed); }

  /// The key was written at `time`, that of the commit, with this expiry; 0: with none, or deleted. What had expired by then was
  /// written as a delete, which no sweep finds.
  void written(DatabaseId database, Bytes key, Millis expiry, Millis time);
  /// Takes over the writes of a command. `target`: the database that its puts went to (COPY and MOVE name one).
  void committed(const CommittedCommand& commit, DatabaseId target);
  /// The key was read, and expires then.
  void seen(DatabaseId database, Bytes key, Millis expiry);
  /// All keys of the range are gone; an empty end is the end of the database.
  void range_deleted(DatabaseId database, Bytes start, Bytes end);
  /// Databases were emptied or swapped: what was known is not true any more. A sweep is due.
  void databases_changed();

  /// What has expired by `now`; each is handed out once.
  std::vector<Key> take_due(Millis now);
  /// The same of one key.
  bool take_due(DatabaseId database, Bytes key, Millis now);

  /// What is to be swept now; nullopt: nothing, or a sweep is under way.
  std::optional<Sweep> begin_sweep(Millis now);
  /// What was found in a database. Between begin_sweep and end_sweep.
  void found(DatabaseId database, const std::string& key, Millis expiry);
  /// `until`: up to when everything was found; nullopt: it failed.
  void end_sweep(std::optional<Millis> until);

 private:
  using Order = std::set<std::pair<Millis, const std::string*>>;

  /// `known`: what expires later is left to a sweep.
  void add(const std::string& id, Millis expiry, Millis known);
  void remove(const std::string& id);
  Order::iterator erase(Order::iterator it);
  void erase_last() { erase(std::prev(order_.end())); }
  /// What is known is not true any more: swept again from the first key that was not told of.
  void forget();
  /// The sweep under way, if there is one, may find what is gone, ranges or databases, or more was written than can be told
  /// apart.
  void make_stale();

  std::atomic<bool> on_{false};
  std::mutex mutex_;
  // Guarded by mutex_. A key's id is its database's number, two bytes, and the key.
  bool sweeping_ = false, under_way_ = false;
  bool stale_ = false;  ///< what the sweep under way finds is not to be trusted: it is made again
  Millis horizon_ = 0;  ///< every key that expires up to here is known
  Millis full_ = 0;     ///< while a sweep is under way: what expires later had to go for want of room
  std::unordered_map<std::string, Millis> expiries_;
  Order order_;                              ///< the same by time; the ids are those of expiries_
  std::size_t bytes_ = 0;                    ///< of the ids in expiries_
  std::unordered_set<std::string> touched_;  ///< written while a sweep is under way: what it finds of them is old
  std::size_t touched_bytes_ = 0;
};

}  // namespace ebbtide
