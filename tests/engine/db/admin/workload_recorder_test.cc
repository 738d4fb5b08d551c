// Tests that operations are recorded by window, and that the record outlives the process, in simulated time.
#include "db/admin/workload_recorder.h"

#include <catch2/catch.hpp>

#include <functional>
#include <memory>
#include <utility>

#include "io/fault_fs.h"
#include "io/file_names.h"
#include "io/memory_fs.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr Millis kWindow = WorkloadHistory::kWindow;

struct Bed {
  MemoryFileSystem memory;
  FaultFileSystem fs{memory};
  Counters counters{4};
  Millis now = 1'000'000 * kWindow + 7;
  bool keep = true, writable = true;
  std::vector<std::function<void()>> submitted;
  std::vector<std::string> warnings;
  std::unique_ptr<WorkloadRecorder> recorder;

  Bed() {
    REQUIRE(memory.create_dir("data").is_ok());
    start();
  }
  void start() {
    recorder = std::make_unique<WorkloadRecorder>(
        WorkloadRecorder::Env{.fs = &fs,
                              .dir = "data",
                              .keep = keep,
                              .counters = &counters,
                              .now = [this] { return now; },
                              .writable = [this] { return writable; },
                              .submit = [this](std::function<void()> work) { submitted.push_back(std::move(work)); },
                              .warn = [this](const std::string& text) { warnings.push_back(text); }});
    recorder->open();
  }
  void count(DatabaseId database, std::uint64_t reads) {
    ThreadCounters::add(counters.of(counters.mine(), database).reads, reads);
  }
  void advance(Millis ms) {
    now += ms;
    recorder->tick();
  }
  void work() {
    for (auto& task : std::exchange(submitted, {})) task();
  }
  [[nodiscard]] bool has_file() { return memory.exists("data/WORKLOAD"); }
};

std::uint64_t reads_of(const std::vector<WorkloadWindow>& windows) {
  std::uint64_t sum = 0;
  for (const WorkloadWindow& window : windows) sum += window.counts.reads;
  return sum;
}

TEST_CASE("operations are counted: they are in the window of their minute and in their database") {
  Bed bed;
  bed.count(1, 5);
  CHECK(bed.recorder->windows(1) == std::vector<WorkloadWindow>{{bed.now, 1, {0, 5, 0, 0, 0}}});
  const Millis first = bed.now;
  bed.advance(kWindow - 8);
  CHECK(bed.recorder->windows(1).size() == 1);
  bed.advance(1);  // a window ends at each full minute
  bed.count(1, 7);
  bed.count(2, 1);
  CHECK(bed.recorder->windows(1) ==
        std::vector<WorkloadWindow>{{first, kWindow - 7, {0, 5, 0, 0, 0}}, {bed.now, 1, {0, 7, 0, 0, 0}}});
  CHECK(bed.recorder->windows(2).size() == 1);
  CHECK(bed.recorder->windows(0).empty());
  CHECK(bed.recorder->windows(99).empty());
}

TEST_CASE("ticks are five minutes late: one window of five minutes has the operations") {
  Bed bed;
  const Millis first = bed.now;
  bed.count(0, 3);
  bed.advance(5 * kWindow);
  CHECK(bed.recorder->windows(0) == std::vector<WorkloadWindow>{{first, 5 * kWindow - 7, {0, 3, 0, 0, 0}}});
}

TEST_CASE("process ends cleanly: the next process reads the whole history") {
  Bed bed;
  bed.count(0, 3);
  bed.advance(kWindow);
  bed.count(0, 4);
  bed.now += 10;
  bed.recorder->close();
  bed.start();
  CHECK(reads_of(bed.recorder->windows(0)) == 7);
  bed.count(0, 1);
  CHECK(reads_of(bed.recorder->windows(0)) == 8);
  CHECK(bed.warnings.empty());
}

TEST_CASE("process is killed: the next process reads the history except for at most the last ten minutes") {
  Bed bed;
  for (int minute = 0; minute < 25; ++minute) {
    bed.count(0, 1);
    bed.advance(kWindow);
    bed.work();
  }
  bed.start();
  CHECK(reads_of(bed.recorder->windows(0)) == 20);
}

TEST_CASE("there were no operations: no history file is written") {
  Bed bed;
  for (int minute = 0; minute < 30; ++minute) bed.advance(kWindow);
  CHECK(bed.submitted.empty());
  bed.recorder->close();
  CHECK_FALSE(bed.has_file());
}

TEST_CASE("setting disables the history file: none is written, and windows are still recorded in memory") {
  Bed bed;
  bed.keep = false;
  bed.start();
  bed.count(0, 1);
  bed.advance(30 * kWindow);
  CHECK(bed.submitted.empty());
  CHECK(bed.recorder->windows(0).size() == 1);
  bed.recorder->close();
  CHECK_FALSE(bed.has_file());
}

TEST_CASE("history file is damaged: a warning names it, the history starts empty, and the next write replaces the file") {
  Bed bed;
  bed.count(0, 3);
  bed.recorder->close();
  REQUIRE(write_file_atomically(bed.memory, "data", "WORKLOAD", "no history").is_ok());
  bed.start();
  REQUIRE(bed.warnings.size() == 1);
  CHECK(bed.warnings[0].find("data/WORKLOAD: ") != std::string::npos);
  CHECK(bed.warnings[0].find("the history of the workload starts empty") != std::string::npos);
  CHECK(bed.recorder->windows(0).empty());
  bed.count(0, 2);
  bed.recorder->close();
  bed.start();
  CHECK(reads_of(bed.recorder->windows(0)) == 2);
  CHECK(bed.warnings.size() == 1);
}

TEST_CASE("history file cannot be written: it is warned of once, and a later write has the whole history") {
  Bed bed;
  bed.fs.inject({.ops = ops_of(FileOp::kSync), .sticky = true, .path_has = "WORKLOAD"});
  for (int minute = 0; minute < 35; ++minute) {
    bed.count(0, 1);
    bed.advance(kWindow);
    bed.work();
  }
  REQUIRE(bed.warnings.size() == 1);
  CHECK(bed.warnings[0].find("the history of the workload cannot be written") != std::string::npos);
  bed.fs.clear_faults();
  bed.recorder->close();
  bed.start();
  CHECK(reads_of(bed.recorder->windows(0)) == 35);
}

TEST_CASE("database is read-only: the file WORKLOAD is not written until the database is writable") {
  Bed bed;
  bed.writable = false;
  bed.count(0, 1);
  bed.advance(30 * kWindow);
  CHECK(bed.submitted.empty());
  bed.writable = true;
  bed.advance(kWindow);
  CHECK(bed.submitted.size() == 1);
}

}  // namespace TEST_FILE
