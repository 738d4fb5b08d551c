// Tests of the actions that follow a survey, and of their times. There is no database.
#include <catch2/catch.hpp>

#include "db/purge/retention.h"
#include "io/memory_fs.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr Millis kBirth = 10'000, kDeadline = 8'000;  // an eighth of the time is 1,000 ms

PurgeSurvey survey_at(Millis now, std::vector<PurgeHolder> holders = {}, Millis purge_before = 0) {
  PurgeSurvey survey{.now = now, .looked_at = now, .holders = std::move(holders)};
  survey.trees[1] = {DeadlineRule(kDeadline), purge_before};
  return survey;
}

PurgeHolder holder(PurgePlace place, FileNum file = kNoFile, bool active = false) {
  return {.place = place, .tree = 1, .floor = kBirth, .bytes = 1, .file = file, .active = active};
}

std::string planned(const RetentionInput& input) {
  std::string text;
  for (const RetentionAction& action : plan_retention(input).actions) text += (text.empty() ? "" : ", ") + to_string(action);
  return text;
}

TEST_CASE("delete is pending: its memtable and log segment are due at 1/4 of its time, and views at 7/8") {
  struct Row {
    PurgeHolder holder;
    unsigned eighths;
    std::string actions;
  };
  const std::vector<Row> rows = {
      {holder(PurgePlace::kMemTable, kNoFile, true), 2, "freeze and flush 1"},
      {holder(PurgePlace::kMemTable, kNoFile, false), 2, "flush 1"},
      {holder(PurgePlace::kLog, 9), 2, "retire up to 9, clean up"},
      {holder(PurgePlace::kLeaving), 7, "revoke views"},
      {holder(PurgePlace::kTable), 9, ""},  // merges purge these
      {holder(PurgePlace::kManifest), 9, ""},
  };
  for (const Row& row : rows) {
    INFO(row.actions);
    const Millis due = kBirth + row.eighths * kDeadline / 8;
    CHECK(planned({.survey = survey_at(due - 1, {row.holder})}).empty());
    CHECK(planned({.survey = survey_at(due, {row.holder})}) == row.actions);
  }
}

