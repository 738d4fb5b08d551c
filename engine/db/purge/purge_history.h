// What is remembered of earlier surveys: since when deletes are known to be gone, and how long they took to go.
#pragma once

#include <array>
#include <deque>
#include <map>

#include <engine/stats.h>
#include "base/mutex.h"

namespace ebbtide {

/// From when on deletes up to which birth were known to be gone, and until when they were known to be left. Bounded: what is old
/// gets coarser, the former later than it was, and the latter earlier.
class PurgeHistory {
 public:
  static constexpr std::size_t kMaxSteps = 1024;

  /// A look at time `looked_at` found that everything born before `floor` was gone, and nothing else.
  void note(Millis floor, Millis looked_at);
  /// Whether everything born by `n` was ever known to be gone.
  [[nodiscard]] bool covers(Millis n) const { return !steps_.empty() && n < steps_.back().floor; }
  /// When that was known, at the latest. covers(n) holds.
  [[nodiscard]] Millis known_at(Millis n) const;
  /// The last look that is known to have found something born by `n`; 0 if none is. One before `n` proves nothing.
  [[nodiscard]] Millis left_at(Millis n) const;
  /// The last look; 0 if there was none.
  [[nodiscard]] Millis looked_at() const { return looked_at_; }

 private:
  struct Step {
    Millis floor, known_at;
    Millis left_at;  // the look before, which had an older floor; 0 if there was none
  };
  [[nodiscard]] std::deque<Step>::const_iterator find(Millis n) const;
  std::deque<Step> steps_;  // all ascending
  Millis looked_at_ = 0;
};

/// How long deletes took until nothing of them was left in any file. No delete is followed on its own: of each tree the birth of
/// the oldest that is left is known at every look; when it has gone, that is one observation, exact but for the time between two
/// looks. So many deletes that go together count once, by the oldest of them.
class PersistTimes {
 public:
  static constexpr std::array<Millis, 14> kBounds = {1'000,      2'000,       5'000,       15'000,       60'000,
                                                     300'000,    900'000,     3'600'000,   14'400'000,   43'200'000,
                                                     86'400'000, 172'800'000, 604'800'000, 2'592'000'000};

  using ByTree = std::map<TreeId, Millis>;
  /// At engine time `now` nothing of a tree was left that was born before its floor. `births`: of the oldest delete that memtables,
  /// tables and log have, for trees where they have one; a floor alone need not be the birth of anything. Trees without a floor
  /// have gone as a whole.
  void note(const ByTree& births, const ByTree& floors, Millis now);
  /// In seconds.
  [[nodiscard]] HistogramInfo info() const;

 private:
  void observe(Millis took) REQUIRES(mutex_);
  mutable Mutex mutex_;
  ByTree oldest_ GUARDED_BY(mutex_);  ///< births that are waited for
  std::array<std::uint64_t, kBounds.size() + 1> buckets_ GUARDED_BY(mutex_){};
  Millis sum_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ebbtide
