// Lets threads sleep until another thread (the publisher) stores a value. For cases in which threads rarely have to sleep.
//
// The publisher stores its value, then checks with one load whether a thread sleeps. A thread that is about to sleep increments
// a count of sleepers, then checks its condition again. Both stores and both loads are sequentially consistent, so at least one
// of the two threads sees the other's store: no wake-up is lost (Dekker's argument). With a mutex and a condition variable the
// publisher would take a lock each time.
#pragma once

#include <atomic>
#include <cstdint>

namespace ebbtide {

/// For loops that wait for another thread's store: yields to the core's other hardware thread, and lets the loop see the store
/// sooner.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// Thread-safe. Any number of threads may wait, for different conditions.
class WaitPoint {
 public:
  /// Returns once `done()` is true. Spins for a few microseconds first, then sleeps. `done` must read atomics in sequentially
  /// consistent order. It may be called often, and must not take a lock that a publisher holds.
  template <typename Done>
  void wait_until(Done done) {
    for (int spins = 0; spins < kSpins; ++spins) {
      if (done()) return;
      spin_pause();
    }
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    for (;;) {
      // Loads the round before done() is called, so that a wake-up between the two is not lost: it changes round_.
      const std::uint32_t round = round_.load(std::memory_order_seq_cst);
      if (done()) break;
      round_.wait(round, std::memory_order_seq_cst);
    }
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }

  /// Wakes the threads that sleep here; they check their conditions again. Call this after each store on which a condition
  /// depends. That store must be sequentially consistent. Costs one load if no thread sleeps.
  void notify() {
    if (sleepers_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      wake();
  }

  /// Returns the number of threads that sleep, or are about to. For tests.
  [[nodiscard]] std::uint32_t sleepers() const { return sleepers_.load(std::memory_order_seq_cst); }

 private:
  static constexpr int kSpins = 64;  // 1 to 3 us, depending on the processor; the insertion of one operation takes less

  void wake();

  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<std::uint32_t> round_{0};  // 32 bits: the size on which the kernel can wait
};

}  // namespace ebbtide
