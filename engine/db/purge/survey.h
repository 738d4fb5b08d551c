// A survey: everything that has deleted bytes (the holders) at one moment, as values.
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
  Millis floor = 0;  ///< every delete whose bytes the holder has was born at this time or later
  std::uint64_t bytes = 0;
  FileNum file = kNoFile;  ///< file number of a log segment or table
  bool active = false;     ///< for a memtable: true if it takes writes
  bool damage = false;     ///< for a table: true if the table, or a file that its merges need, is quarantined
};

/// All holders of deleted bytes at engine time `now`. A delete without a holder is purged, or was born at `now` or later.
struct PurgeSurvey {
  Millis now = 0;        ///< time of the survey by EngineTime::stamped(), as births are
  Millis looked_at = 0;  ///< time of the survey by EngineTime::now(): later than `now` only if the mark cannot be written
  std::vector<PurgeHolder> holders{};
  struct Terms {
    DeadlineRule deadlines;   ///< the current deadline and earlier ones
    Millis purge_before = 0;  ///< deletes born by this time are overdue
    /// False if the tree was removed before the server started. Then its deletes are due at once, and `deadlines` has the longest
    /// deadline of all databases, after which a delete is certainly late.
    bool known = true;

    /// True if a deadline applies to deletes born at `birth`, or if that is unknown (`known` is false).
    [[nodiscard]] bool promised(Millis birth) const { return !known || deadlines.due(birth) != DeadlineRule::kNever; }
    /// True if, at `now`, `eighths` / 8 of the time from `birth` to the delete's deadline are over. Always true if `known` is
    /// false.
    [[nodiscard]] bool is_over(Millis birth, unsigned eighths, Millis now) const;
  };
  std::map<TreeId, Terms> trees{};  ///< existing trees, and dropped trees that still have deleted data
  std::vector<std::pair<DatabaseId, TreeId>> databases{};

  /// True if `eighths` / 8 of the time from `floor` to its deadline in the tree are over, or if PURGE.NOW applies.
  [[nodiscard]] bool is_due(TreeId tree, Millis floor, unsigned eighths) const;
  /// Returns the smallest floor of each tree's holders; `now` if the tree has no holder.
  [[nodiscard]] std::map<TreeId, Millis> floors() const;
  /// Like floors(), for holders with the given value of `damage`.
  [[nodiscard]] std::map<TreeId, Millis> floors(bool damage) const;
};

}  // namespace ebbtide
