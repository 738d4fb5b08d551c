#include "store/glob.h"

#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <string>

namespace TEST_FILE {

using namespace ebbtide;

/// Redis's own recursive matcher, for patterns without brackets. The tests compare results with it.
bool oracle(Bytes pattern, Bytes text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') return oracle(pattern.substr(1), text) || (!text.empty() && oracle(pattern, text.substr(1)));
  if (text.empty()) return false;
  if (pattern[0] == '?') return oracle(pattern.substr(1), text.substr(1));
  if (pattern[0] == '\\' && pattern.size() > 1) pattern.remove_prefix(1);
  return pattern[0] == text[0] && oracle(pattern.substr(1), text.substr(1));
}

TEST_CASE("glob pattern is compared with a text: the result is that of KEYS in Redis") {
  CHECK(glob_match("*", ""));
  CHECK(glob_match("", ""));
  CHECK_FALSE(glob_match("", "a"));
  CHECK(glob_match("h?llo", "hello"));
  CHECK_FALSE(glob_match("h?llo", "hllo"));
  CHECK(glob_match("h*llo", "heeeello"));
  CHECK(glob_match("h[ae]llo", "hallo"));
  CHECK_FALSE(glob_match("h[ae]llo", "hillo"));
  CHECK(glob_match("h[^e]llo", "hallo"));
  CHECK_FALSE(glob_match("h[^e]llo", "hello"));
  CHECK(glob_match("h[a-b]llo", "hbllo"));
  CHECK(glob_match("h[b-a]llo", "hallo"));
  CHECK(glob_match("[\\]]", "]"));
  CHECK_FALSE(glob_match("[]a]", "a]"));
  CHECK(glob_match("[^]", "x"));
  CHECK(glob_match("[abc", "c"));
  CHECK(glob_match("a\\*b", "a*b"));
  CHECK_FALSE(glob_match("a\\*b", "axb"));
  CHECK(glob_match("a\\", "a\\"));
  CHECK(glob_match("HeL*", "hello", true));
  CHECK(glob_match("[A-Z]", "q", true));
  CHECK(glob_match("a**b", "ab"));
}

TEST_CASE("glob pattern has stars: matches equal those of a recursive matcher") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 30000; ++i) {
    std::string pattern, text;
    for (std::size_t n = random() % 8; n > 0; --n) pattern += "ab*?\\"[random() % 5];
    for (std::size_t n = random() % 8; n > 0; --n) text += "ab*"[random() % 3];
    INFO(pattern << " on " << text);
    REQUIRE(glob_match(pattern, text) == oracle(pattern, text));
  }
}

TEST_CASE("glob text is long: matches equal those of a recursive matcher, at once and in parts of any size") {
  std::mt19937_64 random(9);
  for (int i = 0; i < 3000; ++i) {
    std::string pattern, text;
    for (std::size_t stars = random() % 3 + 1; stars > 0; --stars) {
      for (std::size_t n = random() % 4; n > 0; --n) pattern += "aab?\\"[random() % 5];
      pattern += '*';
    }
    if (random() % 2 == 0) pattern += "ab";
    for (std::size_t n = random() % 200; n > 0; --n) text += "aaab"[random() % 4];
    INFO(pattern << " on " << text);
    const bool expected = oracle(pattern, text);
    REQUIRE(glob_match(pattern, text) == expected);
    GlobMatch parts(pattern, text);
    std::optional<bool> matched;
    while (!(matched = parts.go_on(random() % 3 + 1))) {
    }
    REQUIRE(*matched == expected);
  }
}

