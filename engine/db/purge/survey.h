// Everything that still holds bytes of deletes at one moment, as values.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include <engine/purge.h>
#include "deletes/deadline.h"

namespace ebbtide {

/// One holder of bytes of deletes of one tree.
struct PurgeHolder {
  PurgePlace place{};
  TreeId tree = kNoTree;
  Millis floor = 0;  ///< every delete that it holds bytes of was born then or later
  std::uint64_t bytes = 0;
  FileNum file = kNoFile;  ///< of a log segment, or a table
  bool active = false;     ///< of a memtable: it is being written to
  bool damage = false;     ///< of a table: it is quarantined, or such a file is in the way of its merges
};

/// All holders at engine time `now`. A delete that none of them has bytes of was purged, or was born at `now` or later.
struct PurgeSurvey {
  Millis now = 0;        ///< as births are stamped
  Millis looked_at = 0;  ///< the same moment as clients see it: `now`, or later while the mark of engine time cannot be written
  std::vector<PurgeHolder> holders{};
  struct Terms {
    DeadlineRule deadlines;   ///< what was promised, before the deadline was changed as well
    Millis purge_before = 0;  ///< what was born by then is overdue

    /// Whether anything was promised for what was born then.
    [[nodiscard]] bool promised(Millis birth) const { return deadlines.due(birth) != DeadlineRule::kNever; }
    /// Whether, at `now`, `eighths` of the time from `birth` to its deadline are over.
    [[nodiscard]] bool is_over(Millis birth, unsigned eighths, Millis now) const;
  };
  std::map<TreeId, Terms> trees{};  ///< those that live, and dropped ones of which something is left
  std::vector<std::pair<DatabaseId, TreeId>> databases{};

  /// Whether `eighths` of the time that the tree gives to what was born at `floor` are over, or PURGE.NOW asked for it.
  [[nodiscard]] bool is_due(TreeId tree, Millis floor, unsigned eighths) const;
  /// Of each tree the smallest floor of its holders; `now` if it has none.
  [[nodiscard]] std::map<TreeId, Millis> floors() const;
  /// The same of those holders that damage keeps, or of those that it does not.
  [[nodiscard]] std::map<TreeId, Millis> floors(bool damage) const;
};

}  // namespace ebbtide
