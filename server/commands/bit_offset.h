// The bit offsets of SETBIT, GETBIT and BITFIELD.
#pragma once

#include "dispatch/arg_cursor.h"
#include "store/numbers.h"
#include "store/strings.h"

namespace ebbtide {

/// Parses the offset of a bit in a string of at most kMaxStringBytes. With `field_bits`, "#3" is the offset of field 3, counted
/// from 0: 3 times `field_bits`. As in Redis, the product wraps around.
inline Result<std::uint64_t> bit_offset_argument(Bytes text, unsigned field_bits = 0) {
  const bool in_fields = field_bits > 0 && !text.empty() && text.front() == '#';
  const auto number = parse_integer(in_fields ? text.substr(1) : text);
  const std::uint64_t offset =
      number ? static_cast<std::uint64_t>(*number) * (in_fields ? field_bits : 1) : ~std::uint64_t{0};  // no number: too large
  if (offset / 8 >= kMaxStringBytes) return reply_error("ERR bit offset is not an integer or out of range");
  return offset;
}

}  // namespace ebbtide
