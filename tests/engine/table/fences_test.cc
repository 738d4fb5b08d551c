// Compares the search in fences with a linear search over whole separators.
#include "table/fences.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace TEST_FILE {

using namespace ebbtide;

// Returns a separator that is hard to distinguish by its first eight bytes: these bytes are common, or it ends with zeros or
// 0xff.
std::string awkward(Random& random, const std::string& prefix) {
  std::string key = prefix;
  switch (random.uniform(5)) {
    case 0:
      return key + std::string(random.uniform(12), '\0');
    case 1:
      return key + std::string(random.uniform(12), '\xff');
    case 2:
      key += "sharedby";
      break;
    default:
      break;
  }
  for (std::uint64_t n = random.uniform(4); n > 0; --n) key += static_cast<char>(random.uniform(4) * 85);
  return key;
}

std::uint32_t plain_find(const std::vector<std::string>& separators, Bytes key) {
  const auto after =
      std::upper_bound(separators.begin(), separators.end(), key, [](Bytes k, const std::string& s) { return k < Bytes(s); });
  return static_cast<std::uint32_t>(after - separators.begin() - 1);
}

void check(const Fences& fences, const std::vector<std::string>& separators, Bytes key) {
  CAPTURE(std::string(key), separators.size());
  const std::uint32_t expected = plain_find(separators, key);
  REQUIRE(fences.find(key) == expected);
  if (key.starts_with(fences.prefix())) REQUIRE(fences.finish(key, fences.begin(key)) == expected);
}

TEST_CASE("key is searched in a table's fences: the last separator that is not past the key is found",
          "[table][fences][property]") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::string prefix = random.one_in(2) ? "" : "table:";
    const std::uint64_t count = random.one_in(8) ? 1 + random.uniform(5000) : 1 + random.uniform(40);
    std::vector<std::string> separators;
    for (std::uint64_t i = 1; i < count; ++i) {
      separators.push_back(count > 100 ? prefix + std::to_string(random.next()) : awkward(random, prefix));
    }
    std::sort(separators.begin(), separators.end());
    if (random.one_in(2)) separators.erase(std::unique(separators.begin(), separators.end()), separators.end());
    separators.insert(separators.begin(), "");
    Fences fences;
    fences.build(prefix, separators);
    REQUIRE(fences.size() == separators.size());
    for (std::uint32_t tile = 1; tile < fences.size(); ++tile) REQUIRE(fences.separator(tile) == separators[tile]);
    for (int i = 0; i < 200; ++i) {
      std::string key = separators[random.uniform(separators.size())];
      switch (random.uniform(6)) {
        case 0:
          key = awkward(random, prefix);
          break;
        case 1:
          key += '\0';
          break;
        case 2:
          if (!key.empty()) key.pop_back();
          break;
        case 3:
          key = awkward(random, random.one_in(2) ? "a" : "u");
          break;
        default:
          break;
      }
      check(fences, separators, key);
    }
  }
}

TEST_CASE("separator of two keys is computed: it is the shortest string that keeps their order", "[table][fences]") {
  REQUIRE(shortest_separator("abc", "abd") == "abd");
  REQUIRE(shortest_separator("abc", "b123") == "b");
  REQUIRE(shortest_separator("ab", "abc") == "abc");
  REQUIRE(shortest_separator("same", "same") == "same");
  REQUIRE(shortest_separator("", "x") == "x");
}

}  // namespace TEST_FILE
