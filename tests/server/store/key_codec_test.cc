#include "store/key_codec.h"

#include <engine/collection_keys.h>

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

namespace TEST_FILE {

using namespace ebbtide;

/// Returns a short key of the bytes that escaping treats specially.
std::string random_key(std::mt19937_64& random) {
  static constexpr unsigned char kAlphabet[] = {0x00, 0x01, 0x02, 'a', 0xfe, 0xff};
  std::string key(random() % 6, '\0');
  for (char& c : key) c = static_cast<char>(kAlphabet[random() % sizeof(kAlphabet)]);
  return key;
}

bool in(const KeyRange& range, const std::string& user_key) { return range.contains(escaped_key(user_key)); }

TEST_CASE("key is escaped: only its zero bytes change") {
  std::string buffer;
  const std::string plain = "user:1";
  CHECK(escape_key(plain, &buffer).data() == plain.data());
  CHECK(escape_key("", &buffer).empty());
  CHECK(escape_key(Bytes("a\0b", 3), &buffer) == Bytes("a\0\xff"
                                                       "b",
                                                       4));
  CHECK(escape_key(Bytes("\0\0", 2), &buffer) == Bytes("\0\xff\0\xff", 4));
  CHECK(escape_key(Bytes("\xff\x01", 2), &buffer) == Bytes("\xff\x01", 2));
}

TEST_CASE("escaped key is unescaped: the key is the original, but text that escape() cannot return is refused") {
  std::mt19937_64 random(1);
  std::string escaped, back;
  for (int i = 0; i < 20000; ++i) {
    const std::string key = random_key(random);
    const auto result = unescape_key(escape_key(key, &escaped), &back);
    REQUIRE(result.is_ok());
    REQUIRE(*result == key);
  }
  CHECK(unescape_key(Bytes("a\0", 2), &back).status().code() == Code::kCorruption);
  CHECK(unescape_key(Bytes("a\0\x01", 3), &back).status().code() == Code::kCorruption);
}

TEST_CASE("keys are escaped: they sort as before, and a key's elements sort between the key and the next key") {
  std::mt19937_64 random(2);
  for (int i = 0; i < 50000; ++i) {
    const std::string a = random_key(random), b = random_key(random);
    REQUIRE((a < b) == (escaped_key(a) < escaped_key(b)));
    REQUIRE((a == b) == (escaped_key(a) == escaped_key(b)));
    const std::string element = element_range(escaped_key(a), random()).start + random_key(random);
    REQUIRE(element > escaped_key(a));
    if (b > a) REQUIRE(element < escaped_key(b));
    REQUIRE(is_element_key(element));
    REQUIRE_FALSE(is_element_key(escaped_key(a)));
  }
}

TEST_CASE("range of keys is escaped: it contains its keys together with all their elements") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    const std::string start = random_key(random), end = random_key(random), key = random_key(random);
    const KeyRange range = engine_range(Bytes(start), Bytes(end));
    REQUIRE((!is_empty(range) && in(range, key)) == (start <= key && key < end));
    if (start <= key && key < end) REQUIRE(range.contains(element_range(escaped_key(key), random()).start + "x"));
    if (key < start || key >= end)
      REQUIRE_FALSE((!is_empty(range) && range.contains(element_range(escaped_key(key), random()).start + "x")));
    REQUIRE(in(engine_prefix_range(start), key) == key.starts_with(start));
    REQUIRE(engine_prefix_range(start).contains(element_range(escaped_key(key), random()).start) == key.starts_with(start));
  }
  CHECK(in(engine_range(std::nullopt, std::nullopt), ""));
  CHECK(in(engine_range(std::nullopt, std::nullopt), "\xff\xff"));
  CHECK_FALSE(in(engine_range(std::nullopt, Bytes("b")), "b"));
  CHECK(in(engine_range(Bytes("b"), std::nullopt), "b"));
  CHECK(is_empty(engine_range(Bytes("b"), Bytes("a"))));
  CHECK(is_empty(engine_range(Bytes("b"), Bytes("b"))));
  CHECK(is_empty(engine_range(Bytes(""), Bytes(""))));
}

}  // namespace TEST_FILE
