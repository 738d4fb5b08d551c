// By when a delete must be physically done: its birth and the delete deadline that held, and holds, since then.
//
// A deadline that is changed while deletes are waiting takes no promise back, and is not surprised by old ones either: what was
// born before the change, or in the same ms, is due at min(old deadline, time of the change + new deadline); what is born later
// goes by the new one alone. Switching the promise off (0) keeps those that were made.
#pragma once

#include <limits>
#include <utility>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

/// A value; pure.
class DeadlineRule {
 public:
  /// In `due`: no promise.
  static constexpr Millis kNever = std::numeric_limits<Millis>::max();
  /// Changes that are remembered. Older ones are folded together: the strictest of them counts.
  static constexpr std::size_t kMostChanges = 16;

  /// A change that was.
  struct Earlier {
    Millis until = 0;     ///< its time: what ended
    Millis deadline = 0;  ///< that held before
    bool operator==(const Earlier&) const = default;
  };

  /// `deadline` in ms, 0 = no promise.
  explicit DeadlineRule(Millis deadline = 0) : deadline_(deadline) {}
  /// As it was written down: at most kMostChanges, their times ascending.
  DeadlineRule(Millis deadline, std::vector<Earlier> earlier) : deadline_(deadline), earlier_(std::move(earlier)) {}

  /// From `now` on, engine time that never goes back, `deadline` holds. Nothing if that is what holds already.
  void change(Millis now, Millis deadline);
  /// Nothing that was born before `floor` is left: changes that concern nothing else are forgotten. Whether there were any.
  bool forget(Millis floor);

  /// Engine time by which everything born at `birth` has to be gone; kNever if nothing was promised. Grows with `birth`.
  [[nodiscard]] Millis due(Millis birth) const;
  /// What holds for what is born now; 0 = no promise.
  [[nodiscard]] Millis deadline() const { return deadline_; }
  /// The shortest that something may still be held to; 0 = none.
  [[nodiscard]] Millis shortest() const;
  /// Whether nothing at all is promised, of what was born before a change either.
  [[nodiscard]] bool never() const { return deadline_ == 0 && earlier_.empty(); }
  [[nodiscard]] const std::vector<Earlier>& earlier() const { return earlier_; }
  bool operator==(const DeadlineRule&) const = default;

 private:
  Millis deadline_;
  std::vector<Earlier> earlier_;  ///< oldest first
};

}  // namespace ebbtide
