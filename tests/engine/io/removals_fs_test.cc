// Tests of which removed files a power loss could still restore, and which removals failed.
#include <catch2/catch.hpp>

#include "io/fault_fs.h"
#include "io/file_names.h"
#include "io/memory_fs.h"
#include "io/removals_fs.h"

namespace TEST_FILE {

using namespace ebbtide;

void make(FileSystem& fs, const std::string& path) {
  auto file = fs.create(path);
  REQUIRE(file.is_ok());
  REQUIRE((*file)->append("x").is_ok());
  REQUIRE((*file)->close().is_ok());
}

TEST_CASE("file is removed: the removal counts as durable once its directory is synced afterwards", "[removals]") {
  MemoryFileSystem base;
  RemovalsFileSystem fs(base, "data");
  REQUIRE(fs.create_dir("data").is_ok());
  REQUIRE(fs.create_dir("other").is_ok());
  make(fs, "data/000001.data");
  make(fs, "other/000001.data");
  REQUIRE(fs.sync_dir("data").is_ok());
  CHECK(fs.removals() == 0);
  REQUIRE(fs.unlink("other/000001.data").is_ok());
  CHECK(fs.removals() == 0);  // the file system counts removals in another directory only
  REQUIRE(fs.unlink("data/000001.data").is_ok());
  CHECK(fs.removals() == 1);
  CHECK(fs.durable_removals() == 0);
  REQUIRE(fs.sync_dir("other").is_ok());
  CHECK(fs.durable_removals() == 0);
  REQUIRE(fs.sync_dir("data").is_ok());
  CHECK(fs.durable_removals() == 1);
  make(fs, "data/new");
  make(fs, "data/CURRENT");
  REQUIRE(fs.rename("data/new", "data/CURRENT").is_ok());  // this removes the file that had the name
  CHECK(fs.removals() == 2);
  CHECK(fs.durable_removals() == 1);
}

TEST_CASE("file is removed during a sync of its directory: the removal does not count as durable", "[removals]") {
  MemoryFileSystem base;
  FaultFileSystem faults(base);
  RemovalsFileSystem fs(faults, "data");
  REQUIRE(fs.create_dir("data").is_ok());
  make(fs, "data/000001.data");
  faults.before_nth(1, ops_of(FileOp::kSyncDir), [&] { REQUIRE(fs.unlink("data/000001.data").is_ok()); });
  REQUIRE(fs.sync_dir("data").is_ok());
  CHECK(fs.removals() == 1);
  CHECK(fs.durable_removals() == 0);
  faults.inject({.ops = ops_of(FileOp::kSyncDir)});
  CHECK_FALSE(fs.sync_dir("data").is_ok());
  CHECK(fs.durable_removals() == 0);
  REQUIRE(fs.sync_dir("data").is_ok());
  CHECK(fs.durable_removals() == 1);
}

TEST_CASE("unlink of a numbered file fails: the file is listed for a retry", "[removals]") {
  MemoryFileSystem base;
  FaultFileSystem faults(base);
  RemovalsFileSystem fs(faults, "data");
  REQUIRE(fs.create_dir("data").is_ok());
  for (const char* name : {"000001.data", "000002.wal", "CURRENT.tmp"}) make(fs, "data/" + std::string(name));
  CHECK(fs.unlink("data/000009.data").is_not_found());
  CHECK_FALSE(fs.has_unremoved());
  faults.inject({.ops = ops_of(FileOp::kUnlink), .sticky = true});
  for (const char* name : {"000001.data", "000002.wal", "CURRENT.tmp"})
    CHECK_FALSE(fs.unlink("data/" + std::string(name)).is_ok());
  CHECK(fs.has_unremoved());
  CHECK(fs.unremoved() == std::vector<std::string>{"000001.data", "000002.wal"});
  CHECK(fs.take_unremoved() == std::vector<std::string>{"000001.data", "000002.wal"});
  CHECK_FALSE(fs.has_unremoved());
}

TEST_CASE("directory has the name of a numbered file: its unlink fails, and is not listed for a retry", "[removals]") {
  MemoryFileSystem base;
  RemovalsFileSystem fs(base, "data");
  REQUIRE(fs.create_dir("data").is_ok());
  REQUIRE(fs.create_dir("data/000002.wal").is_ok());
  CHECK_FALSE(fs.unlink("data/000002.wal").is_ok());
  CHECK_FALSE(fs.has_unremoved());
}

TEST_CASE("watched directory has another spelling, as with a final slash: its removals are counted", "[removals]") {
  for (const std::string dir : {"data/", "./data", "", "data"}) {
    INFO("directory \"" << dir << '"');
    MemoryFileSystem base;
    FaultFileSystem faults(base);
    RemovalsFileSystem fs(faults, dir);
    if (!dir.empty()) REQUIRE(fs.create_dir(dir).is_ok());
    for (const char* name : {"000001.data", "000002.data"}) make(fs, join_path(dir, name));
    REQUIRE(fs.unlink(join_path(dir, "000001.data")).is_ok());
    CHECK(fs.removals() == 1);
    CHECK(fs.durable_removals() == 0);
    REQUIRE(fs.sync_dir(dir).is_ok());
    CHECK(fs.durable_removals() == 1);
    faults.inject({.ops = ops_of(FileOp::kUnlink)});
    CHECK_FALSE(fs.unlink(join_path(dir, "000002.data")).is_ok());
    CHECK(fs.unremoved() == std::vector<std::string>{"000002.data"});
  }
}

}  // namespace TEST_FILE
