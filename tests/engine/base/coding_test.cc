#include "base/coding.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>

#include "base/random.h"

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("varints are written: they take one byte per 7 bits and read back, and reading a truncated one fails") {
  Random random(1);
  for (int bits = 0; bits <= 64; ++bits) {
    for (int i = 0; i < 50; ++i) {
      const std::uint64_t v = bits == 0 ? 0 : random.next() >> (64 - bits);
      std::string out;
      put_varint(&out, v);
      CHECK(out.size() == (static_cast<std::size_t>(std::bit_width(v | 1)) + 6) / 7);
      Bytes in = out;
      std::uint64_t back = 0;
      REQUIRE(get_varint(&in, &back));
      CHECK(back == v);
      CHECK(in.empty());
      for (std::size_t cut = 0; cut < out.size(); ++cut) {
        Bytes shorter = Bytes(out).substr(0, cut);
        CHECK_FALSE(get_varint(&shorter, &back));
      }
    }
  }
}

TEST_CASE("varint encodes more than 64 bits: get_varint() fails") {
  std::uint64_t v = 0;
  Bytes eleven("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11);
  CHECK_FALSE(get_varint(&eleven, &v));
  Bytes too_large("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10);
  CHECK_FALSE(get_varint(&too_large, &v));
  Bytes largest("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10);
  REQUIRE(get_varint(&largest, &v));
  CHECK(v == ~std::uint64_t{0});
  std::uint32_t narrow = 0;
  Bytes wide("\xff\xff\xff\xff\x1f", 5);
  CHECK_FALSE(get_varint32(&wide, &narrow));
}

TEST_CASE("string is longer than the remaining bytes: reading it fails") {
  std::string out;
  put_bytes(&out, "hello");
  put_u32(&out, 7);
  Bytes in = out, s;
  std::uint32_t n = 0;
  REQUIRE(get_bytes(&in, &s));
  REQUIRE(get_u32(&in, &n));
  CHECK(s == "hello");
  CHECK(n == 7);
  CHECK_FALSE(get_u32(&in, &n));
  Bytes lie("\x05hell", 5);
  CHECK_FALSE(get_bytes(&lie, &s));
  Bytes huge("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01xx", 12);
  CHECK_FALSE(get_bytes(&huge, &s));
}

/// Returns strings that often have a common prefix.
std::string random_bytes(Random& random) {
  std::string bytes(random.uniform(24), 'a');
  for (char& c : bytes) {
    if (random.one_in(6)) c = static_cast<char>(random.uniform(256));
  }
  return bytes;
}

TEST_CASE("common prefix of keys is removed: the numbers that key_word() makes of them sort like the keys", "[property]") {
  Random random(3);
  for (int i = 0; i < 20'000; ++i) {
    const std::string a = random_bytes(random), b = random_bytes(random);
    const std::size_t skip = random.uniform(common_bytes(a, b) + 1);
    CAPTURE(a, b, skip);
    if (key_word(a, skip) < key_word(b, skip)) REQUIRE(a < b);
    if (key_word(a, skip) > key_word(b, skip)) REQUIRE(a > b);
    // Words are equal if the bytes are equal or differ only by zeros at the end.
    std::string padded_a = a.substr(skip, 8), padded_b = b.substr(skip, 8);
    padded_a.resize(8);
    padded_b.resize(8);
    REQUIRE((key_word(a, skip) == key_word(b, skip)) == (padded_a == padded_b));
  }
  CHECK(key_word("", 0) == 0);
  CHECK(key_word("abc", 3) == 0);
  CHECK(key_word("abc", 9) == 0);
}

TEST_CASE("common_bytes() and same_bytes() get random strings: the results equal a comparison byte by byte", "[property]") {
  Random random(4);
  for (int i = 0; i < 20'000; ++i) {
    const std::string a = random_bytes(random);
    std::string b = random_bytes(random);
    if (random.one_in(2)) b = a.substr(0, random.uniform(a.size() + 1)) + b;
    const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    REQUIRE(common_bytes(a, b) == static_cast<std::size_t>(differ.first - a.begin()));
    const std::size_t n = random.uniform(std::min(a.size(), b.size()) + 1);
    REQUIRE(same_bytes(a.data(), b.data(), n) == (a.substr(0, n) == b.substr(0, n)));
  }
}

}  // namespace TEST_FILE
