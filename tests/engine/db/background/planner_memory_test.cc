// Tests of the facts about a tree that are kept between jobs, and of how long they are kept.
#include <catch2/catch.hpp>

#include <memory>
#include <vector>

#include "db/background/planner_memory.h"
#include "engine/compaction/files.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr TreeId kTree = 1;

struct Bed {
  SimulatedClock clock;
  PlannerMemory memory{clock};
  std::shared_ptr<TablesView> tables = std::make_shared<TablesView>();
  std::shared_ptr<Version> version = std::make_shared<Version>();

  Bed() {
    clock.advance(60'000);
    version->tree = kTree;
    version->runs = {{1, 1, {make_file(7, "a", "c")}}};
    tables->version = version;
  }
  [[nodiscard]] PlannerInput recall(Millis now = 1000, Millis purge_before = 0, PlannerReads reads = {}) const {
    PlannerInput input;
    input.reads = reads;
    input.tables = tables;
    input.now = now;
    input.purge_before = purge_before;
    memory.recall(kTree, &input);
    return input;
  }
};

FileMeta output(FileNum num, Millis birth) {
  FileMeta file = *make_file(num, "a", "c");
  Entry tombstone;
  tombstone.key = "b";
  tombstone.kind = EntryKind::kTombstone;
  tombstone.delete_key = birth;
  if (birth != 0) file.stats.add_entry(tombstone);
  return file;
}

TEST_CASE("merge fails: merges of its kind (for deadlines, or others) are delayed") {
  Bed bed;
  CHECK_FALSE((bed.recall().paused || bed.recall().deadlines_rest || bed.memory.merges_fail(kTree)));
  bed.memory.note_ended(kTree, false, Status::no_space("full"));
  CHECK((bed.recall().paused && !bed.recall().deadlines_rest && bed.memory.merges_fail(kTree)));
  bed.memory.note_ended(kTree, true, Status::no_space("full"));
  CHECK(bed.recall().deadlines_rest);
  bed.memory.note_ended(kTree, false, Status::aborted(""));
  CHECK(bed.recall().paused);
  bed.clock.advance(1000);
  CHECK_FALSE((bed.recall().paused || bed.recall().deadlines_rest));
  CHECK(bed.memory.merges_fail(kTree));
  bed.memory.note_ended(kTree, false, Status::ok());
  CHECK_FALSE(bed.memory.merges_fail(kTree));
}

TEST_CASE("tables are unchanged: they are searched for droppable pages at the planned time, or when PURGE.NOW requests it") {
  Bed bed;
  CHECK(bed.recall().look_for_pages);
  const auto found_nothing = [&](Millis next) { (void)bed.memory.note_planned(kTree, bed.recall(), {.next_page_look = next}); };
  found_nothing(5000);
  CHECK_FALSE(bed.recall(4999).look_for_pages);
  CHECK(bed.recall(5000).look_for_pages);
  CHECK(bed.recall(1000, 900).look_for_pages);
  CHECK(bed.recall(1000, 0, {0, 2}).look_for_pages);  // a caller that may read sees other tables
  found_nothing(0);
  CHECK_FALSE(bed.recall(1'000'000).look_for_pages);
  bed.tables = std::make_shared<TablesView>(*bed.tables);
  CHECK(bed.recall().look_for_pages);
}

TEST_CASE("tree exceeds a bound of its policy: the excess is reported once") {
  Bed bed;
  const auto note = [&](std::optional<std::string> broken) {
    return bed.memory.note_planned(kTree, bed.recall(), {.broken_bounds = std::move(broken)});
  };
  CHECK_FALSE(note(""));
  CHECK(note("level 1"));
  CHECK_FALSE(note("level 1"));
  CHECK_FALSE(note(std::nullopt));  // the policy was not called
  CHECK(note("level 2"));
  CHECK_FALSE(note(""));
  CHECK(note("level 2"));
}

TEST_CASE("rewrite for a deadline leaves pending deletes: its outputs are not rewritten again for five seconds") {
  Bed bed;
  const Plan rewrite{.action = Rewrite{1, 7}, .reason = Reason::kDeadline};
  bed.memory.note_outputs(rewrite, *bed.version, {output(8, 500), output(9, 0)}, 1000);
  CHECK(bed.recall().fruitless == std::vector<FileNum>{8});
  bed.clock.advance(4999);
  CHECK(bed.recall().fruitless.size() == 1);
  bed.clock.advance(1);
  CHECK(bed.recall().fruitless.empty());

  Plan other = rewrite;
  other.reason = Reason::kDropped;
  bed.memory.note_outputs(other, *bed.version, {output(8, 500)}, 1000);
  bed.version->runs.push_back({2, 2, {make_file(6, "b", "d")}});  // the outputs are not bottommost, since the rewrite was a split
  bed.memory.note_outputs(rewrite, *bed.version, {output(8, 500)}, 1000);
  CHECK(bed.recall().fruitless.empty());
}

TEST_CASE("pages were dropped in part: the table's newest delete by stamp is remembered, and its pages are searched again") {
  Bed bed;
  (void)bed.memory.note_planned(kTree, bed.recall(), {.next_page_look = 0});
  const std::vector<Record> records = {{0, 10, 5, 100}, {10, 20, 9, 100}};
  bed.version->records = std::make_shared<const RecordSet>(records);
  CompactionResult result;
  bed.memory.note_dropped(*bed.version, result, *bed.tables);
  CHECK_FALSE(bed.recall().look_for_pages);
  result.parts_done = {1007};
  bed.memory.note_dropped(*bed.version, result, *bed.tables);
  const PlannerInput input = bed.recall();
  CHECK(input.look_for_pages);
  CHECK(input.parts_done == std::map<FileNum, SeqNum>{{1007, 9}});
}

TEST_CASE("tree is dropped: the planners' memory forgets everything about the tree") {
  Bed bed;
  bed.memory.note_ended(kTree, false, Status::no_space("full"));
  bed.memory.forget(kTree);
  CHECK_FALSE((bed.recall().paused || bed.memory.merges_fail(kTree)));
}

}  // namespace TEST_FILE
