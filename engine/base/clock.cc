#include "base/clock.h"

#include <ctime>

namespace ebbtide {
namespace {

std::uint64_t read_ns(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(t.tv_nsec);
}

class SystemClock final : public Clock {
 public:
  [[nodiscard]] Millis wall_ms() const override { return read_ns(CLOCK_REALTIME) / 1'000'000; }
  [[nodiscard]] Millis boot_ms() const override { return read_ns(CLOCK_BOOTTIME) / 1'000'000; }
  [[nodiscard]] std::uint64_t mono_ns() const override { return read_ns(CLOCK_MONOTONIC); }
};

}  // namespace

Clock* system_clock() {
  static SystemClock clock;
  return &clock;
}

}  // namespace ebbtide
