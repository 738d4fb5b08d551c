// Tests of the states of tickets after surveys. There is no database, and time is simulated.
#include <catch2/catch.hpp>

#include "base/clock.h"
#include "db/purge/purge_tracker.h"

namespace TEST_FILE {

using namespace ebbtide;

/// A tracker of surveys that the test composes.
struct Fixture {
  PurgeSurvey next;  ///< the result of the next survey; its times are those of the clock
  SimulatedClock clock{1000};
  Millis opened_at = 0;
  TreeId tree_limit = 1000;
  int drawn = 0;
  PurgeTracker tracker{{.clock = &clock,
                        .survey =
                            [this] {
                              ++drawn;
                              next.now = next.looked_at = clock.wall_ms();
                              return std::make_shared<const PurgeSurvey>(next);
                            },
                        .tree_limit = [this] { return tree_limit; },
                        .opened_at = [this] { return opened_at; }}};

  void tree(TreeId id, Millis deadline) { next.trees[id] = {DeadlineRule(deadline), 0}; }
  void holder(PurgePlace place, TreeId id, Millis floor, std::uint64_t bytes = 1, FileNum file = kNoFile) {
    next.holders.push_back({place, id, floor, bytes, file});
  }
  void look_after(Millis ms) {
    clock.advance(ms);
    tracker.look();
  }
  PurgeStatus status(const PurgeTicket& ticket) {
    auto answer = tracker.status(ticket);
    REQUIRE(answer.is_ok());
    return *answer;
  }
};

const PurgeStatus::Left& left_in(const PurgeStatus& status, PurgePlace place) {
  return status.left[static_cast<std::size_t>(place)];
}

TEST_CASE("survey finds a delete of the ticket: the ticket is pending until a later survey finds none") {
  Fixture f;
  f.tree(1, 10'000);
  f.holder(PurgePlace::kTable, 1, 900, 77);
  f.look_after(100);
  const PurgeTicket ticket{1000, {}};
  PurgeStatus status = f.status(ticket);
  CHECK_FALSE(status.done);
  CHECK(left_in(status, PurgePlace::kTable).files == 1);
  CHECK(left_in(status, PurgePlace::kTable).bytes == 77);
  CHECK(left_in(status, PurgePlace::kTable).oldest_birth == 900);
  CHECK(status.promised == true);
  CHECK(status.deadline == 11'000);
  f.next.holders.clear();
  f.holder(PurgePlace::kTable, 1, 1001);
  f.look_after(1000);
  status = f.status(ticket);
  CHECK(status.done);
  CHECK(status.completed_at == 2100);
  CHECK(status.in_time == true);
  CHECK(left_in(status, PurgePlace::kTable).files == 0);
}

TEST_CASE("ticket is done: it stays done when a survey finds a younger delete") {
  Fixture f;
  f.tree(1, 10'000);
  f.look_after(100);
  const PurgeTicket ticket{1000, {}};
  REQUIRE(f.status(ticket).done);
  f.holder(PurgePlace::kLog, 1, 1150);
  f.look_after(100);
  CHECK(f.status(ticket).done);
  CHECK(f.status(ticket).completed_at == 1100);
  CHECK_FALSE(f.status({1150, {}}).done);
}

TEST_CASE("survey after the deadline finds a delete: its ticket is late") {
  Fixture f;
  f.tree(1, 500);
  const PurgeTicket ticket{1000, {}};
  const bool seen_late = GENERATE(true, false);
  f.holder(PurgePlace::kTable, 1, 1000);
  f.look_after(seen_late ? 500 : 400);
  CHECK(f.status(ticket).in_time == (seen_late ? std::optional(false) : std::nullopt));
  f.next.holders.clear();
  f.look_after(200);
  CHECK(f.status(ticket).done);
  CHECK(f.status(ticket).in_time == (seen_late ? std::optional(false) : std::nullopt));
}

TEST_CASE("log segment or manifest has deletes of two trees: the ticket's status counts the file once") {
  Fixture f;
  f.tree(1, 500);
  f.tree(2, 500);
  for (const TreeId tree : {1, 2}) {
    f.holder(PurgePlace::kLog, tree, 900, 50, 7);
    f.holder(PurgePlace::kManifest, tree, 900);
  }
  f.look_after(1);
  const PurgeStatus status = f.status({1000, {}});
  CHECK(left_in(status, PurgePlace::kLog).files == 1);
  CHECK(left_in(status, PurgePlace::kLog).bytes == 50);
  CHECK(left_in(status, PurgePlace::kManifest).files == 1);
}

TEST_CASE("ticket is for all trees: it lists the trees without a deadline, and does not wait for them") {
  Fixture f;
  f.tree(1, 500);
  f.tree(2, 0);
  f.next.databases = {{0, 1}, {5, 2}};
  f.holder(PurgePlace::kTable, 2, 900);
  f.look_after(10);
  CHECK(f.status({1000, {}}).done);
  CHECK(f.status({1000, {}}).not_promised == std::vector<DatabaseId>{5});
  CHECK(f.status({1000, 1}).done);
  CHECK_FALSE(f.status({1000, 2}).done);
  CHECK(f.status({1000, 2}).promised == false);
}

TEST_CASE("trees are removed: each keeps its own purge time and deadline, up to a limit of trees") {
  Fixture f;
  const auto trees = static_cast<TreeId>(PurgeTracker::kMaxGoneTrees + 1);
  for (TreeId tree = 0; tree < trees; ++tree) {
    f.tree(tree, 5000);
    f.holder(PurgePlace::kLeaving, tree, 900);
  }
  f.look_after(10);
  CHECK_FALSE(f.status({1000, 0}).done);
  // Tree 0 is removed first, then all others.
  f.next.trees.erase(0);
  std::erase_if(f.next.holders, [](const PurgeHolder& holder) { return holder.tree == 0; });
  f.look_after(10);
  CHECK(f.status({1000, 0}).completed_at == 1020);
  CHECK(f.status({1000, 0}).promised == true);
  f.next = {};
  f.look_after(10);
  CHECK(f.status({1000, 1}).completed_at == 1030);
  CHECK(f.status({1000, 0}).done);
  CHECK(f.status({1000, 0}).completed_at == 1020);        // completed after the survey at 1010, which still found the delete
  CHECK_FALSE(f.status({1000, 0}).promised.has_value());  // the promise is not stored any more
}

TEST_CASE("survey finds a tree for the first time: no delete of it is older than the previous survey") {
  Fixture f;
  f.look_after(10);
  f.tree(3, 5000);
  f.holder(PurgePlace::kMemTable, 3, 1015);
  f.look_after(10);
  CHECK(f.status({1009, 3}).done);
  CHECK(f.status({1009, 3}).completed_at == 1009);
  CHECK_FALSE(f.status({1015, 3}).done);
}

TEST_CASE("ticket has a future time, time 0 or an unknown tree: its status is kInvalidArgument") {
  Fixture f;
  f.tree_limit = 8;
  f.look_after(10);
  for (const PurgeTicket& ticket : {PurgeTicket{5000, {}}, PurgeTicket{0, {}}, PurgeTicket{1000, 8}}) {
    CHECK(f.tracker.status(ticket).status().code() == Code::kInvalidArgument);
  }
}

TEST_CASE("recent survey is later than the ticket's time: the ticket's status uses it, otherwise a new one") {
  Fixture f;
  f.look_after(10);
  (void)f.status({1000, {}});
  CHECK(f.drawn == 1);
  (void)f.status({1010, {}});  // born in the survey's own millisecond
  CHECK(f.drawn == 2);
  f.clock.advance(PurgeTracker::kSurveyMaxAgeNs / 1'000'000);
  (void)f.status({1000, {}});
  CHECK(f.drawn == 3);
}

TEST_CASE("open tickets are listed: done and repeated ones are left out, and beyond the limit the oldest are dropped") {
  Fixture f;
  f.tree(1, 5000);
  f.holder(PurgePlace::kTable, 1, 1005);
  for (const Millis birth : {1001, 1005, 1005, 1006}) f.tracker.note_ticket({static_cast<Millis>(birth), {}});
  f.clock.advance(10);
  CHECK(f.tracker.open_tickets() == std::vector<PurgeTicket>{{1005, {}}, {1006, {}}});
  for (std::size_t i = 0; i < PurgeTracker::kMaxTickets; ++i) f.tracker.note_ticket({2000 + i, {}});
  f.clock.advance(100'000);
  CHECK(f.tracker.open_tickets().size() == PurgeTracker::kMaxTickets);
  CHECK(f.tracker.open_tickets().front().born_by == 2000);
}

TEST_CASE("ticket is issued after the start: `promised` is known, otherwise not") {
  Fixture f;
  f.opened_at = 1000;
  f.look_after(10);
  CHECK(f.status({1005, {}}).promised == false);
  CHECK_FALSE(f.status({999, {}}).promised.has_value());
}

}  // namespace TEST_FILE
