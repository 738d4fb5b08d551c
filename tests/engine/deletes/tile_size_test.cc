#include "deletes/tile_size.h"

#include <catch2/catch.hpp>

namespace TEST_FILE {

using namespace ebbtide;

// Lethe's own example for Eq. 3 has 400 GB in 4 KiB pages, 50 million lookups and 10,000 short range queries between two range
// deletes, a false positive rate of 0.02 and size ratio 10.
TEST_CASE("tree is used as in Lethe's example: pages per tile are the square root of Eq. 3") {
  const std::uint64_t pages = 400ull * 1'000'000'000 / 4096;
  const std::uint64_t runs = 8;
  TileSize size;
  size.follow({50'000'000 / 50, 10'000, 1}, pages, runs);
  const double most = static_cast<double>(pages) / (1'000'000 + 10'000 * 8);  // Eq. 3: 90
  CHECK(most == Approx(90.4).epsilon(0.01));
  CHECK(size.pages() == 10);  // sqrt(90.4) = 9.5
}

TEST_CASE("lookups at h = 1 and h = 8 have false positives: scaled to one page, both give the same tile size") {
  TileSize one(1), eight(8);
  one.follow({1'000, 0, 1}, 25'000, 5);
  eight.follow({8'000, 0, 1}, 25'000, 5);
  CHECK(one.pages() == 5);
  CHECK(eight.pages() == 5);
}

TEST_CASE("no delete by stamp was counted, or tables are empty: the tile size does not change") {
  TileSize size(8);
  size.follow({1'000'000, 1'000, 0}, 100'000, 5);
  CHECK(size.pages() == 8);
  size.follow({1'000'000, 1'000, 1}, 0, 0);  // tables are still empty
  CHECK(size.pages() == 8);
}

TEST_CASE("tree has only deletes by stamp: tiles have the most pages, or one page if the tree has few") {
  TileSize size;
  size.follow({0, 0, 1}, 1, 1);
  CHECK(size.pages() == TileSize::kMost);
  TileSize small;
  small.follow({1'000, 1'000, 1}, 10, 3);
  CHECK(small.pages() == 1);
}

TEST_CASE("mix of operations changes: the tile size follows recent operations, and old counts decay") {
  TileSize size;
  TileUse use;
  for (int i = 0; i < 100; ++i) {  // 100 iterators in 4 runs between two deletes of 40,000 pages
    use.iterators += 100;
    use.range_deletes += 1;
    size.follow(use, 40'000, 4);
  }
  CHECK(size.pages() == 10);
  for (int i = 0; i < 100; ++i) {  // a hundredth of the iterators would give ten times the pages, but kMost is the limit
    use.iterators += 1;
    use.range_deletes += 1;
    size.follow(use, 40'000, 4);
  }
  CHECK(size.pages() == TileSize::kMost);
  use.iterators += 1'000'000;  // now there are only reads
  size.follow(use, 40'000, 4);
  CHECK(size.pages() == 1);
}

}  // namespace TEST_FILE
