// Finds the moment at which each key expires, so that clients can be notified: by expired events, and by invalidations of
// client-side caches.
//
// Expiry is no operation in the engine: an expired key is simply absent. To send events, the watch knows every key that expires
// up to its horizon. A sweep over the engine's page expiries (Db::expiring_keys) finds these keys at the start, and again
// whenever the horizon comes near. Every write in between adds its keys. Each expiration is reported once: when its time has
// come, or when a command accesses the key, whichever is first. The old expiry of a key that was written again is not reported.
//
// Fields of hashes expire, too. The watch knows them by the keys of their elements 'x' (store/collection/large.h). A hash whose
// last field expires is known as end_of_fields(), and is due one ms later, so that its event comes last. For client-side caches,
// the watch also knows the start of the range of a hash's elements. That key is due when the fields that a client has read may be
// outdated, and it has no event.
//
// The watch holds kMaxKeys in kMaxBytes at most. Beyond that it drops the latest keys, and moves the horizon back before them.
// (If too many keys expire at one moment, some are not reported.) If only client-side caches need the watch, there is no sweep,
// and the horizon is the end of time: caches need the expiries only of keys that were read.
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

#include <engine/seeded_hash.h>
#include <engine/types.h>

#include "dispatch/committed_command.h"
#include "dispatch/slice.h"
#include "resp/args.h"

namespace ebbtide {

struct ExpiringKey;  // engine/db.h
struct Found;        // engine/read_view.h

/// Thread-safe. Keys are engine keys.
class ExpiryWatch {
 public:
  static constexpr std::size_t kMaxKeys = 100'000;
  static constexpr std::size_t kMaxBytes = std::size_t{64}
                                           << 20;  ///< the most bytes of known keys, and of keys that a sweep must ignore
  static constexpr Millis kHorizon = 60'000;

  struct Key {
    DatabaseId database = 0;
    std::string key;
  };
  /// Returns the key that stands for the end of a hash: its last field has expired.
  static std::string end_of_fields(Bytes key);
  /// If a known key stands for a field of a hash, returns the hash's key; else nullopt.
  static std::optional<Bytes> hash_of_field(Bytes key);
  struct Sweep {
    Millis after = 0, until = 0;
  };

  /// Turns the watch and its sweeps on or off. With both off, drops all known keys. `now` is engine time.
  void set_mode(bool on, bool sweeping, Millis now);
  /// Returns true if the watch is on. This is one atomic load.
  [[nodiscard]] bool on() const { return on_.load(std::memory_order_relaxed); }

  /// Records that a commit at `time` wrote the key with this expiry; 0: the commit deleted the key, or the key has no expiry. A
  /// key that had already expired at `time` was written as a delete, which no sweep finds.
  void written(DatabaseId database, Bytes key, Millis expiry, Millis time);
  /// Records the writes of a command. `target`: the database of its puts, which COPY and MOVE may name.
  void committed(const CommittedCommand& commit, DatabaseId target) {
    std::size_t cursor = 0;
    committed(commit, target, &cursor, Slice());
  }
  /// Like the other committed(), in slices. `*cursor` is the position in the batch, 0 at first. Returns false if the slice ends
  /// before all writes are recorded.
  bool committed(const CommittedCommand& commit, DatabaseId target, std::size_t* cursor, const Slice& slice);
  /// Records that a client has read the key, which has this expiry.
  void seen(DatabaseId database, Bytes key, Millis expiry);
  /// Like the other seen(), for an entry. If fields of a hash expire, the data that a client has read of the hash is due when the
  /// first field expires. After that, the next field's expiry is unknown here, so the data is due a second from now.
  void seen(DatabaseId database, Bytes key, const Found& found, Millis now);
  /// Records that all keys of a range were deleted. An empty `end` is the end of the database.
  void range_deleted(DatabaseId database, Bytes start, Bytes end);
  /// Records that databases were emptied or swapped: drops the known keys, and makes a sweep due.
  void databases_changed();

  /// Returns a key that has expired by `now`, the earliest first; nullopt if there is none. Each expiration is returned once.
  std::optional<Key> take_first_due(Millis now);
  /// Like take_first_due(), for one key. Returns true if the key has expired by `now` and its expiration was not returned before.
  bool take_due(DatabaseId database, Bytes key, Millis now);
  /// Returns true if take_due() would return true.
  bool is_due(DatabaseId database, Bytes key, Millis now);

  /// Returns the span of expiries to sweep now; nullopt if no sweep is due, or one is under way.
  std::optional<Sweep> begin_sweep(Millis now);
  /// Records a key that the sweep has found. Call it between begin_sweep() and end_sweep().
  void found(DatabaseId database, const std::string& key, Millis expiry);
  /// Records keys, and elements of collections, that the sweep has found in one database.
  void found(DatabaseId database, const std::vector<ExpiringKey>& keys);
  /// Ends the sweep. It has found every key that expires up to `until`; nullopt: it has failed.
  void end_sweep(std::optional<Millis> until);

 private:
  using Order = std::set<std::pair<Millis, const std::string*>>;

  /// Adds the key. If the key expires after `known`, does nothing, since a later sweep will find it.
  void add(const std::string& id, Millis expiry, Millis known);
  void remove(const std::string& id);
  Order::iterator erase(Order::iterator it);
  void erase_last() { erase(std::prev(order_.end())); }
  /// Drops the known keys. The next sweep begins at the first expiration that was not reported.
  void forget();
  /// Marks the current sweep, if any, as stale. It may find keys of deleted ranges or databases, or written keys that touched_
  /// had no room for.
  void make_stale();

  std::atomic<bool> on_{false};
  std::mutex mutex_;
  // Guarded by mutex_. The id of a key is the number of its database, in two bytes, followed by the key.
  bool sweeping_ = false, under_way_ = false;
  bool stale_ = false;  ///< the current sweep must be repeated, because its results may be wrong
  Millis horizon_ = 0;  ///< all keys that expire up to this time are known
  Millis full_ = 0;     ///< during a sweep: keys with a later expiry were dropped, since the watch was full
  std::unordered_map<std::string, Millis, SeededHash> expiries_;
  Order order_;            ///< the known keys by expiry; the ids belong to expiries_
  std::size_t bytes_ = 0;  ///< memory of the ids in expiries_
  std::unordered_set<std::string, SeededHash>
      touched_;  ///< keys written during the sweep under way: its results for them are outdated
  std::size_t touched_bytes_ = 0;
};

}  // namespace ebbtide
