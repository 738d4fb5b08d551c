// The work that a check of rights may do.
//
// A check compares each key with patterns, so a long key and thousands of patterns take seconds. An event loop gives its checks a
// budget. A check that has used it up is made again on another thread, which has no limit but ends once no client waits for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "store/glob.h"

namespace ebbtide {

/// A number of steps, a few nanoseconds each. Comparing kBytesPerStep bytes of literal text is a step.
class AclBudget {
 public:
  static constexpr std::size_t kBytesPerStep = 8;

  /// Makes a budget without a limit.
  AclBudget() = default;
  explicit AclBudget(std::uint64_t steps, const std::atomic<bool>* cancelled = nullptr) : left_(steps), cancelled_(cancelled) {}

  [[nodiscard]] std::uint64_t left() const { return left_; }
  /// Takes the steps, and returns false if fewer are left.
  [[nodiscard]] bool take(std::uint64_t steps) {
    const bool enough = steps <= left_;
    left_ -= enough ? steps : left_;
    return enough;
  }
  /// Returns true if `cancelled` was set. Then no steps are left.
  [[nodiscard]] bool is_cancelled() {
    if (cancelled_ == nullptr || !cancelled_->load(std::memory_order_relaxed)) return false;
    left_ = 0;
    return true;
  }
  /// Returns the result of glob_match(); nullopt if the steps do not suffice, or if `cancelled` was set.
  [[nodiscard]] std::optional<bool> match(Bytes pattern, Bytes text) {
    constexpr std::uint64_t kStepsAtOnce = 1 << 20;
    GlobMatch match(pattern, text);
    while (left_ != 0) {
      if (is_cancelled()) break;
      const std::size_t given = std::min(left_, kStepsAtOnce);
      std::size_t steps = given;
      const std::optional<bool> result = match.go_on(&steps);
      left_ -= given - steps;
      if (result) return result;
    }
    return std::nullopt;
  }

 private:
  std::uint64_t left_ = ~std::uint64_t{0};
  const std::atomic<bool>* cancelled_ = nullptr;
};

}  // namespace ebbtide
