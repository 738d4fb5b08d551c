// Compares operations on rows of bits with the same operations done one bit at a time.
#include "store/bits.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <vector>

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max(), kMin = std::numeric_limits<std::int64_t>::min();

BitfieldType type_of(Bytes text) {
  const auto type = parse_bitfield_type(text);
  REQUIRE(type);
  return *type;
}

/// Returns long stretches of equal bits, as in bitmaps.
std::string random_value(std::mt19937_64& random, std::size_t bytes) {
  std::string value;
  while (value.size() < bytes) {
    const char fill = random() % 3 == 0 ? static_cast<char>(random()) : random() % 2 == 0 ? '\0' : '\xff';
    value.append(random() % 20 + 1, fill);
  }
  value.resize(bytes);
  return value;
}

TEST_CASE("bits: BITCOUNT and BITPOS of random bytes equal a scan of each bit") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 3000; ++round) {
    const std::string value = random_value(random, random() % 60 + 1);
    std::uint64_t first = random() % (value.size() * 8), last = random() % (value.size() * 8);
    if (first > last) std::swap(first, last);
    const bool wanted = random() % 2 == 0;
    std::uint64_t count = 0;
    std::optional<std::uint64_t> found;
    for (std::uint64_t i = first; i <= last; ++i) {
      count += get_bit(value, i) ? 1 : 0;
      if (!found && get_bit(value, i) == wanted) found = i;
    }
    INFO("round " << round << ": " << first << " to " << last << " of " << value.size() << " bytes");
    CHECK(count_bits(value, first, last) == count);
    CHECK(find_bit(value, first, last, wanted) == found);
  }
}

TEST_CASE("bits: a bit is set: only that bit changes") {
  std::string value(3, '\0');
  set_bit(&value, 0, true);
  set_bit(&value, 9, true);
  CHECK(value == std::string("\x80\x40\x00", 3));
  CHECK(get_bit(value, 0));
  CHECK(!get_bit(value, 8));
  CHECK(get_bit(value, 9));
  CHECK(!get_bit(value, 24));
  set_bit(&value, 0, false);
  CHECK(value == std::string("\x00\x40\x00", 3));
}

TEST_CASE("bits: value shorter than the result is combined with it: bytes beyond the value's end do not change") {
  const std::string a = "\xf0\x0f\xaa", b = "\xff";
  const auto combined = [](BitOp op, std::string into, Bytes value) {
    combine_bits(op, value, into.data());
    return into;
  };
  CHECK(combined(BitOp::kAnd, a, b) == "\xf0\x0f\xaa");
  CHECK(combined(BitOp::kAnd, a, "\x3c\x3c\x3c") == "\x30\x0c\x28");
  CHECK(combined(BitOp::kOr, a, b) == "\xff\x0f\xaa");
  CHECK(combined(BitOp::kXor, a, b) == "\x0f\x0f\xaa");
  CHECK(combined(BitOp::kNot, "???", a) == "\x0f\xf0\x55");
  // Most bytes are combined by words, and the rest one by one.
  CHECK(combined(BitOp::kXor, std::string(19, 'a'), std::string(18, '\x03')) == std::string(18, 'b') + "a");
}

TEST_CASE("bitfields: valid types are parsed, and invalid types are refused") {
  CHECK(type_of("u63").bits == 63);
  CHECK(type_of("i64").is_signed);
  for (const Bytes bad : {"", "u", "i", "u0", "i0", "u64", "i65", "8", "U8", "u08", "u-1", "u8 ", "f32"}) {
    INFO(bad);
    CHECK(!parse_bitfield_type(bad));
  }
}

TEST_CASE("bitfields: value is set at any offset and width: it is read back, and other bits stay") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 3000; ++round) {
    std::string value = random_value(random, 24);
    const std::string before = value;
    const bool is_signed = random() % 2 == 0;
    const BitfieldType type{.is_signed = is_signed, .bits = static_cast<unsigned>(random() % (is_signed ? 64 : 63) + 1)};
    const std::uint64_t position = random() % (24 * 8 - type.bits + 1);
    const auto number = *fit_field(type, static_cast<std::int64_t>(random()), BitOverflow::kWrap);
    set_field(&value, type, position, number);
    INFO("round " << round << ": " << type.bits << " bits at " << position);
    CHECK(get_field(value, type, position) == number);
    for (std::uint64_t i = 0; i < 24 * 8; ++i) {
      if (i < position || i >= position + type.bits) REQUIRE(get_bit(value, i) == get_bit(before, i));
    }
  }
  CHECK(get_field("\xff", type_of("u16"), 4) == 0xf000);  // beyond the end there are zeros
  CHECK(get_field("", type_of("i64"), 1000) == 0);
}

TEST_CASE("bitfields: number does not fit into its type: it wraps, saturates or fails, as chosen") {
  const auto wrap = BitOverflow::kWrap, saturate = BitOverflow::kSaturate, fail = BitOverflow::kFail;
  const BitfieldType u8 = type_of("u8"), i8 = type_of("i8"), u63 = type_of("u63"), i64 = type_of("i64");
  CHECK(add_to_field(u8, 250, 10, wrap) == 4);
  CHECK(add_to_field(u8, 250, 10, saturate) == 255);
  CHECK(add_to_field(u8, 250, 10, fail) == std::nullopt);
  CHECK(add_to_field(u8, 250, 5, fail) == 255);
  CHECK(add_to_field(u8, 5, -10, wrap) == 251);
  CHECK(add_to_field(u8, 5, -10, saturate) == 0);
  CHECK(add_to_field(i8, 127, 1, wrap) == -128);
  CHECK(add_to_field(i8, 127, 1, saturate) == 127);
  CHECK(add_to_field(i8, -128, -1, wrap) == 127);
  CHECK(add_to_field(i8, -128, -1, saturate) == -128);
  CHECK(add_to_field(i8, 100, kMin, saturate) == -128);
  CHECK(add_to_field(i64, kMax, kMax, wrap) == -2);
  CHECK(add_to_field(i64, kMax, 1, saturate) == kMax);
  CHECK(add_to_field(i64, kMin, -1, saturate) == kMin);
  CHECK(add_to_field(i64, kMin, -1, fail) == std::nullopt);
  CHECK(add_to_field(u63, kMax, 1, wrap) == 0);
  CHECK(add_to_field(u63, kMax, 1, saturate) == kMax);
  CHECK(fit_field(u8, -1, wrap) == 255);
  CHECK(fit_field(u8, -1, saturate) == 255);
  CHECK(fit_field(u8, 256, fail) == std::nullopt);
  CHECK(fit_field(i8, 200, wrap) == -56);
  CHECK(fit_field(i8, -200, saturate) == -128);
  CHECK(fit_field(i8, kMin, saturate) == 127);  // as in Redis
  CHECK(fit_field(i8, kMin + 127, saturate) == 127);
  CHECK(fit_field(i8, kMin + 128, saturate) == -128);
  CHECK(fit_field(i64, kMin, fail) == kMin);
}

}  // namespace TEST_FILE
