// The workload of a simulated tree, as expected values instead of keys: a million flushes cost a million steps for any memtable
// size.
//
// Time is counted in flushes; moment t lies after flush t. A run that holds everything written between moments s and t, with one
// entry a key, has
//
//   inserted(s, t) + live(s) (1 - exp(-(hazard(t) - hazard(s))))
//
// entries: the keys new in that time, and those of the keys from before that an update or delete has hit. Updates and deletes
// take any live key with the same chance, so that a key survives them untouched with probability exp(-(operations per live key)),
// summed over time as `hazard`. A run that reaches back to moment 0 is final: it holds the live keys only. Tombstones are as
// large as entries.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace ebbtide {

/// Bytes of a simulated memtable; a power of two, so that parts of it are exact.
inline constexpr std::uint64_t kSimulatedMemtable = std::uint64_t{1} << 20;

struct WorkloadSettings {
  bool random_sizes = false;  ///< flushes of 0.5 to 1.5 memtables, evenly spread, instead of one
  double updates = 0;         ///< share of the operations that overwrite a live key
  double deletes = 0;         ///< share that delete one; updates + deletes at most kMostRewrites
  std::uint64_t seed = 1;
};
inline constexpr double kMostRewrites = 0.99;

/// Entries count as a byte each.
class Workload {
 public:
  explicit Workload(const WorkloadSettings& settings);

  /// The next flush: moment() grows by one.
  void flush();
  [[nodiscard]] std::uint64_t moment() const { return moments_.size() - 1; }
  /// Bytes of a run with everything written between two moments, s < t.
  [[nodiscard]] double bytes(std::uint64_t s, std::uint64_t t) const;
  /// Bytes of the flush that ended at moment t.
  [[nodiscard]] double flushed(std::uint64_t t) const { return moments_[t].size; }
  /// Bytes of the live keys now.
  [[nodiscard]] double live() const { return moments_.back().live; }

 private:
  struct Moment {
    double inserted = 0, live = 0, hazard = 0, size = 0;
  };
  [[nodiscard]] Moment after(const Moment& before, double operations) const;

  const WorkloadSettings settings_;
  Random random_;
  std::vector<Moment> moments_;
};

}  // namespace ebbtide
