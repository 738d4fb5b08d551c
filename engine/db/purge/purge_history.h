// Stores results of earlier surveys: the time since which deletes are known to be purged, and how long their purge took.
#pragma once

#include <array>
#include <deque>
#include <map>

#include <engine/stats.h>
#include "base/mutex.h"

namespace ebbtide {

/// For any birth, stores when all deletes up to it were first known to be purged, and when one was last known to be pending.
/// Memory is bounded: for old births the first time may be later than the true one, and the second time earlier.
class PurgeHistory {
 public:
  static constexpr std::size_t kMaxSteps = 1024;

  /// Stores the result of a survey at time `looked_at`: every delete born before `floor` was purged; nothing is known about later
  /// births.
  void note(Millis floor, Millis looked_at);
  /// True if a survey found every delete born by `n` purged.
  [[nodiscard]] bool covers(Millis n) const { return !steps_.empty() && n < steps_.back().floor; }
  /// Returns the time of the first survey that found every delete born by `n` purged, or a later time (see above). Requires
  /// covers(n).
  [[nodiscard]] Millis known_at(Millis n) const;
  /// Returns the time of the last survey known to have found a pending delete born by `n`; 0 if none is known. The caller must
  /// ignore a time before `n`: that survey ran before deletes born at `n` were issued.
  [[nodiscard]] Millis left_at(Millis n) const;
  /// Returns the time of the last survey; 0 if there was none.
  [[nodiscard]] Millis looked_at() const { return looked_at_; }

 private:
  struct Step {
    Millis floor, known_at;
    Millis left_at;  // time of the previous survey, which had an older floor; 0 if there was none
  };
  [[nodiscard]] std::deque<Step>::const_iterator find(Millis n) const;
  std::deque<Step> steps_;  // each field ascends
  Millis looked_at_ = 0;
};

/// Measures how long deletes took to be purged from all files, by samples instead of single deletes. Each survey has the birth of
/// the oldest pending delete of each tree. When a later survey finds that delete purged, its age is one sample, too large by at
/// most the time between two surveys. So deletes that are purged together are one sample: the age of the oldest of them.
class PersistTimes {
 public:
  static constexpr std::array<Millis, 14> kBounds = {1'000,      2'000,       5'000,       15'000,       60'000,
                                                     300'000,    900'000,     3'600'000,   14'400'000,   43'200'000,
                                                     86'400'000, 172'800'000, 604'800'000, 2'592'000'000};

  using ByTree = std::map<TreeId, Millis>;
  /// Adds the result of a survey at engine time `now`. `floors`: for each tree, the time before which all its deletes were found
  /// purged. A tree without a floor has no pending delete. `births`: for each tree, the birth of its oldest pending delete in
  /// memtables, tables and log; a floor can differ from it.
  void note(const ByTree& births, const ByTree& floors, Millis now);
  /// Returns the histogram of purge times in seconds.
  [[nodiscard]] HistogramInfo info() const;

 private:
  void observe(Millis took) REQUIRES(mutex_);
  mutable Mutex mutex_;
  ByTree oldest_ GUARDED_BY(mutex_);  ///< by tree, the birth of the oldest pending delete at the last survey
  std::array<std::uint64_t, kBounds.size() + 1> buckets_ GUARDED_BY(mutex_){};
  Millis sum_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ebbtide
