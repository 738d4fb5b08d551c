// Who wants to know what commands do: keyspace notifications, client-side caches, and CLIENT PAUSE.
//
// All of it hangs on one word, `switches`: while it is 0 a command pays for nothing here but looking at it. What a write did
// follows from its command and its batch, once that is committed; no handler takes part. Expiry is no operation in this engine: a
// key that has expired is absent; who wants to be told is, by a watch over what expires next (expiry_watch.h).
//
// Client-side caches: a tracking client's reads note their keys before they run, so that no write is missed in between; a write
// tells everyone who has noted one of its keys, once. A range delete tells all whose keys lie in the range, and all who are
// broadcast to that any key may be gone; FLUSHDB and its kin tell everyone. At most kMaxTrackedKeys are noted, in
// kMaxTrackedBytes; beyond that the first are told as if they had changed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include <engine/write_batch.h>

#include "dispatch/acl_log.h"
#include "dispatch/expiry_watch.h"
#include "dispatch/latency_monitor.h"
#include "dispatch/slow_log.h"
#include "resp/args.h"
#include "resp/client.h"

namespace ebbtide {

struct Command;

/// The classes of notify-keyspace-events.
enum NotifyFlags : std::uint32_t {
  kNotifyKeyspace = 1,  ///< K
  kNotifyKeyevent = 2,  ///< E
  kNotifyGeneric = 4,   ///< g
  kNotifyString = 8,    ///< $
  kNotifyExpired = 16,  ///< x
  kNotifyMiss = 32,     ///< m
  kNotifyNew = 64,      ///< n
  kNotifyOthers = 128,  ///< l s h z e t d: of types and events that are not here
};
/// nullopt: a letter that is none.
std::optional<std::uint32_t> parse_notify_flags(Bytes text);

/// Of the keys of a command those that were there before it: views into its engine keys. Known only while somebody wants to hear
/// of new or of missing keys.
using PresentKeys = std::unordered_set<Bytes>;

/// What CLIENT TRACKING asked for. `caching`: what CLIENT CACHING said of the next command.
struct Tracking {
  bool on = false, broadcast = false, opt_in = false, opt_out = false, no_loop = false;
  std::optional<bool> caching;
  std::uint64_t redirect = 0;
  std::vector<std::string> prefixes;

  /// Whether the keys of a read are to be noted.
  [[nodiscard]] bool notes_reads() const {
    return on && !broadcast && (!opt_in || caching == std::optional(true)) && !(opt_out && caching == std::optional(false));
  }
};

/// Thread-safe but for what says otherwise.
class Observers {
 public:
  enum Switches : std::uint32_t { kNotify = 1, kTracking = 2, kPause = 4, kQuick = 8, kMonitor = 16 };
  static constexpr std::size_t kMaxTrackedKeys = 1'000'000;
  static constexpr std::size_t kMaxTrackedBytes = std::size_t{256} << 20;

  explicit Observers(std::size_t max_tracked_bytes = kMaxTrackedBytes) : max_tracked_bytes_(max_tracked_bytes) {}

  /// Sends a notification: PubSub::publish.
  using Publish = std::function<void(Bytes channel, Bytes message, ClientLoop* here, std::uint64_t seq)>;
  /// Set once, before use.
  Publish publish;
  /// Whether a client is connected. Set once, before use.
  std::function<bool(std::uint64_t client_id)> is_connected;
  /// Runs something with a client, wherever it lives, on its loop's thread; not at all if it is gone. Set once, before use.
  using ToClient = std::function<void(std::uint64_t client_id, std::function<void(Client&)>)>;
  ToClient to_client;

  /// Of notify-keyspace-events; 0 where nothing would be published. One load.
  [[nodiscard]] std::uint32_t notify_flags() const { return notify_flags_.load(std::memory_order_relaxed); }
  /// A command has run and met those of its keys that are in `had`. Publishes key-miss events of the others.
  void missed(const Command& command, const Args& args, std::span<const LookupKey> keys, const PresentKeys& had,
              DatabaseId database, ClientLoop* here, std::uint64_t seq);

  /// One load.
  [[nodiscard]] std::uint32_t switches() const { return switches_.load(std::memory_order_relaxed); }

  void set_notify_flags(std::uint32_t flags);

  SlowLog slow_log;
  /// Dispatch tells it of a command when a millisecond has passed.
  LatencyMonitor latency;
  AclLog acl_log;
  /// What expires next, for events and caches.
  ExpiryWatch expiries;
  /// Begins or ends to watch, as the settings and the tracking connections have it. Now and then; `now` is engine time.
  void refresh_expiries(Millis now);
  /// Tells of a key that has expired (ExpiryWatch). `here`: the loop on whose thread this is called; null: none.
  void expired(DatabaseId database, Bytes engine_key, ClientLoop* here);
  /// How many keys were told of so since the start.
  [[nodiscard]] std::uint64_t expired_told() const { return expired_told_.load(std::memory_order_relaxed); }

