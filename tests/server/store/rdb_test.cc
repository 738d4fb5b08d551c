// Compares lengths and strings with the bytes that Redis writes, and checks that nothing is read beyond the end.
#include "store/rdb.h"

#include <engine/types.h>

#include <catch2/catch.hpp>
#include <string>

namespace TEST_FILE {

using namespace ebbtide;
using namespace std::string_literals;

std::string length(std::uint64_t n) {
  std::string out;
  append_rdb_length(&out, n);
  return out;
}

std::string string(Bytes text) {
  std::string out;
  append_rdb_string(&out, text);
  return out;
}

std::optional<std::string> read(Bytes bytes) {
  RdbSource source(bytes);
  const auto stored = source.take_string();
  return stored && source.left() == 0 ? unpack(*stored) : std::nullopt;
}

TEST_CASE("rdb: length is written: it takes the fewest bytes, and is read back") {
  CHECK(length(63) == "\x3f");
  CHECK(length(64) == "\x40\x40");
  CHECK(length(16383) == "\x7f\xff");
  CHECK(length(16384) == "\x80\x00\x00\x40\x00"s);
  CHECK(length(0x100000000) == "\x81\x00\x00\x00\x01\x00\x00\x00\x00"s);
  for (const std::uint64_t n : {0ul, 63ul, 64ul, 16383ul, 16384ul, 0xfffffffful, 0x100000000ul, ~0ul}) {
    const std::string bytes = length(n);
    RdbSource source(bytes);
    CHECK(source.take_length() == n);
    CHECK(source.left() == 0);
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) CHECK(!RdbSource(Bytes(bytes).substr(0, cut)).take_length());
  }
  CHECK(!RdbSource("\xc0\x01").take_length());  // a string stands here
}

TEST_CASE("rdb: string is written: it has its shortest form, and is read back") {
  CHECK(string("-5") == "\xc0\xfb");
  CHECK(string("1000") == "\xc1\xe8\x03");
  CHECK(string("-70000") == "\xc2\x90\xee\xfe\xff");
  CHECK(string("a") ==
        "\x01"
        "a");
  const std::string longest(20'000, 'x');
  for (const Bytes text : {Bytes(""), Bytes("0"), Bytes("-128"), Bytes("128"), Bytes("-2147483648"), Bytes("2147483648"),
                           Bytes("-0"), Bytes("01"), Bytes(longest)}) {
    const std::string bytes = string(text);
    CHECK(read(bytes) == text);
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) CHECK(!read(Bytes(bytes).substr(0, cut)));
  }
}

TEST_CASE("rdb: compressed string claims more than the longest value: it is refused before it is decompressed") {
  const std::string compressed(7'000'000, '\xff');
  const auto claims = [&](std::uint64_t n) {
    const std::string bytes = "\xc3" + length(compressed.size()) + length(n) + compressed;
    return RdbSource(bytes).take_string().has_value();
  };
  CHECK(claims(kMaxValueBytes));
  CHECK_FALSE(claims(kMaxValueBytes + 1));
}

TEST_CASE("rdb: number of any width is negative: it is read with its sign") {
  CHECK(load_little("\xfe\xff") == 0xfffe);
  CHECK(load_little_signed("\xfe\xff") == -2);
  CHECK(load_little_signed("\x01\x00\x80"s) == -8'388'607);
  CHECK(load_little_signed("\xff\xff\xff\xff\xff\xff\xff\x7f") == 0x7fffffffffffffff);
}

TEST_CASE("lzf: every kind of token is decoded, and no read or write is out of bounds") {
  CHECK(lzf_decompress("", 0) == "");
  CHECK(lzf_decompress(std::string("\x02"
                                   "abc",
                                   4),
                       3) == "abc");
  CHECK(lzf_decompress(std::string("\x02"
                                   "abc"
                                   "\x20\x02",
                                   6),
                       6) == "abcabc");  // three bytes again, from three back
  CHECK(lzf_decompress(std::string("\x00"
                                   "a"
                                   "\xe0\xff\x00",
                                   5),
                       265) == std::string(265, 'a'));
  CHECK(lzf_decompress(std::string("\x02"
                                   "abc",
                                   4),
                       4) == std::nullopt);
  CHECK(lzf_decompress(std::string("\x02"
                                   "abc",
                                   4),
                       2) == std::nullopt);
  CHECK(lzf_decompress(std::string("\x02"
                                   "ab",
                                   3),
                       3) == std::nullopt);
  CHECK(lzf_decompress(std::string("\x00"
                                   "a"
                                   "\x20\x01",
                                   4),
                       4) == std::nullopt);  // refers to bytes before the beginning
  CHECK(lzf_decompress(std::string("\x00"
                                   "a"
                                   "\x20",
                                   3),
                       4) == std::nullopt);
  CHECK(lzf_decompress(std::string("\x00"
                                   "a"
                                   "\xe0",
                                   3),
                       4) == std::nullopt);
  CHECK(lzf_decompress(std::string("\x00"
                                   "a"
                                   "\xe0\xff\x00",
                                   5),
                       264) == std::nullopt);
  CHECK(lzf_decompress(std::string("\x00"
                                   "a",
                                   2),
                       std::size_t{1} << 40) == std::nullopt);  // this must not allocate memory
  CHECK(lzf_decompress(std::string("\x02"
                                   "ab",
                                   3),
                       2) == std::nullopt);  // fewer literal bytes than announced
}

}  // namespace TEST_FILE
