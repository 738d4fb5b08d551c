// Tests that files without readers are removed, and that a refused unlink is retried. A disowned file, which a failed edit may have
// named, stays until the manifest is rolled.
#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <vector>

#include "db/background/obsolete_files.h"
#include "io/fault_fs.h"
#include "io/file_names.h"
#include "io/memory_fs.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr Millis kRetryMs = 10'000;

struct Bed {
  SimulatedClock clock;
  MemoryFileSystem memory;
  FaultFileSystem faults{memory};
  RemovalsFileSystem fs{faults, "db"};
  std::vector<FileNum> forgotten;
  std::vector<std::string> warnings;
  std::vector<std::function<void()>> submitted;
  std::function<void()> collect = [] {};
  ObsoleteFileRemover remover{{.clock = &clock,
                               .fs = &fs,
                               .dir = "db",
                               .collect = [this] { collect(); },
                               .forget = [this](FileNum file) { forgotten.push_back(file); },
                               .submit = [this](std::function<void()> work) { submitted.push_back(std::move(work)); },
                               .warn = [this](const std::string& text) { warnings.push_back(text); }}};

  Bed() {
    REQUIRE(memory.create_dir("db").is_ok());
    clock.advance(60'000);
    for (const FileNum file : {1, 3}) make(data_file_name(file));
    for (const FileNum file : {2, 4}) make(metadata_file_name(file));
  }
  void make(const std::string& name) { REQUIRE(memory.create("db/" + name).is_ok()); }
  [[nodiscard]] std::size_t files() { return memory.list("db").value().size(); }
  void run() {
    for (const auto& work : std::exchange(submitted, {})) work();
  }
};

TEST_CASE("files are queued: they are unlinked once, and the cache drops their blocks") {
  Bed bed;
  (*bed.remover.sink())({1, kNoFile});
  (*bed.remover.sink())({3, 4});
  CHECK(bed.files() == 4);
  bed.remover.remove_queued();
  CHECK(bed.memory.list("db").value() == std::vector<std::string>{metadata_file_name(2)});
  CHECK(bed.forgotten == std::vector<FileNum>{1, 3, 4});
  bed.remover.remove_queued();  // no file is unlinked twice
  CHECK(bed.forgotten.size() == 3);
}

TEST_CASE("last reader of old views has ended: remove_queued() first collects the views, and then removes their files") {
  Bed bed;
  bed.collect = [&] { (*bed.remover.sink())({1, 2}); };
  bed.remover.remove_queued();
  CHECK(bed.files() == 2);
}

TEST_CASE("files are queued at a tick: one task for their removal is submitted") {
  Bed bed;
  bed.remover.tick();
  CHECK(bed.submitted.empty());
  (*bed.remover.sink())({1, 2});
  bed.remover.tick();
  CHECK(bed.files() == 4);  // ticks do not wait for a device
  bed.run();
  CHECK(bed.files() == 2);
}

TEST_CASE("unlink is refused: the refusal is logged once, and the unlink is tried every ten seconds until it succeeds") {
  Bed bed;
  bed.faults.inject({.ops = ops_of(FileOp::kUnlink), .sticky = true});
  bed.remover.remove(ObsoleteFiles{1, 2});
  CHECK(bed.warnings.size() == 2);
  bed.remover.tick();
  bed.run();
  CHECK((bed.warnings.size() == 2 && bed.fs.has_unremoved()));
  bed.clock.advance(kRetryMs - 1);
  bed.remover.tick();
  CHECK(bed.submitted.empty());
  bed.faults.clear_faults();
  bed.clock.advance(1);
  bed.remover.tick();
  bed.run();
  CHECK((bed.files() == 2 && bed.warnings.size() == 2));
}

TEST_CASE("unlink is refused for another reason, or again after a success: the refusal is logged again") {
  Bed bed;
  bed.faults.inject({.ops = ops_of(FileOp::kUnlink), .sticky = true});
  bed.remover.remove(data_file_name(1));
  bed.remover.remove(data_file_name(1));
  CHECK(bed.warnings.size() == 1);
  bed.faults.clear_faults();
  bed.faults.inject({.ops = ops_of(FileOp::kUnlink), .code = Code::kNoSpace});
  bed.remover.remove(data_file_name(1));
  CHECK(bed.warnings.size() == 2);
  bed.remover.remove(data_file_name(1));
  bed.make(data_file_name(1));
  bed.faults.inject({.ops = ops_of(FileOp::kUnlink), .code = Code::kNoSpace});
  bed.remover.remove(data_file_name(1));
  CHECK(bed.warnings.size() == 3);
}

TEST_CASE("unlinks of 1,000 files are refused: the log names eight, and then their number each time it doubles") {
  Bed bed;
  bed.faults.inject({.ops = ops_of(FileOp::kUnlink), .sticky = true});
  for (int round = 0; round < 2; ++round) {
    for (FileNum file = 1; file <= 1000; ++file) bed.remover.remove(data_file_name(file));
  }
  REQUIRE(bed.warnings.size() == 8 + 6);
  CHECK(bed.warnings[7].starts_with("cannot remove a file, will try again: I/O error: "));
  CHECK(bed.warnings[8].starts_with("cannot remove 16 files, will try again; the last one: I/O error: "));
  CHECK(bed.warnings[13].starts_with("cannot remove 512 files"));
}

TEST_CASE("file to unlink does not exist: this is no failure") {
  Bed bed;
  bed.remover.remove(data_file_name(99));
  CHECK(bed.warnings.empty());
}

TEST_CASE("failed edit may have named files: the files stay until the manifest is rolled") {
  Bed bed;
  bed.remover.disown({{1, 2}, {3, kNoFile}});
  bed.remover.remove_queued();
  CHECK(bed.files() == 4);
  bed.remover.queue_disowned();
  bed.remover.remove_queued();
  CHECK(bed.files() == 1);
}

}  // namespace TEST_FILE
