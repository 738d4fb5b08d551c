// Converts the expiry in a command to absolute engine time, and back.
//
// A command gives a time in seconds or milliseconds, from now or since the epoch. Entries store absolute milliseconds; 0 means
// never.
#pragma once

#include <cstdint>
#include <optional>

#include <engine/types.h>

namespace ebbtide {

enum class ExpiryUnit : std::uint8_t { kSeconds, kMilliseconds };

/// The form of a time in a command. `relative`: the time counts from now; otherwise from the epoch.
struct ExpiryForm {
  ExpiryUnit unit = ExpiryUnit::kSeconds;
  bool relative = true;
};
/// The forms of EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT, and of similar commands.
inline constexpr ExpiryForm kInSeconds = {.unit = ExpiryUnit::kSeconds, .relative = true};
inline constexpr ExpiryForm kInMillis = {.unit = ExpiryUnit::kMilliseconds, .relative = true};
inline constexpr ExpiryForm kAtSecond = {.unit = ExpiryUnit::kSeconds, .relative = false};
inline constexpr ExpiryForm kAtMilli = {.unit = ExpiryUnit::kMilliseconds, .relative = false};

/// Returns absolute ms, which may be negative or in the past; nullopt on overflow.
std::optional<std::int64_t> absolute_expiry(std::int64_t value, ExpiryForm form, Millis now);
/// Like absolute_expiry(), for SET, GETEX and similar commands: returns nullopt also for a value that is not positive.
std::optional<std::int64_t> positive_absolute_expiry(std::int64_t value, ExpiryForm form, Millis now);

/// Returns true if an absolute expiry has passed.
inline bool has_passed(std::int64_t expiry, Millis now) { return expiry <= static_cast<std::int64_t>(now); }

/// Returns the reply of TTL, PTTL, EXPIRETIME and PEXPIRETIME for this expiry: -1 for never. Seconds are rounded to the nearest.
std::int64_t describe_expiry(Millis expiry, ExpiryForm form, Millis now);

}  // namespace ebbtide
