#include "db/purge/survey.h"

#include <algorithm>

namespace ebbtide {

bool PurgeSurvey::Terms::is_over(Millis birth, unsigned eighths, Millis now) const {
  if (!known) return true;
  const Millis due = deadlines.due(birth);
  return due != DeadlineRule::kNever && now >= birth + (due - birth) / 8 * eighths;
}

bool PurgeSurvey::is_due(TreeId tree, Millis floor, unsigned eighths) const {
  const auto at = trees.find(tree);
  return at != trees.end() && (floor <= at->second.purge_before || at->second.is_over(floor, eighths, looked_at));
}

std::map<TreeId, Millis> PurgeSurvey::floors() const {
  std::map<TreeId, Millis> floors;
  for (const auto& [tree, terms] : trees) floors.emplace_hint(floors.end(), tree, now);
  for (const PurgeHolder& holder : holders) {
    Millis& floor = floors.at(holder.tree);
    floor = std::min(floor, holder.floor);
  }
  return floors;
}

std::map<TreeId, Millis> PurgeSurvey::floors(bool damage) const {
  std::map<TreeId, Millis> floors;
  for (const auto& [tree, terms] : trees) floors.emplace_hint(floors.end(), tree, now);
  for (const PurgeHolder& holder : holders) {
    if (holder.damage != damage) continue;
    Millis& floor = floors.at(holder.tree);
    floor = std::min(floor, holder.floor);
  }
  return floors;
}

}  // namespace ebbtide
