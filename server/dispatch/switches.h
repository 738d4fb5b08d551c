// The observers of commands that are in use, as the bits of one word.
//
// Dispatch loads the word once for each command. While it is 0, dispatch skips all observers (observers.h).
#pragma once

#include <atomic>
#include <cstdint>

namespace ebbtide {

/// Thread-safe.
class Switches {
 public:
  enum Bit : std::uint32_t {
    kNotifications = 1,
    kTracking = 2,
    kPause = 4,
    kEveryTime = 8,  ///< the slow log's threshold is so low that dispatch must check every command's time
    kMonitors = 16,
  };

  /// Returns all bits. This is one atomic load.
  [[nodiscard]] std::uint32_t word() const { return word_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool has(Bit bit) const { return (word() & bit) != 0; }
  void set(Bit bit, bool on) {
    on ? word_.fetch_or(bit, std::memory_order_relaxed) : word_.fetch_and(~std::uint32_t{bit}, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t> word_{0};
};

}  // namespace ebbtide
