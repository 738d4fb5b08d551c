// Tests of estimates without I/O: their error if entries are evenly spread, and the effect of tombstones.
#include "db/read/key_estimate.h"

#include <catch2/catch.hpp>

#include "engine/db/read/read_fixture.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

TEST_CASE("keys of a range are estimated: exact in memtables, by their bytes in tables") {
  ReadFixture f;
  for (int i = 0; i < 1000; ++i) f.put(numbered(i), "value");
  const auto estimate = [&](int first, int last) { return estimate_keys(*f.tree(), {numbered(first), numbered(last)}); };
  CHECK(estimate(0, 1000) == 1000);
  CHECK(estimate(100, 350) == 250);
  f.flush();
  CHECK(estimate(0, 1000) == Approx(1000).epsilon(0.1));
  CHECK(estimate(250, 750) == Approx(500).epsilon(0.2));
  for (int i = 0; i < 100; ++i) f.put(numbered(2000 + i), "value");
  CHECK(estimate_keys(*f.tree(), {}) == Approx(1100).epsilon(0.1));
}

TEST_CASE("tree has tombstones: each lowers the estimated number of keys by two entries, but never below 0") {
  ReadFixture f;
  for (int i = 0; i < 100; ++i) f.put(numbered(i), "value");
  f.flush();
  for (int i = 0; i < 40; ++i) f.del(numbered(i));
  CHECK(estimate_keys(*f.tree(), {}) == 60);
  for (int i = 200; i < 500; ++i) f.del(numbered(i));
  CHECK(estimate_keys(*f.tree(), {}) == 0);
}

TEST_CASE("range tombstones cover entries in older runs: the estimate counts the covered entries as invalidated") {
  ReadFixture f;
  for (int i = 0; i < 1000; ++i) f.put(numbered(i), "value");
  f.flush();
  f.del(numbered(0));
  f.del_range(numbered(250), numbered(750));
  f.flush();
  const auto tree = f.tree();
  TreeShape shape = tree->tables->version->shape();
  estimate_invalidated(*tree->tables, &shape);
  CHECK(shape.runs[0].files[0].invalidated == Approx(501).epsilon(0.2));
  CHECK(f.table().covered_entries == Approx(500).epsilon(0.2));
  CHECK(shape.runs[1].files[0].invalidated == shape.runs[1].files[0].tombstones);
}

}  // namespace TEST_FILE
