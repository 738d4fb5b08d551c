// Tests of a job from its plan to its edit, and of each way in which it ends without an edit.
#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "db/background/compaction_job.h"
#include "engine/db/background/tables.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

// A tree of two runs, each with the keys a and b.
struct Bed {
  TreeFixture files{1};
  ObsoleteSink sink = [](const ObsoleteFiles&) {};
  SimulatedClock clock;
  Mutex manifest_mutex, state_mutex;
  CompactionTotals totals;
  PlannerMemory memory{clock};
  HolePuncher puncher{{.clock = &clock}};
  TreePtr tree = std::make_shared<Tree>(clock);
  Status commit_status, write_status;
  std::function<void()> meanwhile = [] {};  // called after the outputs were written
  std::vector<std::string> events;
  bool used_deadline_room = false;
  int installs = 0;
  CompactionJob::Env env{
      .clock = &clock,
      .manifest_mutex = &manifest_mutex,
      .state_mutex = &state_mutex,
      .totals = &totals,
      .memory = &memory,
      .puncher = &puncher,
      .settings = [this](const Tree&) { return files.context.settings; },
      .filters = [](const Tree&, const TablesView&, const Plan&) { return std::map<RunId, std::vector<double>>{}; },
      .now = [this] { return files.context.now; },
      .visible_seq = [this] { return files.context.visible_seq; },
      .may_write =
          [this](std::uint64_t, bool may_use_deadline_room) {
            used_deadline_room = may_use_deadline_room;
            return write_status;
          },
      .compaction_env =
          [this](std::shared_ptr<const TablesView>, const std::vector<PlanInput>&, const std::atomic<bool>* abort,
                 CompactionJob::OpenedTables*) {
            CompactionEnv out = files.env;
            out.abort = abort;
            return out;
          },
      .measured = [this](std::uint64_t, std::uint64_t) { meanwhile(); },
      .write_failed = [this](const TreePtr&) { events.emplace_back("write failed"); },
      .version = [this](TreeId) { return files.version; },
      .commit =
          [this](VersionEdit edit) {
            if (!commit_status.is_ok()) return commit_status;
            files.install(edit.trees.front());
            return Status::ok();
          },
      .install = [this](Tree&, const CompactionJob::OpenedTables&) -> Result<std::shared_ptr<const TablesView>> {
        ++installs;
        return show();
      },
      .unlink = [this](const TreePtr&, const CompactionResult&) { events.emplace_back("unlinked"); },
      .disown = [this](const TreePtr&, const CompactionResult&) { events.emplace_back("disowned"); },
      .commit_failed = [this](const Status& status) { events.push_back(status.to_string()); }};

  Bed() {
    tree->id = 1;
    tree->policy = make_policy({}).value();
    for (int run = 0; run < 2; ++run) flush({entry("a", 0), entry("b", 0)});
  }
  void flush(std::vector<Owned> entries) {
    Source source;
    source.entries = std::move(entries);
    for (Owned& e : source.entries) e.seq = ++files.context.visible_seq;
    files.flush(source);
    (void)show();
  }
  std::shared_ptr<const TablesView> show() {
    auto view = std::make_shared<TreeView>();
    view->tables = open_tables(files, &sink);
    tree->view_owner = view;
    return view->tables;
  }
  [[nodiscard]] Plan merge(Reason reason = Reason::kSize) const {
    Plan plan = files.merge_of(0, 1, {files.version->runs.back().id, files.version->runs.back().level});
    plan.reason = reason;
    return plan;
  }
  Status run(const Plan& plan) {
    const std::optional<RunningJob> job = tree->jobs.start(plan, *files.version);
    REQUIRE(job);
    const Status status = CompactionJob(env, tree, *job).run();
    tree->jobs.finish(job->id);
    return status;
  }
};

TEST_CASE("job has merged its inputs: readers use the outputs") {
  Bed bed;
  REQUIRE(bed.run(bed.merge()).is_ok());
  CHECK((bed.files.version->runs.size() == 1 && bed.installs == 1));
  CHECK(bed.files.version->runs.front().files.front()->stats.entries == 2);
  CHECK((bed.totals.jobs == 1 && bed.totals.jobs_by_reason[static_cast<std::size_t>(Reason::kSize)] == 1));
  CHECK((bed.totals.bytes_read != 0 && bed.totals.bytes_written != 0));
  CHECK(bed.events.empty());
}

TEST_CASE("tree was dropped before its job: the job writes no files") {
  Bed bed;
  bed.tree->view_owner = nullptr;
  const std::uint64_t before = bed.files.fs.operations();
  CHECK(bed.run(bed.merge()).code() == Code::kAborted);
  CHECK(bed.files.fs.operations() == before);
}

TEST_CASE("tree is dropped while its job writes: the job unlinks its outputs") {
  Bed bed;
  bed.meanwhile = [&] { bed.tree->dropped = true; };
  CHECK(bed.run(bed.merge()).code() == Code::kAborted);
  CHECK((bed.events == std::vector<std::string>{"unlinked"} && bed.installs == 0));
}

TEST_CASE("target run of a merge is removed while the job writes: the merge's outputs are unlinked instead of installed") {
  Bed bed;
  bed.meanwhile = [&] {
    auto without = std::make_shared<Version>(*bed.files.version);
    without->runs.pop_back();
    bed.files.version = without;
  };
  CHECK(bed.run(bed.merge()).code() == Code::kAborted);
  CHECK(bed.events == std::vector<std::string>{"unlinked"});
}

