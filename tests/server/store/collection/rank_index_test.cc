#include "store/collection/rank_index.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace TEST_FILE {

using namespace ebbtide;

using Names = std::set<std::string>;

std::uint64_t rank_in(const Names& names, const std::string& name) {
  return static_cast<std::uint64_t>(std::distance(names.begin(), names.lower_bound(name)));
}

/// Walks from a boundary, as a reader does, and returns the points.
std::vector<RankIndex::Point> walk(const Names& names, const std::string& from, std::uint64_t elements, std::uint64_t step) {
  std::vector<RankIndex::Point> points;
  std::uint64_t since = 0;
  auto at = names.lower_bound(from);
  for (std::uint64_t i = 0; i < elements && at != names.end(); ++i, ++at) {
    if (since == step) {
      points.push_back({*at, since});
      since = 0;
    }
    ++since;
  }
  return points;
}

void check(const RankIndex& index, const Names& names, std::mt19937_64& random) {
  REQUIRE(index.count() == names.size());
  for (int i = 0; i < 20; ++i) {
    const std::string name = std::to_string(random() % 100'000);
    const RankIndex::Boundary boundary = index.at_name(name);
    REQUIRE(boundary.name <= name);
    REQUIRE(boundary.before == rank_in(names, boundary.name));
    if (names.empty()) continue;
    const std::uint64_t rank = random() % names.size();
    const RankIndex::Boundary by_rank = index.at_rank(rank);
    REQUIRE(by_rank.before <= rank);
    REQUIRE(by_rank.before == rank_in(names, by_rank.name));
    REQUIRE(by_rank.before + by_rank.elements > rank);
  }
}

TEST_CASE("elements are added and removed while readers split segments: ranks equal those of an ordered set") {
  std::mt19937_64 random(GENERATE(range(1, 9)));
  Names names;
  for (int i = 0; i < 3'000; ++i) names.insert(std::to_string(random() % 100'000));
  RankIndex index(names.size());
  for (int turn = 0; turn < 2'000; ++turn) {
    const std::string name = std::to_string(random() % 100'000);
    switch (random() % 8) {
      case 0: {  // a reader walks while others write
        const RankIndex::Boundary from = index.at_name(name);
        const auto points = walk(names, from.name, random() % 2'000, 1 + random() % 200);
        std::vector<RankIndex::Change> since;
        for (std::uint64_t i = random() % 30; i > 0; --i) {
          const std::string other = std::to_string(random() % 100'000);
          const bool added = names.insert(other).second;
          if (!added) names.erase(other);
          if (added) {
            index.add(other);
          } else {
            REQUIRE(index.remove(other));
          }
          since.push_back({other, added});
        }
        (void)index.split(from.name, points, since);
        break;
      }
      case 1:
        if (!names.empty()) {  // a queue: its first elements leave
          for (std::uint64_t i = random() % 300; i > 0 && !names.empty(); --i) {
            REQUIRE(index.remove(*names.begin()));
            names.erase(names.begin());
          }
        }
        break;
      default:
        for (int i = 0; i < 10; ++i) {
          const std::string other = std::to_string(random() % 100'000);
          if (!names.insert(other).second) continue;
          index.add(other);
        }
    }
    if (turn % 20 == 0) check(index, names, random);
  }
  check(index, names, random);
}

TEST_CASE("index of a million elements has a boundary at each 128th: a look-up returns the boundary before the element") {
  RankIndex index(1'000'000);
  const auto name = [](std::uint64_t i) {
    std::string digits = std::to_string(i);
    return std::string(7 - digits.size(), '0') + digits;
  };
  std::vector<RankIndex::Point> points;
  for (std::uint64_t i = 128; i < 1'000'000; i += 128) points.push_back({name(i), 128});
  REQUIRE(index.split("", points, {}));
  for (std::uint64_t i = 0; i < 1'000'000; i += 9'973) {
    CHECK(index.at_name(name(i)).before == i / 128 * 128);
    CHECK(index.at_rank(i).name == (i < 128 ? "" : name(i / 128 * 128)));
  }
  CHECK(index.memory_bytes() < 800'000);
  const std::size_t before = index.memory_bytes();
  for (std::uint64_t i = 0; i < 900'000; ++i) REQUIRE(index.remove(name(i)));
  CHECK(index.at_rank(0).before == 0);
  CHECK(index.memory_bytes() < before / 5);  // emptied segments are dropped
}

TEST_CASE("split points do not match the rank index: the index ignores them") {
  RankIndex index(10);
  CHECK_FALSE(index.split("b", std::vector<RankIndex::Point>{{"c", 1}}, {}));  // no boundary
  CHECK_FALSE(index.split("", std::vector<RankIndex::Point>{{"c", 11}}, {}));  // more elements than there are
  CHECK(index.at_name("z").name.empty());
  CHECK(index.split("", std::vector<RankIndex::Point>{{"c", 4}}, {}));
  CHECK(index.at_name("z").before == 4);
  CHECK(index.split("", std::vector<RankIndex::Point>{{"b", 2}, {"d", 3}}, {}));  // "d" is behind the segment's end
  CHECK(index.at_name("b").before == 2);
  CHECK(index.at_name("d").name == "c");
}

TEST_CASE("last element of a rank index is removed twice: the second removal is refused") {
  RankIndex index(1);
  CHECK(index.remove("a"));
  CHECK_FALSE(index.remove("a"));
}

}  // namespace TEST_FILE
