// Strings as rows of bits: bit 0 is the highest bit of the first byte, and all bits beyond the end are 0.
//
// The arithmetic of SETBIT, BITCOUNT, BITPOS, BITOP and BITFIELD, without keys and replies. Positions are in bits unless a name
// says bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <engine/bytes.h>

namespace ebbtide {

[[nodiscard]] bool get_bit(Bytes value, std::uint64_t position);
/// Sets the bit at `position`. Requires position < 8 * value->size().
void set_bit(std::string* value, std::uint64_t position, bool bit);

/// Returns how many bits of [first, last] are 1. Requires first <= last < 8 * value.size().
std::uint64_t count_bits(Bytes value, std::uint64_t first, std::uint64_t last);
/// Returns the first position in [first, last] whose bit equals `bit`; nullopt if there is none. Requires first <= last < 8 *
/// value.size().
std::optional<std::uint64_t> find_bit(Bytes value, std::uint64_t first, std::uint64_t last, bool bit);

enum class BitOp : std::uint8_t { kAnd, kOr, kXor, kNot };
/// Combines the first value.size() bytes of `into` with `value`. For kNot, stores the complement of `value` in `into`.
void combine_bits(BitOp op, Bytes value, char* into);

/// The type of an integer in a row of bits: of 1 to 64 bits, or 63 if unsigned, highest bit first. Signed integers are in two's
/// complement.
struct BitfieldType {
  bool is_signed = false;
  unsigned bits = 0;
};
/// Parses a type such as "i8" or "u63". Returns nullopt for any other text.
std::optional<BitfieldType> parse_bitfield_type(Bytes text);

enum class BitOverflow : std::uint8_t { kWrap, kSaturate, kFail };

/// Returns the number in the field at `position`. Bits beyond the end are 0.
std::int64_t get_field(Bytes value, BitfieldType type, std::uint64_t position);
/// Stores the lowest bits of `number` in the field. Requires position + type.bits <= 8 * value->size().
void set_field(std::string* value, BitfieldType type, std::uint64_t position, std::int64_t number);
/// Wraps or saturates `number` to the field's type, and returns it. nullopt: it does not fit, and `overflow` is kFail. As in
/// Redis, `number` is read as unsigned for an unsigned field, so that a negative number is too large.
std::optional<std::int64_t> fit_field(BitfieldType type, std::int64_t number, BitOverflow overflow);
/// Like fit_field(), for the sum of a field's `number` and `increment`.
std::optional<std::int64_t> add_to_field(BitfieldType type, std::int64_t number, std::int64_t increment, BitOverflow overflow);

}  // namespace ebbtide
