// Tests of the choice of the file of a full level that moves down, by the database's statistics of the files below it.
#include "engine/db/harness.h"

namespace TEST_FILE {

using namespace ebbtide;

struct LevelOne {
  std::uint64_t tombstones = 0, range_tombstones = 0;
};

LevelOne level_one(Db& db) {
  LevelOne level;
  const TreeInfo info = *db.tree_info(0);
  for (const RunInfo& run : info.runs) {
    if (run.level != 1) continue;
    level.tombstones += run.tombstones;
    level.range_tombstones += run.range_tombstones;
  }
  return level;
}

// Regression: a range tombstone counted as one entry.
TEST_CASE("range delete of a file hides more entries than point deletes of another: most_tombstones moves it first") {
  Harness h;
  h.settings.tree.file_choice = FileChoice::kMostTombstones;
  h.settings.tree.file_size = 64 << 10;
  h.open();
  const std::string value(300, 'v');
  for (int i = 0; i < 6000; ++i) {
    h.put(0, key_of(i), value);
    if (i % 50 == 0) h.settle();
  }
  REQUIRE(h.db->compact(0, {}).is_ok());
  REQUIRE(level_one(*h.db).tombstones == 0);

  // Level 1 is filled until it moves a file down.
  h.del_range(0, key_of(4000), key_of(4800));
  for (int i = 100; i < 120; ++i) h.del(0, key_of(i));
  REQUIRE(h.db->flush(0).is_ok());
  bool seen = false;
  LevelOne left;
  const auto one_is_gone = [&] {
    left = level_one(*h.db);
    seen |= left.tombstones != 0 && left.range_tombstones != 0;
    return seen && (left.tombstones == 0 || left.range_tombstones == 0);
  };
  bool gone = false;
  for (int i = 0; i < 3000 && !gone; ++i) {
    const int key = i % 2 == 0 ? i / 2 : 5999 - i / 2;
    if (key < 100 || key >= 120) h.put(0, key_of(key), value);
    while (!gone && h.pool.run_one()) gone = one_is_gone();
  }
  REQUIRE(gone);
  CHECK(left.range_tombstones == 0);
  CHECK(left.tombstones == 20);
}

}  // namespace TEST_FILE
