#include "store/expiry.h"

#include <limits>

namespace ebbtide {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

}  // namespace

std::optional<std::int64_t> absolute_expiry(std::int64_t value, ExpiryForm form, Millis now) {
  if (form.unit == ExpiryUnit::kSeconds) {
    if (value > kMax / 1000 || value < kMin / 1000) return std::nullopt;
    value *= 1000;
  }
  if (form.relative) {
    const std::int64_t base = static_cast<std::int64_t>(now);
    if (value > kMax - base) return std::nullopt;
    value += base;
  }
  return value;
}

std::optional<std::int64_t> positive_absolute_expiry(std::int64_t value, ExpiryForm form, Millis now) {
  if (value <= 0) return std::nullopt;
  return absolute_expiry(value, form, now);
}

std::int64_t describe_expiry(Millis expiry, ExpiryForm form, Millis now) {
  if (expiry == 0) return -1;
  std::int64_t value = static_cast<std::int64_t>(expiry);
  if (form.relative) value = expiry > now ? static_cast<std::int64_t>(expiry - now) : 0;
  if (form.unit == ExpiryUnit::kMilliseconds) return value;
  return value / 1000 + (value % 1000 >= 500 ? 1 : 0);
}

}  // namespace ebbtide
