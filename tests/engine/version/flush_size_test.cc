// Tests of the measured size on disk of a flushed memtable, which is the unit of level capacities.
#include <catch2/catch.hpp>

#include "version/flush_size.h"
#include "version/version.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr std::uint64_t kMemtable = std::uint64_t{64} << 20;

/// One tree's flushes, one after the other, as the engine records them.
struct Flushes {
  FlushSize average;
  std::uint32_t share = 0;
  int changes = 0;

  void flush(double full, double share_of_memtable) {
    const auto written = static_cast<std::uint64_t>(full * share_of_memtable * kMemtable);
    if (const auto next = average.add(full, written, kMemtable, share)) {
      share = *next;
      ++changes;
    }
  }
  [[nodiscard]] double in_force() const { return static_cast<double>(FlushShare::bytes(share, kMemtable)) / kMemtable; }
};

TEST_CASE("tree has had no flush: capacities of levels are counted in units of memtable_size", "[flush_size]") {
  CHECK(FlushShare::bytes(0, kMemtable) == kMemtable);
  CHECK(FlushShare::bytes(FlushShare::kOne, kMemtable) == kMemtable);
  CHECK(FlushShare::bytes(FlushShare::kOne / 2, kMemtable) == kMemtable / 2);
  CHECK(FlushShare::bytes(FlushShare::kMost, ~std::uint64_t{0} / 4) ==
        (~std::uint64_t{0} / 4) / FlushShare::kOne * FlushShare::kMost + 131070);
  Version version;
  CHECK(version.shape(1000, 0, 0, 0, [](FileNum) { return false; }).memtable_bytes == 1000);
  version.flush_share = FlushShare::kOne / 4;
  CHECK(version.shape(1000, 0, 0, 0, [](FileNum) { return false; }).memtable_bytes == 250);
}

TEST_CASE("first full memtable is flushed: its table's size, as a share of memtable_size, is the unit at once", "[flush_size]") {
  Flushes tree;
  tree.flush(1, 0.1);
  CHECK(tree.in_force() == Approx(0.1).epsilon(0.01));
}

TEST_CASE("memtable is flushed early: its table's size is scaled to a full memtable, and has less weight", "[flush_size]") {
  Flushes tree;
  tree.flush(0.1, 0.9);  // this flush is too small to count
  CHECK(tree.share == 0);
  for (int i = 0; i < 20; ++i) tree.flush(1, 0.1);
  const std::uint32_t before = tree.share;
  CHECK(tree.in_force() == Approx(0.1).epsilon(0.26));
  // Four small flushes with a large fixed part have too little weight to change the share in use.
  for (int i = 0; i < 4; ++i) tree.flush(0.02, 0.3);
  CHECK(tree.share == before);
  // Any number of small flushes of the same data changes nothing.
  Flushes other;
  other.flush(1, 0.1);
  for (int i = 0; i < 1000; ++i) other.flush(0.01, 0.1);
  CHECK(other.changes == 1);
}

TEST_CASE("one flush has four memtables: its table's size is divided by four", "[flush_size]") {
  Flushes tree;
  tree.flush(4, 0.2);
  CHECK(tree.in_force() == Approx(0.2).epsilon(0.01));
}

TEST_CASE("average table size of flushes differs by 1/4 from the unit: the unit changes", "[flush_size]") {
  Flushes tree;
  for (int i = 0; i < 50; ++i) tree.flush(1, i % 2 == 0 ? 0.09 : 0.11);
  CHECK(tree.changes == 1);
  for (int i = 0; i < 100; ++i) tree.flush(1, 0.5);
  CHECK(tree.in_force() > 0.38);
  CHECK(tree.changes < 12);
  const int settled = tree.changes;
  for (int i = 0; i < 100; ++i) tree.flush(1, 0.5);
  CHECK(tree.changes == settled);
}

TEST_CASE("database restarts: the average table size begins with the stored share", "[flush_size]") {
  Flushes tree;
  tree.share = FlushShare::kOne / 10;
  tree.flush(1, 0.11);
  CHECK(tree.changes == 0);
  tree.flush(1, 1);  // one different flush, beside a share that counts as four
  CHECK(tree.in_force() < 0.4);
}

TEST_CASE("share of a flush is very small or very large: it is clamped to kLeast or kMost", "[flush_size]") {
  Flushes tree;
  tree.flush(1, 0);
  CHECK(tree.share == FlushShare::kLeast);
  Flushes large;
  large.flush(1, 50);
  CHECK(large.share == FlushShare::kMost);
  Flushes nothing;
  nothing.flush(0, 1);
  CHECK(nothing.share == 0);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
