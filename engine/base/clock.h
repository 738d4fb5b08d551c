// Time, through an interface: the engine and its tests never ask the system.
#pragma once

#include <atomic>
#include <cstdint>

#include <engine/types.h>

namespace ebbtide {

/// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Unix time in ms; may jump either way.
  [[nodiscard]] virtual Millis wall_ms() const = 0;
  /// ms since boot, suspend included; never goes back while the machine is up.
  [[nodiscard]] virtual Millis boot_ms() const = 0;
  /// ns of a monotonic clock, for durations.
  [[nodiscard]] virtual std::uint64_t mono_ns() const = 0;
};

/// The system's clocks. Lives for ever.
Clock* system_clock();

/// Time that moves only when told to.
class SimulatedClock final : public Clock {
 public:
  explicit SimulatedClock(Millis wall_ms = 1'700'000'000'000) : wall_ms_(wall_ms), boot_ms_(1'000) {}
  [[nodiscard]] Millis wall_ms() const override { return wall_ms_.load(); }
  [[nodiscard]] Millis boot_ms() const override { return boot_ms_.load(); }
  [[nodiscard]] std::uint64_t mono_ns() const override { return boot_ms_.load() * 1'000'000; }
  /// Time passes: all clocks move.
  void advance(Millis ms) {
    wall_ms_ += ms;
    boot_ms_ += ms;
  }
  /// Somebody sets the wall clock.
  void set_wall(Millis ms) { wall_ms_ = ms; }
  /// The machine restarts: the boot clock begins again.
  void reboot() { boot_ms_ = 0; }

 private:
  std::atomic<Millis> wall_ms_;
  std::atomic<Millis> boot_ms_;
};

}  // namespace ebbtide
