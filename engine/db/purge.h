// What a look at everything that may hold deleted bytes finds, and what is remembered of earlier looks.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <engine/purge.h>
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
};

/// Everything that owed something at engine time `now`. Every delete that is not in it was born at `now` or later.
struct PurgeSurvey {
  Millis now = 0;
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
};

/// From when on deletes up to which birth were known to be gone. Bounded: what is old gets coarser, and never too early.
class PurgeHistory {
 public:
  static constexpr std::size_t kMaxSteps = 1024;

  /// At engine time `now` everything born before `floor` was gone.
  void note(Millis floor, Millis now);
  /// Whether everything born by `n` was ever known to be gone.
  [[nodiscard]] bool covers(Millis n) const { return !steps_.empty() && n < steps_.back().first; }
  /// When that was known, at the latest. covers(n) holds.
  [[nodiscard]] Millis known_at(Millis n) const;

 private:
  std::deque<std::pair<Millis, Millis>> steps_;  // floor and time, both ascending
};

}  // namespace ebbtide
