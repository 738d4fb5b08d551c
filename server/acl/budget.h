// A limit on the work of a check of rights.
//
// A check matches each key with patterns, so a long key and thousands of patterns take seconds. An event loop gives each check a
// budget. If a check uses up its budget, it starts again on another thread. There it has no limit, but it ends once no client
// waits for its result.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "store/glob.h"

namespace ebbtide {

/// A number of steps, a few nanoseconds each. Comparing kBytesPerStep bytes of literal text takes one step.
class AclBudget {
 public:
  static constexpr std::size_t kBytesPerStep = 8;

  /// Makes a budget without a limit.
  AclBudget() = default;
  explicit AclBudget(std::uint64_t steps, const std::atomic<bool>* cancelled = nullptr) : left_(steps), cancelled_(cancelled) {}

  [[nodiscard]] std::uint64_t left() const { return left_; }
  /// Subtracts steps from the budget. If fewer are left, uses up the budget and returns false.
  [[nodiscard]] bool take(std::uint64_t steps) {
    const bool enough = steps <= left_;
    left_ -= enough ? steps : left_;
    return enough;
  }
  /// Returns true if `cancelled` was set; the budget is then used up.
  [[nodiscard]] bool is_cancelled() {
    if (cancelled_ == nullptr || !cancelled_->load(std::memory_order_relaxed)) return false;
    left_ = 0;
    return true;
  }
  /// Returns the result of glob_match(); nullopt if the budget is used up, or if `cancelled` was set.
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
