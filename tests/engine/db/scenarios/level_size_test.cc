// Tests that capacities of levels are counted in flushed bytes of memtables, not in their memory.
#include "engine/db/harness.h"
#include "support/planted.h"

namespace TEST_FILE {

using namespace ebbtide;

std::string scattered_key(int i) { return key_of(i * 7919 % 1'000'000); }

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

// Writes about 60 memtables of 64 KiB that flush to about 4 KiB each. If capacities were measured by memory, all data would be
// below the capacity of level 1, six memtables, and each merge of level 0 would rewrite everything.
TEST_CASE("data is compressible: capacities of levels are compared with compressed bytes") {
  Harness h(compressing());
  h.open();
  const std::string value(300, 'v');
  for (int i = 0; i < 8000; ++i) {
    h.put(0, scattered_key(i), value);
    if (i % 50 == 0) h.settle();
  }
  h.settle();
  const Stats stats = h.db->stats();
  REQUIRE(stats.flushes > 30);
  CHECK(stats.table_live_bytes < 6 * h.settings.tree.memtable_size);
  CHECK(deepest_level(*h.db) >= 2);
  CHECK(stats.compaction_bytes_written < 8 * stats.flush_bytes_written);
  const int deepest = deepest_level(*h.db);

  // The measurement must survive a restart.
  h.reopen();
  h.settle();
  CHECK(deepest_level(*h.db) == deepest);
  for (int i = 8000; i < 8400; ++i) h.put(0, scattered_key(i), value);
  h.settle();
  CHECK(deepest_level(*h.db) >= deepest);
  CHECK(h.db->verify(0)->errors.empty());
}

constexpr std::uint64_t kFlush = 400;  // the entries of two thirds of a memtable

Settings with_schedule(const char* name) {
  Settings s = Harness::small();
  s.tree.memtable_size = 128 << 10;
  s.tree.policy = {name, {{"k", 4}}};
  return s;
}

/// Writes and freezes one memtable of keys spread over all others; if `settled`, flushes and merges it.
void flush_once(Harness& h, std::uint64_t number, bool settled = true) {
  for (std::uint64_t i = 0; i < kFlush; ++i) {
    h.put(0, "k" + std::to_string(100'000 + i * 100 + number), std::string(150, 'v'));
  }
  REQUIRE(h.db->tree_info(0)->memtable_entries % kFlush == 0);  // no memtable was frozen before
  REQUIRE(h.db->flush(0).is_ok());
  if (settled) h.settle();
}

/// Returns the sizes of runs in flushes, newest first.
std::string stack_text(Harness& h) {
  std::string out;
  const auto info = h.db->tree_info(0);
  for (const RunInfo& run : info->runs) {
    out += (out.empty() ? "" : " ") + std::to_string((run.entries + kFlush / 2) / kFlush);
  }
  return out;
}

TEST_CASE("flushes come faster than merges: static schedules still build the stacks of runs of Mao's thesis", "[policies]") {
  struct Row {
    const char* policy;
    std::uint64_t flushes;
    const char* stack;
  };
  // These rows equal the rows in tests/engine/policy/testdata/stack.txt.
  const Row rows[] = {
      {"binomial", 4, "2 2"},         {"binomial", 9, "1 3 5"},       {"binomial", 16, "1 15"},
      {"binomial", 20, "1 4 15"},     {"min_latency", 4, "1 1 1 1"},  {"min_latency", 5, "5"},
      {"min_latency", 11, "1 1 4 5"}, {"min_latency", 14, "2 3 4 5"}, {"min_latency", 16, "1 15"},
  };
  for (const bool settled : {true, false}) {
    for (const char* policy : {"binomial", "min_latency"}) {
      Harness h(with_schedule(policy));
      h.open();
      std::uint64_t flushes = 0;
      for (const Row& row : rows) {
        if (row.policy != std::string(policy)) continue;
        while (flushes < row.flushes) flush_once(h, ++flushes, settled);
        h.settle();
        INFO(policy << " after " << flushes << (settled ? "" : ", all at once"));
        CHECK(stack_text(h) == row.stack);
        if (flushes == 9 || flushes == 11) h.reopen();  // the count must be persistent
      }
    }
  }
}

// Such a merge may take hours, and would keep the log with deleted data and with other trees' writes for as long.
TEST_CASE("log has deleted data that is due: the flush for it does not wait for the schedule's previous merge", "[policies]") {
  Settings settings = with_schedule("min_latency");
  settings.tree.delete_deadline = 60'000;
  Harness h(settings);
  h.open();
  for (std::uint64_t i = 1; i <= 5; ++i) flush_once(h, i, i < 5);
  h.del(0, "k100001");
  const Stats before = h.db->stats();
  REQUIRE(stack_text(h) == "1 1 1 1 1");  // a merge of all runs is queued
  h.advance(20'000);
  Stats after = before;
  while (after.flushes == before.flushes && after.compactions == before.compactions && h.pool.run_one()) after = h.db->stats();
  CHECK(after.flushes == before.flushes + 1);
  CHECK(after.compactions == before.compactions);
}

TEST_CASE("schedule is static: a flush waits for the previous merge, unless more than four memtables wait", "[policies]") {
  const std::uint64_t waiting = GENERATE(3, 5);
  Harness h(with_schedule("min_latency"));
  h.open();
  for (std::uint64_t i = 1; i <= 5; ++i) flush_once(h, i, i < 5);
  const Stats before = h.db->stats();
  REQUIRE(stack_text(h) == "1 1 1 1 1");  // a merge of all runs is queued
  for (int i = 0; h.db->tree_info(0)->frozen_memtables < waiting; ++i) {
    h.put(0, "more" + std::to_string(i), std::string(150, 'v'));
  }
  Stats after = before;
  while (after.flushes == before.flushes && after.compactions == before.compactions && h.pool.run_one()) after = h.db->stats();
  CHECK(after.flushes == before.flushes + (waiting > 4 ? 1 : 0));
  CHECK(after.compactions == before.compactions + (waiting > 4 ? 0 : 1));
}

TEST_CASE("schedule is static and flushes are small: their tables join the newest run and are not counted", "[policies]") {
  Harness h(with_schedule("min_latency"));
  h.open();
  for (std::uint64_t i = 1; i <= 7; ++i) flush_once(h, i);
  REQUIRE(stack_text(h) == "1 1 5");
  for (int i = 0; i < 3; ++i) {
    h.put(0, "small" + std::to_string(i), "v");
    REQUIRE(h.db->flush(0).is_ok());
    h.settle();
    CHECK(stack_text(h) == "1 1 5");
  }
  flush_once(h, 8);
  CHECK(stack_text(h) == "1 1 1 5");
  // Nearly everything is deleted, so one run of at most a flush remains. A merge of everything then follows four more flushes,
  // not twelve.
  h.del_range(0, "k", "l");
  REQUIRE(h.db->compact(0, {}).is_ok());
  h.settle();
  REQUIRE(stack_text(h) == "0");
  for (std::uint64_t i = 9; i <= 12; ++i) flush_once(h, i);
  CHECK(stack_text(h) == "4");
}

/// Fills the levels or the stack of a database several times. The engine checks every tree at rest.
void fill_to_the_bounds(const PolicySettings& policy) {
  INFO(policy.name);
  Settings settings = with_schedule("constant");
  settings.tree.policy = policy;
  Harness h(settings);
  h.open();
  for (std::uint64_t i = 1; i <= 11; ++i) flush_once(h, i);
  h.verify(0);
}

TEST_CASE("trees at rest are within their policies' bounds: the engine checks this and reports no broken bound", "[policies]") {
  fill_to_the_bounds({"one_leveling", {{"size_ratio", 2}, {"level0_runs", 2}}});
  fill_to_the_bounds({"klsm", {{"size_ratio", 3}}});
  fill_to_the_bounds({"garnering", {{"level0_runs", 2}}});
  fill_to_the_bounds({"bigtable", {{"k", 4}}});
}

TEST_CASE("planted bug makes a stack deeper than its policy allows: the check at rest finds it", "[policies][planted]") {
  must_catch(PlantedBug::kStackTooDeep, [] { fill_to_the_bounds({"bigtable", {{"k", 4}}}); });
}

TEST_CASE("last entry makes a memtable slightly larger than its size: its flush counts as one memtable", "[policies]") {
  Settings s = Harness::small();
  s.tree.memtable_size = 16 << 10;
  s.tree.policy = {"klsm", {{"size_ratio", 6}, {"runs", 2}}};
  Harness h(s);
  h.open();
  const std::string expected[] = {"1", "2", "3", "1 3", "2 3", "6"};  // as in tests/engine/policy/testdata/klsm.txt
  std::size_t flushes = 0;
  std::uint64_t written = 0, in_one = 0;
  for (int i = 0; flushes < std::size(expected); ++i) {
    h.put(0, scattered_key(i), std::string(500, 'v'));
    h.settle();
    ++written;
    const auto info = h.db->tree_info(0);
    if (info->memtable_entries == written) continue;
    if (in_one == 0) in_one = written - info->memtable_entries;
    written = info->memtable_entries;
    std::string runs;
    for (const RunInfo& run : info->runs) {
      if (run.files != 0) runs += (runs.empty() ? "" : " ") + std::to_string((run.entries + in_one / 2) / in_one);
    }
    CHECK(runs == expected[flushes++]);
  }
}

TEST_CASE("compactions are paused: flushes of a static schedule do not wait for merges", "[policies]") {
  Harness h(with_schedule("binomial"));
  h.open();
  h.db->pause_compactions();
  for (std::uint64_t i = 1; i <= 6; ++i) flush_once(h, i);
  CHECK(stack_text(h) == "1 1 1 1 1 1");
  h.db->resume_compactions();
  h.settle();
  CHECK(h.db->tree_info(0)->runs.size() <= 4);
}

}  // namespace TEST_FILE
