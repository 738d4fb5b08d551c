// Tests that a requested flush waits for the memtables that exist at the request, and that a requested merge takes all files of
// its range once no job has them.
#include <catch2/catch.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/background/requested_work.h"
#include "engine/db/trees/registry_env.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

constexpr FileNum kDamaged = 1000;  // files with this number or a greater one are quarantined

struct Bed {
  SimulatedClock clock;
  Epoch epoch;
  SeqNum last_seq = 0;
  std::vector<std::function<void()>> tasks;  // the last task runs first
  std::vector<std::string> events;
  std::function<void()> cuts;   // called by a job that cuts files: changes the tree
  std::vector<Status> results;  // the results of the next jobs; later jobs succeed, and leave one run
  TreeRegistry trees{registry_env(clock, epoch, Millis{1000}, [this] { return last_seq; }), databases_of(1, 64 << 10)};
  Progress progress{{.state_mutex = &trees.state_mutex,
                     .threads = false,
                     .error = [] { return Status::ok(); },
                     .closing = [] { return false; },
                     .run_task =
                         [this] {
                           if (tasks.empty()) return false;
                           const auto task = std::move(tasks.back());
                           tasks.pop_back();
                           task();
                           return true;
                         }}};
  RequestedWork work{{.trees = &trees,
                      .progress = &progress,
                      .last_seq = [this] { return last_seq; },
                      .run = [this](const TreePtr&, const RunningJob& job) { return run(job); },
                      .finish =
                          [this](const TreePtr& tree, const RunningJob& job) {
                            tree->jobs.finish(job.id);
                            events.push_back("finish");
                          },
                      .schedule = [this](const TreePtr&) { events.push_back("schedule"); },
                      .progressed = [this] { events.push_back("progressed"); }}};
  TreePtr tree;

  Bed() {
    MutexLock lock(trees.commit_mutex);
    tree = trees.make(1, 0, StampMode::kWriteTime);
    trees.map(0, tree);
  }
  void write() {
    MutexLock lock(trees.commit_mutex);
    tree->active->insert_range({"a", "b", ++last_seq, 1000});
    trees.mark_active(1, last_seq, last_seq);
  }
  /// Makes a table of the oldest frozen memtable.
  void flush_one() {
    MutexLock lock(trees.state_mutex);
    tree->frozen.erase(tree->frozen.begin());
  }
  /// Gives the tree these runs, newest first. A run is a list of files, each with its number and key range.
  void set_runs(const std::vector<std::vector<std::pair<FileNum, KeyRange>>>& runs) {
    auto version = std::make_shared<Version>();
    version->tree = 1;
    RunId id = 10;
    for (const auto& files : runs) {
      Run run{id--, 0, {}};
      for (const auto& [number, range] : files) {
        auto file = std::make_shared<FileMeta>();
        file->data_file = number;
        file->metadata_file = number + 1;
        file->data_bytes = 100;
        file->stats.entries = 1;
        file->stats.smallest = range.start;
        file->stats.largest = range.end;
        if (number >= kDamaged) file->damage = "a flipped bit";
        run.files.push_back(std::move(file));
      }
      version->runs.push_back(std::move(run));
    }
    auto tables = std::make_shared<TablesView>();
    tables->version = std::move(version);
    MutexLock lock(trees.state_mutex);
    auto view = std::make_shared<TreeView>(*tree->view_owner);
    view->tables = std::move(tables);
    trees.publish(*tree, std::move(view));
  }
  Status run(const RunningJob& job) {
    std::string text = "run";
    if (const auto* const cut = std::get_if<Slice>(&job.plan.action)) {
      events.push_back("cut " + std::to_string(cut->inputs.front().files.front()));
      cuts();
      return Status::ok();
    }
    for (const PlanInput& input : std::get<Merge>(job.plan.action).inputs) {
      for (const FileNum file : input.files) text += " " + std::to_string(file);
    }
    events.push_back(text);
    if (!results.empty()) {
      const Status status = results.back();
      results.pop_back();
      return status;
    }
    set_runs({{{90, {"a", "z"}}}});
    return Status::ok();
  }
};

using Texts = std::vector<std::string>;

TEST_CASE("flush is requested: it freezes the memtable and waits for its flush, but not for later memtables") {
  Bed bed;
  bed.write();
  bed.tasks.push_back([&] { bed.flush_one(); });
  bed.tasks.push_back([&] {  // this task runs first
    bed.write();
    MutexLock lock(bed.trees.commit_mutex);
    bed.trees.freeze(*bed.tree);
  });
  CHECK(bed.work.flush(0).is_ok());
  CHECK((bed.tasks.empty() && bed.tree->frozen.size() == 1));
  CHECK(bed.work.flush(0).code() == Code::kAborted);  // no task is left that flushes the other memtables
}

