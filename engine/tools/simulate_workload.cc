#include "tools/simulate_workload.h"

#include <algorithm>
#include <cmath>

#include "base/invariant.h"

namespace ebbtide {

SimulatedWorkload::SimulatedWorkload(const WorkloadSettings& settings)
    : settings_(settings), random_(settings.seed), moments_(1) {
  ASSERT(settings.updates >= 0 && settings.deletes >= 0 && settings.updates + settings.deletes <= kMostRewrites);
}

SimulatedWorkload::Moment SimulatedWorkload::after(const Moment& before, double operations) const {
  const double rewrites = operations * (settings_.updates + settings_.deletes);
  const double inserts = operations - rewrites;
  Moment now;
  now.inserted = before.inserted + inserts;
  now.live = std::max(0.0, before.live + inserts - operations * settings_.deletes);
  now.hazard = before.hazard;
  if (before.live > 0 && rewrites > 0) {
    // The integral of d(rewrites) / live, while live changes linearly from one value to the other.
    const double change = now.live / before.live - 1;
    const double spread = std::abs(change) < 1e-9 ? 1 : std::log1p(std::max(change, -1 + 1e-9)) / change;
    now.hazard += rewrites / before.live * spread;
  }
  now.size = inserts - before.live * std::expm1(-(now.hazard - before.hazard));
  return now;
}

void SimulatedWorkload::flush() {
  const auto memtable = static_cast<double>(kSimulatedMemtable);
  const double size = settings_.random_sizes ? std::floor(memtable * (0.5 + random_.fraction())) : memtable;
  const double rewrites = settings_.updates + settings_.deletes;
  const Moment before = moments_.back();
  if (rewrites == 0) {
    moments_.push_back(after(before, size));
    return;
  }
  // The memtable is full at `size` keys. Its size grows with the number of operations, so bisection finds this number.
  double low = size, high = size / (1 - rewrites);
  for (int i = 0; i < 60 && high - low > size * 1e-12; ++i) {
    const double middle = (low + high) / 2;
    (after(before, middle).size < size ? low : high) = middle;
  }
  moments_.push_back(after(before, high));
}

double SimulatedWorkload::bytes(std::uint64_t s, std::uint64_t t) const {
  const Moment &from = moments_[s], &to = moments_[t];
  if (s == 0) return to.live;
  return to.inserted - from.inserted - from.live * std::expm1(-(to.hazard - from.hazard));
}

}  // namespace ebbtide
