// Tests of trees with hundreds of runs, as large size ratios make them: reads, merges, deadlines and recovery work as with a few
// runs, and no write is stopped.
#include <algorithm>
#include <string>

#include "engine/db/model.h"
#include "support/finding.h"
#include "support/long_run.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr Millis kHour = 3'600'000;

Settings settings_with(const PolicySettings& policy) {
  Settings s = Harness::small();
  s.tree.memtable_size = 16 << 10;
  s.wal_segment_size = 64 << 10;
  s.fsync = FsyncMode::kAlways;
  s.tree.file_size = 64 << 10;
  s.tree.policy = policy;
  s.tree.delete_deadline = 24 * kHour;
  s.tree.filter_allocation = FilterAllocation::kMonkey;
  return s;
}

std::size_t runs_of(const Harness& h) {
  const auto info = h.db->tree_info(0);
  return info.is_ok() ? info->runs.size() : 0;
}

/// Makes flushes of random operations, with reads between them, until the tree has so many runs. Some of the operations are
/// FLUSHDB and SWAPDB.
void add_runs(Harness& h, ModelDriver& driver, std::size_t runs) {
  for (int run = 0; runs_of(h) < runs; ++run) {
    demand(run < 5000, "the number of runs does not grow");
    driver.write();
    demand_ok(h.db->flush(0), "flush");
    h.settle();
    h.db->tick();
    demand(!h.db->writes_stopped() && !h.db->stats().write_stalled, "writes are delayed or stopped");
    if (run % 10 != 0) continue;
    driver.check_get();
    driver.check_scan();
    driver.check_stamps();
  }
}

void live_with_many_runs(const PolicySettings& policy) {
  Harness h(settings_with(policy));
  h.open();
  ModelDriver driver(h, 11, 150);
  add_runs(h, driver, 60);
  const SeqNum durable = driver.durable();
  h.crash(CrashMode::kRandom, 4);
  h.open();
  driver.check_recovered(durable);
  add_runs(h, driver, 120);
  driver.check_everything();
  h.verify(0);
  // The deadline merges slices of all runs.
  for (int step = 0; step < 2 * 26; ++step) {
    h.advance(kHour / 2);
    h.settle();
  }
  driver.check_everything();
  CHECK(h.db->tree_info(0)->oldest_obligation == 0);
  add_runs(h, driver, 120);
  // Another policy takes over.
  TreeSettings leveling = h.settings.tree;
  leveling.policy = {"leveling", {{"size_ratio", 1024}}};
  demand_ok(h.db->set_tree_settings(0, leveling), "new settings");
  h.db->tick();
  h.settle();
  CHECK(runs_of(h) <= 2);
  driver.check_everything();
  h.verify(0);
}

TEST_CASE("tree gets over a hundred runs: crash, deadlines and another policy leave all reads equal to the model's") {
  const bool all = every_nth() == 1, tiering = first_of_every_nth() % 2 == 0;
  if (all || tiering) CHECK(finding_of([] { live_with_many_runs({"tiering", {{"size_ratio", 1024}}}); }) == "");
  if (all || !tiering)
    CHECK(finding_of([] { live_with_many_runs({"klsm", {{"size_ratio", 1024}, {"runs", 1}, {"last_runs", 1023}}}); }) == "");
}

TEST_CASE("level has as many runs as its policy allows: the next flush starts a merge of all, and no write stops") {
  const int ratio = every_nth() == 1 ? 1024 : 256;  // 1024 is the largest size ratio
  Harness h(settings_with({"tiering", {{"size_ratio", static_cast<double>(ratio)}}}));
  h.open();
  const auto key = [](int i) { return key_of(static_cast<std::uint64_t>(i % 300)); };
  for (int i = 0; i < ratio; ++i) {
    if (i == ratio - 1) CHECK(runs_of(h) == static_cast<std::size_t>(ratio - 1));
    h.put(0, key(i), "value " + std::to_string(i));
    demand_ok(h.db->flush(0), "flush");
    h.settle();
    if (i % 64 == 63) {
      h.db->tick();
      REQUIRE_FALSE(h.db->stats().write_stalled);
    }
  }
  CHECK(runs_of(h) == 1);
  for (int i = std::max(ratio - 300, 0); i < ratio; ++i) REQUIRE(h.get(0, key(i)) == "value " + std::to_string(i));
  h.verify(0);
}

TEST_CASE("power is lost during a merge of 128 runs: the next open has all writes and completes the merge") {
  const auto key = [](int i) { return key_of(static_cast<std::uint64_t>(i % 90)); };
  bool lost = true;
  // The outputs and the edit come first, then the removal of 256 files.
  for (std::uint64_t k = 1; lost; k += k < 12 ? 1 : 40) {
    INFO("before operation " << k);
    std::unique_ptr<MemoryFileSystem> left;  // the hook below may be called as long as the harness exists
    bool armed = true;
    Harness h(settings_with({"tiering", {{"size_ratio", 128}}}));
    h.open();
    for (int i = 0; i < 128; ++i) {
      h.put(0, key(i), "value " + std::to_string(i));
      demand_ok(h.db->flush(0), "flush");
      if (i < 127) h.settle();
    }
    REQUIRE(runs_of(h) == 128);
    h.faults->before_nth(k, kMutatingOps, [&] {
      if (armed) left = h.files->crash_clone(k, CrashMode::kRandom);
    });
    h.settle();
    armed = false;
    lost = left != nullptr;
    if (lost) {
      h.abandon(std::move(left));
      h.open();
      h.db->tick();
      h.settle();
    }
    CHECK(runs_of(h) == 1);
    for (int i = 128 - 90; i < 128; ++i) REQUIRE(h.get(0, key(i)) == "value " + std::to_string(i));
    h.verify(0);
  }
}

TEST_CASE("level 1 has more runs than level 0 may have: no write is stopped while level 0 is empty") {
  Harness h(settings_with({"klsm", {{"size_ratio", 24}, {"runs", 23}, {"runs_0", 1}}}));
  h.open();
  const auto is_reached = [&h] {
    const auto info = h.db->tree_info(0);
    return info.is_ok() && info->runs.size() > 21 && info->runs.front().level == 1;
  };
  for (int i = 0; !is_reached(); ++i) {
    REQUIRE(i < 24 * 24);
    h.put(0, key_of(static_cast<std::uint64_t>(i)), std::string(15'000, 'v'));
    demand_ok(h.db->flush(0), "flush");
    h.settle();
  }
  h.db->tick();
  CHECK_FALSE(h.db->writes_stopped());
  CHECK_FALSE(h.db->stats().write_stalled);
}

}  // namespace TEST_FILE