TEST_CASE("only pins keep a log segment: they are revoked at 7/8 of its oldest delete's time") {
  const PurgeSurvey late = survey_at(kBirth + 7'000, {holder(PurgePlace::kLog, 3), holder(PurgePlace::kLog, 4)});
  CHECK(planned({.survey = late, .log_begins = 4}) == "revoke pins of 3, retire up to 4, clean up");
  CHECK(planned({.survey = late, .log_begins = 3}) == "retire up to 4, clean up");
  const PurgeSurvey early = survey_at(kBirth + 6'999, {holder(PurgePlace::kLog, 3)});
  CHECK(planned({.survey = early, .log_begins = 4}) == "retire up to 3, clean up");
}

TEST_CASE("edit removes files: the manifest is rolled after 1/4 of the deadline, or at 3/4 of the delete's time if earlier") {
  const auto at = [](Millis now, Millis since) {
    return planned({.survey = survey_at(now), .superseded = {{1, {kBirth, since}}}});
  };
  CHECK(at(kBirth + 2'499, kBirth + 500).empty());
  CHECK(at(kBirth + 2'500, kBirth + 500) == "clean up and roll");
  CHECK(at(kBirth + 5'999, kBirth + 5'000).empty());
  CHECK(at(kBirth + 6'000, kBirth + 5'000) == "clean up and roll");
}

TEST_CASE("removed files of more than 2,000 trees are in old edits: the manifest is rolled, with or without deadlines") {
  RetentionInput input{.survey = survey_at(kBirth)};
  for (TreeId tree = 10; tree < 2010; ++tree) input.superseded[tree] = {kBirth, kBirth};
  CHECK(planned(input).empty());
  input.superseded[2010] = {kBirth, kBirth};
  CHECK(planned(input) == "clean up and roll");
}

TEST_CASE("PURGE.NOW is called: memtables, log and views are due at once, and the manifest once no table has a due delete") {
  const std::map<TreeId, PurgeLedger::Superseded> named = {{1, {kBirth, kBirth}}};
  const auto asked = [&](std::vector<PurgeHolder> holders) { return survey_at(kBirth + 1, std::move(holders), kBirth); };
  const PurgeSurvey all = asked({holder(PurgePlace::kMemTable, kNoFile, true), holder(PurgePlace::kLog, 3),
                                 holder(PurgePlace::kLeaving), holder(PurgePlace::kTable)});
  CHECK(planned({.survey = all, .superseded = named}) == "revoke views, freeze and flush 1, retire up to 3, clean up");
  CHECK(plan_retention({.survey = all}).look_again);
  CHECK(planned({.survey = asked({}), .superseded = named}) == "clean up and roll");
  CHECK_FALSE(plan_retention({.survey = asked({})}).look_again);
  PurgeHolder damaged = holder(PurgePlace::kTable);
  damaged.damage = true;
  CHECK(planned({.survey = asked({damaged}), .superseded = named}) == "clean up and roll");  // damage does not delay it
  CHECK_FALSE(plan_retention({.survey = asked({damaged})}).look_again);
}

TEST_CASE("directory of an unlinked file is not synced: a clean-up is requested") {
  CHECK(planned({.survey = survey_at(kBirth), .unsynced_removals = true}) == "clean up");
}

TEST_CASE("deadline is set: surveys run once a second, or every 1/16 of a short deadline") {
  constexpr std::uint64_t kMs = 1'000'000, kSecond = 1000 * kMs;
  PurgeSurvey survey = survey_at(1);
  const auto deadline = [&](Millis ms) { survey.trees[1].deadlines = DeadlineRule(ms); };
  deadline(3'600'000);
  CHECK(survey_interval_ns(survey, 0) == kSecond);
  CHECK(survey_interval_ns(survey, 100 * kMs) == 2 * kSecond);
  deadline(1600);
  CHECK(survey_interval_ns(survey, 0) == 100 * kMs);
  CHECK(survey_interval_ns(survey, 10 * kMs) == 200 * kMs);
  CHECK(survey_interval_ns(survey, 10 * kSecond) == kSecond);
  deadline(160'000);
  CHECK(survey_interval_ns(survey, 10 * kSecond) == 10 * kSecond);
}

TEST_CASE("last eighth before a deadline has begun: surveys are more frequent, but not for a damaged table") {
  constexpr std::uint64_t kMs = 1'000'000;
  const auto interval_at = [](Millis age, bool damage = false) {
    PurgeHolder file = holder(PurgePlace::kTable);
    file.damage = damage;
    return survey_interval_ns(survey_at(kBirth + age, {file}), 0);
  };
  CHECK(interval_at(kDeadline * 7 / 8 - 1) == 500 * kMs);
  CHECK(interval_at(kDeadline * 7 / 8) == 125 * kMs);
  CHECK(interval_at(2 * kDeadline) == 125 * kMs);
  CHECK(interval_at(2 * kDeadline, true) == 500 * kMs);
}

TEST_CASE("revoke() gets log segments: pins that contain one of them are revoked") {
  LogPins pins;
  CHECK(pins.oldest() > 1'000'000);
  const auto old = pins.pin(3, 5), young = pins.pin(7, 9);
  CHECK(pins.oldest() == 3);
  pins.revoke(std::vector<FileNum>{2, 6, 10});
  CHECK_FALSE((old->revoked() || young->revoked()));
  pins.revoke(std::vector<FileNum>{5});
  CHECK(old->revoked());
  CHECK_FALSE(young->revoked());
  pins.unpin(old);
  CHECK(pins.oldest() == 7);
}

/// Retention with surveys that the test composes. Work that it submits waits until run_submitted().
struct Fixture {
  std::vector<PurgeHolder> holders;
  Millis purge_before = 0;
  SimulatedClock clock{kBirth};
  MemoryFileSystem base;
  RemovalsFileSystem fs{base, "data"};
  PurgeLedger ledger{fs, "data"};
  LogPins pins;
  int surveys = 0;
  PurgeTracker tracker{{.clock = &clock,
                        .survey =
                            [this] {
                              ++surveys;
                              return std::make_shared<const PurgeSurvey>(survey_at(clock.wall_ms(), holders, purge_before));
                            },
                        .tree_limit = [] { return TreeId{100}; },
                        .opened_at = [] { return Millis{0}; }}};
  std::string done;
  std::vector<std::function<void()>> submitted;
  Status shortened = Status::ok();
  bool closing = false;
  Retention retention{
      {.clock = &clock,
       .tracker = &tracker,
       .ledger = &ledger,
       .pins = &pins,
       .log_begins = [] { return FileNum{5}; },
       .causes = [] { return MissCauses{}; },
       .revoke_views = [this](const PurgeSurvey&) { done += "revoke "; },
       .flush = [this](TreeId tree, bool freeze) { done += (freeze ? "freeze" : "flush") + std::to_string(tree) + " "; },
       .retire_segments = [this](FileNum last) { done += "retire" + std::to_string(last) + " "; },
       .submit = [this](std::function<void()> work) { submitted.push_back(std::move(work)); },
       .shorten =
           [this](bool roll) {
             done += roll ? "roll " : "shorten ";
             return shortened;
           },
       .sync_dir =
           [this] {
             done += "sync ";
             return fs.sync_dir("data");
           },
       .closing = [this] { return closing; },
       .failed = [this](const Status&) { done += "failed "; },
       .report_error = [this](const std::string& text) { done += "[" + text + "] "; }}};

  Fixture() {
    REQUIRE(fs.create_dir("data").is_ok());
    retention.tick();  // the first tick always surveys
  }
  void unlink_a_file() {
    REQUIRE(fs.create("data/000001.data").is_ok());
    ledger.leave({"000001.data", 1, {{1, kBirth}}});
    REQUIRE(fs.unlink("data/000001.data").is_ok());
    ledger.look();
    REQUIRE(ledger.wants_sync());
  }
  std::string tick(Millis ms) {
    clock.advance(ms);
    retention.tick();
    return std::exchange(done, "");
  }
  std::string run_submitted() {
    for (const auto& work : std::exchange(submitted, {})) work();
    return std::exchange(done, "");
  }
};

TEST_CASE("ticks are frequent: a survey runs once per interval, or at the next tick on request") {
  Fixture f;
  CHECK(f.surveys == 1);
  f.tick(499);
  CHECK(f.surveys == 1);
  f.tick(1);  // a sixteenth of the deadline
  CHECK(f.surveys == 2);
  f.retention.look_soon();
  f.tick(0);
  CHECK(f.surveys == 3);
  f.tick(0);
  CHECK(f.surveys == 3);
}

TEST_CASE("PURGE.NOW applies to deletes: every tick surveys until the deletes are purged") {
  Fixture f;
  f.purge_before = kBirth;
  f.holders = {holder(PurgePlace::kTable)};
  f.retention.look_soon();
  for (int i = 0; i < 3; ++i) f.tick(0);
  CHECK(f.surveys == 4);
  f.holders.clear();
  for (int i = 0; i < 3; ++i) f.tick(0);
  CHECK(f.surveys == 5);
}

TEST_CASE("delete is late: its memtable is flushed, its segment retired, and views and pins are revoked") {
  Fixture f;
  f.holders = {holder(PurgePlace::kMemTable, kNoFile, true), holder(PurgePlace::kLog, 4), holder(PurgePlace::kLeaving)};
  const auto pin = f.pins.pin(4, 4);
  CHECK(f.tick(kDeadline + 7) == "[tree 1: deletes missed their deadline by 7 ms so far (reason: load)] revoke freeze1 retire4 ");
  CHECK(pin->revoked());
  CHECK(f.retention.missed().count(MissReason::kLoad) == 1);
  REQUIRE(f.submitted.size() == 1);
  CHECK(f.run_submitted() == "shorten ");
}

TEST_CASE("file was unlinked: a clean-up syncs the directory, and at most one clean-up is submitted at a time") {
  Fixture f;
  f.unlink_a_file();
  f.tick(1000);
  f.tick(1000);
  REQUIRE(f.submitted.size() == 1);
  CHECK(f.run_submitted() == "shorten sync ");
  CHECK(f.ledger.leaving().size() == 1);  // the survey before the sync has found the file
  f.ledger.look();
  CHECK(f.ledger.leaving().empty());
  f.retention.request_clean_up(true);
  CHECK(f.run_submitted() == "roll ");
}

TEST_CASE("clean-up fails: the failure is reported, and nothing is synced") {
  Fixture f;
  f.unlink_a_file();
  const bool fails = GENERATE(true, false);
  if (fails) f.shortened = Status::io_error("planted");
  f.closing = !fails;
  f.tick(1000);
  CHECK(f.run_submitted() == (fails ? "shorten failed " : "shorten "));
  f.shortened = Status::ok();
  f.closing = false;
  f.tick(1000);
  CHECK(f.run_submitted() == "shorten sync ");
}

}  // namespace TEST_FILE
