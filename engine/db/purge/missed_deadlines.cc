#include "db/purge/missed_deadlines.h"

#include "base/oldest.h"

namespace ebbtide {
namespace {

/// Returns the time since which a delete born at `birth` has the deadline `due` = rule.due(birth). This is its birth or, if a
/// change of the setting moved the deadline to `due`, the time of the change.
Millis promised_at(const DeadlineRule& rule, Millis birth, Millis due) {
  const std::vector<DeadlineRule::Earlier>& earlier = rule.earlier();
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    const Millis changed_to = i + 1 < earlier.size() ? earlier[i + 1].deadline : rule.deadline();
    if (earlier[i].until >= birth && changed_to != 0 && earlier[i].until + changed_to == due) return earlier[i].until;
  }
  return birth;
}

}  // namespace

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

MissReason miss_reason(Millis promised_at, Millis deadline, const MissCauses& causes) {
  const Millis half = (deadline - promised_at) / 2;
  const auto left_too_little = [&](Millis until) { return deadline < until + half; };
  if (left_too_little(causes.opened_at)) return MissReason::kDown;
  if (left_too_little(causes.clock_step)) return MissReason::kClock;
  if (left_too_little(causes.disk_refused)) return MissReason::kDisk;
  return MissReason::kLoad;
}

std::vector<MissedDeadlines::Miss> MissedDeadlines::note(const PurgeSurvey& survey, const MissCauses& causes) {
  std::vector<Miss> misses;
  const auto count = [&](TreeId tree, Millis birth, bool damage) {
    const DeadlineRule& rule = survey.trees.at(tree).deadlines;
    const Millis deadline = rule.due(birth);
    Millis& counted = (damage ? counted_damage_ : counted_)[tree];
    if (deadline > survey.looked_at || birth <= counted || birth == kUnknownBirth) return;
    counted = birth;
    const auto held = counted_damage_.find(tree);
    if (!damage && held != counted_damage_.end() && birth <= held->second) return;
    const MissReason reason = damage ? MissReason::kDamage : miss_reason(promised_at(rule, birth, deadline), deadline, causes);
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
