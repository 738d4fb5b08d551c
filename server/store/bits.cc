#include "store/bits.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "store/numbers.h"

namespace ebbtide {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

std::uint64_t load_word(const char* at) {
  std::uint64_t word;
  std::memcpy(&word, at, kWord);
  return word;
}

unsigned char byte_at(Bytes value, std::uint64_t i) { return static_cast<unsigned char>(value[i]); }

/// Returns a mask of the bits of byte `i` that lie in [first, last].
unsigned mask_of(std::uint64_t i, std::uint64_t first, std::uint64_t last) {
  unsigned mask = 0xff;
  if (i == first / 8) mask &= 0xffu >> (first % 8);
  if (i == last / 8) mask &= 0xff00u >> (last % 8 + 1);
  return mask & 0xff;
}

std::uint64_t count_bytes(const char* at, std::size_t n) {
  std::uint64_t count = 0;
  for (; n >= kWord; at += kWord, n -= kWord) count += static_cast<std::uint64_t>(std::popcount(load_word(at)));
  for (; n > 0; ++at, --n) count += static_cast<std::uint64_t>(std::popcount(static_cast<unsigned char>(*at)));
  return count;
}

/// Returns the greatest number that the field holds; the least number of a signed field is -max_of(type) - 1.
std::uint64_t max_of(BitfieldType type) { return (std::uint64_t{1} << (type.is_signed ? type.bits - 1 : type.bits)) - 1; }

/// Returns the lowest bits of a number as a value of the field's type.
std::int64_t truncated(BitfieldType type, std::uint64_t number) {
  const unsigned unused = 64 - type.bits;
  const std::uint64_t high = number << unused;
  return type.is_signed ? static_cast<std::int64_t>(high) >> unused : static_cast<std::int64_t>(high >> unused);
}

enum class Fit : std::uint8_t { kFits, kAbove, kBelow };

std::optional<std::int64_t> resolve(BitfieldType type, Fit fit, std::uint64_t exact, BitOverflow overflow) {
  if (fit == Fit::kFits || overflow == BitOverflow::kWrap) return truncated(type, exact);
  if (overflow == BitOverflow::kFail) return std::nullopt;
  if (fit == Fit::kAbove) return static_cast<std::int64_t>(max_of(type));
  return type.is_signed ? -static_cast<std::int64_t>(max_of(type)) - 1 : 0;
}

}  // namespace

bool get_bit(Bytes value, std::uint64_t position) {
  const std::uint64_t byte = position / 8;
  return byte < value.size() && (byte_at(value, byte) >> (7 - position % 8) & 1) != 0;
}

void set_bit(std::string* value, std::uint64_t position, bool bit) {
  char& byte = (*value)[position / 8];
  const unsigned mask = 0x80u >> (position % 8);
  const unsigned old = static_cast<unsigned char>(byte);
  byte = static_cast<char>(bit ? old | mask : old & ~mask);
}

std::uint64_t count_bits(Bytes value, std::uint64_t first, std::uint64_t last) {
  const std::uint64_t first_byte = first / 8, last_byte = last / 8;
  std::uint64_t count = count_bytes(value.data() + first_byte, last_byte - first_byte + 1);
  const auto outside = [&](std::uint64_t i) {
    return static_cast<std::uint64_t>(std::popcount(byte_at(value, i) & (~mask_of(i, first, last) & 0xffu)));
  };
  count -= outside(first_byte);
  if (last_byte != first_byte) count -= outside(last_byte);
  return count;
}

std::optional<std::uint64_t> find_bit(Bytes value, std::uint64_t first, std::uint64_t last, bool bit) {
  // If 0 is wanted, the bits are inverted, so that the position is the number of leading zeros.
  const std::uint64_t skipped = bit ? 0 : std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t last_byte = last / 8;
  for (std::uint64_t i = first / 8; i <= last_byte; ++i) {
    while (i > first / 8 && i + kWord <= last_byte && load_word(value.data() + i) == skipped) i += kWord;
    const unsigned wanted = (byte_at(value, i) ^ static_cast<unsigned>(skipped & 0xff)) & mask_of(i, first, last);
    if (wanted != 0) return i * 8 + static_cast<std::uint64_t>(std::countl_zero(static_cast<unsigned char>(wanted)));
  }
  return std::nullopt;
}

