// Charges an amount of memory to the budget in steps, so that small changes need no charge.
#pragma once

#include <cstddef>
#include <functional>

namespace ebbtide {

/// Not thread-safe: the owner of the memory must guard this object.
class SteppedCharge {
 public:
  static constexpr std::size_t kStep = std::size_t{64} << 10;

  /// Functions that charge and release bytes of the memory budget. Set once, before use; if null, nothing is charged.
  std::function<void(std::size_t bytes)> charge, release;

  /// Charges or releases whole steps. The owner calls this when its memory has changed to `bytes`.
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
