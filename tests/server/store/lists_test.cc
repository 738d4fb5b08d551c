#include "store/lists.h"

#include <catch2/catch.hpp>
#include <limits>

namespace TEST_FILE {

using namespace ebbtide;

std::pair<std::size_t, std::size_t> between(std::int64_t start, std::int64_t stop, std::size_t size) {
  const Places places = places_between(start, stop, size);
  return {places.begin, places.end};
}

TEST_CASE("list: range is given by positions from head or tail (negative): it is cut at the ends of the list", "[lists]") {
  using Pair = std::pair<std::size_t, std::size_t>;
  CHECK(between(0, -1, 3) == Pair{0, 3});
  CHECK(between(-2, -1, 3) == Pair{1, 3});
  CHECK(between(-100, 100, 3) == Pair{0, 3});
  CHECK(between(1, 1, 3) == Pair{1, 2});
  CHECK(places_between(2, 1, 3).empty());
  CHECK(places_between(3, 5, 3).empty());
  CHECK(places_between(0, -4, 3).empty());
  CHECK(places_between(0, -1, 0).empty());
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min(), kMax = std::numeric_limits<std::int64_t>::max();
  CHECK(between(kMin, kMax, 3) == Pair{0, 3});
  CHECK(places_between(kMax, kMin, 3).empty());
}

TEST_CASE("list: index is negative: it counts from the tail, and beyond the list there is no element", "[lists]") {
  CHECK(place_at(0, 2) == 0u);
  CHECK(place_at(-1, 2) == 1u);
  CHECK_FALSE(place_at(2, 2));
  CHECK_FALSE(place_at(-3, 2));
}

TEST_CASE("list is searched from head or tail: elements are found by rank, count and maximum length", "[lists]") {
  const List list = {"a", "b", "a", "c", "a"};
  using Found = std::vector<std::size_t>;
  CHECK(find_elements(list, "a", {}) == Found{0});
  CHECK(find_elements(list, "a", {.rank = 2}) == Found{2});
  CHECK(find_elements(list, "a", {.rank = -1}) == Found{4});
  CHECK(find_elements(list, "a", {.rank = -2, .count = 0}) == Found{2, 0});
  CHECK(find_elements(list, "a", {.count = 0}) == Found{0, 2, 4});
  CHECK(find_elements(list, "a", {.count = 2}) == Found{0, 2});
  CHECK(find_elements(list, "a", {.count = 0, .max_size = 3}) == Found{0, 2});
  CHECK(find_elements(list, "a", {.rank = 4}).empty());
  CHECK(find_elements(list, "x", {}).empty());
}

TEST_CASE("list: elements are removed by a count: from the head, from the tail if it is negative, all if it is 0", "[lists]") {
  const List list = {"a", "b", "a", "c", "a"};
  const auto removed = [&](std::int64_t count) {
    List left = list;
    const std::size_t number = remove_elements(&left, count, "a");
    return std::pair(number, left);
  };
  CHECK(removed(0) == std::pair<std::size_t, List>{3, {"b", "c"}});
  CHECK(removed(2) == std::pair<std::size_t, List>{2, {"b", "c", "a"}});
  CHECK(removed(-2) == std::pair<std::size_t, List>{2, {"a", "b", "c"}});
  CHECK(removed(std::numeric_limits<std::int64_t>::min()) == std::pair<std::size_t, List>{3, {"b", "c"}});
  List other = list;
  CHECK(remove_elements(&other, 1, "x") == 0);
  CHECK(other == list);
}

}  // namespace TEST_FILE