void combine_bits(BitOp op, Bytes value, char* into) {
  const auto each = [&](auto combine) {
    std::size_t i = 0;
    for (; i + kWord <= value.size(); i += kWord) {
      const std::uint64_t word = combine(load_word(into + i), load_word(value.data() + i));
      std::memcpy(into + i, &word, kWord);
    }
    for (; i < value.size(); ++i) into[i] = static_cast<char>(combine(static_cast<unsigned char>(into[i]), byte_at(value, i)));
  };
  switch (op) {
    case BitOp::kAnd:
      return each([](std::uint64_t a, std::uint64_t b) { return a & b; });
    case BitOp::kOr:
      return each([](std::uint64_t a, std::uint64_t b) { return a | b; });
    case BitOp::kXor:
      return each([](std::uint64_t a, std::uint64_t b) { return a ^ b; });
    case BitOp::kNot:
      return each([](std::uint64_t, std::uint64_t b) { return ~b; });
  }
}

std::optional<BitfieldType> parse_bitfield_type(Bytes text) {
  if (text.empty() || (text[0] != 'i' && text[0] != 'u')) return std::nullopt;
  const bool is_signed = text[0] == 'i';
  const auto bits = parse_integer(text.substr(1));
  if (!bits || *bits < 1 || *bits > (is_signed ? 64 : 63)) return std::nullopt;
  return BitfieldType{.is_signed = is_signed, .bits = static_cast<unsigned>(*bits)};
}

std::int64_t get_field(Bytes value, BitfieldType type, std::uint64_t position) {
  // The field spans at most nine bytes: the first eight are read as one number, then the rest from the ninth.
  const std::uint64_t byte = position / 8;
  const unsigned skip = position % 8;
  std::uint64_t high = 0;
  for (unsigned i = 0; i < 8; ++i) high = high << 8 | (byte + i < value.size() ? byte_at(value, byte + i) : 0);
  high <<= skip;
  if (skip != 0 && byte + 8 < value.size()) high |= static_cast<std::uint64_t>(byte_at(value, byte + 8)) >> (8 - skip);
  return truncated(type, high >> (64 - type.bits));
}

void set_field(std::string* value, BitfieldType type, std::uint64_t position, std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  for (unsigned i = 0; i < type.bits; ++i) set_bit(value, position + i, (bits >> (type.bits - 1 - i) & 1) != 0);
}

std::optional<std::int64_t> fit_field(BitfieldType type, std::int64_t number, BitOverflow overflow) {
  const auto exact = static_cast<std::uint64_t>(number);
  Fit fit = Fit::kFits;
  const auto max = static_cast<std::int64_t>(max_of(type));
  if (!type.is_signed) {
    if (exact > max_of(type)) fit = Fit::kAbove;
  } else if (number > max || (type.bits < 64 && number < max - std::numeric_limits<std::int64_t>::max())) {
    // If `max - number` overflows, Redis treats a number far below the range as above it, and so does this code.
    fit = Fit::kAbove;
  } else if (number < -max - 1) {
    fit = Fit::kBelow;
  }
  return resolve(type, fit, exact, overflow);
}

std::optional<std::int64_t> add_to_field(BitfieldType type, std::int64_t number, std::int64_t increment, BitOverflow overflow) {
  __extension__ using Wide = __int128;
  const Wide max = static_cast<Wide>(max_of(type));
  const Wide min = type.is_signed ? -max - 1 : 0;
  const Wide exact = static_cast<Wide>(number) + increment;
  const Fit fit = exact > max ? Fit::kAbove : exact < min ? Fit::kBelow : Fit::kFits;
  return resolve(type, fit, static_cast<std::uint64_t>(exact), overflow);
}

}  // namespace ebbtide
