// What a look at everything that may hold deleted bytes finds, and what is remembered of earlier looks.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <engine/purge.h>
#include <engine/stats.h>
#include "base/mutex.h"
#include "deletes/deadline.h"

namespace ebbtide {

/// One thing that owes something to deletes of one tree.
struct PurgeHolder {
  PurgePlace place{};
  TreeId tree = kNoTree;
  Millis floor = 0;  ///< every delete that it holds bytes of was born then or later
  std::uint64_t bytes = 0;
  FileNum file = kNoFile;  ///< of a log segment, or a table
  bool active = false;     ///< of a memtable: it is being written to
  bool damage = false;     ///< of a table: it is quarantined, or such a file is in the way of its merges
};

/// Everything that owed something at engine time `now`. Every delete that is not in it was born at `now` or later.
struct PurgeSurvey {
  Millis now = 0;        ///< as births are stamped
  Millis looked_at = 0;  ///< the same moment as clients see it: `now`, or later while the mark of engine time cannot be written
  std::vector<PurgeHolder> holders;
  struct Terms {
    DeadlineRule deadlines;   ///< what was promised, before the deadline was changed as well
    Millis purge_before = 0;  ///< what was born by then is overdue

    /// Whether anything was promised for what was born then.
    [[nodiscard]] bool promised(Millis birth) const { return deadlines.due(birth) != DeadlineRule::kNever; }
    /// Whether, at `now`, `eighths` of the time from `birth` to its deadline are over.
    [[nodiscard]] bool is_over(Millis birth, unsigned eighths, Millis now) const;
  };
  std::map<TreeId, Terms> trees;  ///< those that live, and dropped ones of which something is left
  std::vector<std::pair<DatabaseId, TreeId>> databases;

  /// Whether `eighths` of the time that the tree gives to what was born at `floor` are over, or somebody asked for it now.
  [[nodiscard]] bool is_due(TreeId tree, Millis floor, unsigned eighths) const;
  /// Of each tree the smallest floor of its holders; `now` if it has none.
  [[nodiscard]] std::map<TreeId, Millis> floors() const;
  /// The same of those holders that damage keeps, or of those that it does not.
  [[nodiscard]] std::map<TreeId, Millis> floors(bool damage) const;
};

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

/// What is remembered of a tree that is gone.
struct PurgedTree {
  PurgeHistory history;
  DeadlineRule deadlines;
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
