// Everything that observes commands: keyspace notifications, client-side caches, monitors, pauses, logs of slow commands.
//
// Each observer is a component with a header of its own. All share one word, `switches`: while it is 0, a command pays only for
// loading that word. Observers get a command and its committed batch; handlers have no code for them.
//
// Expiry is no operation in this engine: an expired key is absent. So a watch over the keys that expire next (expiry_watch.h)
// notifies clients of expirations.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include <engine/types.h>

#include "dispatch/acl_log.h"
#include "dispatch/client_pause.h"
#include "dispatch/committed_command.h"
#include "dispatch/expiry_watch.h"
#include "dispatch/latency_monitor.h"
#include "dispatch/monitors.h"
#include "dispatch/notifications.h"
#include "dispatch/slow_log.h"
#include "dispatch/switches.h"
#include "dispatch/tracking.h"
#include "resp/client.h"

namespace ebbtide {

/// Thread-safe.
class Observers {
 public:
  Switches switches;
  Notifications notifications{switches};
  TrackingTable tracking{switches};
  Monitors monitors{switches};
  ClientPause pause{switches};
  SlowLog slow_log{switches};
  /// Dispatch reports each command that took a millisecond or more.
  LatencyMonitor latency;
  AclLog acl_log;
  /// The keys that expire next, for events and client-side caches.
  ExpiryWatch expiries;

  /// Replaces the client's settings of CLIENT TRACKING. Call it on the client's loop.
  void set_tracking(Client& client, const Tracking& wanted);
  /// Sends the invalidations and keyspace notifications of a committed command, and updates the expiry watch. Call it on the
  /// client's loop.
  void committed(const CommittedCommand& commit, const Client& client);
  /// The first part of committed(): sends the invalidations of a batch, of one command or of a whole transaction.
  void invalidate(const WriteBatch& batch, const Origin& origin, SeqNum seq) {
    if (switches.has(Switches::kTracking)) tracking.committed(batch, origin, seq);
  }
  /// The progress of announce() between two slices.
  struct Progress {
    bool watched = false;    ///< the expiry watch has been given all keys of the batch
    std::size_t cursor = 0;  ///< position in the batch
    Notifications::Progress events;
  };
  /// The second part of committed(), for each command: updates the expiry watch, and sends keyspace notifications. Returns false
  /// if the slice ends before both are complete; then the caller calls again.
  bool announce(const CommittedCommand& commit, const Origin& origin, Progress* progress, const Slice& slice);
  /// Calls `then` on the thread of `here` once all event loops have run the tasks that were posted to them before this call. Null
  /// if there is one loop.
  std::function<void(ClientLoop* here, std::function<void()> then)> after_all_loops;
  /// Notifies clients that a key, or a field of a hash, has expired (ExpiryWatch::Key). `here` is the event loop of the calling
  /// thread; null if the thread runs no loop. Messages that take long go into `outbox`.
  void expired(DatabaseId database, Bytes engine_key, ClientLoop* here, Notifications::Outbox* outbox);
  void expired(DatabaseId database, Bytes engine_key, ClientLoop* here) {
    Notifications::Outbox outbox;
    expired(database, engine_key, here, &outbox);
    outbox.send(Slice());
  }
  /// Returns the number of expirations that clients were notified of since the start.
  [[nodiscard]] std::uint64_t expired_reported() const { return expired_reported_.load(std::memory_order_relaxed); }
  /// Turns the expiry watch on or off: it is on while the settings or a tracking client need it. A timer calls this about every
  /// 100 ms; `now` is engine time.
  void refresh_expiries(Millis now);

 private:
  std::mutex mode_mutex_;  ///< held from choosing the mode of `expiries` until it is set
  std::atomic<std::uint64_t> expired_reported_{0};
};

}  // namespace ebbtide