TEST_CASE("file is quarantined while its job writes: a move is aborted, and a merge still replaces the file") {
  for (const bool moves : {true, false}) {
    CAPTURE(moves);
    Bed bed;
    if (moves) bed.flush({entry("x", 0)});
    bed.meanwhile = [&] {
      TreeEdit edit;
      edit.tree = 1;
      edit.quarantined.emplace_back(bed.files.version->runs.front().files.front()->data_file, "damaged");
      bed.files.install(edit);
    };
    Plan plan = bed.merge();
    if (moves) {
      const Run& newest = bed.files.version->runs.front();
      plan.action = Move{newest.id,
                         {newest.files.front()->data_file},
                         {bed.files.version->runs.back().id, bed.files.version->runs.back().level}};
    }
    CHECK(bed.run(plan).is_ok() == !moves);
    CHECK(bed.events.empty() != moves);
  }
}

TEST_CASE("files overlap a quarantined file's range: the policy adds no level for their bytes") {
  for (const bool quarantined : {false, true}) {
    CAPTURE(quarantined);
    Bed bed;
    bed.tree->policy = make_policy({.name = "garnering"}).value();
    bed.files.context.settings.memtable_size = 1;  // even a single file is more than level 1 may have
    Plan down = bed.merge();
    std::get<Merge>(down.action).target = {0, 1};
    REQUIRE(bed.run(down).is_ok());
    REQUIRE(bed.files.version->levels == 1);
    if (quarantined) {
      TreeEdit edit;
      edit.tree = 1;
      edit.quarantined.emplace_back(bed.files.version->runs.back().files.front()->data_file, "damaged");
      bed.files.install(edit);
    }
    bed.flush({entry("x", 0)});
    const Run& newest = bed.files.version->runs.front();
    Plan rewrite;
    rewrite.action = Rewrite{newest.id, newest.files.front()->data_file};
    REQUIRE(bed.run(rewrite).is_ok());
    CHECK(bed.files.version->levels == (quarantined ? 1 : 2));
  }
}

TEST_CASE("rewrite has a size limit for its output files: the file is split") {
  for (const bool with_size : {false, true}) {
    Bed bed;
    const Run& newest = bed.files.version->runs.front();
    const Rewrite rewrite{newest.id, newest.files.front()->data_file, with_size ? std::uint64_t{1} : std::uint64_t{0}};
    REQUIRE(bed.run({.action = rewrite, .reason = Reason::kDeadline}).is_ok());
    CHECK(bed.files.version->runs.front().files.size() == (with_size ? 2 : 1));
  }
}

TEST_CASE("another job adds a file to a run while a merge takes the run's other files: the run is kept") {
  Bed bed;
  const RunId newest = bed.files.version->runs.front().id;
  bed.meanwhile = [&] {
    TreeEdit edit;
    edit.tree = 1;
    FileMeta other = *bed.files.version->runs.front().files.front();
    other.data_file = 900;
    other.metadata_file = 901;
    other.stats.smallest = "x";
    other.stats.largest = "z";
    edit.added_files.emplace_back(newest, other);
    auto next = apply(*bed.files.version, edit);
    REQUIRE(next.is_ok());
    bed.files.version = next.value();
  };
  bed.env.install = [&](Tree&, const CompactionJob::OpenedTables&) -> Result<std::shared_ptr<const TablesView>> {
    return bed.tree->view_owner->tables;
  };
  REQUIRE(bed.run(bed.merge()).is_ok());
  REQUIRE(bed.files.version->runs.size() == 2);
  CHECK(bed.files.version->runs.front().id == newest);
}

TEST_CASE("edit fails: the job's outputs stay until the manifest is rolled, since the manifest may name them") {
  Bed bed;
  bed.commit_status = Status::io_error("refused");
  CHECK(bed.run(bed.merge()).code() == Code::kIoError);
  CHECK(bed.events == std::vector<std::string>{"disowned", "I/O error: refused"});
}

TEST_CASE("merge is refused disk space: the job returns the error, and reports its outputs for removal") {
  Bed bed;
  bed.write_status = Status::no_space("full");
  CHECK(bed.run(bed.merge()).code() == Code::kNoSpace);
  CHECK((bed.events == std::vector<std::string>{"write failed"} && bed.totals.jobs == 0));
}

TEST_CASE("job is a merge for a deadline or a page drop: it may use the disk space reserved for deadlines") {
  const auto uses = [](Reason reason) {
    Bed bed;
    REQUIRE(bed.run(bed.merge(reason)).is_ok());
    return bed.used_deadline_room;
  };
  CHECK(uses(Reason::kDeadline));
  CHECK(uses(Reason::kDropped));
  CHECK_FALSE(uses(Reason::kSize));
}

TEST_CASE("pages are dropped: the drop is counted, and the file has dead bytes") {
  Bed bed;
  const Run& newest = bed.files.version->runs.front();
  Drop drop;
  drop.pages.push_back({newest.id, newest.files.front()->data_file, {0}, {}});
  REQUIRE(bed.run({.action = std::move(drop), .reason = Reason::kDropped}).is_ok());
  CHECK(bed.totals.pages_dropped == 1);
  CHECK(bed.files.version->runs.front().files.front()->dead_bytes != 0);
}

}  // namespace TEST_FILE
