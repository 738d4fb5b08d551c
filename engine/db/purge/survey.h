// A survey: all holders of deleted bytes at one moment, as values.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include <engine/purge.h>
#include "deletes/deadline.h"

namespace ebbtide {

/// A holder of deleted bytes of one tree.
struct PurgeHolder {
  PurgePlace place{};
  TreeId tree = kNoTree;
  Millis floor = 0;  ///< every delete whose bytes it has was born then or later
  std::uint64_t bytes = 0;
  FileNum file = kNoFile;  ///< of a log segment or table
  bool active = false;     ///< memtables: it takes writes
  bool damage = false;     ///< tables: it, or a file that its merges need, is quarantined
};

/// All holders at engine time `now`. A delete without a holder is purged, or was born at `now` or later.
struct PurgeSurvey {
  Millis now = 0;        ///< by EngineTime::stamped(), like births
  Millis looked_at = 0;  ///< the same moment by EngineTime::now(): later than `now` only while the mark cannot be written
  std::vector<PurgeHolder> holders{};
  struct Terms {
    DeadlineRule deadlines;   ///< the current deadline and earlier ones
    Millis purge_before = 0;  ///< deletes born by then are overdue
    /// False if the tree was removed before the start. Its deletes are due at once then, and `deadlines` only says when one is surely late.
    bool known = true;

    /// True if a deadline applies to deletes born at `birth`, or may apply.
    [[nodiscard]] bool promised(Millis birth) const { return !known || deadlines.due(birth) != DeadlineRule::kNever; }
    /// True if, at `now`, `eighths` / 8 of the time from `birth` to its deadline are over. Always true if the deadline is unknown.
    [[nodiscard]] bool is_over(Millis birth, unsigned eighths, Millis now) const;
  };
  std::map<TreeId, Terms> trees{};  ///< existing trees, and dropped ones with deleted data left
  std::vector<std::pair<DatabaseId, TreeId>> databases{};

  /// True if `eighths` / 8 of the time from `floor` to its deadline in the tree are over, or PURGE.NOW asked for it.
  [[nodiscard]] bool is_due(TreeId tree, Millis floor, unsigned eighths) const;
  /// The smallest floor of each tree's holders; `now` if it has none.
  [[nodiscard]] std::map<TreeId, Millis> floors() const;
  /// The same for holders with the given value of `damage`.
  [[nodiscard]] std::map<TreeId, Millis> floors(bool damage) const;
};

}  // namespace ebbtide