  /// What client-side caches take here.
  struct TrackingCounts {
    std::size_t clients = 0, keys = 0, items = 0, prefixes = 0;
  };
  [[nodiscard]] TrackingCounts tracking_counts();
  /// Commands of `micros` or more go into the slow log. Dispatch looks at the time of a command when a millisecond has passed;
  /// for less than that, at every command (kQuick).
  void set_slow_log(std::uint64_t micros, std::uint64_t entries, bool arguments) {
    slow_log.configure(micros, entries, arguments);
    set_switch(kQuick, micros < 1000);
  }

  /// CLIENT PAUSE until a monotonic time in ms; `all`: reads too. Of two pauses the later end and the stricter mode count.
  void pause(std::uint64_t until_ms, bool all);
  void unpause();
  /// Ms for which a command is held back at `now_ms`; 0: it may run.
  [[nodiscard]] std::uint32_t paused_for(std::uint64_t now_ms, bool writes);

  /// The client's new settings (`on` false: none any more). Its loop's thread.
  void set_tracking(Client& client, const Tracking& tracking);
  /// The client has read, or is about to read, these engine keys.
  void note_reads(std::uint64_t client_id, std::span<const LookupKey> keys);

  /// MONITOR: the client is sent every command, until remove_monitor. Its loop's thread.
  void add_monitor(Client& client);
  void remove_monitor(std::uint64_t client_id);
  /// Sends a command to all monitors.
  void show_command(const Args& args, DatabaseId database, const Client& client, std::uint64_t unix_micros);

  /// A command's writes are committed.
  struct Commit {
    const Command& command;
    const Args& args;
    DatabaseId database;  ///< what it ran against
    const WriteBatch& batch;
    std::uint64_t seq;
    const PresentKeys& had;
    Millis time;  ///< engine time of the commit
  };
  void committed(const Commit& commit, Client& client);
  /// Sends each broadcasting client (CLIENT TRACKING BCAST) one message per prefix with the keys that were written since the last
  /// call, as Redis does at the end of its event loop's round. `here`: the loop on whose thread this is called; null: none.
  void send_broadcasts(ClientLoop* here);

 private:
  struct Tracker {
    ClientLoop* loop = nullptr;
    bool no_loop = false;
    std::uint64_t redirect = 0;
    std::vector<std::string> prefixes;  ///< of a broadcast
    bool broadcast = false;
  };
  /// A prefix of a broadcast: its clients, and what send_broadcasts() has to send them.
  struct Prefix {
    std::set<std::uint64_t> clients;
    std::map<std::string, std::uint64_t> keys;  ///< written engine key -> the client that wrote it; 0: none, or several
  };
  using TrackedKeys = std::map<std::string, std::set<std::uint64_t>, std::less<>>;
  /// What each client is to be told, by id: engine keys; nullopt: all.
  using Told = std::map<std::uint64_t, std::optional<std::vector<std::string>>>;

  void notify(std::uint32_t type, Bytes event, Bytes key, DatabaseId database, ClientLoop* here, std::uint64_t seq);
  void notify_all(const Commit& commit, ClientLoop* here);
  /// Everyone who has noted the key. With the lock.
  void collect(TrackedKeys::iterator it, std::uint64_t writer, Told* told);
  /// As collect(), and notes the key for the prefixes that it has. With the lock.
  void collect_key(Bytes key, std::uint64_t writer, Told* told);
  void forget_tracked();
  void watch_expiries(const Commit& commit);
  void invalidate(const WriteBatch& batch, Client& writer, std::uint64_t seq);
  void set_switch(std::uint32_t bit, bool on);
  void send(const Told& told, ClientLoop* here, std::uint64_t seq);

  const std::size_t max_tracked_bytes_;
  std::atomic<std::uint32_t> switches_{0}, notify_flags_{0};
  std::atomic<std::uint64_t> expired_told_{0};
  std::mutex mutex_;
  std::uint64_t pause_until_ms_ = 0;           // guarded by mutex_
  bool pause_all_ = false;                     // guarded by mutex_
  std::map<std::uint64_t, Tracker> trackers_;  // guarded by mutex_
  std::map<std::string, Prefix> prefixes_;     // guarded by mutex_
  std::uint64_t broadcast_seq_ = 0;            // guarded by mutex_: of the latest commit with keys in prefixes_
  std::atomic<bool> has_broadcasts_{false};
  std::map<std::uint64_t, ClientLoop*> monitors_;  // guarded by mutex_
  TrackedKeys tracked_;                            // guarded by mutex_
  std::size_t tracked_items_ = 0;                  // guarded by mutex_: clients, summed over the keys
  std::size_t tracked_bytes_ = 0;                  // guarded by mutex_: of all that, about
};

}  // namespace ebbtide