TEST_CASE("tree is empty, missing or dropped: a requested flush or merge returns at once") {
  Bed bed;
  CHECK(bed.work.flush(0).is_ok());
  CHECK(bed.work.flush(7).is_ok());
  bed.write();
  bed.tasks.push_back([&] {
    MutexLock lock(bed.trees.commit_mutex);
    bed.trees.map(0, nullptr);
    bed.trees.drop(bed.tree, 1000);
  });
  CHECK(bed.work.flush(0).is_ok());
  CHECK(bed.work.compact(0, {}).is_ok());
  CHECK(bed.events.empty());
}

TEST_CASE("merge of a range is requested: one job merges the range's files and all files that overlap these") {
  Bed bed;
  bed.set_runs({{{1, {"a", "c"}}, {3, {"x", "y"}}}, {{5, {"b", "d"}}, {7, {"x", "z"}}}});
  CHECK(bed.work.compact(0, {"b", "c"}).is_ok());
  CHECK(bed.events == Texts{"run 1 5", "finish", "progressed"});
}

TEST_CASE("tree has a single run without deletes: a requested merge returns without a job") {
  Bed bed;
  bed.set_runs({{{1, {"a", "c"}}}});
  CHECK(bed.work.compact(0, {}).is_ok());
  CHECK(bed.events.empty());
}

TEST_CASE("another job has a file of a requested merge: the requested merge waits for that job") {
  Bed bed;
  bed.set_runs({{{1, {"a", "c"}}}, {{5, {"b", "d"}}}});
  Merge merge;
  merge.inputs.push_back({10, {1}});
  merge.target = {10, 0};
  const auto other = bed.tree->jobs.start({.action = merge}, *bed.tree->view_owner->tables->version);
  REQUIRE(other.has_value());
  CHECK(bed.work.compact(0, {}).code() == Code::kAborted);  // the other job does not end
  CHECK(bed.events.empty());
  bed.tasks.push_back([&] { bed.tree->jobs.finish(other->id); });
  CHECK(bed.work.compact(0, {}).is_ok());
  CHECK(bed.events == Texts{"run 1 5", "finish", "progressed"});
}

TEST_CASE("requested merge is aborted: the urgent job starts, and the merge runs again") {
  Bed bed;
  bed.set_runs({{{1, {"a", "c"}}}, {{5, {"b", "d"}}}});
  bed.results = {Status::aborted("urgent work")};
  CHECK(bed.work.compact(0, {}).is_ok());
  CHECK(bed.events == Texts{"run 1 5", "finish", "schedule", "progressed", "run 1 5", "finish", "progressed"});
}

TEST_CASE("files reach into a quarantined file's range: they are cut at the range before a requested merge") {
  Bed bed;
  bed.set_runs({{{1, {"a", "f"}}}, {{5, {"a", "b"}}, {kDamaged, {"d", "e"}}}});
  bed.cuts = [&] {
    bed.set_runs({{{11, {"a", "c"}}, {13, {"d", "e"}}, {15, {"f", "f"}}}, {{5, {"a", "b"}}, {kDamaged, {"d", "e"}}}});
  };
  CHECK(bed.work.compact(0, {}).is_ok());
  CHECK(bed.events == Texts{"cut 1", "finish", "progressed", "run 11 15 5", "finish", "progressed"});
}

TEST_CASE("another job cuts a file at a quarantined file's range: a requested merge waits for that job") {
  Bed bed;
  bed.set_runs({{{1, {"a", "f"}}}, {{5, {"a", "b"}}, {kDamaged, {"d", "e"}}}});
  const auto other =
      bed.tree->jobs.start({.action = Slice{{{10, {1}}}, {"d", "e"}, {10, 0}}}, *bed.tree->view_owner->tables->version);
  REQUIRE(other.has_value());
  CHECK(bed.work.compact(0, {}).code() == Code::kAborted);  // the other job does not end
  CHECK(bed.events.empty());
}

TEST_CASE("requested merge fails: the caller gets the error, unless the tree was dropped meanwhile") {
  Bed bed;
  bed.set_runs({{{1, {"a", "c"}}}, {{5, {"b", "d"}}}});
  bed.results = {Status::io_error("disk")};
  CHECK(bed.work.compact(0, {}).code() == Code::kIoError);
  bed.tree->dropped = true;
  CHECK(bed.work.compact(0, {}).is_ok());
}

}  // namespace TEST_FILE
