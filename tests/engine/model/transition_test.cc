// Tests of the cost of a change of tuning, against values computed by hand.
#include "model/transition.h"

#include <catch2/catch.hpp>

namespace ebbtide {
namespace TEST_FILE {

/// 1,023 buffers of 1,000 entries: a full tree of ten whole levels with T = 2.
System small_system() {
  System system;
  system.entries = 1'023'000;
  system.entry_bytes = 100;
  system.page_bytes = 1000;
  system.memory_bits = 8e6;
  return system;
}

Tuning klsm(double size_ratio, std::vector<double> runs) {
  Tuning tuning;
  tuning.layout = Layout::kKlsm;
  tuning.size_ratio = size_ratio;
  tuning.runs = std::move(runs);
  tuning.buffer_bits = 1000 * 100 * 8;
  return tuning;
}

TEST_CASE("tuning does not change: no entries move") {
  for (const Layout layout : {Layout::kLeveling, Layout::kTiering, Layout::kOneLeveling, Layout::kGarnering}) {
    Tuning tuning = klsm(4, {});
    tuning.layout = layout;
    CHECK(entries_moved(small_system(), tuning, tuning) == 0);
  }
}

TEST_CASE("new tuning allows fewer runs per level: only levels with too many runs are merged") {
  const System system = small_system();
  const Tuning one = klsm(4, {1}), three = klsm(4, {3}), three_below = klsm(4, {1, 3});
  CHECK(entries_moved(system, one, three) == 0);
  CHECK(entries_moved(system, three, one) == Approx(system.entries));
  // Level 1 holds 3 buffers, and has one run before and after.
  CHECK(entries_moved(system, three_below, one) == Approx(system.entries - 3000));
}

TEST_CASE("new tuning has smaller levels: each level's excess moves down, and is merged with the run there") {
  System system = small_system();
  system.entries = 15'000;  // T = 4: levels of 3 and 12 buffers. T = 2: levels of 1, 2, 4 and 8 buffers.
  // 2 buffers move from level 1 to level 2 (2 + 12 rewritten), 12 on to level 3, and 8 on to level 4.
  CHECK(entries_moved(system, klsm(4, {1}), klsm(2, {1})) == Approx(2000 + 12'000 + 12'000 + 8000));
  // Levels of T = 2 fit into those of T = 4, whose last level takes what is below.
  CHECK(entries_moved(system, klsm(2, {1}), klsm(4, {1})) == 0);
}

TEST_CASE("merge moves entries: its cost counts the reads and writes of their pages") {
  System system = small_system();
  CHECK(merge_cost(system, 1000) == Approx(200));  // 100 pages
  system.write_asymmetry = 3;
  system.sequential_cost = 0.1;
  CHECK(merge_cost(system, 1000) == Approx(40));
}

}  // namespace TEST_FILE
}  // namespace ebbtide
