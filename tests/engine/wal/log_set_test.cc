#include "wal/log_set.h"

#include <catch2/catch.hpp>

#include "engine/wal/segments.h"
#include "io/fault_fs.h"
#include "io/trace_fs.h"

namespace ebbtide {
namespace {

std::vector<FileNum> files_of(const LogSet& set) {
  std::vector<FileNum> files;
  for (const LogSegment& segment : set.segments()) files.push_back(segment.file);
  return files;
}

struct SegmentRoom : MemoryRoom {
  SegmentRoom() {
    for (const auto& [file, bytes] : {std::pair<FileNum, std::size_t>{12, 5}, {3, 100}, {1'000'000, 7}, {9, 0}}) {
      write_file(fs(), path(log_file_name(file)), std::string(bytes, 'x'));
    }
    for (const char* other :
         {"000004.data", "000005.meta", "MANIFEST-000001", "CURRENT", "000006.wal.tmp", "6.wal", "notes.wal"}) {
      write_file(fs(), path(other), "not a segment");
    }
    require_ok(fs().sync_dir(dir()));
  }
};

TEST_CASE("log set lists only segments, in order") {
  SegmentRoom room;
  const LogSet set = value_of(LogSet::open(room.fs(), room.dir()));
  REQUIRE(files_of(set) == std::vector<FileNum>{3, 9, 12, 1'000'000});
  REQUIRE(set.segments()[0].bytes == 100);
  REQUIRE(set.live_bytes() == 112);
  REQUIRE(LogSet::open(room.fs(), "elsewhere").status().is_not_found());
}

TEST_CASE("log set counts new segments as they grow") {
  SegmentRoom room;
  LogSet set = value_of(LogSet::open(room.fs(), room.dir()));
  set.add(1'000'001, 32);
  set.set_newest_bytes(500);
  REQUIRE(set.segments().back().bytes == 500);
  REQUIRE(set.live_bytes() == 612);
}

TEST_CASE("old segments are removed oldest first, after one directory sync") {
  SegmentRoom room;
  TraceFileSystem fs(room.fs());
  LogSet set = value_of(LogSet::open(fs, room.dir()));
  require_ok(set.remove_before(3));
  REQUIRE(fs.take().empty());
  require_ok(set.remove_before(12));
  REQUIRE(fs.take() == "sync_dir room\nunlink room/000003.wal\nunlink room/000009.wal\n");
  REQUIRE(files_of(set) == std::vector<FileNum>{12, 1'000'000});
  REQUIRE(room.fs().exists(room.path("000004.data")));
  require_ok(set.remove_before(~FileNum{0}));
  REQUIRE(set.segments().empty());
  REQUIRE(set.live_bytes() == 0);
}

TEST_CASE("segment that cannot be removed stays in the set and is retried") {
  SegmentRoom room;
  FaultFileSystem fs(room.fs());
  LogSet set = value_of(LogSet::open(fs, room.dir()));
  fs.inject({.ops = ops_of(FileOp::kSyncDir)});
  REQUIRE_FALSE(set.remove_before(12).is_ok());
  REQUIRE(files_of(set).size() == 4);
  REQUIRE(fs.operations(ops_of(FileOp::kUnlink)) == 0);
  fs.inject({.ops = ops_of(FileOp::kUnlink), .nth = 2});
  REQUIRE_FALSE(set.remove_before(1'000'000).is_ok());
  REQUIRE(files_of(set) == std::vector<FileNum>{9, 12, 1'000'000});
  require_ok(room.fs().unlink(room.path("000009.wal")));  // removed by another process
  require_ok(set.remove_before(1'000'000));
  REQUIRE(files_of(set) == std::vector<FileNum>{1'000'000});
}

}  // namespace
}  // namespace ebbtide
