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
// since only keys that were read matter to them; then the horizon is the end of time.
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
                                           << 20;  ///< bytes of the known keys; as many again for keys that a sweep must ignore
  static constexpr Millis kHorizon = 60'000;

  struct Key {
    DatabaseId database = 0;
    std::string key;
  };
  /// Returns the key under which the watch knows the end of a hash with its last field.
  static std::string end_of_fields(Bytes key);
  /// If a known key stands for a field, returns the key of the hash.
  static std::optional<Bytes> hash_of_field(Bytes key);
  struct Sweep {
    Millis after = 0, until = 0;
  };

  /// Turns the watch and its sweeps on or off. If both are off, all known keys are dropped. `now` is engine time.
  void set_mode(bool on, bool sweeping, Millis now);
  /// Returns true if the watch is on. This is one atomic load.
  [[nodiscard]] bool on() const { return on_.load(std::memory_order_relaxed); }

  /// Notes that a commit at `time` wrote the key with this expiry; 0: the key was deleted, or has no expiry. A key that had
  /// expired by `time` was written as a delete, which no sweep finds.
  void written(DatabaseId database, Bytes key, Millis expiry, Millis time);
  /// Notes the writes of a command. `target` is the database that its puts went to (COPY and MOVE name one).
  void committed(const CommittedCommand& commit, DatabaseId target) {
    std::size_t cursor = 0;
    committed(commit, target, &cursor, Slice());
  }
  /// Like the other committed(), from `*cursor` on, which begins at 0. Returns false if the slice ends before all writes are
  /// noted.
  bool committed(const CommittedCommand& commit, DatabaseId target, std::size_t* cursor, const Slice& slice);
  /// Notes that the key was read, and has this expiry.
  void seen(DatabaseId database, Bytes key, Millis expiry);
  /// Like the other seen(), for an entry. In a hash with fields that expire, what a client has read is due, too, when the first
  /// field expires. Once one has expired, the time of the next is unknown here, and a second from now is assumed.
  void seen(DatabaseId database, Bytes key, const Found& found, Millis now);
  /// Notes that all keys of a range were deleted; an empty `end` is the end of the database.
  void range_deleted(DatabaseId database, Bytes start, Bytes end);
  /// Notes that databases were emptied or swapped. The known keys are dropped, and a sweep is due.
  void databases_changed();

  /// Returns the first key that has expired by `now`; nullopt if there is none. Each expiration is returned once.
  std::optional<Key> take_first_due(Millis now);
  /// Like take_first_due(), for one key. Returns true if its expiration has not been returned before.
  bool take_due(DatabaseId database, Bytes key, Millis now);
  /// Returns true if take_due() would.
  bool is_due(DatabaseId database, Bytes key, Millis now);

  /// Returns the time span to sweep now; nullopt if no sweep is due, or one is under way.
  std::optional<Sweep> begin_sweep(Millis now);
  /// Notes a key that the sweep has found. Called between begin_sweep() and end_sweep().
  void found(DatabaseId database, const std::string& key, Millis expiry);
  /// Notes the keys and elements of collections that the sweep has found in one database.
  void found(DatabaseId database, const std::vector<ExpiringKey>& keys);
  /// Ends a sweep that has found every key that expires up to `until`; nullopt: the sweep failed.
  void end_sweep(std::optional<Millis> until);

 private:
  using Order = std::set<std::pair<Millis, const std::string*>>;

  /// Adds the key, unless it expires after `known`: then a later sweep finds it.
  void add(const std::string& id, Millis expiry, Millis known);
  void remove(const std::string& id);
  Order::iterator erase(Order::iterator it);
  void erase_last() { erase(std::prev(order_.end())); }
  /// Drops the known keys. The next sweep begins at the first expiration that was not reported.
  void forget();
  /// Marks the sweep that is under way, if any, as stale: it may find keys of deleted ranges or databases, or written keys that
  /// are not in `touched_`, which was full.
  void make_stale();

  std::atomic<bool> on_{false};
  std::mutex mutex_;
  // Guarded by mutex_. A key's id is its database's number, in two bytes, followed by the key.
  bool sweeping_ = false, under_way_ = false;
  bool stale_ = false;  ///< the sweep under way is repeated, because its results may be wrong
  Millis horizon_ = 0;  ///< every key that expires up to this time is known
  Millis full_ = 0;     ///< while a sweep is under way: keys that expire after this were dropped, since the watch was full
  std::unordered_map<std::string, Millis, SeededHash> expiries_;
  Order order_;            ///< the known keys by time; the ids are those of expiries_
  std::size_t bytes_ = 0;  ///< memory of the ids in expiries_
  std::unordered_set<std::string, SeededHash>
      touched_;  ///< written during the sweep under way, whose results for them are outdated
  std::size_t touched_bytes_ = 0;
};

}  // namespace ebbtide
