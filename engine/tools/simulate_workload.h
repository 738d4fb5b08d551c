// The workload of a simulated tree, as expected values instead of keys: a million flushes take a million steps for any memtable
// size.
//
// Time is counted in flushes; moment t is after flush t. A run that holds everything written between moments s and t, with one
// entry per key, has
//
//   inserted(s, t) + live(s) (1 - exp(-(hazard(t) - hazard(s))))
//
// entries: the keys that are new in that time, and the older keys that an update or delete has hit. Updates and deletes hit each
// live key with the same chance, so a key stays untouched with probability exp(-x), where x is the number of operations per live
// key. `hazard` is x, summed over time. A run that reaches back to moment 0 is final: it holds only the live keys. Tombstones are
// as large as entries.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace ebbtide {

/// Bytes of a simulated memtable; a power of two, so that fractions of it are exact.
inline constexpr std::uint64_t kSimulatedMemtable = std::uint64_t{1} << 20;

struct WorkloadSettings {
  bool random_sizes = false;  ///< flushes have 0.5 to 1.5 memtables, uniformly distributed, instead of one memtable
  double updates = 0;         ///< share of the operations that overwrite a live key
  double deletes = 0;         ///< share of the operations that delete a live key; updates + deletes at most kMostRewrites
  std::uint64_t seed = 1;
};
inline constexpr double kMostRewrites = 0.99;

/// Computes how many bytes a run, a flush and the live keys have after each flush. An entry counts as one byte.
class SimulatedWorkload {
 public:
  explicit SimulatedWorkload(const WorkloadSettings& settings);

  /// Adds the next flush: moment() grows by one.
  void flush();
  [[nodiscard]] std::uint64_t moment() const { return moments_.size() - 1; }
  /// Returns the bytes of a run with everything written between two moments, s < t.
  [[nodiscard]] double bytes(std::uint64_t s, std::uint64_t t) const;
  /// Returns the bytes of the flush that ended at moment t.
  [[nodiscard]] double flushed(std::uint64_t t) const { return moments_[t].size; }
  /// Returns the bytes of the live keys now.
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
