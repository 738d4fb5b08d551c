// Tests of when a flush is queued, which trees it flushes together, and what it waits for.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "db/background/flush_scheduler.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kMemTableBytes = 64 << 10;

struct Bed {
  SimulatedClock clock;
  Mutex state_mutex;
  FlushGate gate;
  PlannerMemory memory{clock};
  HolePuncher puncher{{.clock = &clock, .closing = [] { return false; }}};
  bool healthy = true, closing = false;
  int plans_asked = 0;
  std::size_t most = 99;  // the most memtables of a tree that one flush takes
  Status flush_status;
  std::function<void()> during;  // called once, by the next flush
  std::vector<TreePtr> trees;
  std::vector<std::string> flushed, failures;
  std::vector<std::function<void()>> submitted;
  CompactionScheduler compactions{{.state_mutex = &state_mutex,
                                   .memory = &memory,
                                   .puncher = &puncher,
                                   .threads = [] { return 1U; },
                                   .may_start =
                                       [this] {
                                         ++plans_asked;
                                         return false;
                                       },
                                   .closing = [] { return false; },
                                   .now = [] { return Millis{1000}; }}};
  FlushScheduler flushes{{.state_mutex = &state_mutex,
                          .gate = &gate,
                          .compactions = &compactions,
                          .trees = [this] { return trees; },
                          .flush = [this](const std::vector<TreePtr>& group) { return flush(group); },
                          .submit = [this](std::function<void()> work) { submitted.push_back(std::move(work)); },
                          .may_flush = [this] { return healthy && !closing; },
                          .closing = [this] { return closing; },
                          .progressed = [] {},
                          .failed = [this](const Status& status) { failures.push_back(status.to_string()); }}};

  TreePtr tree(std::size_t frozen = 1, std::size_t keys = 1) {
    auto out = std::make_shared<Tree>(clock);
    out->id = trees.size() + 1;
    out->settings.memtable_size = kMemTableBytes;
    out->policy = make_policy({}).value();
    auto view = std::make_shared<TreeView>();
    auto tables = std::make_shared<TablesView>();
    tables->version = std::make_shared<Version>();
    view->tables = tables;
    out->view_owner = view;
    for (std::size_t i = 0; i < frozen; ++i) {
      auto memtable = std::make_shared<MemTable>(4096);
      for (std::size_t k = 0; k < keys; ++k) {
        const std::string key = "k" + std::to_string(k), value(800, 'v');
        Entry e;
        e.key = key;
        e.seq = k + 1;
        e.value = value;
        memtable->insert({e.key, hash_key(e.key)}, e);
      }
      out->frozen.push_back({std::move(memtable), 1, keys});
    }
    trees.push_back(out);
    return out;
  }
  Status flush(const std::vector<TreePtr>& group) {
    std::string ids;
    for (const TreePtr& one : group) ids += std::to_string(one->id);
    flushed.push_back(ids);
    if (const auto call = std::exchange(during, nullptr)) call();
    if (!flush_status.is_ok()) return flush_status;
    for (const TreePtr& one : group) {
      const auto first = one->frozen.begin();
      one->frozen.erase(first, first + static_cast<std::ptrdiff_t>(std::min(most, one->frozen.size())));
    }
    return Status::ok();
  }
  void run() {
    while (!submitted.empty()) {
      const auto work = std::move(submitted.front());
      submitted.erase(submitted.begin());
      work();
    }
  }
};

TEST_CASE("flush is requested repeatedly: frozen memtables are flushed once") {
  Bed bed;
  const TreePtr tree = bed.tree();
  bed.flushes.schedule(tree);
  bed.flushes.schedule(tree);
  CHECK(bed.submitted.size() == 1);
  bed.run();
  CHECK(bed.flushed == std::vector<std::string>{"1"});
  bed.flushes.schedule(tree);  // no memtable is frozen
  CHECK(bed.submitted.empty());
}

TEST_CASE("one tree is being flushed: another tree's flush may run at the same time", "[threads]") {
  Bed bed;
  const TreePtr slow = bed.tree(), urgent = bed.tree();
  bed.during = [&] {
    std::thread other([&] {
      bed.flushes.hurry(urgent);
      bed.run();
    });
    other.join();  // this would wait forever if the flushes excluded each other
    CHECK(urgent->frozen.empty());
  };
  bed.flushes.schedule(slow);
  bed.run();
  CHECK(bed.flushed == std::vector<std::string>{"1", "2"});
  CHECK(slow->frozen.empty());
}

