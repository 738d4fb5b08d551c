// The time by which a delete must be purged, from its birth and all deadline settings since then.
//
// A change of the setting neither extends a promise nor makes old deletes late at once. A delete born before the change, or in
// the same ms, is due at min(old deadline, time of the change + new deadline). A later one goes by the new setting alone. Setting
// 0 (no promise) keeps the promises that were made.
#pragma once

#include <limits>
#include <utility>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

/// A value; pure.
class DeadlineRule {
 public:
  /// Returned by due(): no promise.
  static constexpr Millis kNever = std::numeric_limits<Millis>::max();
  /// Number of changes remembered. Older ones are combined: the strictest of them counts.
  static constexpr std::size_t kMostChanges = 16;

  /// A past setting.
  struct Earlier {
    Millis until = 0;     ///< time at which the setting was changed
    Millis deadline = 0;  ///< the setting before that change
    bool operator==(const Earlier&) const = default;
  };

  /// `deadline` in ms, 0 = no promise.
  explicit DeadlineRule(Millis deadline = 0) : deadline_(deadline) {}
  /// From stored changes: at most kMostChanges, times ascending.
  DeadlineRule(Millis deadline, std::vector<Earlier> earlier) : deadline_(deadline), earlier_(std::move(earlier)) {}

  /// Sets the deadline from `now` on (engine time). Does nothing if `deadline` is in force already.
  void change(Millis now, Millis deadline);
  /// Forgets changes that concern only deletes born before `floor`, of which none is left. Returns true if it forgot any.
  bool forget(Millis floor);

  /// Engine time by which every delete born at `birth` must be purged; kNever without a promise. Grows with `birth`.
  [[nodiscard]] Millis due(Millis birth) const;
  /// The deadline of deletes born now; 0 = no promise.
  [[nodiscard]] Millis deadline() const { return deadline_; }
  /// The shortest deadline that may still apply to any delete; 0 = none.
  [[nodiscard]] Millis shortest() const;
  /// True if no delete has a promise, including those born before a change.
  [[nodiscard]] bool never() const { return deadline_ == 0 && earlier_.empty(); }
  [[nodiscard]] const std::vector<Earlier>& earlier() const { return earlier_; }
  bool operator==(const DeadlineRule&) const = default;

 private:
  Millis deadline_;
  std::vector<Earlier> earlier_;  ///< oldest first
};

}  // namespace ebbtide
