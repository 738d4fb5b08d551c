// Tests of the tracker's results for trees at one moment: margins, and memtables to flush. There is no database; time is an
// argument.
#include <catch2/catch.hpp>

#include "base/clock.h"
#include "db/purge/deadline_tracker.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr Millis kBirth = 1'000'000, kDeadline = 100'000;

/// One tree with one table, whose oldest delete was born at kBirth.
struct Fixture {
  SimulatedClock clock{kBirth};
  std::vector<std::string> warnings;
  DeadlineTracker tracker{[this](const std::string& text) { warnings.push_back(text); }};
  DeadlineBudget budget{clock};
  std::atomic<Millis> margin{0};
  std::shared_ptr<const Policy> policy = make_policy({}).value();
  std::shared_ptr<const void> tables = std::make_shared<int>();
  std::uint64_t table_bytes = 0;  ///< 0: there is no table
  DeadlineRule rule{kDeadline};
  Millis purge_before = 0;
  std::uint64_t io_budget = 0;
  bool disk_is_short = false, frozen_rest = false;
  std::vector<Millis> memtables;
  int shapes = 0;

  TreeShape shape() {
    ++shapes;
    TreeShape shape;
    shape.memtable_bytes = kMiB;
    shape.file_bytes = 4 * kMiB;
    if (table_bytes == 0) return shape;
    FileShape file{.num = 1, .smallest = "a", .largest = "z", .bytes = table_bytes, .entries = 10};
    file.oldest_birth = kBirth;
    file.deadline = rule.due(kBirth);
    shape.runs.push_back({1, 0, {file}});
    return shape;
  }
  bool tick(Millis now) {
    const DeadlineTracker::TreeNow tree{.id = 7,
                                        .budget = budget,
                                        .margin = margin,
                                        .rule = rule,
                                        .purge_before = purge_before,
                                        .tables = tables,
                                        .shape = [this] { return shape(); },
                                        .policy = policy,
                                        .io_budget = io_budget,
                                        .disk_is_short = disk_is_short,
                                        .memtables = memtables,
                                        .frozen_rest = frozen_rest};
    return !tracker.tick(std::span(&tree, 1), now).empty();
  }
  /// Sets the measured rate of merges.
  void measure(std::uint64_t bytes_per_ms) { tracker.note_merge(bytes_per_ms * 1000, 1'000'000'000); }
};

TEST_CASE("margin is computed: it is a tenth of the deadline plus 1.5 times the time that the work takes") {
  Fixture f;
  f.tick(kBirth);
  CHECK(f.margin == kDeadline / 10);
  f.measure(1000);
  f.table_bytes = 10'000'000;  // merging them takes ten seconds
  f.tables = std::make_shared<int>();
  f.tick(kBirth);
  CHECK(f.margin == kDeadline / 10 + 15'000);
  f.disk_is_short = true;
  f.tables = std::make_shared<int>();
  f.tick(kBirth);
  CHECK(f.margin == kDeadline / 2);
}

TEST_CASE("I/O budget is lower than the measured rate: the margin grows, so that merges for deadlines start earlier") {
  Fixture f;
  f.measure(1000);
  f.table_bytes = 10'000'000;
  f.io_budget = 1'500'000;  // that is 500 bytes of work per ms
  f.tick(kBirth);
  CHECK(f.margin == kDeadline / 10 + 30'000);
}

TEST_CASE("tree has a deadline: its shape is computed on each change of tables and every 200 ms, otherwise never") {
  Fixture f;
  f.tick(kBirth);
  f.tick(kBirth + DeadlineTracker::kLookEvery - 1);
  CHECK(f.shapes == 1);
  f.tick(kBirth + DeadlineTracker::kLookEvery);
  CHECK(f.shapes == 2);
  f.tables = std::make_shared<int>();
  f.tick(kBirth + DeadlineTracker::kLookEvery);
  CHECK(f.shapes == 3);
  f.rule = DeadlineRule(0);
  CHECK_FALSE(f.tick(kBirth + 10 * kDeadline));
  CHECK(f.shapes == 3);
  CHECK(f.tracker.work_bytes(7) == 0);
}

TEST_CASE("oldest delete is due to leave memory, or PURGE.NOW applies: its memtable is flushed") {
  Fixture f;
  f.memtables = {kBirth, 0};
  Millis due = 0;
  for (Millis now = kBirth; due == 0 && now <= kBirth + kDeadline; now += 100) due = f.tick(now) ? now : 0;
  CHECK(due > kBirth);
  CHECK(due <= kBirth + kDeadline - f.margin);  // deeper levels need time, too
  f.memtables = {0, 0};
  CHECK_FALSE(f.tick(due));
  f.memtables = {kBirth + kDeadline, 0};
  CHECK_FALSE(f.tick(kBirth + kDeadline));
  f.purge_before = kBirth + kDeadline;
  CHECK(f.tick(kBirth + kDeadline));
}

TEST_CASE("frozen memtable has a due delete: it is reported for a flush only if no flush of it is queued") {
  Fixture f;
  f.memtables = {0, kBirth};
  CHECK_FALSE(f.tick(kBirth + kDeadline));
  f.frozen_rest = true;
  CHECK(f.tick(kBirth + kDeadline));
}

TEST_CASE("deadlines need a part of the merge rate: needed_permille() returns it in thousandths, at most 1000") {
  Fixture f;
  f.table_bytes = 10'000'000;  // due within 100 s, so 100 bytes per ms
  f.tick(kBirth);
  CHECK(f.tracker.needed_permille() == 0);
  f.measure(400);
  f.tick(kBirth);
  CHECK(f.tracker.needed_permille() == 250);
  f.tick(kBirth + kDeadline - 2000);
  CHECK(f.tracker.needed_permille() == 1000);
  CHECK(f.tracker.work_bytes(7) == 10'000'000);
}

TEST_CASE("only half of the margin is left before the deadline: is_late() returns true for the tree") {
  Fixture f;
  CHECK_FALSE(f.tracker.is_late(7, 10'000, kBirth + kDeadline));  // the tracker does not know this tree
  f.table_bytes = kMiB;
  f.tick(kBirth);
  CHECK_FALSE(f.tracker.is_late(7, 10'000, kBirth + kDeadline - 5'001));
  CHECK(f.tracker.is_late(7, 10'000, kBirth + kDeadline - 5'000));
}

TEST_CASE("tick does not list a tree: the tracker forgets the tree") {
  Fixture f;
  f.table_bytes = kMiB;
  f.tick(kBirth);
  CHECK(f.tracker.work_bytes(7) == kMiB);
  (void)f.tracker.tick({}, kBirth);
  CHECK(f.tracker.work_bytes(7) == 0);
  CHECK_FALSE(f.tracker.is_late(7, 10'000, kBirth + kDeadline));
}

TEST_CASE("deadline is shorter than a merge of all data takes: this is logged once until the deadline is long enough again") {
  Fixture f;
  f.table_bytes = 110'000'000;
  f.measure(1000);
  for (int i = 0; i < 3; ++i) f.tick(kBirth);
  CHECK(f.tracker.least_deadline() == 110'000);
  REQUIRE(f.warnings.size() == 1);
  CHECK(f.warnings[0] == "the delete deadline of 100 s is shorter than merging all data takes at the measured rate: 110 s");
  f.rule = DeadlineRule(200'000);
  f.tick(kBirth);
  f.rule = DeadlineRule(kDeadline);
  f.tick(kBirth);
  CHECK(f.warnings.size() == 2);
}

TEST_CASE("I/O budget is smaller than the deadlines need: it grows, with one warning, until the work is done") {
  Fixture f;
  f.table_bytes = 100'000'000;  // 1,000 bytes per ms: 3,000,000 bytes a second read and written
  f.io_budget = 1'024'000;
  for (int i = 0; i < 3; ++i) f.tick(kBirth);
  REQUIRE(f.warnings.size() == 1);
  CHECK(f.warnings[0] ==
        "the delete deadlines of tree 7 need reads and writes of 2929 KiB a second, more than tree.deletes.io_budget, 1000 KiB; "
        "the work may exceed this limit");
  CHECK(f.budget.rate() == 3'000'000);
  f.table_bytes = 0;
  f.tables = std::make_shared<int>();
  f.tick(kBirth);
  CHECK(f.budget.rate() == 1'024'000);
  f.table_bytes = 100'000'000;
  f.tables = std::make_shared<int>();
  f.tick(kBirth);
  CHECK(f.warnings.size() == 2);
}

}  // namespace TEST_FILE
