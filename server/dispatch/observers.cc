#include "dispatch/observers.h"

#include "dispatch/command_keys.h"
#include "dispatch/table.h"

namespace ebbtide {

void Observers::set_tracking(Client& client, const Tracking& wanted) {
  tracking.set(client, wanted);
  if (!wanted.on) return;
  // At once: the client's next reads may expire before refresh_expiries() is called.
  std::lock_guard lock(mode_mutex_);
  if (!expiries.on()) expiries.set_mode(true, false, 0);
}

void Observers::committed(const CommittedCommand& commit, Client& client) {
  const std::uint32_t on = switches.word();
  if (expiries.on()) expiries.committed(commit, target_database(*commit.command.spec, commit.args, commit.database));
  if ((on & Switches::kTracking) != 0) tracking.committed(commit.batch, client, commit.seq);
  if ((on & Switches::kNotifications) != 0) notifications.committed(commit, client.loop);
}

void Observers::expired(DatabaseId database, Bytes engine_key, ClientLoop* here) {
  const bool published = notifications.expired(database, engine_key, here);
  const bool invalidated = tracking.expired(engine_key, here);
  if (published || invalidated) expired_reported_.fetch_add(1, std::memory_order_relaxed);
}

void Observers::refresh_expiries(Millis now) {
  std::lock_guard lock(mode_mutex_);  // so that no tracking that begins meanwhile is overlooked
  const bool events = (notifications.flags() & kNotifyExpired) != 0;
  expiries.set_mode(events || switches.has(Switches::kTracking), events, now);
}

}  // namespace ebbtide
