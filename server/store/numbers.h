// Reads and writes numbers as text, exactly like Redis, independent of the locale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <engine/bytes.h>

namespace ebbtide {

/// Parses an integer like Redis's string2ll: an optional '-', then digits without a leading zero, within int64. "0" is valid;
/// "-0", "+1", " 1" and "01" are not.
std::optional<std::int64_t> parse_integer(Bytes text);
/// Parses an unsigned integer like Redis's string2ull for cursors: digits as strtoull reads them, within uint64, without a sign
/// or spaces.
std::optional<std::uint64_t> parse_unsigned(Bytes text);
/// Parses a number like Redis's string2ld: a text that strtold reads completely, without leading space; not NaN, and in range.
std::optional<long double> parse_long_double(Bytes text);

/// Parses a number like Redis's string2d: a text that strtod reads completely, without leading space; not NaN, and in range.
std::optional<double> parse_double(Bytes text);

/// Returns decimal text.
std::string to_text(std::int64_t value);
/// Formats a number like Redis's ld2string in its human form: "%.17Lf" without trailing zeros, and "-0" as "0".
std::string to_text(long double value);

/// Compares two texts without regard to the case of ASCII letters.
bool equal_ignoring_case(Bytes a, Bytes b);
/// Return a copy of the text with its ASCII letters in lower or upper case.
std::string to_lower(Bytes text);
std::string to_upper(Bytes text);

}  // namespace ebbtide
