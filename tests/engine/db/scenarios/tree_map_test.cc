// Tests of the map of a tree: it has the same sums as the numbers, a limited number of cells, and all jobs and pending deletes.
#include "engine/db/harness.h"

namespace TEST_FILE {

using namespace ebbtide;

void fill(Harness& h, int keys) {
  for (int i = 0; i < keys; ++i) {
    h.put(0, "key" + std::to_string(100'000 + i), std::string(400, 'v'));
    if (i % 100 == 0) h.settle();
  }
}

TEST_CASE("map of a tree is drawn: its sums equal the tree's numbers, and it has at most the requested number of cells") {
  Settings settings = Harness::small();
  settings.tree.delete_deadline = 60'000;
  Harness h(settings);
  h.open();
  const auto nothing = h.db->tree_map(0, 100);
  REQUIRE(nothing.is_ok());
  CHECK(nothing->runs.empty());
  CHECK(nothing->tree == kNoTree);
  fill(h, 5'000);
  REQUIRE(h.db->compact(0, {}).is_ok());
  WriteBatch batch;
  batch.del(0, "key100007");
  h.write(batch);
  const Millis born = h.db->now();
  {
    const auto map = h.db->tree_map(0, 1000);
    REQUIRE(map.is_ok());
    REQUIRE(map->memtables.size() == 1);
    CHECK(map->memtables[0].tombstones == 1);
    CHECK(map->memtables[0].oldest_birth == born);
    CHECK(map->runs.size() == 1);
    CHECK(map->runs[0].cells[0].oldest_birth == 0);
  }
  REQUIRE(h.db->flush(0).is_ok());
  const auto map = h.db->tree_map(0, 1000);
  const auto info = h.db->tree_info(0);
  REQUIRE(map.is_ok());
  REQUIRE(info.is_ok());
  CHECK(map->delete_deadline == 60'000);
  REQUIRE(map->runs.size() == info->runs.size());
  for (std::size_t i = 0; i < map->runs.size(); ++i) {
    const TreeMapRun& run = map->runs[i];
    CHECK(run.files == info->runs[i].files);
    CHECK(run.bytes == info->runs[i].bytes);
    CHECK(run.cells.size() == run.files);
    std::uint64_t entries = 0;
    double before = 0;
    for (const TreeMapCell& cell : run.cells) {
      entries += cell.entries;
      CHECK(cell.start >= before);
      CHECK(cell.start < cell.end);
      before = cell.end;
    }
    CHECK(before <= 1.0 + 1e-9);
    CHECK(entries == info->runs[i].entries);
  }
  REQUIRE(map->runs.size() == 2);
  CHECK(map->runs[0].cells[0].oldest_birth == born);
  CHECK(map->runs[0].cells[0].tombstones == 1);
  const TreeMapRun& last = map->runs.back();
  REQUIRE(last.files > 8);
  const auto folded = h.db->tree_map(0, 1);
  REQUIRE(folded.is_ok());
  const TreeMapRun& few = folded->runs.back();
  CHECK(few.cells.size() <= 8);
  CHECK(few.files == last.files);
  std::uint64_t files = 0, bytes = 0;
  for (const TreeMapCell& cell : few.cells) {
    files += cell.files;
    bytes += cell.bytes;
  }
  CHECK(files == last.files);
  CHECK(bytes == last.bytes);
  CHECK(few.cells.back().end == Approx(1));
}

TEST_CASE("expiry of an entry has passed: its cell in the map shows the expiry as the birth of a delete") {
  Harness h;
  h.open();
  const Millis expiry = h.db->now() + 5'000;
  h.put(0, "k", "v", expiry);
  CHECK(h.db->tree_map(0, 10)->memtables[0].oldest_birth == 0);
  REQUIRE(h.db->flush(0).is_ok());
  CHECK(h.db->tree_map(0, 10)->runs[0].cells[0].oldest_birth == 0);
  h.advance(6'000);
  CHECK(h.db->tree_map(0, 10)->runs[0].cells[0].oldest_birth == expiry);
}

}  // namespace TEST_FILE
