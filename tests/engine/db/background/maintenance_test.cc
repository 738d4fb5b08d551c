// Tests that a tick moves the mark of the clock, measures the disk, and performs its steps in order.
#include <catch2/catch.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "db/background/maintenance.h"
#include "io/memory_fs.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct Bed {
  MemoryFileSystem fs;
  DiskWatch disk{{.fs = &fs, .dir = "data", .max_disk_bytes = 0, .reserve_bytes = 8 * kMiB}};
  Millis mark = 0;
  bool refused = false;
  Maintenance::Loads loads;
  std::vector<std::function<void()>> submitted;
  std::vector<std::string> calls, lines;
  std::function<void()> in_step = [] {};
  std::shared_ptr<OpenFiles> open_files = std::make_shared<OpenFiles>(fs, 4);
  Maintenance maintenance{{.disk = &disk,
                           .open_files = open_files.get(),
                           .advance_clock = [this] { return mark; },
                           .step_refused = [this] { return refused; },
                           .write_mark = [this](Millis m) { calls.push_back("mark " + std::to_string(m)); },
                           .logged_bytes = [] { return std::uint64_t{0}; },
                           .log_bytes = [] { return std::uint64_t{0}; },
                           .loads =
                               [this] {
                                 calls.emplace_back("loads");
                                 return loads;
                               },
                           .submit = [this](std::function<void()> work) { submitted.push_back(std::move(work)); },
                           .log = [this](Severity, const std::string& text) { lines.push_back(text); },
                           .begin = [this] { calls.emplace_back("begin"); },
                           .steps = {[this](const Maintenance::Loads& given) {
                                       calls.push_back("first of " + std::to_string(given.size()));
                                       in_step();
                                     },
                                     [this](const Maintenance::Loads&) { calls.emplace_back("second"); }}}};

  Bed() {
    REQUIRE(fs.create_dir("data").is_ok());
    fs.set_capacity(64 * kMiB);
    REQUIRE(disk.open().is_ok());
  }
  void tick() {
    calls.clear();
    maintenance.tick();
  }
  void run_submitted() {
    for (const auto& work : std::exchange(submitted, {})) work();
  }
};

TEST_CASE("database ticks: the tick measures the loads of all trees, and then performs its steps in order") {
  Bed bed;
  TreeLoad load;
  auto view = std::make_shared<TreeView>();
  view->tables = std::make_shared<TablesView>();
  load.view = view;
  bed.loads.push_back(load);
  bed.tick();
  CHECK(bed.calls == std::vector<std::string>{"begin", "loads", "first of 1", "second"});
}

TEST_CASE("clock requests a new mark of engine time: the next tick writes one mark, and the tick after that writes none") {
  Bed bed;
  bed.mark = 17;
  bed.tick();
  CHECK(bed.calls.front() == "mark 17");
  bed.mark = 0;
  bed.tick();
  CHECK(bed.calls.front() == "begin");
}

TEST_CASE("a tick is running: another tick does nothing") {
  Bed bed;
  bed.in_step = [&] { bed.maintenance.tick(); };
  bed.tick();
  CHECK(bed.calls == std::vector<std::string>{"begin", "loads", "first of 0", "second"});
  bed.in_step = [] {};
  bed.tick();
  CHECK(bed.calls.size() == 4);
}

TEST_CASE("wall clock jumps: the log says once that engine time does not follow, and once that it follows again") {
  Bed bed;
  bed.refused = true;
  bed.tick();
  bed.tick();
  REQUIRE(bed.lines.size() == 1);
  CHECK(bed.lines[0].find("is not followed") != std::string::npos);
  bed.refused = false;
  bed.tick();
  bed.tick();
  CHECK((bed.lines.size() == 2 && bed.lines[1] == "the wall clock is followed again"));
}

TEST_CASE("disk becomes full, or has room again: each change is logged once") {
  Bed bed;
  auto ballast = std::move(bed.fs.create("ballast")).value();
  REQUIRE(ballast->append(std::string(63 * kMiB, 'x')).is_ok());
  bed.tick();
  bed.tick();
  CHECK(bed.lines == std::vector<std::string>{"the disk is full: writes that add data are refused"});
  ballast.reset();
  REQUIRE(bed.fs.unlink("ballast").is_ok());
  for (int i = 0; i < 3; ++i) {
    bed.tick();
    bed.run_submitted();
  }
  CHECK((bed.lines.size() == 2 && bed.lines[1] == "the disk has room again"));
}

TEST_CASE("reserve file is missing: one background task at a time creates it") {
  Bed bed;
  bed.tick();
  bed.tick();
  REQUIRE(bed.submitted.size() == 1);
  bed.run_submitted();
  CHECK(bed.disk.reserve_bytes() == 4 * kMiB);
  bed.tick();
  CHECK(bed.submitted.empty());
}

TEST_CASE("reserve file cannot be created: the failure is logged once, and again only after a success") {
  Bed bed;
  REQUIRE(bed.fs.create_dir("data/RESERVE").is_ok());
  for (int i = 0; i < 3; ++i) {
    bed.tick();
    bed.run_submitted();
  }
  REQUIRE(bed.lines.size() == 1);
  CHECK(bed.lines.front().find("RESERVE: Is a directory") != std::string::npos);
  REQUIRE(bed.fs.remove_dir("data/RESERVE").is_ok());
  bed.tick();
  bed.run_submitted();
  CHECK(bed.disk.reserve_bytes() == 4 * kMiB);
  CHECK(bed.lines.size() == 1);
}

TEST_CASE("memtables have data: disk space is reserved for the tables that their flushes will write") {
  Bed bed;
  for (int i = 0; i < 3; ++i) {
    bed.tick();
    bed.run_submitted();
  }
  const std::uint64_t before = bed.disk.room(DiskUse::kMerge);
  auto view = std::make_shared<TreeView>();
  view->tables = std::make_shared<TablesView>();
  view->memtables.push_back(std::make_shared<MemTable>(kMiB));
  TreeLoad load;
  load.view = view;
  bed.loads = {load};
  bed.tick();
  CHECK(before - bed.disk.room(DiskUse::kMerge) == load.memtable_bytes());
}

TEST_CASE("tables have as many files as may be open at once: this is logged once") {
  Bed bed;
  std::vector<std::unique_ptr<RandomAccessFile>> files;
  for (int i = 0; i < 3; ++i) {
    const std::string path = "data/" + std::to_string(i);
    REQUIRE(bed.fs.create(path).is_ok());
    files.push_back(std::move(bed.open_files->open(path)).value());
  }
  bed.tick();
  CHECK(bed.lines.empty());
  REQUIRE(bed.fs.create("data/3").is_ok());
  files.push_back(std::move(bed.open_files->open("data/3")).value());
  bed.tick();
  bed.tick();
  REQUIRE(bed.lines.size() == 1);
  CHECK(bed.lines[0].find("tables have 4 files, of which at most 4 are kept open") != std::string::npos);
}

}  // namespace TEST_FILE