TEST_CASE("glob pattern and text are long: they are compared in parts") {
  const std::string pattern = "*" + std::string(1000, '?') + "b*", text(100'000, 'a');
  GlobMatch match(pattern, text);
  std::size_t parts = 1;
  std::optional<bool> matched;
  for (; !(matched = match.go_on(100'000)); ++parts) {
  }
  CHECK_FALSE(*matched);
  CHECK(parts > 900);  // 99,000 positions, with 1,001 comparisons each
  CHECK(parts < 1100);
}

TEST_CASE("glob: literal text of a pattern occurs late in the text: the match takes few steps") {
  const std::string text = std::string(1'000'000, 'a') + "needle" + std::string(1'000'000, 'b');
  GlobMatch found("*needle*b", text), missing("*a*needles*", text);
  CHECK(found.go_on(200'000) == true);
  CHECK(missing.go_on(200'000) == false);
}

TEST_CASE("glob pattern has many stars: the match does not take exponential time") {
  std::string pattern;
  for (int i = 0; i < 64; ++i) pattern += "a*";
  CHECK_FALSE(glob_match(pattern + "b", std::string(20000, 'a')));
}

TEST_CASE("glob pattern begins with literal text: glob_literal_prefix() returns the text with which every match begins") {
  CHECK(glob_literal_prefix("user:1*") == "user:1");
  CHECK(glob_literal_prefix("*") == "");
  CHECK(glob_literal_prefix("a\\*b[cd]") == "a*b");
  CHECK(glob_literal_prefix("abc") == "abc");
  CHECK(glob_literal_prefix("a\\") == "a\\");
  CHECK(glob_is_literal("a\\*b"));
  CHECK_FALSE(glob_is_literal("a?"));
  std::mt19937_64 random(8);
  for (int i = 0; i < 20000; ++i) {
    std::string pattern, text;
    for (std::size_t n = random() % 6; n > 0; --n) pattern += "ab*?\\["[random() % 6];
    for (std::size_t n = random() % 6; n > 0; --n) text += "ab*["[random() % 4];
    if (glob_match(pattern, text)) REQUIRE(text.starts_with(glob_literal_prefix(pattern)));
  }
}

TEST_CASE("glob pattern is analyzed: glob_shape() returns how all of its matches begin and end, and how long they are") {
  const auto shape = [](Bytes pattern) {
    const GlobShape s = glob_shape(pattern);
    const char* const kind = s.kind == GlobShape::Kind::kText ? "text" : s.kind == GlobShape::Kind::kPrefix ? "prefix" : "other";
    return std::string(kind) + " " + std::string(pattern.substr(0, s.prefix)) + "," +
           std::string(pattern.substr(pattern.size() - s.suffix)) + " " + std::to_string(s.least) + (s.has_star ? "+" : "") +
           (s.middle_bytes == 0 ? "" : " " + std::string(pattern.substr(s.middle, s.middle_bytes)));
  };
  CHECK(shape("") == "text , 0");
  CHECK(shape("abc") == "text abc,abc 3");
  CHECK(shape("abc*") == "prefix abc, 3+");
  CHECK(shape("**") == "prefix , 0+");
  CHECK(shape("*") == "prefix , 0+");
  CHECK(shape("*:t:*") == "other , 3+ :t:");
  CHECK(shape("a*:t") == "other a,:t 3+");
  CHECK(shape("a?bc") == "other a,bc 4");
  CHECK(shape("a[bc]d") == "other a,d 3");
  CHECK(shape("a[b*d") == "other a, 2");  // the bracket ends with the pattern
  CHECK(shape("a\\*b") == "other a,b 3");
  CHECK(shape("*\\*") == "other , 1+");
  CHECK(shape("abc*d?ef[x]g*hi") == "other abc,hi 11+ ef");
  CHECK(shape("*ab\\cde?") == "other , 6+ ab");
  CHECK(shape("*a\\") == "other ,a\\ 2+");  // a backslash at the end stands for itself
  CHECK(shape("*[") == "other , 1+");
  CHECK(shape("*]") == "other ,] 1+");
}

TEST_CASE("glob has a long bracket expression: each byte of the expression counts as one step of the match") {
  const std::string pattern = "*[" + std::string(1000, 'a') + "]c", text(1000, 'b');
  std::size_t steps = 10'000'000;
  CHECK(GlobMatch(pattern, text).go_on(&steps) == false);
  CHECK(steps < 10'000'000 - 900'000);
}

}  // namespace TEST_FILE
