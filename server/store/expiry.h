// Times to live, as users give them, to absolute engine time, and back.
//
// Commands name a time in seconds or milliseconds, from now or since the epoch; entries carry absolute milliseconds, 0 for never.
// The arithmetic is Redis's (expireGenericCommand, getExpireMillisecondsOrReply), overflow checks included.
#pragma once

#include <cstdint>
#include <optional>

#include <engine/types.h>

namespace ebbtide {

enum class ExpiryUnit : std::uint8_t { kSeconds, kMilliseconds };

/// What a user gives: `relative` to now or since the epoch.
struct ExpiryForm {
  ExpiryUnit unit = ExpiryUnit::kSeconds;
  bool relative = true;
};

/// Absolute ms; may be negative or in the past. nullopt on overflow.
std::optional<std::int64_t> absolute_expiry(std::int64_t value, ExpiryForm form, Millis now);
/// As absolute_expiry for SET, GETEX and their kin, which refuse a value that is not positive, too.
std::optional<std::int64_t> positive_absolute_expiry(std::int64_t value, ExpiryForm form, Millis now);

/// Whether an absolute expiry has passed already.
inline bool has_passed(std::int64_t expiry, Millis now) { return expiry <= static_cast<std::int64_t>(now); }

/// What TTL, PTTL, EXPIRETIME, PEXPIRETIME answer for an entry with that expiry: -1 for never; seconds are rounded to nearest.
std::int64_t describe_expiry(Millis expiry, ExpiryForm form, Millis now);

}  // namespace ebbtide
