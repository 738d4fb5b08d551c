#include "dispatch/observers.h"

#include <engine/collection_keys.h>

#include "dispatch/command_keys.h"
#include "dispatch/table.h"

namespace ebbtide {

void Observers::set_tracking(Client& client, const Tracking& wanted) {
  tracking.set(client, wanted);
  if (!wanted.on) return;
  // The watch is turned on before this returns: keys that the client reads next may expire before the next refresh_expiries().
  std::lock_guard lock(mode_mutex_);
  if (!expiries.on()) expiries.set_mode(true, false, 0);
}

void Observers::committed(const CommittedCommand& commit, const Client& client) {
  invalidate(commit.batch, client, commit.seq);
  Progress progress;
  announce(commit, client, &progress, Slice());
}

bool Observers::announce(const CommittedCommand& commit, const Origin& origin, Progress* progress, const Slice& slice) {
  if (!progress->watched && expiries.on()) {
    const DatabaseId target = target_database(*commit.command.spec, commit.args, commit.database);
    if (!expiries.committed(commit, target, &progress->cursor, slice)) return false;
  }
  progress->watched = true;
  return !switches.has(Switches::kNotifications) || notifications.committed(commit, origin.loop, &progress->events, slice);
}

void Observers::expired(DatabaseId database, Bytes engine_key, ClientLoop* here, Notifications::Outbox* outbox) {
  const bool published = notifications.expired(database, engine_key, here, outbox);
  const bool invalidated = tracking.expired(main_key_of(engine_key), here);
  if (published || invalidated) expired_reported_.fetch_add(1, std::memory_order_relaxed);
}

void Observers::refresh_expiries(Millis now) {
  std::lock_guard lock(mode_mutex_);  // no client may begin tracking between the decision and set_mode()
  const bool events = (notifications.flags() & (kNotifyExpired | kNotifyHash)) != 0;
  expiries.set_mode(events || switches.has(Switches::kTracking), events, now);
}

}  // namespace ebbtide
