// Computes the time by which a delete must be purged, from its birth and all deadline settings since then.
//
// A change of the setting does not make earlier deletes due later, and does not make them overdue at once. A delete born before
// the change, or in the same ms, is due at min(due time under the old deadline, time of the change + new deadline). For a later
// delete only the new setting counts. A change to 0 (no promise) keeps the promises that were made.
#pragma once

#include <limits>
#include <utility>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

/// Copyable. Reads no clock: all times are arguments. Not thread-safe.
class DeadlineRule {
 public:
  /// Returned by due() if there is no promise.
  static constexpr Millis kNever = std::numeric_limits<Millis>::max();
  /// Most changes that are stored. Beyond that, the two oldest changes are combined into one change with the stricter deadline.
  static constexpr std::size_t kMostChanges = 16;

  /// A former setting.
  struct Earlier {
    Millis until = 0;     ///< time at which the setting was changed
    Millis deadline = 0;  ///< the setting before that change
    bool operator==(const Earlier&) const = default;
  };

  /// `deadline` is in ms; 0 = no promise.
  explicit DeadlineRule(Millis deadline = 0) : deadline_(deadline) {}
  /// Restores a rule from stored changes: at most kMostChanges, times ascending.
  DeadlineRule(Millis deadline, std::vector<Earlier> earlier) : deadline_(deadline), earlier_(std::move(earlier)) {}

  /// Sets the deadline from `now` on (engine time). Does nothing if `deadline` is already the setting.
  void change(Millis now, Millis deadline);
  /// Removes stored changes that concern only deletes born before `floor`. Requires that no delete born before `floor` is
  /// pending. Returns true if a change was removed.
  bool forget(Millis floor);

  /// Returns the engine time by which every delete born at `birth` must be purged; kNever without a promise. Never decreases as
  /// `birth` grows.
  [[nodiscard]] Millis due(Millis birth) const;
  /// Returns the deadline of deletes born now, in ms; 0 = no promise.
  [[nodiscard]] Millis deadline() const { return deadline_; }
  /// Returns the shortest deadline that may still apply to any delete, in ms; 0 = none.
  [[nodiscard]] Millis shortest() const;
  /// Returns true if no delete has a promise, including deletes born before a change.
  [[nodiscard]] bool never() const { return deadline_ == 0 && earlier_.empty(); }
  [[nodiscard]] const std::vector<Earlier>& earlier() const { return earlier_; }
  bool operator==(const DeadlineRule&) const = default;

 private:
  Millis deadline_;
  std::vector<Earlier> earlier_;  ///< oldest first
};

}  // namespace ebbtide
