// Tests of the picture of a tree, from files without tables: cells, memtables and jobs.
#include "db/admin/tree_map.h"

#include <catch2/catch.hpp>

#include <engine/read_view.h>

#include "engine/compaction/files.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr Millis kNow = 1'000'000;

/// Returns a run of `files` adjacent files, each with two keys.
Run run_of(RunId id, int level, int files) {
  Run run{id, level, {}};
  for (int i = 0; i < files; ++i) {
    const std::string key = std::to_string(1000 + 10 * i);
    run.files.push_back(make_file(1000 * id + static_cast<FileNum>(i), key, key + "5"));
  }
  return run;
}

TreeView view_of(std::vector<Run> runs) {
  auto version = std::make_shared<Version>();
  version->runs = std::move(runs);
  auto tables = std::make_shared<TablesView>();
  tables->version = version;
  TreeView view;
  view.tables = std::move(tables);
  return view;
}

TEST_CASE("run has more files than the map has cells: neighbours share a cell, and all bytes are shown") {
  const TreeView view = view_of({run_of(2, 0, 3), run_of(1, 1, 100)});
  TreeMap map;
  draw_tree(view, {}, kNow, 40, &map);  // 20 cells for each run
  REQUIRE(map.runs.size() == 2);
  CHECK(map.runs[0].cells.size() == 3);
  CHECK(map.runs[1].cells.size() == 20);
  CHECK(map.runs[1].files == 100);
  std::uint64_t files = 0, bytes = 0;
  double end = 0;
  for (const TreeMapCell& cell : map.runs[1].cells) {
    files += cell.files;
    bytes += cell.bytes;
    CHECK(cell.start >= end);
    CHECK(cell.end > cell.start);
    end = cell.end;
  }
  CHECK(files == 100);
  CHECK(bytes == map.runs[1].bytes);
  CHECK(end <= 1);
}

TEST_CASE("run has no files: the map does not show the run") {
  TreeMap map;
  draw_tree(view_of({run_of(2, 0, 0), run_of(1, 1, 1)}), {}, kNow, 100, &map);
  REQUIRE(map.runs.size() == 1);
  CHECK(map.runs[0].id == 1);
}

TEST_CASE("job is running: the map shows its inputs and levels, and marks its files as busy") {
  const TreeView view = view_of({run_of(2, 0, 1), run_of(1, 1, 2)});
  Merge merge;
  merge.inputs = {{2, {2000}}, {1, {1000}}, {77, {9}}};  // run 77 does not exist
  merge.target.level = 1;
  Plan plan;
  plan.action = merge;
  plan.urgent = true;
  JobRegistry::Running running;
  running.plans = {plan};
  running.files = {2000, 1000};
  TreeMap map;
  draw_tree(view, running, kNow, 100, &map);
  REQUIRE(map.jobs.size() == 1);
  CHECK(map.jobs[0].kind == "merge");
  CHECK(map.jobs[0].files == 3);
  CHECK(map.jobs[0].bytes == map.runs[0].cells[0].bytes + map.runs[1].cells[0].bytes);
  CHECK(map.jobs[0].from_level == 0);
  CHECK(map.jobs[0].to_level == 1);
  CHECK(map.jobs[0].urgent);
  CHECK(map.runs[0].cells[0].busy);
  CHECK(map.runs[1].cells[0].busy);
  CHECK_FALSE(map.runs[1].cells[1].busy);
}

TEST_CASE("tree has several memtables: the map shows the newest first, each with the birth of its oldest delete") {
  TreeView view = view_of({});
  for (int i = 0; i < 2; ++i) view.memtables.push_back(std::make_shared<MemTable>(1 << 20));
  Entry entry;
  entry.key = "k";
  entry.seq = 1;
  entry.kind = EntryKind::kTombstone;
  entry.delete_key = kNow - 5;
  view.memtables[1]->insert({entry.key, hash_key(entry.key)}, entry);
  TreeMap map;
  draw_tree(view, {}, kNow, 100, &map);
  REQUIRE(map.memtables.size() == 2);
  CHECK_FALSE(map.memtables[0].frozen);
  CHECK(map.memtables[0].oldest_birth == 0);
  CHECK(map.memtables[1].frozen);
  CHECK(map.memtables[1].tombstones == 1);
  CHECK(map.memtables[1].oldest_birth == kNow - 5);
}

TEST_CASE("file has dead bytes that are not punched yet: the file's cell shows the birth of their delete") {
  auto file = std::make_shared<FileMeta>(*make_file(7, "a", "b"));
  file->dead_birth = kNow - 9;
  TreeMap map;
  draw_tree(view_of({{1, 0, {file}}}), {}, kNow, 100, &map);
  CHECK(map.runs[0].cells[0].oldest_birth == kNow - 9);
}

}  // namespace TEST_FILE
