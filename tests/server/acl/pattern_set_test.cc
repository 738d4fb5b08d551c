// Tests of the patterns of a selector: the index gives the same answers as a comparison with each pattern.
#include "acl/pattern_set.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>

#include "base/random.h"
#include "store/glob.h"

using namespace ebbtide;

namespace {

bool matches_any(const AclPatternSet& set, Bytes text, std::uint8_t access) {
  return std::any_of(set.all().begin(), set.all().end(), [&](const AclPatternSet::Pattern& pattern) {
    return (pattern.access & access) == access && glob_match(pattern.text, text);
  });
}

std::string random_text(Random& random, const std::string& letters, std::uint64_t most) {
  std::string text;
  for (std::uint64_t n = random.uniform(most + 1); n > 0; --n) text += letters[random.uniform(letters.size())];
  return text;
}

}  // namespace

TEST_CASE("patterns of every kind: the set matches a text if and only if one of them does") {
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    AclPatternSet set;
    const std::string letters = round % 3 == 0 ? "ab*" : round % 3 == 1 ? "ab*?[]\\" : "ab";
    for (std::uint64_t n = random.uniform(30); n > 0; --n) {
      std::string pattern = random_text(random, letters, 5);
      if (random.one_in(2)) pattern += '*';
      set.add(pattern, static_cast<std::uint8_t>(1 + random.uniform(3)));
      REQUIRE(set.contains(pattern));
    }
    for (int i = 0; i < 100; ++i) {
      const std::string text = random_text(random, "ab*", 6);
      const auto access = static_cast<std::uint8_t>(random.uniform(4));
      CAPTURE(round, text, access);
      REQUIRE(set.matches(text, access) == matches_any(set, text, access));
    }
  }
}

TEST_CASE("pattern is added twice: it is there once, with the access of both") {
  for (const char* pattern : {"a*", "a", "[ab]*", "a\\*"}) {
    AclPatternSet set;
    set.add(pattern, 1);
    set.add(pattern, 2);
    CAPTURE(pattern);
    REQUIRE(set.size() == 1);
    CHECK(set.all().front().access == 3);
    CHECK_FALSE(set.contains("b"));
  }
}

TEST_CASE("many patterns begin the text, and only the shortest has the access: it is found") {
  AclPatternSet set;
  std::string text;
  for (int i = 0; i < 50; ++i) {
    set.add(text + "*", i == 0 ? 3 : 1);
    text += static_cast<char>('a' + i % 3);
  }
  CHECK(set.matches(text, 2));
  CHECK(set.matches("", 2));
}
