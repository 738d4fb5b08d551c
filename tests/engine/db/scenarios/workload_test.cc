// Tests that a database counts its workload by kind, keeps the history over restarts, and describes its tree for the tuner.
#include <engine/tuner.h>

#include <catch2/catch.hpp>

#include "db/admin/workload_history.h"
#include "engine/db/harness.h"
#include "io/file_names.h"

namespace ebbtide {
namespace TEST_FILE {

Settings kept() {
  Settings settings = Harness::small();
  settings.keep_workload = true;
  return settings;
}

OperationCounts total_of(const Workload& workload) {
  OperationCounts sum;
  for (const WorkloadWindow& window : workload.windows) sum += window.counts;
  return sum;
}

void walk(Db& db, DatabaseId database) {
  const auto iterator = db.iterate(db.lease(database), {});
  for (iterator->seek_to_first(); iterator->valid(); iterator->next()) {
  }
}

TEST_CASE("operations of each kind are done: they are counted for their database number, also after SWAPDB") {
  Harness h;
  h.open();
  h.put(0, "a", "1");
  h.put(0, "b", "2");
  h.put(1, "c", "3");
  h.del(0, "b");
  CHECK(h.get(0, "a") == "1");
  CHECK(h.get(0, "b") == "(absent)");
  CHECK(h.get(0, "x") == "(absent)");
  walk(*h.db, 0);
  CHECK(h.db->workload(0)->since_open ==
        OperationCounts{.empty_reads = 2, .reads = 1, .ranges = 1, .writes = 3, .range_entries = 3, .deletes = 1});
  CHECK(h.db->workload(1)->since_open == OperationCounts{.writes = 1});
  WriteBatch swap;
  swap.swap_databases(0, 1);
  h.write(swap);
  CHECK(h.get(0, "c") == "3");
  CHECK(h.db->workload(0)->since_open.reads == 2);
  CHECK(h.db->workload(1)->since_open == OperationCounts{.writes = 1});
  CHECK(h.db->workload(Settings().databases).status().code() == Code::kInvalidArgument);
}

TEST_CASE("large batch is committed in staged form: its operations are counted like others") {
  Harness h;
  h.open();
  WriteBatch batch;
  for (int i = 0; i < 20'000; ++i) batch.put(2, "key" + std::to_string(i), std::string(100, 'v'));
  h.write(batch);
  h.settle();
  CHECK(h.db->workload(2)->since_open.writes == 20'000);
}

TEST_CASE("database is closed and opened: the workload history continues, and counts since open are 0") {
  Harness h(kept());
  h.open();
  h.put(0, "a", "1");
  h.advance(WorkloadHistory::kWindow);
  CHECK(h.get(0, "a") == "1");
  REQUIRE(h.db->workload(0)->windows.size() == 2);
  h.reopen();
  CHECK(h.db->workload(0)->since_open == OperationCounts());
  CHECK(total_of(*h.db->workload(0)) == OperationCounts{.reads = 1, .writes = 1});
  CHECK(h.events.warnings.empty());
  h.drop();
  Harness without;
  without.open();
  without.put(0, "a", "1");
  without.reopen();
  CHECK(without.db->workload(0)->windows.empty());
  CHECK(without.paths(std::string(kWorkloadFileName)).empty());
}

TEST_CASE("file of the workload history is damaged: the database opens with a warning and an empty history") {
  Harness h(kept());
  h.open();
  h.put(0, "a", "1");
  demand_ok(h.db->close(), "close");
  h.drop();
  const auto found = h.paths(std::string(kWorkloadFileName));
  REQUIRE(found.size() == 1);
  std::string content = read_file(*h.files, found[0]).value();
  content[content.size() / 2] ^= 1;
  demand_ok(write_file_atomically(*h.files, h.settings.dir, std::string(kWorkloadFileName), content), "write");
  h.open();
  CHECK(h.events.heard("the checksum is wrong: the history of the workload starts empty"));
  CHECK(h.db->workload(0)->windows.empty());
  CHECK(h.get(0, "a") == "1");
}

TEST_CASE("tree has tables: workload() returns their entries and bytes before compression, and the database's settings") {
  Settings settings = kept();
  settings.tree.compression = settings.tree.compression_last_level = Compression::kLz4;
  settings.overrides[3] = settings.tree;
  settings.overrides[3].policy = {"tiering", {{"size_ratio", 5}}};
  Harness h(settings);
  h.open();
  for (int i = 100; i < 200; ++i) h.put(3, "key" + std::to_string(i), std::string(94, 'v'));
  CHECK(h.db->workload(3)->table_entries == 0);
  CHECK(h.db->workload(3)->cache_miss_ratio == 1);
  REQUIRE(h.db->flush(3).is_ok());
  const Workload workload = *h.db->workload(3);
  CHECK((workload.table_entries == 100 && workload.table_bytes == 100 * 100));
  CHECK((workload.settings.memtable_size == settings.tree.memtable_size && workload.settings.page_size == 1024));
  CHECK(workload.settings.policy.name == "tiering");
  CHECK(h.db->workload(0)->settings.policy.name == "one_leveling");
  for (int round = 0; round < 4; ++round) CHECK(h.get(3, "key150") != "(absent)");
  CHECK(h.db->workload(3)->cache_miss_ratio < 1);
  REQUIRE(h.db->set_tree_settings(3, settings.tree).is_ok());
  CHECK(h.db->workload(3)->settings.policy.name == "one_leveling");
}

TEST_CASE("tree has files and tiles: workload() returns entries per file, pages per tile and deletes by stamp") {
  Settings settings = kept();
  settings.tree.pages_per_tile = 4;
  Harness h(settings);
  h.open();
  CHECK(h.db->workload(0)->entries_per_file == 0);
  CHECK(h.db->workload(0)->pages_per_tile == 4);
  for (int i = 100; i < 200; ++i) h.put(0, "key" + std::to_string(i), std::string(94, 'v'));
  REQUIRE(h.db->flush(0).is_ok());
  WriteBatch batch;
  batch.delete_stamps(0, 1, 2);
  h.write(batch);
  const Workload workload = *h.db->workload(0);
  CHECK(workload.since_open.stamp_deletes == 1);
  CHECK(total_of(workload).stamp_deletes == 1);
  CHECK(workload.pages_per_tile == 4);
  const auto file_bytes = static_cast<double>(h.db->tree_info(0)->runs.front().bytes);
  CHECK(workload.entries_per_file == Approx(100 * static_cast<double>(settings.tree.file_size) / file_bytes));
}

}  // namespace TEST_FILE
}  // namespace ebbtide
