// Tests that each source fills in its part of the statistics.
#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "db/admin/stats.h"
#include "engine/compaction/files.h"

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("several threads count: their counters are summed, and gets that searched no table are in the first bucket") {
  Counters counters;
  auto& slots = const_cast<std::array<ThreadCounters, Counters::kSlots>&>(counters.slots());
  for (const std::size_t i : {std::size_t{0}, std::size_t{5}}) {
    slots[i].gets = 10;
    slots[i].get_hits = 4;
    slots[i].commits = 2;
    slots[i].operations = 3;
    slots[i].user_bytes = 100;
    slots[i].add_probes(1);
    slots[i].add_probes(40);
  }
  Stats s;
  add_counters(counters, &s);
  CHECK((s.gets == 20 && s.get_hits == 8 && s.get_misses == 12));
  CHECK((s.batches == 4 && s.writes == 6 && s.user_bytes_written == 200));
  REQUIRE(s.runs_probed.buckets.size() == s.runs_probed.bounds.size() + 1);
  CHECK((s.runs_probed.buckets.front() == 16 && s.runs_probed.buckets[1] == 2 && s.runs_probed.buckets.back() == 2));
  CHECK(s.runs_probed.sum == 82);
}

TEST_CASE("compactions and flushes are counted: the list by reason has the compactions only") {
  CompactionTotals totals;
  totals.jobs = 7;
  totals.files_moved = 2;
  totals.dropped_bytes = 900;
  totals.jobs_by_reason[0] = 3;
  totals.read_by_reason[0] = 30;
  totals.written_by_reason[0] = 20;
  Stats s;
  add_compactions(totals, &s);
  CHECK((s.compactions == 7 && s.trivial_moves == 2 && s.reclaimed_bytes_unlinked == 900));
  CHECK(s.merges_by_reason.size() == kReasons - 1);
  for (const ReasonInfo& reason : s.merges_by_reason) CHECK(reason.reason != reason_name(Reason::kFlush));
}

TEST_CASE("memtables have charged values: memtable_bytes includes each value once") {
  MemoryAccount account;
  account.charge(MemoryAccount::Kind::kMemTables, 500);
  account.charge(MemoryAccount::Kind::kCommands, 70);
  auto view = std::make_shared<TreeView>();
  auto tables = std::make_shared<TablesView>();
  tables->version = std::make_shared<Version>();
  tables->memory_bytes = 40;
  tables->file_bytes = 4000;
  view->tables = tables;
  view->memtables.push_back(std::make_shared<MemTable>(4096));
  TreeLoad load;
  load.view = view;
  Stats s;
  add_charges(account, &s);
  add_trees({load, load}, &s);
  CHECK((s.command_bytes == 70 && s.memtable_bytes == 500 + 2 * load.uncharged_bytes()));
  CHECK((s.table_bytes == 80 && s.table_live_bytes == 8000 && s.quarantined_files == 0));
}

TEST_CASE("garbage is computed: deleted entries, dropped pages that are not punched, and files to be removed") {
  auto file = std::make_shared<FileMeta>(*make_file(1, "a", "z"));
  file->data_bytes = 1000;
  file->metadata_bytes = 0;
  file->dead_bytes = 300;
  file->punched_bytes = 100;
  file->stats.entries = 10;
  file->stats.tombstones = 2;
  file->stats.range_tombstones = 1;
  auto version = std::make_shared<Version>();
  version->runs.push_back({1, 0, {file}});
  auto tables = std::make_shared<TablesView>();
  tables->version = version;
  auto view = std::make_shared<TreeView>();
  view->tables = tables;
  TreeLoad load;
  load.view = view;
  Stats s;
  add_trees({load}, &s);
  CHECK(s.garbage_dropped_pages == 200);
  CHECK(s.garbage_deleted == file->live_bytes() / 10 * 3);
  add_leaving({{"1.data", 5, {}, {}}, {"2.data", 6, {}, {}}}, &s);
  CHECK(s.garbage_leaving == 11);
}

TEST_CASE("deadlines are missed: they are counted by reason") {
  MissedDeadlines missed;
  PurgeSurvey survey;
  survey.now = survey.looked_at = 10'000;
  survey.trees[1] = {DeadlineRule(100), 0};
  survey.holders.push_back({PurgePlace::kTable, 1, 500, 10, 7});
  missed.note(survey, {});
  Stats s;
  add_missed(missed, &s);
  CHECK((s.deadlines_missed_load == 1 && s.deadlines_missed_down == 0 && s.deadlines_missed_disk == 0));
}

}  // namespace TEST_FILE
