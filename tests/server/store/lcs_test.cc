#include "store/lcs.h"

#include <catch2/catch.hpp>
#include <random>

namespace TEST_FILE {

using namespace ebbtide;

/// Computes the length directly from the definition.
std::uint32_t slow_length(Bytes a, Bytes b) {
  if (a.empty() || b.empty()) return 0;
  const Bytes a_rest = a.substr(1), b_rest = b.substr(1);
  if (a[0] == b[0]) return 1 + slow_length(a_rest, b_rest);
  return std::max(slow_length(a_rest, b), slow_length(a, b_rest));
}

std::string random_text(std::mt19937_64& random) {
  std::string text(random() % 9, ' ');
  for (char& c : text) c = static_cast<char>('a' + random() % 3);
  return text;
}

TEST_CASE("lcs: strings are those of Redis's documentation: the reply is the one shown there") {
  const Lcs found = lcs("ohmytext", "mynewtext");
  CHECK(found.text == "mytext");
  CHECK(found.length == 6);
  REQUIRE(found.matches.size() == 2);
  CHECK(found.matches[0].a_start == 4);
  CHECK(found.matches[0].a_end == 7);
  CHECK(found.matches[0].b_start == 5);
  CHECK(found.matches[0].b_end == 8);
  CHECK(found.matches[1].a_start == 2);
  CHECK(found.matches[1].b_start == 0);
  CHECK(found.matches[1].length() == 2);
}

TEST_CASE("lcs: texts are random: the result is a subsequence of both, and no common subsequence is longer") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    const std::string a = random_text(random), b = random_text(random);
    INFO(a << " and " << b);
    const Lcs found = lcs(a, b);
    CHECK(found.length == slow_length(a, b));
    CHECK(lcs_length(a, b) == found.length);
    std::string spelled;
    for (const LcsMatch& match : found.matches) {
      CHECK(match.b_end - match.b_start + 1 == match.length());
      CHECK(a.substr(match.a_start, match.length()) == b.substr(match.b_start, match.length()));
      spelled.insert(0, a.substr(match.a_start, match.length()));
    }
    CHECK(spelled == found.text);
    CHECK(found.text.size() == found.length);
  }
}

}  // namespace TEST_FILE
