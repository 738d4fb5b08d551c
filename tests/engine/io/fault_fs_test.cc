#include "io/fault_fs.h"

#include <catch2/catch.hpp>

#include <thread>

#include "engine/io/rooms.h"

namespace ebbtide {
namespace TEST_FILE {

struct FaultRoom : MemoryRoom {
  FaultFileSystem faulty{fs()};
};

/// Makes every mutating kind of call once, in a fixed order. Returns the names of those that failed.
std::string script(FileSystem& fs) {
  std::string failed;
  const auto note = [&](const char* name, const Status& status) {
    if (status.code() == Code::kIoError || status.code() == Code::kNoSpace) failed += std::string(name) + " ";
  };
  note("create_dir", fs.create_dir("s"));
  auto file = fs.create("s/f");
  note("create", file.status());
  if (file.is_ok()) {
    note("write", (*file)->append("0123456789"));
    note("sync", (*file)->sync());
    note("close", (*file)->close());
  }
  note("link", fs.link("s/f", "s/g"));
  note("rename", fs.rename("s/g", "s/h"));
  note("truncate", fs.truncate("s/f", 5));
  note("punch_hole", fs.punch_hole("s/f", 0, 1));
  note("sync_file", fs.sync_file("s/f"));
  note("sync_dir", fs.sync_dir("s"));
  note("unlink", fs.unlink("s/h"));
  note("unlink", fs.unlink("s/f"));
  note("remove_dir", fs.remove_dir("s"));
  return failed;
}

TEST_CASE("no fault is injected: all calls pass and are counted by kind") {
  MemoryFileSystem memory;
  FaultFileSystem fs(memory);
  REQUIRE(script(fs).empty());
  REQUIRE(fs.operations() == 13);
  REQUIRE(fs.operations(kAllOps) == 14);  // including the close
  REQUIRE(fs.operations(ops_of(FileOp::kSync)) == 2);
  REQUIRE(fs.operations(ops_of(FileOp::kUnlink, FileOp::kRename)) == 3);
  REQUIRE(fs.operations(kReadOps) == 0);
  REQUIRE(fs.failures() == 0);
  REQUIRE(memory.tree().empty());
}

TEST_CASE("call number n has a fault: only this call fails, and only once") {
  const char* const expected[] = {"create_dir ", "create ",    "write ",    "sync ",   "link ",   "rename ",    "truncate ",
                                  "punch_hole ", "sync_file ", "sync_dir ", "unlink ", "unlink ", "remove_dir "};
  for (std::uint64_t n = 1; n <= 13; ++n) {
    MemoryFileSystem memory;
    FaultFileSystem fs(memory);
    fs.inject({.nth = n});
    const std::string failed = script(fs);
    INFO("n = " << n << ": " << failed);
    REQUIRE(fs.failures() == 1);
    REQUIRE(failed.starts_with(expected[n - 1]));
  }
}

TEST_CASE("fault is sticky: all calls of its kinds and paths fail with its code, until it is cleared") {
  FaultRoom room;
  room.faulty.inject({.ops = ops_of(FileOp::kWrite), .nth = 2, .sticky = true, .code = Code::kNoSpace, .path_has = ".wal"});
  auto log = value_of(room.faulty.create(room.path("1.wal")));
  auto other = value_of(room.faulty.create(room.path("2.data")));
  require_ok(other->append("x"));
  require_ok(log->append("x"));
  require_ok(other->append("x"));
  for (int i = 0; i < 3; ++i) {
    const Status status = log->append("y");
    REQUIRE(status.code() == Code::kNoSpace);
    REQUIRE(status.message() == "write " + room.path("1.wal") + ": injected fault");
  }
  require_ok(log->sync());
  require_ok(other->append("x"));
  room.faulty.clear_faults();
  require_ok(log->append("z"));
  REQUIRE(value_of(read_file(room.fs(), room.path("1.wal"))) == "xz");
  REQUIRE(room.faulty.failures() == 3);
}

TEST_CASE("fault names a path: a rename to that path also fails") {
  FaultRoom room;
  write_file(room.fs(), room.path("CURRENT.tmp"), "x");
  room.faulty.inject({.ops = ops_of(FileOp::kRename), .path_has = "CURRENT"});
  write_file(room.fs(), room.path("a"), "x");
  REQUIRE_FALSE(room.faulty.rename(room.path("a"), room.path("CURRENT")).is_ok());
  require_ok(room.faulty.rename(room.path("a"), room.path("CURRENT")));
}

TEST_CASE("reads have a fault: read() and read_if_cached() fail") {
  FaultRoom room;
  write_file(room.fs(), room.path("f"), "abc");
  auto file = value_of(room.faulty.open(room.path("f")));
  char buffer[3];
  room.faulty.inject({.ops = ops_of(FileOp::kRead), .nth = 2, .sticky = true});
  require_ok(file->read(0, 3, buffer));
  REQUIRE_FALSE(file->read(0, 3, buffer).is_ok());
  REQUIRE_FALSE(file->read_if_cached(0, 3, buffer).is_ok());
  room.faulty.inject({.ops = kReadOps, .sticky = true});
  REQUIRE_FALSE(room.faulty.open(room.path("f")).is_ok());
  REQUIRE_FALSE(room.faulty.list(room.dir()).is_ok());
  REQUIRE_FALSE(room.faulty.file_size(room.path("f")).is_ok());
}

TEST_CASE("effect of a fault is kHalf or kFull: the failed call has half of its effect, or all of it") {
  FaultRoom room;
  auto file = value_of(room.faulty.create(room.path("f")));
  room.faulty.inject({.ops = ops_of(FileOp::kWrite), .effect = FileFault::Effect::kHalf});
  const Bytes pieces[] = {"ab", "cdef"};
  REQUIRE_FALSE(file->append(pieces).is_ok());
  REQUIRE(value_of(read_file(room.fs(), room.path("f"))) == "abc");
  room.faulty.inject({.ops = ops_of(FileOp::kRename), .effect = FileFault::Effect::kFull});
  REQUIRE_FALSE(room.faulty.rename(room.path("f"), room.path("g")).is_ok());
  REQUIRE(room.fs().exists(room.path("g")));
}

TEST_CASE("sync of a file failed: its later syncs return ok and make nothing durable") {
  FaultRoom room;
  auto file = value_of(room.faulty.create(room.path("f")));
  require_ok(room.faulty.sync_dir(room.dir()));
  require_ok(file->append("lost"));
  room.faulty.inject({.ops = ops_of(FileOp::kSync)});
  REQUIRE_FALSE(file->sync().is_ok());
  require_ok(file->sync());
  REQUIRE(value_of(read_file(*room.fs().crash_clone(0, CrashMode::kNothing), room.path("f"))).empty());
  // A new file has no failed sync.
  auto fresh = value_of(room.faulty.create(room.path("g")));
  require_ok(fresh->append("kept"));
  require_ok(fresh->sync());
  require_ok(room.faulty.sync_dir(room.dir()));
  REQUIRE(value_of(read_file(*room.fs().crash_clone(0, CrashMode::kNothing), room.path("g"))) == "kept");
}

TEST_CASE("n-th call has a hook: it runs once before the call, and may use the file system") {
  FaultRoom room;
  std::vector<std::string> seen;
  room.faulty.before_nth(2, ops_of(FileOp::kCreate), [&] {
    seen = value_of(room.fs().list(room.dir()));
    require_ok(room.faulty.create(room.path("by the hook")).status());
  });
  write_file(room.faulty, room.path("a"), "");
  REQUIRE(seen.empty());
  write_file(room.faulty, room.path("b"), "");
  REQUIRE(seen == std::vector<std::string>{"a"});
  write_file(room.faulty, room.path("c"), "");
  REQUIRE(seen == std::vector<std::string>{"a"});
  REQUIRE(room.faulty.operations(ops_of(FileOp::kCreate)) == 4);
}

TEST_CASE("fault or crash at each call of an atomic write: the file has the old or the new content") {
  std::uint64_t calls = 0;
  for (std::uint64_t n = 1; n == 1 || n <= calls; ++n) {
    for (const bool crash : {false, true}) {
      FaultRoom room;
      require_ok(write_file_atomically(room.fs(), room.dir(), "CURRENT", "old"));
      std::unique_ptr<MemoryFileSystem> after;
      room.faulty.before_nth(n, kMutatingOps, [&] { after = room.fs().crash_clone(n); });
      if (!crash) room.faulty.inject({.nth = n});
      const Status status = write_file_atomically(room.faulty, room.dir(), "CURRENT", "new");
      REQUIRE(status.is_ok() == crash);
      if (crash) calls = room.faulty.operations();
      const std::string found = value_of(read_file(crash ? *after : room.fs(), room.path("CURRENT")));
      REQUIRE((found == "old" || (found == "new" && n == 5)));
      if (!crash) REQUIRE(value_of(room.fs().list(room.dir())) == std::vector<std::string>{"CURRENT"});
    }
  }
  REQUIRE(calls == 5);  // create, write, sync, rename, sync_dir
}

TEST_CASE("stat of the lock file has a fault: check_directory() fails") {
  FaultRoom room;
  const auto lock = value_of(room.faulty.lock(room.path("LOCK")));
  require_ok(lock->check_directory());
  room.faulty.inject({.ops = ops_of(FileOp::kStat), .path_has = "LOCK"});
  REQUIRE(lock->check_directory().code() == Code::kIoError);
  require_ok(lock->check_directory());
}

TEST_CASE("many threads make calls: they are counted exactly", "[threads]") {
  MemoryFileSystem memory;
  FaultFileSystem fs(memory);
  fs.inject({.ops = ops_of(FileOp::kWrite), .nth = 300});
  std::atomic<unsigned> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto file = fs.create(std::to_string(t));
      for (int i = 0; i < 100; ++i) failed += !(*file)->append("x").is_ok();
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(failed == 1);
  REQUIRE(fs.operations(ops_of(FileOp::kWrite)) == 400);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
