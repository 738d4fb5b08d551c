#include "db/engine_time.h"

namespace ebbtide {

namespace {

// Returns the ms until the boot clock reaches `reached`; 0 = that reading is from another boot, or is over. A mark is at most
// kLead ahead when it is written. So if more than twice kLead is left, the reading cannot be from this clock: returns 0.
Millis left_to_mark(const BootMark& reached, std::uint64_t boot, Millis now) {
  if (boot == 0 || reached.boot != boot || reached.at <= now) return 0;
  return reached.at - now <= 2 * EngineTime::kLead ? reached.at - now : 0;
}

}  // namespace

void EngineTime::start(Millis persisted_mark, const BootMark& reached) {
  const Millis boot = clock_.boot_ms();
  const Millis reached_by_now = persisted_mark - std::min(persisted_mark, left_to_mark(reached, boot_, boot));
  const Millis begin = std::max(reached_by_now, clock_.wall_ms());
  offset_.store(static_cast<std::int64_t>(begin) - static_cast<std::int64_t>(boot));
  last_.store(begin);
  mark_.store(begin);
  last_tick_boot_ = boot;
}

BootMark EngineTime::boot_mark(Millis mark) const {
  const auto at = static_cast<std::int64_t>(mark) - offset_.load(std::memory_order_relaxed);
  return {boot_, at > 0 ? static_cast<Millis>(at) : 0};
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
    offset = wall - boot;  // the wall clock is ahead, so follow it
    if (-lead > static_cast<std::int64_t>(kLead)) stepped_.store(static_cast<Millis>(wall), std::memory_order_relaxed);
  } else if (lead > 0 && lead <= static_cast<std::int64_t>(kLead) && elapsed > 0) {
    // A restart can leave engine time up to kLead ahead of the wall clock. It runs at half speed until they are equal.
    offset -= std::min(lead, elapsed / 2);
  }
  offset_.store(offset, std::memory_order_relaxed);

  // The mark stays kLead ahead of the wall clock, not of engine time, which may already be ahead. So repeated crashes never make
  // engine time lead by more than kLead. In two cases the mark stays kLead ahead of engine time instead. First, engine time leads
  // by more than kLead, since the wall clock was set back. Second, engine time does not follow a step of the wall clock:
  // otherwise the next start would begin at that step.
  const auto running = static_cast<Millis>(boot + offset), mark = mark_.load(std::memory_order_relaxed);
  const bool explained = !step_refused() && static_cast<std::int64_t>(running) - wall <= static_cast<std::int64_t>(kLead);
  const Millis next = explained ? static_cast<Millis>(wall) + kLead : running + kLead;
  const bool close = running + kLead / 2 > mark;
  return close && next >= mark + kMarkStep ? next : 0;
}

}  // namespace ebbtide
