#include "io/trace_fs.h"

#include <catch2/catch.hpp>

#include "engine/io/rooms.h"

namespace ebbtide {
namespace TEST_FILE {

TEST_CASE("file is written atomically: the trace has every call, in order") {
  MemoryRoom room;
  TraceFileSystem fs(room.fs());
  require_ok(write_file_atomically(fs, room.dir(), "CURRENT", "MANIFEST-000001\n"));
  REQUIRE(fs.take() ==
          "create room/CURRENT.tmp\n"
          "write room/CURRENT.tmp\n"
          "sync room/CURRENT.tmp\n"
          "rename room/CURRENT.tmp -> room/CURRENT\n"
          "sync_dir room\n");
  REQUIRE(fs.lines().empty());
}

TEST_CASE("calls of every kind are made: the trace has each call, with its length") {
  MemoryRoom room;
  TraceFileSystem fs(room.fs(), {.ops = kAllOps, .lengths = true});
  const auto lock = value_of(fs.lock("room/LOCK"));
  write_file(fs, "room/f", "0123456789");
  REQUIRE(value_of(read_file(fs, "room/f")) == "0123456789");
  require_ok(fs.punch_hole("room/f", 2, 3));
  require_ok(fs.truncate("room/f", 7));
  require_ok(fs.sync_file("room/f"));
  require_ok(fs.link("room/f", "room/g"));
  require_ok(fs.create_dir("room/d"));
  require_ok(fs.remove_dir("room/d"));
  require_ok(fs.list("room").status());
  REQUIRE(value_of(fs.file_size("room/f")) == 7);
  require_ok(fs.unlink("room/f"));
  REQUIRE(fs.unlink("room/f").is_not_found());
  REQUIRE(fs.take() == std::string("lock room/LOCK\n"
                                   "create room/f\n"
                                   "write room/f 10\n"
                                   "sync room/f\n"
                                   "close room/f\n"
                                   "open room/f\n"
                                   "read room/f at 0 10\n"
                                   "punch_hole room/f at 2 3\n"
                                   "truncate room/f at 7\n"
                                   "sync room/f\n"
                                   "link room/f -> room/g\n"
                                   "create_dir room/d\n"
                                   "remove_dir room/d\n"
                                   "list room\n"
                                   "stat room/f\n"
                                   "unlink room/f\n"
                                   "unlink room/f = ") +
                           code_name(Code::kNotFound) + "\n");
}

}  // namespace TEST_FILE
}  // namespace ebbtide
