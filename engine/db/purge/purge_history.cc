#include "db/purge/purge_history.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ebbtide {

void PurgeHistory::note(Millis floor, Millis looked_at) {
  const Millis left_at = std::exchange(looked_at_, looked_at);
  if (!steps_.empty() && floor <= steps_.back().floor) return;
  steps_.push_back({floor, looked_at, left_at});
  if (steps_.size() <= kMaxSteps) return;
  // Drops every second step of the older half. The next step then represents the dropped step's births, with a later known_at and
  // the earlier left_at.
  std::deque<Step> thinned;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const bool goes = i % 2 == 0 && i < steps_.size() / 2;
    if (goes) steps_[i + 1].left_at = steps_[i].left_at;
    if (!goes) thinned.push_back(steps_[i]);
  }
  steps_ = std::move(thinned);
}

// Returns the first step whose floor is above n.
std::deque<PurgeHistory::Step>::const_iterator PurgeHistory::find(Millis n) const {
  return std::upper_bound(steps_.begin(), steps_.end(), n, [](Millis birth, const Step& step) { return birth < step.floor; });
}

Millis PurgeHistory::known_at(Millis n) const {
  const auto at = find(n);
  return at == steps_.end() ? 0 : at->known_at;
}

Millis PurgeHistory::left_at(Millis n) const {
  const auto at = find(n);
  return at == steps_.end() ? looked_at_ : at->left_at;
}

void PersistTimes::note(const ByTree& births, const ByTree& floors, Millis now) {
  MutexLock lock(mutex_);
  for (auto known = oldest_.begin(); known != oldest_.end();) {
    const auto floor = floors.find(known->first);
    const bool gone = floor == floors.end() || floor->second > known->second;
    if (gone) observe(now - std::min(now, known->second));
    known = gone ? oldest_.erase(known) : std::next(known);
  }
  oldest_.insert(births.begin(), births.end());
}

void PersistTimes::observe(Millis took) {
  const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), took) - kBounds.begin();
  buckets_[static_cast<std::size_t>(bucket)] += 1;
  sum_ += took;
}

HistogramInfo PersistTimes::info() const {
  MutexLock lock(mutex_);
  HistogramInfo out;
  for (const Millis bound : kBounds) out.bounds.push_back(static_cast<double>(bound) / 1000);
  out.buckets.assign(buckets_.begin(), buckets_.end());
  out.sum = static_cast<double>(sum_) / 1000;
  return out;
}

}  // namespace ebbtide
