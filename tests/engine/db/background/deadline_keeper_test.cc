// Tests that the tracker of deadlines gets the current trees, and that memtables which it reports as due are flushed.
#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "db/background/deadline_keeper.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr Millis kDeadline = 100'000;

struct Bed {
  SimulatedClock clock;
  Epoch epoch;
  Millis now = 1'000'000;
  std::vector<TreeId> hurried;
  DeadlineTracker tracker{[](const std::string&) {}};
  TreeRegistry trees{{.clock = &clock,
                      .epoch = &epoch,
                      .now = [this] { return now; },
                      .last_seq = [] { return SeqNum{0}; },
                      .frozen = [](const TreePtr&) {},
                      .filters_changed = [](const TreePtr&) {}},
                     settings()};
  DeadlineKeeper keeper{{.trees = &trees,
                         .tracker = &tracker,
                         .now = [this] { return now; },
                         .room = [] { return ~std::uint64_t{0}; },
                         .hurry = [this](const TreePtr& tree) { hurried.push_back(tree->id); }}};
  TreePtr tree;

  static std::vector<TreeSettings> settings() {
    std::vector<TreeSettings> all(1);
    all[0].delete_deadline = kDeadline;
    all[0].memtable_size = 64 << 10;
    return all;
  }
  Bed() {
    MutexLock lock(trees.commit_mutex);
    tree = trees.make(1, 0, StampMode::kWriteTime);
    trees.map(0, tree);
    trees.settle();
  }
  void erase(Millis birth) {
    MutexLock lock(trees.commit_mutex);
    tree->active->insert_range({"a", "b", 1, birth});
    trees.mark_active(1, 1, 1);
  }
  void tick() {
    keeper.tick(trees.loads([](TreeId) { return false; }));
  }
};

TEST_CASE("memtable's oldest delete is due to leave memory: the memtable is frozen and flushed") {
  Bed bed;
  bed.erase(bed.now);
  bed.tick();
  CHECK((bed.hurried.empty() && bed.tree->frozen.empty()));
  bed.now += kDeadline;
  bed.tick();
  CHECK(bed.hurried == std::vector<TreeId>{1});
  CHECK(bed.tree->frozen.size() == 1);
}

TEST_CASE("memtable was frozen after the tick began: it is flushed, and the new active memtable is not frozen") {
  Bed bed;
  bed.erase(bed.now);
  bed.now += kDeadline;
  const auto loads = bed.trees.loads([](TreeId) { return false; });
  {
    MutexLock lock(bed.trees.commit_mutex);
    bed.trees.freeze(*bed.tree);
  }
  bed.erase(bed.now);
  bed.keeper.tick(loads);
  CHECK(bed.hurried == std::vector<TreeId>{1});
  CHECK((bed.tree->frozen.size() == 1 && bed.tree->active_first_seq != 0));
}

TEST_CASE("tree was dropped after the tick began: its memtable is not flushed") {
  Bed bed;
  bed.erase(bed.now);
  bed.now += kDeadline;
  const auto loads = bed.trees.loads([](TreeId) { return false; });
  {
    MutexLock lock(bed.trees.commit_mutex);
    bed.trees.map(0, nullptr);
    bed.trees.drop(bed.tree, bed.now);
  }
  bed.keeper.tick(loads);
  CHECK(bed.hurried.empty());
}

TEST_CASE("PURGE.NOW applies to a delete: the memtable that has the delete is due at once") {
  Bed bed;
  bed.erase(bed.now);
  bed.tree->purge_before = bed.now;
  bed.tick();
  CHECK(bed.hurried == std::vector<TreeId>{1});
}

}  // namespace TEST_FILE
