// Tests of space that is reserved, released and reserved again, on a real disk and on a small simulated one.
#include "io/reserve_file.h"

#include <unistd.h>

#include "engine/io/rooms.h"
#include "io/fault_fs.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr std::uint64_t kBytes = std::uint64_t{1} << 20;

TEMPLATE_TEST_CASE("space is reserved: the reserve file occupies that space until it is released", "", PosixRoom, MemoryRoom) {
  TestType room;
  ReserveFile reserve(room.fs(), room.dir());
  require_ok(reserve.open(kBytes));
  REQUIRE(reserve.bytes() == 0);
  require_ok(reserve.release());
  require_ok(reserve.create(kBytes));
  REQUIRE(reserve.bytes() == kBytes);
  REQUIRE(value_of(room.fs().allocated_bytes(room.path("RESERVE"))) >= kBytes);
  require_ok(reserve.create(2 * kBytes));  // a reserve file exists already
  REQUIRE(reserve.bytes() == kBytes);
  require_ok(reserve.release());
  REQUIRE(reserve.bytes() == 0);
  REQUIRE(value_of(room.fs().list(room.dir())).empty());
  require_ok(reserve.create(kBytes));
  REQUIRE(value_of(room.fs().list(room.dir())) == std::vector<std::string>{"RESERVE"});
}

TEST_CASE("reserve file of an earlier run exists: it is used if large enough, and otherwise removed") {
  MemoryRoom room;
  {
    ReserveFile reserve(room.fs(), room.dir());
    require_ok(reserve.create(kBytes));
  }
  ReserveFile again(room.fs(), room.dir());
  require_ok(again.open(kBytes));
  REQUIRE(again.bytes() == kBytes);
  ReserveFile larger(room.fs(), room.dir());
  require_ok(larger.open(2 * kBytes));
  REQUIRE(larger.bytes() == 0);
  REQUIRE(value_of(room.fs().list(room.dir())).empty());
  // A file of the right size without blocks reserves nothing.
  write_file(room.fs(), room.path("RESERVE"), "");
  require_ok(room.fs().truncate(room.path("RESERVE"), kBytes));
  ReserveFile hollow(room.fs(), room.dir());
  require_ok(hollow.open(kBytes));
  REQUIRE(hollow.bytes() == 0);
  REQUIRE(value_of(room.fs().list(room.dir())).empty());
}

TEST_CASE("size of an existing reserve file cannot be read: the file is removed and made again") {
  PosixRoom room;
  REQUIRE(::symlink("RESERVE", room.path("RESERVE").c_str()) == 0);  // a link to itself
  ReserveFile reserve(room.fs(), room.dir());
  require_ok(reserve.open(kBytes));
  REQUIRE(reserve.bytes() == 0);
  require_ok(reserve.create(kBytes));
  REQUIRE(reserve.bytes() == kBytes);
}

TEST_CASE("directory has the name of the reserve file: create() fails before it allocates anything") {
  MemoryRoom room;
  require_ok(room.fs().create_dir(room.path("RESERVE")));
  FaultFileSystem fs(room.fs());
  ReserveFile reserve(fs, room.dir());
  require_ok(reserve.open(kBytes));
  REQUIRE(reserve.bytes() == 0);
  REQUIRE(reserve.create(kBytes).to_string().find("RESERVE: Is a directory") != std::string::npos);
  REQUIRE(reserve.bytes() == 0);
  REQUIRE(fs.operations(ops_of(FileOp::kCreate)) == 0);
  REQUIRE(value_of(room.fs().list(room.dir())) == std::vector<std::string>{"RESERVE"});
  require_ok(room.fs().remove_dir(room.path("RESERVE")));
  require_ok(reserve.create(kBytes));
  REQUIRE(reserve.bytes() == kBytes);
}

TEST_CASE("disk is full: create() of the reserve file fails and leaves no file") {
  MemoryRoom room;
  room.fs().set_capacity(2 * kBytes);
  ReserveFile reserve(room.fs(), room.dir());
  require_ok(reserve.create(kBytes));
  const std::string rest(kBytes, 'x');
  write_file(room.fs(), room.path("rest"), rest);
  auto more = value_of(room.fs().create(room.path("more")));
  REQUIRE(more->append("y").code() == Code::kNoSpace);
  require_ok(reserve.release());
  require_ok(more->append("y"));
  REQUIRE(reserve.create(kBytes).code() == Code::kNoSpace);
  REQUIRE(reserve.bytes() == 0);
  REQUIRE(value_of(room.fs().list(room.dir())).size() == 2);
  require_ok(room.fs().unlink(room.path("rest")));
  require_ok(reserve.create(kBytes));
}

TEST_CASE("fault or crash at any call: all of the reserve file is left, or none") {
  for (std::uint64_t nth = 1;; ++nth) {
    INFO("operation " << nth);
    MemoryRoom room;
    FaultFileSystem fs(room.fs());
    fs.inject({.nth = nth});
    std::unique_ptr<MemoryFileSystem> crashed;
    fs.before_nth(nth, kMutatingOps, [&] { crashed = room.fs().crash_clone(nth); });
    ReserveFile reserve(fs, room.dir());
    const Status status = reserve.create(kBytes);
    if (crashed == nullptr) {
      REQUIRE(nth > 2);
      return;
    }
    REQUIRE(!status.is_ok());
    for (FileSystem* left : {static_cast<FileSystem*>(&room.fs()), static_cast<FileSystem*>(crashed.get())}) {
      ReserveFile after(*left, room.dir());
      require_ok(after.open(kBytes));
      require_ok(after.create(kBytes));
      REQUIRE(after.bytes() == kBytes);
      REQUIRE(value_of(left->list(room.dir())) == std::vector<std::string>{"RESERVE"});
    }
  }
}

}  // namespace TEST_FILE
}  // namespace ebbtide
