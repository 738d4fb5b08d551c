// Tests of when jobs start, what follows their end, and which of them are aborted for a deadline.
#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "db/background/compaction_scheduler.h"
#include "engine/db/background/tables.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

// A tree of several overlapping runs of level 0. The default policy merges four.
struct Bed {
  TreeFixture files{1};
  ObsoleteSink sink = [](const ObsoleteFiles&) {};
  SimulatedClock clock;
  Mutex state_mutex;
  PlannerMemory memory{clock};
  HolePuncher puncher{{.clock = &clock, .closing = [] { return false; }}};
  TreePtr tree = std::make_shared<Tree>(clock);
  bool healthy = true, closing = false, late = false;
  unsigned threads = 4;
  Status damage_status;
  std::function<Status(const RunningJob&)> work = [this](const RunningJob& job) { return merge(job); };
  std::vector<Reason> ran;
  std::vector<std::string> events;
  std::uint64_t claimed = 0, room = std::uint64_t{1} << 40;
  std::vector<std::function<void()>> submitted;
  CompactionScheduler scheduler{
      {.state_mutex = &state_mutex,
       .memory = &memory,
       .puncher = &puncher,
       .run =
           [this](const TreePtr&, const RunningJob& job) {
             ran.push_back(job.plan.reason);
             return work(job);
           },
       .submit = [this](std::function<void()> job) { submitted.push_back(std::move(job)); },
       .threads = [this] { return threads; },
       .may_start = [this] { return healthy; },
       .closing = [this] { return closing; },
       .now = [this] { return files.context.now; },
       .visible_seq = [this] { return files.context.visible_seq; },
       .estimate_invalidated = [](const TablesView&, TreeShape*) {},
       .is_late = [this](const Tree&) { return late; },
       .room = [this] { return room; },
       .claimed = [this] { return claimed; },
       .claim = [this](std::uint64_t bytes) { claimed += bytes; },
       .release = [this](std::uint64_t bytes) { claimed -= bytes; },
       .flush_waits = [this](const TreePtr&) { events.emplace_back("flush"); },
       .deadline_job_ended = [this](const Status& status) { events.push_back("deadline: " + status.to_string()); },
       .progressed = [] {},
       .take_damage =
           [this] {
             events.emplace_back("take damage");
             return damage_status;
           },
       .failed = [this](const Status& status) { events.push_back("failed: " + status.to_string()); },
       .report_error = [this](const std::string& text) { events.push_back(text); }}};

