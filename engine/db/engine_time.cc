#include "db/engine_time.h"

namespace ebbtide {

void EngineTime::start(Millis persisted_mark) {
  const Millis begin = std::max(persisted_mark, clock_.wall_ms());
  const Millis boot = clock_.boot_ms();
  offset_.store(static_cast<std::int64_t>(begin) - static_cast<std::int64_t>(boot));
  last_.store(begin);
  mark_.store(begin);
  last_tick_boot_ = boot;
}

Millis EngineTime::tick() {
  const auto boot = static_cast<std::int64_t>(clock_.boot_ms());
  const auto wall = static_cast<std::int64_t>(clock_.wall_ms());
  const std::int64_t elapsed = boot - static_cast<std::int64_t>(last_tick_boot_);
  last_tick_boot_ = static_cast<Millis>(boot);

  std::int64_t offset = offset_.load(std::memory_order_relaxed);
  const std::int64_t lead = boot + offset - wall;
  refused_.store(-lead > static_cast<std::int64_t>(kStepRefused), std::memory_order_relaxed);
  if (lead < 0 && !step_refused()) {
    offset = wall - boot;  // the wall clock is ahead: follow it
    if (-lead > static_cast<std::int64_t>(kLead)) stepped_.store(static_cast<Millis>(wall), std::memory_order_relaxed);
  } else if (lead > 0 && lead <= static_cast<std::int64_t>(kLead) && elapsed > 0) {
    offset -= std::min(lead, elapsed / 2);  // ahead of the wall clock by no more than a restart explains: half speed
  }
  offset_.store(offset, std::memory_order_relaxed);

  // The mark stays kLead ahead of the wall clock, not of a time that leads already: crash after crash, the lead never exceeds
  // kLead. Only a lead that no restart explains (the wall clock was set back) takes the mark along. Nor does the mark follow a
  // step that time does not: the next start would begin there.
  const auto running = static_cast<Millis>(boot + offset), mark = mark_.load(std::memory_order_relaxed);
  const bool explained = !step_refused() && static_cast<std::int64_t>(running) - wall <= static_cast<std::int64_t>(kLead);
  const Millis next = explained ? static_cast<Millis>(wall) + kLead : running + kLead;
  const bool close = running + kLead / 2 > mark;
  return close && next >= mark + kMarkStep ? next : 0;
}

}  // namespace ebbtide
