// Tests of the positions at which the console draws the files of a tree.
#include <catch2/catch.hpp>

#include "tree/key_positions.h"
#include "tree/text.h"

namespace TEST_FILE {

using namespace ebbtide;

std::vector<std::vector<std::pair<double, double>>> positions(const char* text) {
  const auto shape = parse_shape(text);
  if (!shape.is_ok()) FAIL(shape.status().to_string());
  return key_positions(*shape);
}

TEST_CASE("tree has one run: positions of its files are to scale, without gaps") {
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

TEST_CASE("files of several runs have positions on the key axis: two positions overlap only if the files do") {
  const auto at = positions("L0 r3: 9[c..p 1M]\nL0 r2:\nL1 r1: 1[a..b 4M] 2[d..f 4M] 3[g..j 4M] 4[q..* 4M]\n");
  REQUIRE(at.size() == 3);
  CHECK(at[1].empty());
  const auto [start, end] = at[0][0];
  CHECK(start == Approx(at[2][0].second));  // file a..b ends before this file
  CHECK(start < at[2][1].first + 1e-9);
  CHECK(end > at[2][2].second);
  CHECK(end == Approx(at[2][3].first));
  CHECK(at[2][3].second == Approx(1));
  for (const auto& run : at) {
    for (const auto& [from, to] : run) CHECK(from < to);
  }
}

TEST_CASE("file's exclusive end is the next file's start: their positions do not overlap") {
  const auto at = positions("L1 r1: 1[a..<k 1M 1rt] 2[k..k 1M] 3[l..m 1M]\n");
  CHECK(at[0][0].second == Approx(at[0][1].first));
  CHECK(at[0][1].first < at[0][1].second);
  CHECK(at[0][1].second <= at[0][2].first + 1e-9);
}

TEST_CASE("tree has no files: there are no positions") { CHECK(key_positions(TreeShape{}).empty()); }

}  // namespace TEST_FILE
