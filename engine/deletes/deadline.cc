#include "deletes/deadline.h"

#include <algorithm>

namespace ebbtide {
namespace {

/// Returns `from` + `deadline`, or kNever if `deadline` is 0 (no promise) or the sum is too large.
Millis after(Millis from, Millis deadline) {
  if (deadline == 0 || from > DeadlineRule::kNever - deadline) return DeadlineRule::kNever;
  return from + deadline;
}

}  // namespace

void DeadlineRule::change(Millis now, Millis deadline) {
  if (deadline == deadline_) return;
  earlier_.push_back({now, deadline_});
  deadline_ = deadline;
  if (earlier_.size() <= kMostChanges) return;
  // Drops the oldest change. All deletes born before the next change then get the stricter of the two oldest deadlines.
  Earlier& next = earlier_[1];
  const Millis oldest = earlier_[0].deadline;
  if (oldest != 0 && (next.deadline == 0 || oldest < next.deadline)) next.deadline = oldest;
  earlier_.erase(earlier_.begin());
}

bool DeadlineRule::forget(Millis floor) {
  const auto concerns = std::find_if(earlier_.begin(), earlier_.end(), [floor](const Earlier& e) { return e.until >= floor; });
  const bool any = concerns != earlier_.begin();
  earlier_.erase(earlier_.begin(), concerns);
  return any;
}

Millis DeadlineRule::due(Millis birth) const {
  // Starts with the deadline that was set at the birth, and applies each later change: a change can only make the due time
  // earlier.
  std::size_t at = 0;
  while (at < earlier_.size() && birth > earlier_[at].until) ++at;
  const auto deadline_after = [this](std::size_t i) { return i < earlier_.size() ? earlier_[i].deadline : deadline_; };
  Millis due = after(birth, deadline_after(at));
  for (std::size_t i = at; i < earlier_.size(); ++i) due = std::min(due, after(earlier_[i].until, deadline_after(i + 1)));
  return due;
}

Millis DeadlineRule::shortest() const {
  Millis shortest = deadline_;
  for (const Earlier& earlier : earlier_) {
    if (earlier.deadline != 0 && (shortest == 0 || earlier.deadline < shortest)) shortest = earlier.deadline;
  }
  return shortest;
}

}  // namespace ebbtide
