// An interface for time. The engine and its tests never read the system's clocks directly.
#pragma once

#include <atomic>
#include <cstdint>

#include <engine/types.h>

namespace ebbtide {

/// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Unix time in ms; may jump forward or back.
  [[nodiscard]] virtual Millis wall_ms() const = 0;
  /// Milliseconds since boot, including time in suspend; never goes back while the machine is up.
  [[nodiscard]] virtual Millis boot_ms() const = 0;
  /// Nanoseconds of a monotonic clock, for durations.
  [[nodiscard]] virtual std::uint64_t mono_ns() const = 0;
};

/// Returns the system's clocks, which are never destroyed.
Clock* system_clock();

/// A clock that moves only when a test moves it.
class SimulatedClock final : public Clock {
 public:
  explicit SimulatedClock(Millis wall_ms = 1'700'000'000'000) : wall_ms_(wall_ms), boot_ms_(1'000) {}
  [[nodiscard]] Millis wall_ms() const override { return wall_ms_.load(); }
  [[nodiscard]] Millis boot_ms() const override { return boot_ms_.load(); }
  [[nodiscard]] std::uint64_t mono_ns() const override { return boot_ms_.load() * 1'000'000; }
  /// Moves all clocks forward by `ms`.
  void advance(Millis ms) {
    wall_ms_ += ms;
    boot_ms_ += ms;
  }
  /// Sets the wall clock only.
  void set_wall(Millis ms) { wall_ms_ = ms; }
  /// Simulates a restart of the machine: the boot clock begins again at 0.
  void reboot() { boot_ms_ = 0; }

 private:
  std::atomic<Millis> wall_ms_;
  std::atomic<Millis> boot_ms_;
};

}  // namespace ebbtide
