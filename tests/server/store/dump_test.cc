// Compares DUMP's form of strings with payloads of redis-server 7.0.15, and checks that everything else is refused.
#include "store/dump.h"

#include <catch2/catch.hpp>

namespace TEST_FILE {

using namespace ebbtide;

std::string with_footer(std::string body, unsigned version = 10) {
  body.push_back(static_cast<char>(version));
  body.push_back(static_cast<char>(version >> 8));
  std::uint64_t crc = crc64(body);
  for (int i = 0; i < 8; ++i, crc >>= 8) body.push_back(static_cast<char>(crc));
  return body;
}

std::optional<std::string> load(const std::string& body) {
  const std::string payload = with_footer(std::string(1, '\0') + body);
  REQUIRE(dump_is_sound(payload));
  return load_string(payload);
}

std::string body_of(Bytes value) {
  const std::string payload = dump_string(value);
  REQUIRE(dump_is_sound(payload));
  CHECK(load_string(payload) == std::string(value));
  return payload.substr(1, payload.size() - 11);
}

TEST_CASE("dump: checksum of a text is the CRC64 that Redis computes") {
  CHECK(crc64("") == 0);
  CHECK(crc64("123456789") == 0xe9c6d914c4b8d9ca);
  // Whole words and the bytes after them are processed by different code.
  CHECK(crc64("This is a test of the emergency broadcast system.") == 0x42153dc5db99540f);
}

TEST_CASE("dump: integer or length is written: it takes the fewest bytes") {
  CHECK(body_of("0") == std::string("\xc0\x00", 2));
  CHECK(body_of("-128") == "\xc0\x80");
  CHECK(body_of("128") == std::string("\xc1\x80\x00", 3));
  CHECK(body_of("-32769") == "\xc2\xff\x7f\xff\xff");
  CHECK(body_of("2147483647") == "\xc2\xff\xff\xff\x7f");
  CHECK(body_of("2147483648") ==
        "\x0a"
        "2147483648");
  CHECK(body_of("007") ==
        "\x03"
        "007");
  CHECK(body_of("") == std::string(1, '\0'));
  CHECK(body_of(std::string(63, 'a')) == "\x3f" + std::string(63, 'a'));
  CHECK(body_of(std::string(64, 'a')) == "\x40\x40" + std::string(64, 'a'));
  CHECK(body_of(std::string(16384, 'a')) == std::string("\x80\x00\x00\x40\x00", 5) + std::string(16384, 'a'));
  CHECK(dump_string("x").substr(3, 2) == std::string("\x08\x00", 2));
}

TEST_CASE("dump: payload was written by Redis: its value is read") {
  // The DUMP of 60 times 'a', compressed with LZF.
  CHECK(load(std::string("\xc3\x09\x3c\x01"
                         "aa"
                         "\xe0\x2f\x00\x01"
                         "aa",
                         12)) == std::string(60, 'a'));
  CHECK(load(std::string("\xc3\x09\x3c\x01"
                         "aa"
                         "\xe0\x2f\x00\x01"
                         "a",
                         11)) == std::nullopt);
  CHECK(load(std::string("\x81\x00\x00\x00\x00\x00\x00\x00\x03"
                         "abc",
                         12)) == "abc");
}

TEST_CASE("dump: payload is damaged or of another type: it is refused") {
  CHECK(!dump_is_sound(""));
  CHECK(!dump_is_sound(std::string(9, '\0')));
  const std::string good = dump_string("hello");
  CHECK(dump_is_sound(good));
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    CHECK(!dump_is_sound(bad));
  }
  CHECK(dump_is_sound(with_footer(std::string("\x00\x01"
                                              "a",
                                              3),
                                  1)));
  CHECK(!dump_is_sound(with_footer(std::string("\x00\x01"
                                               "a",
                                               3),
                                   kNewestRdbVersion + 1)));

  CHECK(load("") == std::nullopt);
  CHECK(load("\x05"
             "abcd") == std::nullopt);
  CHECK(load("\x40") == std::nullopt);
  CHECK(load(std::string("\x80\x00\x00", 3)) == std::nullopt);
  CHECK(load(std::string("\x82\x00", 2)) == std::nullopt);
  CHECK(load("\xc0") == std::nullopt);
  CHECK(load("\xc2\x01\x02\x03") == std::nullopt);
  CHECK(load("\xc4\x01") == std::nullopt);
  CHECK(load("\x81\xff\xff\xff\xff\xff\xff\xff\xff"
             "abc") == std::nullopt);
  CHECK(load_string(with_footer("\x01\x01"
                                "a")) == std::nullopt);  // the payload of a list
  CHECK(load_string(with_footer("")) == std::nullopt);
}

TEST_CASE("dump: payload has a string: its length is known before memory is allocated") {
  const auto announced = [](const std::string& body) { return loaded_bytes(with_footer(std::string(1, '\0') + body)); };
  CHECK(loaded_bytes(dump_string(std::string(100'000, 'x'))) == 100'000);
  CHECK(loaded_bytes(dump_string("12345")) == 0);
  // 300 bytes of LZF may stand for 26,400; a claim of more gets no memory.
  const std::string compressed(300, '\xff');
  CHECK(announced("\xc3\x41\x2c" + std::string("\x80\x00\x00\x61\xa8", 5) + compressed) == 25'000);
  CHECK(announced("\xc3\x41\x2c" + std::string("\x80\x00\x10\x00\x00", 5) + compressed) == 0);
  CHECK(announced(std::string("\x80\x00\x10\x00\x00", 5) + "short") == 0);
  CHECK(loaded_bytes(with_footer("\x05x")) == 0);
}

}  // namespace TEST_FILE
