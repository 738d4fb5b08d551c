// Tests of the patterns of a selector: the index gives the same answers as a comparison with each pattern.
#include "acl/pattern_set.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "store/glob.h"

namespace TEST_FILE {

using namespace ebbtide;

bool matches_any(const AclPatternSet& set, Bytes text, std::uint8_t access) {
  return std::any_of(set.all().begin(), set.all().end(), [&](const AclPatternSet::Pattern& pattern) {
    return (pattern.access & access) == access && glob_match(pattern.text, text);
  });
}

bool matches(const AclPatternSet& set, Bytes text, std::uint8_t access) {
  AclBudget no_limit;
  return set.matches(text, access, no_limit).value();
}

/// Returns the number of steps that a comparison of the text with the set takes.
std::uint64_t steps_of(const AclPatternSet& set, Bytes text) {
  AclBudget budget;
  const std::uint64_t before = budget.left();
  (void)set.matches(text, 1, budget);
  return before - budget.left();
}

AclPatternSet set_of(int count, const std::string& before, const std::string& after) {
  AclPatternSet set;
  for (int i = 0; i < count; ++i) set.add(before + std::to_string(i) + after, 1);
  return set;
}

std::string random_text(Random& random, const std::string& letters, std::uint64_t most) {
  std::string text;
  for (std::uint64_t n = random.uniform(most + 1); n > 0; --n) text += letters[random.uniform(letters.size())];
  return text;
}

TEST_CASE("text is compared with an ACL pattern set: it matches if and only if one of the patterns matches it") {
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
      REQUIRE(matches(set, text, access) == matches_any(set, text, access));
    }
  }
}

TEST_CASE("ACL pattern is added twice with different access: the set has one pattern, with the access of both") {
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

TEST_CASE("key matches many ACL patterns, and only one grants an access: the access is granted") {
  AclPatternSet set;
  std::string text;
  for (int i = 0; i < 50; ++i) {
    set.add(text + "*", i == 0 ? 3 : 1);
    text += static_cast<char>('a' + i % 3);
  }
  CHECK(matches(set, text, 2));
  CHECK(matches(set, "", 2));
}

TEST_CASE("ACL pattern set covers a range of keys: each key of the range matches a pattern of the set") {
  Random random(8);
  const auto texts = [] {  // all of at most three letters
    std::vector<std::string> all{""};
    for (std::size_t i = 0; i < all.size() && all[i].size() < 3; ++i) {
      for (const char letter : {'a', 'b', '\xff'}) all.push_back(all[i] + letter);
    }
    return all;
  }();
  int covered = 0;
  for (int round = 0; round < 5000; ++round) {
    AclPatternSet set;
    for (std::uint64_t n = 1 + random.uniform(3); n > 0; --n) set.add(random_text(random, "ab\xff\\", 2) + "*", 1);
    const std::string start = random_text(random, "ab\xff", 3), end = random_text(random, "ab\xff", 3);
    AclRange range{.start = start, .is_prefix = random.one_in(3)};
    if (!random.one_in(4)) range.end = end;
    AclBudget no_limit;
    if (!set.covers(range, 1, no_limit).value()) continue;
    ++covered;
    const auto in_range = [&](const std::string& text) {
      return range.is_prefix ? text.starts_with(start) : text >= start && (!range.end || text < *range.end);
    };
    for (const std::string& text : texts) {
      CAPTURE(round, start, end, range.is_prefix, range.end.has_value(), text);
      if (in_range(text)) REQUIRE(matches(set, text, 1));
    }
  }
  CHECK(covered > 500);
}

TEST_CASE("ACL pattern set has 16384 literal prefixes: a key is compared only with patterns whose prefix it begins with") {
  const std::string key = "tenant12345:" + std::string(1 << 20, 'x');
  CHECK(steps_of(set_of(16'384, "tenant", ":*"), key) < 200);
  CHECK(steps_of(set_of(16'384, "tenant", ":*:b"), key) < 200);
  CHECK(steps_of(set_of(16'384, "tenant", ""), key) < 200);
  CHECK_FALSE(matches(set_of(16'384, "tenant", ":*:b"), key, 1));
  CHECK(matches(set_of(16'384, "tenant", ":*:b"), key + ":b", 1));
}

TEST_CASE("key has another end or length than the ACL patterns require: the key is rejected without a search") {
  const std::string key(1 << 20, 'x');
  CHECK(steps_of(set_of(1000, "*:tenant", ""), key) < 5000);
  CHECK(steps_of(set_of(1000, "???", "???"), key) < 5000);
  CHECK(steps_of(set_of(1000, "*" + std::string(2000, '?'), ""), std::string(1000, '0')) < 5000);
}

TEST_CASE("key is compared with many long ACL patterns: the counted steps grow with the compared bytes") {
  const std::string key(1 << 20, 'x');
  CHECK(steps_of(set_of(100, "*:tenant", ":*"), key) > 100 * (key.size() / 32));
  CHECK(steps_of(set_of(100, "*[" + std::string(1000, 'a') + "]", ""), std::string(1000, '0')) > 100'000);
  AclPatternSet nested;
  for (std::size_t i = 0; i < 1000; ++i) nested.add(std::string(i, 'x') + "y", 1);
  AclPatternSet chain;
  for (std::size_t i = 0; i < 1000; ++i) chain.add(std::string(i, 'x') + "*", 2);
  CHECK(steps_of(nested, key) < 2000);
  CHECK(steps_of(chain, key) > 1000 * 500 / 16);
}

}  // namespace TEST_FILE