  explicit Bed(int runs = 8) {
    clock.advance(60'000);
    tree->id = 1;
    tree->policy = make_policy({}).value();
    tree->settings = files.context.settings;
    tree->settings.memtable_size = 4096;
    for (int run = 0; run < runs; ++run) flush(entry("a", files.context.visible_seq + 1));
  }
  void flush(Owned e) {
    Source source;
    ++files.context.visible_seq;
    e.seq = files.context.visible_seq;
    source.entries = {std::move(e)};
    files.flush(source);
    publish();
  }
  void publish() {
    auto view = std::make_shared<TreeView>();
    view->tree = 1;
    view->tables = open_tables(files, &sink);
    tree->view_owner = view;
  }
  Status merge(const RunningJob& job) {
    const Status status = files.run(job.plan).status();
    publish();
    return status;
  }
  // Runs one of the submitted jobs.
  void turn() {
    REQUIRE_FALSE(submitted.empty());
    const auto job = std::move(submitted.front());
    submitted.erase(submitted.begin());
    job();
  }
  void settle() {
    while (!submitted.empty()) turn();
  }
};

TEST_CASE("policy has plans: the end of each job starts the next, until the policy has no plan") {
  Bed bed;
  bed.scheduler.schedule(bed.tree);
  REQUIRE(bed.submitted.size() == 1);
  CHECK(bed.tree->jobs.running() == 1);
  bed.settle();
  CHECK_FALSE(bed.ran.empty());
  CHECK((bed.tree->jobs.running() == 0 && bed.scheduler.running() == 0));
  CHECK(bed.files.version->runs.size() < 4);
  bed.scheduler.schedule(bed.tree);
  CHECK(bed.submitted.empty());
  CHECK((bed.events.empty() && bed.scheduler.bounds_broken() == 0));
}

TEST_CASE("job ends: the next job starts, and includes the runs that were flushed meanwhile") {
  Bed bed;
  bed.threads = 1;
  bed.work = [&](const RunningJob& job) {
    const Status status = bed.merge(job);
    for (int run = 0; bed.ran.size() == 1 && run < 8; ++run) bed.flush(entry("a", bed.files.context.visible_seq + 1));
    return status;
  };
  bed.scheduler.schedule(bed.tree);
  bed.settle();
  CHECK(bed.ran.size() > 1);
  CHECK(bed.files.version->runs.size() < 4);
}

TEST_CASE("file is quarantined: merges of files in other ranges continue, and leave it out") {
  Bed bed(1);
  TreeEdit edit;
  edit.tree = 1;
  const FileNum damaged = bed.files.version->runs.front().files.front()->data_file;
  edit.quarantined.emplace_back(damaged, "damaged");
  bed.files.install(edit);
  for (int run = 0; run < 8; ++run) bed.flush(entry("m", bed.files.context.visible_seq + 1));
  bed.scheduler.schedule(bed.tree);
  bed.settle();
  CHECK(bed.files.version->runs.size() < 4);
  bool is_there = false;
  for (const Run& run : bed.files.version->runs) {
    for (const FileMetaPtr& file : run.files) is_there |= file->data_file == damaged && file->quarantined();
  }
  CHECK(is_there);
}

TEST_CASE("database closes or fails, the tree is dropped, or no thread is free: no job starts") {
  const auto starts = [](const std::function<void(Bed&)>& change) {
    Bed bed;
    change(bed);
    bed.scheduler.schedule(bed.tree);
    return !bed.submitted.empty();
  };
  CHECK(starts([](Bed&) {}));
  CHECK_FALSE(starts([](Bed& bed) { bed.closing = true; }));
  CHECK_FALSE(starts([](Bed& bed) { bed.healthy = false; }));
  CHECK_FALSE(starts([](Bed& bed) { bed.tree->dropped = true; }));
  CHECK_FALSE(starts([](Bed& bed) { bed.tree->view_owner = nullptr; }));
  CHECK_FALSE(starts([](Bed& bed) { bed.threads = 0; }));
}

TEST_CASE("tree is dropped after its job was submitted: the job does not run") {
  Bed bed;
  bed.scheduler.schedule(bed.tree);
  bed.tree->dropped = true;
  bed.settle();
  CHECK((bed.ran.empty() && bed.tree->jobs.running() == 0));
}

TEST_CASE("compactions are paused several times: policy merges start again only after as many resumes") {
  Bed bed;
  bed.scheduler.pause();
  bed.scheduler.pause();
  bed.scheduler.resume();
  bed.scheduler.schedule(bed.tree);
  CHECK(bed.submitted.empty());
  bed.scheduler.resume();
  bed.scheduler.schedule(bed.tree);
  CHECK(bed.submitted.size() == 1);
}

TEST_CASE("merge fails: the failure is reported, and the merge is retried after a delay") {
  Bed bed;
  bed.work = [](const RunningJob&) { return Status::no_space("full"); };
  bed.scheduler.schedule(bed.tree);
  bed.settle();
  CHECK(bed.ran.size() == 1);
  CHECK(bed.events == std::vector<std::string>{"compaction failed: " + Status::no_space("full").to_string()});
  bed.scheduler.schedule(bed.tree);
  CHECK(bed.submitted.empty());
  bed.clock.advance(1000);
  bed.scheduler.schedule(bed.tree);
  CHECK(bed.submitted.size() == 1);
}

TEST_CASE("job is aborted: the next plan is made at once, and the abort counts as no failure") {
  Bed bed;
  bed.work = [](const RunningJob&) { return Status::aborted(""); };
  bed.scheduler.schedule(bed.tree);
  bed.turn();
  CHECK(bed.submitted.size() == 1);
  CHECK(bed.events.empty());
}

TEST_CASE("merge finds damage: damaged inputs are quarantined, and writes stop if no input is damaged") {
  for (const bool in_input : {true, false}) {
    CAPTURE(in_input);
    Bed bed;
    bed.work = [&](const RunningJob&) {
      if (in_input) {
        TreeEdit edit;
        edit.tree = 1;
        edit.quarantined.emplace_back(bed.files.version->runs.front().files.front()->data_file, "damaged");
        bed.files.install(edit);
        bed.publish();
      }
      return Status::corruption("bad page");
    };
    bed.scheduler.schedule(bed.tree);
    bed.turn();
    REQUIRE(bed.events.size() == (in_input ? 2 : 3));
    CHECK(bed.events[1] == "take damage");
    if (!in_input) CHECK(bed.events[2] == "failed: corruption: bad page");
  }
}

TEST_CASE("flush waits for a merge: it is scheduled once, when the merge ends") {
  Bed bed;
  bed.scheduler.schedule(bed.tree);
  bed.tree->flush_waits = true;
  bed.turn();
  CHECK(bed.events == std::vector<std::string>{"flush"});
  CHECK_FALSE(bed.tree->flush_waits);
}

// Makes a tree whose delete of "a" is past its deadline.
void make_late(Bed& bed) {
  bed.tree->deadlines = DeadlineRule(8000);
  bed.flush({.key = "a", .kind = EntryKind::kTombstone, .delete_key = 1000});
  bed.files.context.now = 20'000;
}

TEST_CASE("merge is for a deadline: it runs while compactions are paused, and reserves disk space until it ends") {
  Bed bed(1);
  make_late(bed);
  bed.scheduler.pause();
  bed.scheduler.schedule(bed.tree);
  REQUIRE(bed.submitted.size() == 1);
  CHECK(bed.claimed != 0);
  bed.settle();
  CHECK(bed.ran.front() == Reason::kDeadline);
  CHECK(bed.claimed == 0);
  CHECK(bed.events.front() == "deadline: ok");
}

TEST_CASE("delete is late and no thread is free: merges that are not for deadlines are aborted") {
  Bed bed;
  bed.scheduler.schedule(bed.tree);
  const Plan plan = bed.tree->jobs.now().plans.front();
  bool aborted = false;
  bed.work = [&](const RunningJob& job) {
    aborted = *job.abort;
    return Status::aborted("");
  };
  make_late(bed);
  bed.threads = 1;
  bed.scheduler.make_way(bed.tree);  // the tracker does not report the merge as late
  bed.turn();
  CHECK_FALSE(aborted);
  REQUIRE(bed.tree->jobs.running() == 1);
  bed.late = true;
  const bool for_deadline = bed.tree->jobs.now().plans.front().reason == Reason::kDeadline;
  bed.scheduler.make_way(bed.tree);
  bed.turn();
  CHECK(aborted != for_deadline);
}

}  // namespace TEST_FILE
