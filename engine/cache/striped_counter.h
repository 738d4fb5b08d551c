// A counter for many threads that add and few that read. Each thread adds in a cache line (stripe) of its own.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace ebbtide {

/// Number of stripes of a counter. thread_stripe() returns a stripe that no other running thread has, or kSharedStripe if all
/// other stripes are in use.
inline constexpr unsigned kStripes = 64;
inline constexpr unsigned kSharedStripe = kStripes - 1;
unsigned thread_stripe();

/// Thread-safe. add() costs a plain load and store in the thread's own cache line.
class StripedCounter {
 public:
  void add() {
    const unsigned stripe = thread_stripe();
    auto& count = stripes_[stripe].count;
    if (stripe != kSharedStripe) {
      count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // only this thread writes this stripe
    } else {
      count.fetch_add(1, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const auto& stripe : stripes_) sum += stripe.count.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(64) Stripe {
    std::atomic<std::uint64_t> count{0};
  };
  std::array<Stripe, kStripes> stripes_;
};

}  // namespace ebbtide
