#include "base/coding.h"

#include <catch2/catch.hpp>

#include "base/random.h"

using namespace ebbtide;

TEST_CASE("varints come back, take the bytes they say, and never read past the end") {
  Random random(1);
  for (int bits = 0; bits <= 64; ++bits) {
    for (int i = 0; i < 50; ++i) {
      const std::uint64_t v = bits == 0 ? 0 : random.next() >> (64 - bits);
      std::string out;
      put_varint(&out, v);
      CHECK(out.size() == varint_bytes(v));
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

TEST_CASE("a varint of more than 64 bits is refused") {
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

TEST_CASE("a string longer than what is left is refused") {
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
