// A charge to the memory budget that follows an amount of memory in steps, so that small changes cost no charge.
#pragma once

#include <cstddef>
#include <functional>

namespace ebbtide {

/// Not thread-safe: the owner of the memory guards it.
class SteppedCharge {
 public:
  static constexpr std::size_t kStep = std::size_t{64} << 10;

  /// Charges memory to the budget. Set once, before use; null: nothing is charged. The same for `release`.
  std::function<void(std::size_t bytes)> charge, release;

  /// The owner has so many bytes now: whole steps of them are charged.
  void follow(std::size_t bytes) {
    const std::size_t now = bytes / kStep * kStep;
    if (now > charged_ && charge) charge(now - charged_);
    if (now < charged_ && release) release(charged_ - now);
    charged_ = now;
  }

 private:
  std::size_t charged_ = 0;
};

}  // namespace ebbtide
