// Tests of the order of planners: which are skipped while merges are paused, and which are tried after a plan that cannot start.
#include <catch2/catch.hpp>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "db/background/planners.h"
#include "engine/db/background/planner_beds.h"
#include "policy/fade.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

// A fake planner with number n. If bit n of the input's time is set, it has a plan: the rewrite of file n + 1.
template <std::size_t n>
Plan scripted(const PlannerInput& input, PlannerNotes* notes) {
  if (n == 6) notes->broken_bounds = "";
  if ((input.now >> n & 1) == 0) return {};
  return {.action = Rewrite{1, n + 1}};
}
using PlanFunction = Plan (*)(const PlannerInput&, PlannerNotes*);
constexpr std::array<PlanFunction, 8> kScripts = {scripted<0>, scripted<1>, scripted<2>, scripted<3>,
                                                  scripted<4>, scripted<5>, scripted<6>, scripted<7>};
constexpr Millis kAll = 0xff;

std::vector<Planner> scripted_planners() {
  std::vector<Planner> list(planners().begin(), planners().end());
  for (std::size_t i = 0; i < list.size(); ++i) list[i].plan = kScripts.at(i);
  return list;
}

// Returns the attempts to start plans. Bits of `have` are the planners that have a plan; bits of `blocked` are those whose plan
// cannot start.
std::string attempts(PlannerInput input, Millis have, Millis blocked = 0) {
  const std::vector<Planner> list = scripted_planners();
  const auto name = [&](const Plan& plan) { return std::string(list.at(std::get<Rewrite>(plan.action).file - 1).name); };
  input.now = have;
  PlannerNotes notes;
  std::string text;
  (void)start_first(list, &input, &notes, [&](const Plan& plan) {
    text += (text.empty() ? "" : ", ") + name(plan);
    const FileNum planner = std::get<Rewrite>(plan.action).file - 1;
    return (blocked >> planner & 1) != 0 ? Attempt::kInTheWay : Attempt::kStarted;
  });
  if (!input.reserved.empty()) text += "; reserved: " + name(input.reserved);
  return text;
}

// Returns the planners in the order in which they start, if those before them have no plan.
std::string order(const PlannerInput& input) {
  std::string text;
  for (Millis n = 0; n < 8; ++n) {
    const std::string first = attempts(input, kAll << n & kAll);
    if (!text.ends_with(first)) text += (text.empty() ? "" : ", ") + first;
  }
  return text;
}

TEST_CASE("planners are called in order: quarantine, drops, urgent merges, late rewrites, policy, rewrites") {
  CHECK(order({}) == "quarantine, file drop, page drop, names, urgent, late rewrite, policy, rewrite");
}

TEST_CASE("merges of a tree are paused: only planners for deadlines are tried") {
  CHECK(order({.paused = true}) == "names, urgent, late rewrite");
}

TEST_CASE("merges for deadlines have failed and are delayed: only planners for other work are called") {
  CHECK(order({.deadlines_rest = true}) == "quarantine, file drop, page drop, policy, rewrite");
  CHECK(order({.paused = true, .deadlines_rest = true}).empty());
}

TEST_CASE("running job blocks a plan for a deadline: the plan's files are reserved, and the policy is called") {
  const auto blocked = [](Millis planner) { return Millis{1} << planner; };
  CHECK(attempts({}, kAll, blocked(0)) == "quarantine, file drop");
  for (const Millis planner : {1, 2, 3, 6, 7}) {  // the end of the job starts all planners again
    const std::string name = planners()[planner].name;
    CHECK(attempts({}, kAll << planner & kAll, blocked(planner)) == name);
  }
  CHECK(attempts({}, kAll << 4 & kAll, blocked(4)) == "urgent, policy; reserved: urgent");
  CHECK(attempts({}, kAll << 5 & kAll, blocked(5)) == "late rewrite, policy; reserved: late rewrite");
  CHECK(attempts({.paused = true}, kAll << 4 & kAll, blocked(4)) == "urgent; reserved: urgent");
}

