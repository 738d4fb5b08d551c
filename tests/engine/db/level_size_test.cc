// Levels are as large as the policy means them to be for what memtables flush to, not for the memory they take.
#include "engine/db/harness.h"

using namespace ebbtide;

namespace {

std::string key_of(int i) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, "key%06d", i * 7919 % 1'000'000);
  return buffer;
}

int deepest_level(Db& db) {
  int deepest = 0;
  const TreeInfo info = *db.tree_info(0);
  for (const RunInfo& run : info.runs) deepest = run.files != 0 ? std::max(deepest, run.level) : deepest;
  return deepest;
}

Settings compressing() {
  Settings settings = Harness::small();
  settings.tree.page_size = 16 << 10;
  settings.tree.compression = settings.tree.compression_last_level = Compression::kLz4;
  return settings;
}

}  // namespace

// About 60 memtables of 64 KiB that flush to some 4 KiB each: by memory all of it would be below the capacity of level 1, six
// memtables, and each merge of level 0 would rewrite all data.
TEST_CASE("levels of data that compresses are as small as what arrives") {
  Harness h(compressing());
  h.open();
  const std::string value(300, 'v');
  for (int i = 0; i < 8000; ++i) {
    h.put(0, key_of(i), value);
    if (i % 50 == 0) h.settle();
  }
  h.settle();
  const Stats stats = h.db->stats();
  REQUIRE(stats.flushes > 30);
  CHECK(stats.table_live_bytes < 6 * h.settings.memtable_size);
  CHECK(deepest_level(*h.db) >= 2);
  CHECK(stats.compaction_bytes_written < 8 * stats.flush_bytes_written);
  const int deepest = deepest_level(*h.db);

  // What was measured is kept: a restart changes nothing.
  h.reopen();
  h.settle();
  CHECK(deepest_level(*h.db) == deepest);
  for (int i = 8000; i < 8400; ++i) h.put(0, key_of(i), value);
  h.settle();
  CHECK(deepest_level(*h.db) >= deepest);
  CHECK(h.db->verify(0)->errors.empty());
}
