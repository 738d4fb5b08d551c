#include "policy/fade_due.h"

#include <algorithm>
#include <limits>

namespace ebbtide {
namespace {

/// If less data arrives within a deadline than the levels above the last can hold, memtable and level 0 together get at least
/// this share of a delete's time.
constexpr double kLevel0Share = 0.5;

}  // namespace

std::vector<double> level_ttls(double deadline, double margin, std::span<const double> capacities) {
  double all = 0;
  for (const double capacity : capacities) all += capacity;
  std::vector<double> ttls;
  for (const double capacity : capacities) ttls.push_back(all > 0 ? (deadline - margin) * capacity / all : 0);
  return ttls;
}

TtlShares::TtlShares(const TreeShape& shape, const Policy& policy) {
  // Level 0 is always above another run: a flushed memtable is bottommost only in an empty tree.
  const int last = std::max(1, shape.last_level());
  std::vector<double> capacities;
  const double most =
      shape.deadline_bytes == 0 ? std::numeric_limits<double>::infinity() : static_cast<double>(shape.deadline_bytes);
  capacities.push_back(std::min(most, static_cast<double>(std::max<std::uint64_t>(shape.memtable_bytes, 1))));
  double all = 0;
  for (int level = 0; level < last; ++level) {
    const double capacity = policy.capacity_bytes(shape, level);
    all += capacity;
    capacities.push_back(std::min(most, capacity));
  }
  double sum = 0;
  for (const double ttl : level_ttls(1, 0, capacities)) shares_.push_back(sum += ttl);
  in_one_go_ = all > most;
  if (in_one_go_) {
    shares_[1] = std::max(shares_[1], kLevel0Share);
    std::fill(shares_.begin() + 2, shares_.end(), 1.0);
  }
  shares_.back() = 1;
}

double TtlShares::level(int level) const {
  const auto at = static_cast<std::size_t>(level) + 1;
  return at < shares_.size() ? shares_[at] : 1;
}

Millis expires_at(Millis birth, Millis deadline, Millis margin, double share) {
  const Millis all = deadline > birth ? deadline - birth : 0;
  const Millis time = all - std::min(margin, all / 2);
  return birth + (share >= 1 ? time : static_cast<Millis>(static_cast<double>(time) * share));
}

bool DueTimes::is_late(const FileShape& file) const {
  return file.deadline != 0 && now_ >= expires_at(file.oldest_birth, file.deadline, margin_ / 2, 1);
}

// expires_at() grows with birth and deadline, so no file expires before the result for the oldest birth and the earliest
// deadline. expires_at() rounds, so that result may be too large by a millisecond.
bool DueTimes::any_may_be_expired(const ShapeSums& sums, int level) const {
  if (sums.oldest_birth == 0) return false;
  if (sums.oldest_birth <= purge_before_) return true;
  if (sums.deadline == 0) return false;
  const double share = by_file_ ? shares_.level(level) : 1;
  return now_ + 1 >= expires_at(sums.oldest_birth, sums.deadline, margin_, share);
}

bool DueTimes::is_expired(const FileShape& file, int level, bool final) const {
  if (is_purged_now(file)) return true;
  if (file.oldest_birth == 0 || file.deadline == 0) return false;
  const double share = final || !by_file_ ? 1 : shares_.level(level);
  return now_ >= expires_at(file.oldest_birth, file.deadline, margin_, share);
}

}  // namespace ebbtide