TEST_CASE("tree is being flushed together with another: its own flush waits until that flush ends", "[threads]") {
  Bed bed;
  const TreePtr first = bed.tree(), second = bed.tree(2);
  bed.most = 1;
  bed.during = [&] {
    std::thread other([&] {
      bed.flushes.hurry(second);
      bed.run();
    });
    other.join();
    CHECK(bed.flushed == std::vector<std::string>{"12"});
  };
  second->flush_hurries = true;
  bed.flushes.hurry(first);
  bed.run();
  CHECK(bed.flushed == std::vector<std::string>{"12", "2"});
  CHECK(second->frozen.empty());
}

TEST_CASE("flush ends: a flush of the remaining memtables is queued, and merges of the flushed trees are requested") {
  Bed bed;
  const TreePtr tree = bed.tree(3);
  bed.most = 2;
  bed.flushes.schedule(tree);
  bed.run();
  CHECK(bed.flushed == std::vector<std::string>{"1", "1"});
  CHECK(tree->frozen.empty());
  CHECK(bed.plans_asked == 2);
}

TEST_CASE("database has an error, or the tree's memtables may wait for later ones: no flush is queued") {
  Bed bed;
  const TreePtr tree = bed.tree();
  bed.healthy = false;
  bed.flushes.schedule(tree);
  bed.healthy = true;
  tree->frozen_rest = true;
  bed.flushes.schedule(tree);
  CHECK(bed.submitted.empty());
  bed.flushes.hurry(tree);
  CHECK(bed.submitted.size() == 1);
  CHECK_FALSE(tree->frozen_rest);
}

TEST_CASE("flush is urgent: it includes small memtables of other urgent trees, up to one full memtable") {
  Bed bed;
  const TreePtr first = bed.tree();
  const TreePtr second = bed.tree(), calm = bed.tree(), large = bed.tree(1, 100), dropped = bed.tree(), empty = bed.tree(0);
  for (const TreePtr& one : {second, large, dropped, empty}) one->flush_hurries = true;
  dropped->dropped = true;
  bed.flushes.hurry(first);
  bed.run();
  CHECK(bed.flushed == std::vector<std::string>{"12"});
  CHECK_FALSE((first->flush_hurries || second->flush_hurries));
  CHECK(large->flush_hurries);
}

TEST_CASE("flush is not urgent: memtables of other trees are not flushed with it") {
  Bed bed;
  const TreePtr first = bed.tree(), second = bed.tree();
  second->flush_hurries = true;
  bed.flushes.schedule(first);
  bed.run();
  CHECK(bed.flushed == std::vector<std::string>{"1"});
}

TEST_CASE("another tree's flush has included a tree: the tree's own queued flush does nothing") {
  Bed bed;
  const TreePtr first = bed.tree(), second = bed.tree();
  bed.flushes.hurry(first);
  bed.flushes.hurry(second);
  bed.run();
  CHECK(bed.flushed == std::vector<std::string>{"12"});
}

TEST_CASE("flush fails: the failure is reported, and the flush is not queued again") {
  Bed bed;
  const TreePtr tree = bed.tree();
  bed.flush_status = Status::no_space("full");
  bed.flushes.schedule(tree);
  bed.run();
  CHECK((bed.failures.size() == 1 && bed.flushed.size() == 1));
  bed.flush_status = Status::aborted("");
  bed.flushes.schedule(tree);
  bed.run();
  CHECK(bed.failures.size() == 1);
  bed.flushes.schedule(tree);
  bed.closing = true;
  bed.run();
  CHECK(bed.flushed.size() == 2);
}

TEST_CASE("schedule is static: a flush waits for a running merge, but not for a merge that cannot start") {
  Bed bed;
  const TreePtr tree = bed.tree();
  struct Schedule final : Policy {
    [[nodiscard]] const std::string& name() const override { return name_; }
    [[nodiscard]] Plan next(const TreeShape&, const PolicyContext&) const override { return {.action = Rewrite{1, 7}}; }
    [[nodiscard]] std::uint64_t debt_bytes(const TreeShape&) const override { return 0; }
    [[nodiscard]] double capacity_bytes(const TreeShape&, int) const override { return 0; }
    [[nodiscard]] int slowdown_runs() const override { return 8; }
    [[nodiscard]] int stop_runs() const override { return 16; }
    [[nodiscard]] std::string check(const TreeShape&) const override { return {}; }
    [[nodiscard]] bool by_schedule() const override { return true; }
    std::string name_ = "schedule";
  };
  tree->policy = std::make_shared<Schedule>();
  Version version;
  auto file = std::make_shared<FileMeta>();
  file->data_file = 7;
  version.runs = {{1, 1, {file}}};
  const auto job = tree->jobs.start({.action = Rewrite{1, 7}}, version);
  REQUIRE(job);
  bed.flushes.schedule(tree);
  bed.run();
  CHECK((bed.flushed.empty() && tree->flush_waits));
  tree->jobs.finish(job->id);
  bed.flushes.schedule(tree);
  bed.run();
  CHECK(bed.flushed.size() == 1);
}

}  // namespace TEST_FILE
