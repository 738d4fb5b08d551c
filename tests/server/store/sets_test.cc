#include "store/sets.h"

#include <catch2/catch.hpp>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("set: members are given in any order, some twice: the set has each once, sorted", "[sets]") {
  CHECK(make_set({"b", "a", "b", "", "a"}) == Set{"", "a", "b"});
  CHECK(make_set({}).empty());
}

TEST_CASE("set: two sets are combined: union, intersection and difference have the right members", "[sets]") {
  const Set a = {"1", "2", "3"}, b = {"2", "3", "4"}, none;
  CHECK(united(a, b) == Set{"1", "2", "3", "4"});
  CHECK(common(a, b) == Set{"2", "3"});
  CHECK(without(a, b) == Set{"1"});
  CHECK(united(none, a) == a);
  CHECK(united({{a, b, none, {"0", "2"}}}) == Set{"0", "1", "2", "3", "4"});
  CHECK(united(std::span<const Set>()).empty());
  CHECK(common(none, a).empty());
  CHECK(without(a, none) == a);
  CHECK(without(a, a).empty());
}

TEST_CASE("set: member is looked up in the encoded bytes and in the decoded set: both find it", "[sets]") {
  const Set set = {"a", "c"};
  const std::string bytes = encode(CollectionType::kSet, set);
  for (const Bytes member : {"a", "b", "c", "d", ""}) {
    CHECK(*has_member(Bytes(bytes), member) == has_member(set, member));
  }
  CHECK(has_member(Bytes(bytes).substr(0, 5), "c").status().code() == Code::kCorruption);
}

TEST_CASE("set: members at given positions are taken out: one part has these members, the other part the rest", "[sets]") {
  Set chosen, rest;
  const std::vector<std::size_t> places = {0, 2};
  split_set({"a", "b", "c", "d"}, places, &chosen, &rest);
  CHECK(chosen == Set{"a", "c"});
  CHECK(rest == Set{"b", "d"});
}

}  // namespace TEST_FILE
