// Reads and writes numbers as text, exactly like Redis, independent of the locale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <engine/bytes.h>

namespace ebbtide {

/// Redis's string2ll: an optional '-', then digits without a leading zero ("0" itself is fine, "-0", "+1", " 1", "01" are not),
/// within int64.
std::optional<std::int64_t> parse_integer(Bytes text);
/// Redis's string2ull for cursors: digits, as strtoull reads them but without sign or space; within uint64.
std::optional<std::uint64_t> parse_unsigned(Bytes text);
/// Redis's string2ld: a text that strtold parses completely, without leading space; not NaN, and not out of range.
std::optional<long double> parse_long_double(Bytes text);

/// Decimal text.
std::string to_text(std::int64_t value);
/// Redis's ld2string in its human form: "%.17Lf" without trailing zeros, "-0" as "0".
std::string to_text(long double value);

/// ASCII only.
bool equal_ignoring_case(Bytes a, Bytes b);
/// ASCII only.
std::string to_lower(Bytes text);
std::string to_upper(Bytes text);

}  // namespace ebbtide
