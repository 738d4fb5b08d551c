#include "db/purge/missed_deadlines.h"

#include "base/oldest.h"

namespace ebbtide {

const char* miss_reason_name(MissReason reason) {
  switch (reason) {
    case MissReason::kLoad:
      return "load";
    case MissReason::kDown:
      return "down";
    case MissReason::kClock:
      return "clock";
    case MissReason::kDisk:
      return "disk";
    case MissReason::kDamage:
      return "damage";
  }
  return "unknown";
}

MissReason miss_reason(Millis birth, Millis deadline, const MissCauses& causes) {
  const Millis half = (deadline - birth) / 2;
  const auto left_too_little = [&](Millis until) { return deadline < until + half; };
  if (left_too_little(causes.opened_at)) return MissReason::kDown;
  if (left_too_little(causes.clock_step)) return MissReason::kClock;
  if (left_too_little(causes.disk_refused)) return MissReason::kDisk;
  return MissReason::kLoad;
}

std::vector<MissedDeadlines::Miss> MissedDeadlines::note(const PurgeSurvey& survey, const MissCauses& causes) {
  std::vector<Miss> misses;
  const auto count = [&](TreeId tree, Millis birth, bool damage) {
    const Millis deadline = survey.trees.at(tree).deadlines.due(birth);
    Millis& counted = (damage ? counted_damage_ : counted_)[tree];
    if (deadline > survey.looked_at || birth <= counted || birth == kUnknownBirth) return;
    counted = birth;
    const auto held = counted_damage_.find(tree);
    if (!damage && held != counted_damage_.end() && birth <= held->second) return;
    const MissReason reason = damage ? MissReason::kDamage : miss_reason(birth, deadline, causes);
    counts_[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
    misses.push_back({tree, survey.looked_at - deadline, reason});
  };
  for (const auto& [tree, floor] : survey.floors(false)) count(tree, floor, false);
  for (const auto& [tree, floor] : survey.floors(true)) count(tree, floor, true);
  for (auto* counted : {&counted_, &counted_damage_}) {
    std::erase_if(*counted, [&](const auto& entry) { return survey.trees.count(entry.first) == 0; });
  }
  return misses;
}

}  // namespace ebbtide
