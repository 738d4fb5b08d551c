// Tests of where the console draws each file of a tree, from the smallest key to the largest.
#include <catch2/catch.hpp>

#include "tree/key_positions.h"
#include "tree/text.h"

using namespace ebbtide;

namespace {

std::vector<std::vector<std::pair<double, double>>> positions(const char* text) {
  const auto shape = parse_shape(text);
  if (!shape.is_ok()) FAIL(shape.status().to_string());
  return key_positions(*shape);
}

}  // namespace

TEST_CASE("one run: it is drawn to scale, without a gap where there is no data") {
  const auto at = positions("L1 r1: 1[a..c 1M] 2[k..m 2M] 3[t..v 1M]\n");
  REQUIRE(at.size() == 1);
  REQUIRE(at[0].size() == 3);
  CHECK(at[0][0].first == 0);
  CHECK(at[0][0].second == Approx(0.25));
  CHECK(at[0][1].first == Approx(0.25));
  CHECK(at[0][1].second == Approx(0.75));
  CHECK(at[0][2].first == Approx(0.75));
  CHECK(at[0][2].second == Approx(1));
}

TEST_CASE("position of a file: it overlaps those of overlapping files only") {
  const auto at = positions("L0 r3: 9[c..p 1M]\nL0 r2:\nL1 r1: 1[a..b 4M] 2[d..f 4M] 3[g..j 4M] 4[q..* 4M]\n");
  REQUIRE(at.size() == 3);
  CHECK(at[1].empty());
  const auto [start, end] = at[0][0];
  CHECK(start == Approx(at[2][0].second));  // a..b is before it
  CHECK(start < at[2][1].first + 1e-9);
  CHECK(end > at[2][2].second);
  CHECK(end == Approx(at[2][3].first));
  CHECK(at[2][3].second == Approx(1));
  for (const auto& run : at) {
    for (const auto& [from, to] : run) CHECK(from < to);
  }
}

TEST_CASE("files whose bounds only touch, at an exclusive end: they do not overlap") {
  const auto at = positions("L1 r1: 1[a..<k 1M 1rt] 2[k..k 1M] 3[l..m 1M]\n");
  CHECK(at[0][0].second == Approx(at[0][1].first));
  CHECK(at[0][1].first < at[0][1].second);
  CHECK(at[0][1].second <= at[0][2].first + 1e-9);
}

TEST_CASE("tree without files: it has no positions") { CHECK(key_positions(TreeShape{}).empty()); }
