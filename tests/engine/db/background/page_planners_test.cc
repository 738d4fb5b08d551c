// Tests of the planners that remove traces of deletes from files: dead pages, names of purged keys, and dead bytes.
#include <catch2/catch.hpp>

#include <string>
#include <utility>

#include "engine/db/background/planner_beds.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

TEST_CASE(
    "dead bytes stay unpunched: their table is rewritten half a margin before the deadline, or at once if it cannot "
    "be punched") {
  Metadata tree;
  const auto file = tree.add(1, 1, 7, "a", "c");
  tree.input.deadlines = DeadlineRule(8000);
  tree.input.margin = 2000;
  file->dead_bytes = 50;
  file->dead_birth = 10'000;
  const Plan rewrite{.action = Rewrite{1, 7}, .reason = Reason::kDropped};
  tree.input.now = 16'999;  // the deadline is at 18,000
  CHECK(planner::late_rewrite(tree.look(), &tree.notes).empty());
  CHECK(planner::rewrite(tree.look(), &tree.notes).empty());
  tree.input.not_punched = {7};
  CHECK(planner::late_rewrite(tree.look(), &tree.notes).empty());
  CHECK(planner::rewrite(tree.look(), &tree.notes) == rewrite);
  tree.input.not_punched = {};
  tree.input.can_punch = false;
  CHECK(planner::rewrite(tree.look(), &tree.notes) == rewrite);
  tree.input.can_punch = true;
  tree.input.now = 17'000;
  CHECK(planner::late_rewrite(tree.look(), &tree.notes) == rewrite);
  file->damage = "damaged";
  CHECK(planner::late_rewrite(tree.look(), &tree.notes).empty());
}

TEST_CASE("running job has the file: the planner does not rewrite the file") {
  Metadata tree;
  const auto file = tree.add(1, 1, 7, "a", "c");
  file->dead_bytes = 50;
  tree.input.can_punch = false;
  REQUIRE(tree.jobs.start({.action = Rewrite{1, 7}}, *tree.version));
  CHECK(planner::rewrite(tree.look(), &tree.notes).empty());
}

TEST_CASE("page drop lacks indexes of tables that it may not read: it searches after a second, or once it may read") {
  Tables all;
  Source stamped, record;
  for (int i = 0; i < 16; ++i) stamped.entries.push_back(entry("k" + std::to_string(10 + i), static_cast<SeqNum>(1 + i), 5));
  record.records = {{0, 10, 17, 1000}};
  all.tree.context.visible_seq = 16;
  all.tree.flush(stamped);
  all.tree.context.visible_seq = 17;
  all.tree.flush(record);
  all.tree.env.open_table = [&all](const FileMeta& meta) -> Result<std::shared_ptr<TableReader>> {
    return TableReader::lazy({&all.tree.fs, nullptr, "db", false}, files_of(meta), meta.stats);
  };
  CHECK(planner::page_drop(all.look(), &all.notes).empty());
  CHECK(all.notes.wants_to_read);
  REQUIRE(all.notes.next_page_look);
  CHECK(*all.notes.next_page_look == all.input.now + 1000);
  all.notes = {};
  all.input.reads = {0, 1};
  CHECK_FALSE(planner::page_drop(all.input, &all.notes).empty());
}

TEST_CASE("delete by stamp covers pages: they are dropped if holes can be punched, otherwise only whole files are") {
  Tables all;
  Source stamped;
  for (int i = 0; i < 16; ++i)
    stamped.entries.push_back(entry("k" + std::to_string(10 + i), static_cast<SeqNum>(1 + i), i < 8 ? 5 : 50));
  all.tree.context.visible_seq = 16;
  all.tree.flush(stamped);
  CHECK(planner::page_drop(all.look(), &all.notes).empty());
  REQUIRE(all.notes.next_page_look);
  CHECK(*all.notes.next_page_look == 0);
  all.notes = {};

  Source record;
  record.records = {{0, 10, 17, 1000}};
  all.tree.context.visible_seq = 17;
  all.tree.flush(record);
  all.input.purge_before = 2000;  // deletes born before this are overdue, so any cost is accepted
  const Plan plan = planner::page_drop(all.look(), &all.notes);
  REQUIRE(std::holds_alternative<Drop>(plan.action));
  CHECK(std::get<Drop>(plan.action).pages.front().whole.size() == 8);
  CHECK_FALSE(all.notes.next_page_look);

  all.input.look_for_pages = false;
  CHECK(planner::page_drop(all.look(), &all.notes).empty());
  all.input.look_for_pages = true;
  all.input.can_punch = false;
  CHECK(planner::page_drop(all.look(), &all.notes).empty());
}

TEST_CASE("names of purged keys linger in a file: they are removed before the deadline, unless an older delete is pending") {
  Tables all;
  Source source;
  source.entries = {entry("b", 1), entry("c", 2)};
  all.tree.context.visible_seq = 2;
  all.tree.flush(source);
  const auto look = [&](Millis lingering, Millis now, Millis pending = 0) -> const PlannerInput& {
    auto version = std::make_shared<Version>(*all.tree.version);
    auto file = std::make_shared<FileMeta>(*version->runs.front().files.front());
    file->lingering_birth = lingering;
    file->stats.oldest_tombstone = pending;
    version->runs.front().files.replace(version->runs.front().files.begin(), std::move(file));
    version->by_number.clear();
    all.tree.version = std::move(version);
    all.tree.context.now = now;
    return all.look();
  };
  all.input.deadlines = DeadlineRule(8000);
  all.input.margin = 2000;
  CHECK(planner::names(look(0, 90'000), &all.notes).empty());
  CHECK(planner::names(look(1000, 1500), &all.notes).empty());
  const Plan plan = planner::names(look(1000, 9000), &all.notes);
  REQUIRE(std::holds_alternative<Drop>(plan.action));
  CHECK(std::get<Drop>(plan.action).pages.size() == 1);
  CHECK(planner::names(look(1000, 9000, 500), &all.notes).empty());
  all.input.purge_before = 1000;  // PURGE.NOW sets this time
  CHECK_FALSE(planner::names(look(1000, 1500), &all.notes).empty());
  REQUIRE(all.jobs.start(plan, *all.tree.version));
  CHECK(planner::names(look(1000, 9000), &all.notes).empty());
}

}  // namespace TEST_FILE
