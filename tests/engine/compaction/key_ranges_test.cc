// Tests of ranges of keys, and of bottommost keys and ranges: no older file can have them.
#include <algorithm>

#include <catch2/catch.hpp>

#include "base/random.h"
#include "compaction/key_ranges.h"

namespace ebbtide {
namespace TEST_FILE {

TEST_CASE("range is divided into bottommost and other parts: each part agrees with a check of its keys one by one") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    std::vector<KeyRange> below;
    const auto key = [&] { return std::string(1, static_cast<char>('a' + random.uniform(12))); };
    for (std::uint64_t n = random.uniform(5); n > 0; --n) {
      KeyRange range{key(), random.one_in(6) ? std::string() : key()};
      if (!is_empty(range)) below.push_back(range);
    }
    const Finality finality(below);
    const auto expected = [&](Bytes k) {
      return std::none_of(below.begin(), below.end(), [&](const KeyRange& r) { return r.contains(k); });
    };
    KeyRange range{key(), random.one_in(4) ? std::string() : key()};
    if (is_empty(range)) continue;
    const auto pieces = finality.pieces(range);
    bool all_final = true;
    std::size_t cursor = 0;
    for (char c = 'a'; c <= 'n'; ++c) {
      const std::string k(1, c);
      REQUIRE(finality.is_final(k, &cursor) == expected(k));
      if (!range.contains(k)) continue;
      all_final = all_final && expected(k);
      const auto piece = std::find_if(pieces.begin(), pieces.end(), [&](const auto& p) { return p.first.contains(k); });
      REQUIRE(piece != pieces.end());
      REQUIRE(piece->second == expected(k));
    }
    REQUIRE(finality.is_final(range) == all_final);
    REQUIRE(pieces.front().first.start == range.start);
    REQUIRE(pieces.back().first.end == range.end);
    for (std::size_t i = 1; i < pieces.size(); ++i) REQUIRE(pieces[i - 1].first.end == pieces[i].first.start);
  }
}

TEST_CASE("middle of a range is removed: the parts before and after the middle remain") {
  using Ranges = std::vector<KeyRange>;
  CHECK(outside_of({"a", "z"}, {"g", "p"}) == Ranges{{"a", "g"}, {"p", "z"}});
  CHECK(outside_of({"a", ""}, {"g", "p"}) == Ranges{{"a", "g"}, {"p", ""}});
  CHECK(outside_of({"a", "m"}, {"g", "p"}) == Ranges{{"a", "g"}});
  CHECK(outside_of({"h", "z"}, {"g", "p"}) == Ranges{{"p", "z"}});
  CHECK(outside_of({"a", ""}, {"g", ""}) == Ranges{{"a", "g"}});
  CHECK(outside_of({"g", "p"}, {"g", "p"}).empty());
}

}  // namespace TEST_FILE
}  // namespace ebbtide
