// The keys that expire next, while clients are notified of expirations: by expired events, and by invalidations of client-side
// caches.
//
// Expiry is no operation in the engine: an expired key is absent. To send events, the watch knows every key that expires up to
// its horizon. It learns of them from a sweep over the engine's page expiries (Db::expiring_keys), when it begins and whenever
// the horizon comes near, and from every write in between. Each expiration is reported once: when its time has come, or when a
// command meets the key, whichever is first. A key that was written again is not reported.
//
// The watch holds kMaxKeys in kMaxBytes at most. Beyond that it drops the latest keys, and moves the horizon back before them.
// (If too many keys expire at one moment, some are not reported.) Client-side caches alone need no sweep, since only keys that
// were read matter to them; then the horizon is the end of time.
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
#include "dispatch/slice.h"
#include "resp/args.h"

namespace ebbtide {

/// Thread-safe. Keys are engine keys.
class ExpiryWatch {
 public:
  static constexpr std::size_t kMaxKeys = 100'000;
  static constexpr std::size_t kMaxBytes = std::size_t{64}
                                           << 20;  ///< of the keys; the same again for keys that a sweep must ignore
  static constexpr Millis kHorizon = 60'000;

  struct Key {
    DatabaseId database = 0;
    std::string key;
  };
  struct Sweep {
    Millis after = 0, until = 0;
  };

  /// With both false, forgets everything. `now` is engine time.
  void set_mode(bool on, bool sweeping, Millis now);
  /// One load.
  [[nodiscard]] bool on() const { return on_.load(std::memory_order_relaxed); }

  /// The key was written with this expiry by a commit at `time`. Expiry 0: without one, or deleted. A key that had expired by
  /// `time` was written as a delete, which no sweep finds.
  void written(DatabaseId database, Bytes key, Millis expiry, Millis time);
  /// Takes over the writes of a command. `target`: the database that its puts went to (COPY and MOVE name one).
  void committed(const CommittedCommand& commit, DatabaseId target) {
    std::size_t cursor = 0;
    committed(commit, target, &cursor, Slice());
  }
  /// The same from `cursor` on, which begins at 0. False if the slice is over before all writes are taken over.
  bool committed(const CommittedCommand& commit, DatabaseId target, std::size_t* cursor, const Slice& slice);
  /// The key was read, and has this expiry.
  void seen(DatabaseId database, Bytes key, Millis expiry);
  /// All keys of the range were deleted; an empty end is the end of the database.
  void range_deleted(DatabaseId database, Bytes start, Bytes end);
  /// Databases were emptied or swapped, so the known keys are no longer right. A sweep is due.
  void databases_changed();

  /// The keys that have expired by `now`; each is returned once.
  std::vector<Key> take_due(Millis now);
  /// The same for one key.
  bool take_due(DatabaseId database, Bytes key, Millis now);

  /// The time span to sweep now; nullopt: none is due, or a sweep is under way.
  std::optional<Sweep> begin_sweep(Millis now);
  /// A key that the sweep has found. Between begin_sweep and end_sweep.
  void found(DatabaseId database, const std::string& key, Millis expiry);
  /// `until`: the sweep has found everything up to then; nullopt: it failed.
  void end_sweep(std::optional<Millis> until);

 private:
  using Order = std::set<std::pair<Millis, const std::string*>>;

  /// Keys that expire after `known` are left to a sweep.
  void add(const std::string& id, Millis expiry, Millis known);
  void remove(const std::string& id);
  Order::iterator erase(Order::iterator it);
  void erase_last() { erase(std::prev(order_.end())); }
  /// Forgets the known keys. The next sweep begins at the first key that was not reported.
  void forget();
  /// Marks the sweep under way, if there is one: it may find keys of deleted ranges or databases, or written keys that
  /// exceed `touched_`.
  void make_stale();

  std::atomic<bool> on_{false};
  std::mutex mutex_;
  // Guarded by mutex_. A key's id is its database's number, in two bytes, followed by the key.
  bool sweeping_ = false, under_way_ = false;
  bool stale_ = false;  ///< the sweep under way is repeated, because its results may be wrong
  Millis horizon_ = 0;  ///< every key that expires up to here is known
  Millis full_ = 0;     ///< while a sweep is under way: keys that expire later were dropped for lack of room
  std::unordered_map<std::string, Millis> expiries_;
  Order order_;                              ///< by time; the ids are those of expiries_
  std::size_t bytes_ = 0;                    ///< of the ids in expiries_
  std::unordered_set<std::string> touched_;  ///< written while a sweep is under way: its results for them are outdated
  std::size_t touched_bytes_ = 0;
};

}  // namespace ebbtide
