// Tests that each late delete is counted once, by reason.
#include <catch2/catch.hpp>

#include <map>

#include "base/oldest.h"
#include "db/purge/missed_deadlines.h"

namespace TEST_FILE {

using namespace ebbtide;

using Miss = MissedDeadlines::Miss;

PurgeSurvey survey_at(Millis now, std::vector<PurgeHolder> holders) {
  PurgeSurvey survey{.now = now, .looked_at = now, .holders = std::move(holders)};
  survey.trees[1] = {DeadlineRule(1000), 0};
  return survey;
}

PurgeHolder table_of(Millis floor, bool damage = false) {
  return {.place = PurgePlace::kTable, .tree = 1, .floor = floor, .damage = damage};
}

TEST_CASE("server start, clock step or full disk in the second half of a delete's time: a miss has this reason") {
  struct Row {
    MissCauses causes;
    MissReason reason;
  };
  // The delete is born at 5000 and due at 6000, so half of the time is over at 5500.
  for (const Row& row : std::vector<Row>{
           {{}, MissReason::kLoad},
           {{.opened_at = 5500}, MissReason::kLoad},
           {{.opened_at = 5501}, MissReason::kDown},
           {{.opened_at = 4000, .clock_step = 5501}, MissReason::kClock},
           {{.opened_at = 5501, .clock_step = 5501, .disk_refused = 5501}, MissReason::kDown},
           {{.clock_step = 5501, .disk_refused = 5501}, MissReason::kClock},
           {{.disk_refused = 5501}, MissReason::kDisk},
           {{.opened_at = 5000}, MissReason::kLoad},
       }) {
    INFO(row.causes.opened_at << " " << row.causes.clock_step << " " << row.causes.disk_refused);
    CHECK(miss_reason(5000, 6000, row.causes) == row.reason);
  }
}

TEST_CASE("deadline is shortened and missed, long after the start: the reason is load") {
  // The delete is born at 1000 with a day of time. The server starts at 8 h. At 10 h the deadline becomes 1 h, so the delete is
  // due at 11 h.
  constexpr Millis kHour = 3'600'000;
  DeadlineRule rule(24 * kHour);
  rule.change(10 * kHour, kHour);
  PurgeSurvey survey = survey_at(11 * kHour + 5, {table_of(1000)});
  survey.trees[1].deadlines = rule;
  for (const auto& [opened_at, reason] : std::map<Millis, MissReason>{{8 * kHour, MissReason::kLoad},
                                                                      {10 * kHour + kHour / 2, MissReason::kLoad},
                                                                      {10 * kHour + kHour / 2 + 1, MissReason::kDown}}) {
    INFO(opened_at);
    MissedDeadlines missed;
    CHECK(missed.note(survey, {.opened_at = opened_at}) == std::vector<Miss>{{1, 5, reason}});
  }
}

TEST_CASE("delete is late: its birth is counted once per tree, and a newer late birth again") {
  MissedDeadlines missed;
  CHECK(missed.note(survey_at(5999, {table_of(5000)}), {}).empty());
  CHECK(missed.note(survey_at(6010, {table_of(5000)}), {}) == std::vector<Miss>{{1, 10, MissReason::kLoad}});
  CHECK(missed.note(survey_at(6020, {table_of(5000)}), {}).empty());
  CHECK(missed.note(survey_at(6100, {table_of(5100)}), {}) == std::vector<Miss>{{1, 0, MissReason::kLoad}});
  CHECK(missed.count(MissReason::kLoad) == 2);
  CHECK(missed.count(MissReason::kDown) == 0);
}

TEST_CASE("delete in a damaged table is late: it is counted once with the reason damage, also after the repair") {
  MissedDeadlines missed;
  CHECK(missed.note(survey_at(6010, {table_of(5000, true)}), {}) == std::vector<Miss>{{1, 10, MissReason::kDamage}});
  CHECK(missed.note(survey_at(6020, {table_of(5000)}), {}).empty());
  CHECK(missed.count(MissReason::kLoad) == 0);
  CHECK(missed.note(survey_at(6100, {table_of(5050)}), {}).size() == 1);  // this is another delete
}

TEST_CASE("birth of a late delete is unknown: the delete is not counted as a miss") {
  MissedDeadlines missed;
  CHECK(missed.note(survey_at(6010, {table_of(kUnknownBirth)}), {}).empty());
}

}  // namespace TEST_FILE
