#include "base/clock.h"

#include <algorithm>
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
  // Returns at least 1 ms, even if the clock is set to a time before 1970.
  [[nodiscard]] Millis wall_ms() const override {
    const auto ns = static_cast<std::int64_t>(read_ns(CLOCK_REALTIME));
    return static_cast<Millis>(std::max<std::int64_t>(ns / 1'000'000, 1));
  }
  [[nodiscard]] Millis boot_ms() const override { return read_ns(CLOCK_BOOTTIME) / 1'000'000; }
  [[nodiscard]] std::uint64_t mono_ns() const override { return read_ns(CLOCK_MONOTONIC); }
};

}  // namespace

Clock* system_clock() {
  static SystemClock clock;
  return &clock;
}

}  // namespace ebbtide