TEST_CASE("plan of a planner is outdated: no other planner is called") {
  PlannerInput input{.now = kAll};
  PlannerNotes notes;
  int asked = 0;
  const Attempt attempt = start_first(scripted_planners(), &input, &notes, [&](const Plan&) {
    ++asked;
    return Attempt::kOutdated;
  });
  CHECK((attempt == Attempt::kOutdated && asked == 1));
  CHECK_FALSE(notes.broken_bounds);  // the policy was not called
}

TEST_CASE("file reaches out of a quarantined file's range: the file is cut at the ends of the range") {
  Metadata tree;
  tree.add(1, 0, 7, "a", "z");
  tree.add(2, 1, 8, "d", "f")->damage = "damaged";
  const Plan plan = planner::quarantine(tree.look(), &tree.notes);
  REQUIRE(std::holds_alternative<Slice>(plan.action));
  CHECK(std::get<Slice>(plan.action).inputs.front().files == std::vector<FileNum>{7});
  PlannerInput without = tree.look();
  without.whole = {};
  CHECK(planner::quarantine(without, &tree.notes).empty());
}

TEST_CASE("little disk space is left: an urgent merge waits for the running merge") {
  Metadata tree;
  tree.add(1, 0, 7, "a", "c");
  tree.add(2, 1, 8, "a", "c");
  tree.input.room = std::uint64_t{1} << 40;
  const auto plan = [&] {
    PlannerInput input = tree.look();
    FileShape& file = input.shape.runs.front().files.edit(0);
    file.oldest_birth = 1000;
    file.tombstones = 1;
    file.deadline = 5000;
    return planner::urgent(input, &tree.notes);
  };
  CHECK(plan().reason == Reason::kDeadline);
  CHECK(plan().urgent);
  tree.input.room_claimed = true;
  CHECK_FALSE(plan().empty());
  tree.input.room = 1;
  CHECK(plan().empty());
}

TEST_CASE("policy has no plan: the planner checks the tree against the policy's bounds, and stores the result") {
  Metadata tree;
  CHECK(planner::by_policy(tree.look(), &tree.notes).empty());
  REQUIRE(tree.notes.broken_bounds);
  CHECK(tree.notes.broken_bounds->empty());
}

TEST_CASE("newer range tombstone covers a file: it is dropped unread") {
  Tables all;
  Source older, newer;
  older.entries = {entry("b", 1), entry("c", 2)};
  newer.tombstones = {{"a", "d", 3, 1000}};
  all.tree.context.visible_seq = 2;
  all.tree.flush(older);
  CHECK(planner::file_drop(all.look(), &all.notes).empty());
  all.tree.context.visible_seq = 3;
  all.tree.flush(newer);
  const Plan plan = planner::file_drop(all.look(), &all.notes);
  REQUIRE(std::holds_alternative<Drop>(plan.action));
  CHECK(std::get<Drop>(plan.action).inputs.size() == 1);
}

TEST_CASE("indexes of tables are not in memory: the planner asks for permission to read them, and then makes its plan") {
  Tables all;
  Source older, newer;
  older.entries = {entry("b", 1, 5), entry("c", 2, 5)};
  newer.tombstones = {{"a", "d", 3, 1000}};
  all.tree.flush(older);
  all.tree.context.visible_seq = 3;
  all.tree.flush(newer);
  all.tree.env.open_table = [&all](const FileMeta& meta) -> Result<std::shared_ptr<TableReader>> {
    return TableReader::lazy({&all.tree.fs, nullptr, "db", false}, files_of(meta), meta.stats);
  };
  CHECK(planner::file_drop(all.look(), &all.notes).empty());
  CHECK(all.notes.wants_to_read);
  all.notes = {};
  all.input.reads = {0, 1};
  CHECK_FALSE(planner::file_drop(all.input, &all.notes).empty());
  CHECK_FALSE(all.notes.wants_to_read);
}

}  // namespace TEST_FILE
