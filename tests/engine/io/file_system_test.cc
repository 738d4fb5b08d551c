// Tests of the behaviour that every file system must have, run with the real and the simulated one.
#include "io/file_system.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <memory>
#include <numeric>
#include <thread>

#include "base/random.h"
#include "engine/io/rooms.h"

namespace ebbtide {
namespace TEST_FILE {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

std::string noise(std::uint64_t seed, std::size_t bytes) {
  Random random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(1 + random.uniform(255));  // no zeros, so that holes are recognized
  return text;
}

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return names;
}

/// Checks that the error has this code, and that its message names operation and path as every error does.
void require_error(const Status& status, Code code, const std::string& start) {
  INFO(status.to_string());
  REQUIRE(status.code() == code);
  REQUIRE_THAT(std::string(status.message()), StartsWith(start + ": "));
}

TEMPLATE_TEST_CASE("bytes are appended: they read back as written", "", PosixRoom, MemoryRoom) {
  TestType room;
  FileSystem& fs = room.fs();
  auto file = value_of(fs.create(room.path("f")));
  REQUIRE(file->size() == 0);
  const Bytes pieces[] = {"ab", "", "cde", ""};
  require_ok(file->append(pieces));
  REQUIRE(file->size() == 5);
  require_ok(file->append(Bytes()));
  require_ok(file->append(std::span<const Bytes>()));
  require_ok(file->append("f"));
  require_ok(file->sync());
  REQUIRE(file->size() == 6);
  require_ok(file->close());
  require_ok(file->close());  // a second close has no effect
  REQUIRE(value_of(read_file(fs, room.path("f"))) == "abcdef");
  REQUIRE(value_of(fs.file_size(room.path("f"))) == 6);
  REQUIRE_FALSE(file->append("g").is_ok());
}

TEMPLATE_TEST_CASE("append() gets more buffers than one system call takes: all are written, in order", "", PosixRoom,
                   MemoryRoom) {
  TestType room;
  const std::string content = noise(7, 300'000);
  std::vector<Bytes> pieces;
  Random random(8);
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t length = std::min<std::size_t>(random.uniform(120), content.size() - at);
    pieces.push_back(Bytes(content).substr(at, length));
    at += length;
  }
  REQUIRE(pieces.size() > 4000);
  auto file = value_of(room.fs().create(room.path("f")));
  require_ok(file->append(pieces));
  REQUIRE(file->size() == content.size());
  REQUIRE(value_of(read_file(room.fs(), room.path("f"))) == content);
}

TEMPLATE_TEST_CASE("file is read at any offset: the read returns exactly its bytes, and none past the end", "", PosixRoom,
                   MemoryRoom) {
  TestType room;
  const std::string content = noise(1, 20'000);
  write_file(room.fs(), room.path("f"), content);
  const bool direct = GENERATE(false, true);
  auto file = value_of(room.fs().open(room.path("f"), {.direct = direct}));
  REQUIRE(file->size() == content.size());
  Random random(2);
  for (int i = 0; i < 300; ++i) {
    const std::size_t offset = random.uniform(content.size() + 1);
    const std::size_t length = random.uniform(content.size() - offset + 1);
    std::string buffer(length + 1, '~');
    require_ok(file->read(offset, length, buffer.data()));
    REQUIRE(buffer == content.substr(offset, length) + "~");
    std::string cached(length + 1, '~');
    if (value_of(file->read_if_cached(offset, length, cached.data()))) REQUIRE(cached == buffer);
  }
  alignas(4096) static char aligned[8192];
  require_ok(file->read(4096, 8192, aligned));
  REQUIRE(Bytes(aligned, 8192) == Bytes(content).substr(4096, 8192));
  char buffer[64];
  for (const std::size_t offset : {content.size() - 63, content.size(), content.size() + 100'000}) {
    const Status status = file->read(offset, 64, buffer);
    require_error(status, Code::kCorruption, "read " + room.path("f"));
    REQUIRE_THAT(std::string(status.message()), Contains(std::to_string(offset)));
    REQUIRE_FALSE((file->read_if_cached(offset, 64, buffer).is_ok() && *file->read_if_cached(offset, 64, buffer)));
  }
}

TEMPLATE_TEST_CASE("new file gets the name of an existing one: the error is kExists, and for a missing file kNotFound", "",
                   PosixRoom, MemoryRoom) {
  TestType room;
  FileSystem& fs = room.fs();
  write_file(fs, room.path("f"), "x");
  require_error(fs.create(room.path("f")).status(), Code::kExists, "create " + room.path("f"));
  REQUIRE(value_of(read_file(fs, room.path("f"))) == "x");  // the file must be unchanged
  require_error(fs.create(room.path("no/f")).status(), Code::kNotFound, "create " + room.path("no/f"));
  require_error(fs.create(room.path("f/f")).status(), Code::kIoError, "create " + room.path("f/f"));
  require_error(fs.open(room.path("g")).status(), Code::kNotFound, "open " + room.path("g"));
  require_error(fs.open(room.path("g"), {.direct = true}).status(), Code::kNotFound, "open " + room.path("g"));
  require_error(fs.open(room.dir()).status(), Code::kCorruption, "open " + room.dir());
  require_error(fs.unlink(room.path("g")), Code::kNotFound, "unlink " + room.path("g"));
  require_error(fs.file_size(room.path("g")).status(), Code::kNotFound, "stat " + room.path("g"));
  require_error(fs.allocated_bytes(room.path("g")).status(), Code::kNotFound, "stat " + room.path("g"));
  require_error(fs.link_count(room.path("g")).status(), Code::kNotFound, "stat " + room.path("g"));
  require_error(fs.truncate(room.path("g"), 0), Code::kNotFound, "truncate " + room.path("g"));
  require_error(fs.sync_file(room.path("g")), Code::kNotFound, "sync " + room.path("g"));
  require_error(fs.punch_hole(room.path("g"), 0, 1), Code::kNotFound, "punch " + room.path("g"));
  require_error(fs.list(room.path("g")).status(), Code::kNotFound, "list " + room.path("g"));
  require_error(fs.sync_dir(room.path("g")), Code::kNotFound, "sync directory " + room.path("g"));
  require_error(fs.remove_dir(room.path("g")), Code::kNotFound, "remove directory " + room.path("g"));
  require_error(fs.rename(room.path("g"), room.path("h")), Code::kNotFound, "rename " + room.path("g") + " to " + room.path("h"));
  require_error(fs.link(room.path("g"), room.path("h")), Code::kNotFound, "link " + room.path("g") + " to " + room.path("h"));
  require_error(fs.link(room.path("f"), room.path("f")), Code::kExists, "link " + room.path("f") + " to " + room.path("f"));
}

TEMPLATE_TEST_CASE("rename, link or unlink changes names: open files stay readable", "", PosixRoom, MemoryRoom) {
  TestType room;
  FileSystem& fs = room.fs();
  write_file(fs, room.path("a"), "aaa");
  write_file(fs, room.path("b"), "bbb");
  auto old_b = value_of(fs.open(room.path("b")));
  require_ok(fs.rename(room.path("a"), room.path("b")));
  REQUIRE(sorted(value_of(fs.list(room.dir()))) == std::vector<std::string>{"b"});
  REQUIRE(value_of(read_file(fs, room.path("b"))) == "aaa");
  char buffer[3];
  require_ok(old_b->read(0, 3, buffer));
  REQUIRE(Bytes(buffer, 3) == "bbb");

  REQUIRE(value_of(fs.link_count(room.path("b"))) == 1);
  require_ok(fs.link(room.path("b"), room.path("c")));
  REQUIRE(value_of(fs.link_count(room.path("b"))) == 2);
  require_ok(fs.rename(room.path("b"), room.path("c")));  // these are two names of one file, so nothing happens
  REQUIRE(sorted(value_of(fs.list(room.dir()))) == std::vector<std::string>{"b", "c"});
  require_ok(fs.unlink(room.path("b")));
  REQUIRE(value_of(fs.link_count(room.path("c"))) == 1);
  REQUIRE_FALSE(fs.exists(room.path("b")));
  REQUIRE(value_of(read_file(fs, room.path("c"))) == "aaa");

  auto writer = value_of(fs.create(room.path("d")));
  require_ok(fs.unlink(room.path("d")));
  require_ok(writer->append("still here"));
  require_ok(writer->sync());
  REQUIRE(sorted(value_of(fs.list(room.dir()))) == std::vector<std::string>{"c"});
}

TEMPLATE_TEST_CASE("directories are created and removed: list() shows those that exist", "", PosixRoom, MemoryRoom) {
  TestType room;
  FileSystem& fs = room.fs();
  require_ok(fs.create_dir(room.path("d")));
  require_ok(fs.create_dir(room.path("d")));
  REQUIRE(fs.exists(room.path("d")));
  require_error(fs.create_dir(room.path("x/y")), Code::kNotFound, "create directory " + room.path("x/y"));
  write_file(fs, room.path("f"), "");
  require_error(fs.create_dir(room.path("f")), Code::kExists, "create directory " + room.path("f"));
  write_file(fs, room.path("d/f"), "inner");
  require_ok(fs.sync_dir(room.path("d")));
  require_error(fs.remove_dir(room.path("d")), Code::kIoError, "remove directory " + room.path("d"));
  require_error(fs.remove_dir(room.path("f")), Code::kIoError, "remove directory " + room.path("f"));
  require_error(fs.unlink(room.path("d")), Code::kIoError, "unlink " + room.path("d"));
  require_error(fs.rename(room.path("d"), room.path("d/e")), Code::kIoError,
                "rename " + room.path("d") + " to " + room.path("d/e"));
  require_error(fs.rename(room.path("f"), room.path("d")), Code::kIoError, "rename " + room.path("f") + " to " + room.path("d"));
  require_ok(fs.rename(room.path("d"), room.path("e")));
  REQUIRE(value_of(read_file(fs, room.path("e/f"))) == "inner");
  require_ok(fs.rename(room.path("e/f"), room.path("g")));
  REQUIRE(value_of(fs.list(room.path("e"))).empty());
  require_ok(fs.remove_dir(room.path("e")));
  REQUIRE(sorted(value_of(fs.list(room.dir()))) == std::vector<std::string>{"f", "g"});
}

TEMPLATE_TEST_CASE("file is truncated to fewer or more bytes: its end is cut off, or zeros follow it", "", PosixRoom,
                   MemoryRoom) {
  TestType room;
  FileSystem& fs = room.fs();
  const std::string content = noise(3, 5000);
  write_file(fs, room.path("f"), content);
  require_ok(fs.truncate(room.path("f"), 700));
  require_ok(fs.sync_file(room.path("f")));
  REQUIRE(value_of(read_file(fs, room.path("f"))) == content.substr(0, 700));
  require_ok(fs.truncate(room.path("f"), 3000));
  REQUIRE(value_of(read_file(fs, room.path("f"))) == content.substr(0, 700) + std::string(2300, '\0'));
  require_ok(fs.truncate(room.path("f"), 0));
  REQUIRE(value_of(read_file(fs, room.path("f"))).empty());
}

TEMPLATE_TEST_CASE("file is made by allocate(): it occupies its size on disk", "", PosixRoom, MemoryRoom) {
  TestType room;
  require_ok(room.fs().allocate(room.path("f"), 300'000));
  REQUIRE(value_of(room.fs().file_size(room.path("f"))) == 300'000);
  REQUIRE(value_of(room.fs().allocated_bytes(room.path("f"))) >= 300'000);
  REQUIRE(room.fs().allocate(room.path("f"), 1).code() == Code::kExists);
  REQUIRE(value_of(room.fs().file_size(room.path("f"))) == 300'000);
  require_ok(room.fs().allocate(room.path("empty"), 0));
  REQUIRE(value_of(room.fs().file_size(room.path("empty"))) == 0);
}

TEMPLATE_TEST_CASE("file is larger than the limit for reading it whole: it is refused before memory is allocated", "", PosixRoom,
                   MemoryRoom) {
  TestType room;
  write_file(room.fs(), room.path("f"), "0123456789");
  REQUIRE(value_of(read_file(room.fs(), room.path("f"), 10)) == "0123456789");
  const Status status = read_file(room.fs(), room.path("f"), 9).status();
  REQUIRE(status.code() == Code::kCorruption);
  REQUIRE(status.to_string().find(room.path("f") + ": has 10 bytes; at most 9") != std::string::npos);
}

TEMPLATE_TEST_CASE("hole is punched: its bytes read as zeros, and its disk space is free", "", PosixRoom, MemoryRoom) {
  TestType room;
  FileSystem& fs = room.fs();
  constexpr std::size_t kKiB = 1024;
  std::string content = noise(4, 256 * kKiB);
  write_file(fs, room.path("f"), content);
  const std::uint64_t before = value_of(fs.allocated_bytes(room.path("f")));
  REQUIRE(before >= 256 * kKiB);
  const Status punched = fs.punch_hole(room.path("f"), 64 * kKiB, 128 * kKiB);
  if (punched.code() == Code::kUnsupported) return;  // the temporary directory's file system cannot punch holes
  require_ok(punched);
  require_ok(fs.sync_file(room.path("f")));
  content.replace(64 * kKiB, 128 * kKiB, 128 * kKiB, '\0');
  REQUIRE(value_of(read_file(fs, room.path("f"))) == content);
  REQUIRE(value_of(fs.allocated_bytes(room.path("f"))) == before - 128 * kKiB);

  // A range that is not aligned zeroes exactly its bytes; a range past the end does nothing.
  require_ok(fs.punch_hole(room.path("f"), 100, 1000));
  require_ok(fs.punch_hole(room.path("f"), 2000, 10));
  require_ok(fs.punch_hole(room.path("f"), 256 * kKiB - 5, 100));
  require_ok(fs.punch_hole(room.path("f"), 300 * kKiB, 100));
  require_ok(fs.punch_hole(room.path("f"), 3000, 0));
  content.replace(100, 1000, 1000, '\0').replace(2000, 10, 10, '\0').replace(256 * kKiB - 5, 5, 5, '\0');
  REQUIRE(value_of(read_file(fs, room.path("f"))) == content);
  REQUIRE(value_of(fs.file_size(room.path("f"))) == 256 * kKiB);
}

TEMPLATE_TEST_CASE("file is locked: a second lock fails until the first is released", "", PosixRoom, MemoryRoom) {
  TestType room;
  FileSystem& fs = room.fs();
  auto lock = value_of(fs.lock(room.path("LOCK")));
  require_error(fs.lock(room.path("LOCK")).status(), Code::kBusy, "lock " + room.path("LOCK"));
  auto other = value_of(fs.lock(room.path("LOCK2")));
  lock.reset();
  lock = value_of(fs.lock(room.path("LOCK")));
  REQUIRE(fs.exists(room.path("LOCK")));
  require_error(fs.lock(room.path("no/LOCK")).status(), Code::kNotFound, "lock " + room.path("no/LOCK"));
}

TEMPLATE_TEST_CASE("file is written atomically: the new content replaces the old, and no temporary file is left", "", PosixRoom,
                   MemoryRoom) {
  TestType room;
  FileSystem& fs = room.fs();
  require_ok(write_file_atomically(fs, room.dir(), "CURRENT", "one"));
  write_file(fs, room.path("CURRENT.tmp"), "left by a crash, and longer than what comes");
  require_ok(write_file_atomically(fs, room.dir(), "CURRENT", "two"));
  REQUIRE(value_of(read_file(fs, room.path("CURRENT"))) == "two");
  REQUIRE(value_of(fs.list(room.dir())) == std::vector<std::string>{"CURRENT"});
  REQUIRE(write_file_atomically(fs, room.path("no"), "CURRENT", "x").is_not_found());
}

TEMPLATE_TEST_CASE("part of a file is copied: the copy has these bytes, and a part beyond the file leaves no copy", "", PosixRoom,
                   MemoryRoom) {
  TestType room;
  FileSystem& fs = room.fs();
  const std::string content = std::string(1'500'000, 'x') + "the end";
  write_file(fs, room.path("from"), content);
  require_ok(copy_file(fs, room.path("from"), room.path("all"), content.size()));
  REQUIRE(value_of(read_file(fs, room.path("all"))) == content);
  require_ok(copy_file(fs, room.path("from"), room.path("tail"), 3, content.size() - 3));
  REQUIRE(value_of(read_file(fs, room.path("tail"))) == "end");
  require_ok(copy_file(fs, room.path("from"), room.path("none"), 0, content.size()));
  REQUIRE(value_of(fs.file_size(room.path("none"))) == 0);
  require_error(copy_file(fs, room.path("from"), room.path("more"), content.size(), 1), Code::kCorruption,
                "copy " + room.path("from"));
  REQUIRE_FALSE(fs.exists(room.path("more")));
  require_error(copy_file(fs, room.path("from"), room.path("all"), 1), Code::kExists, "create " + room.path("all"));
  REQUIRE(value_of(read_file(fs, room.path("all"))) == content);
}

TEMPLATE_TEST_CASE("space of a disk is requested: the result has the bytes that this user may use, and all bytes", "", PosixRoom,
                   MemoryRoom) {
  TestType room;
  const DiskSpace space = value_of(room.fs().disk_space(room.dir()));
  REQUIRE(space.total_bytes > 0);
  REQUIRE(space.free_bytes <= space.total_bytes);
}

TEMPLATE_TEST_CASE("one thread syncs while another appends: both succeed, and all bytes are there", "[threads]", PosixRoom,
                   MemoryRoom) {
  TestType room;
  auto file = value_of(room.fs().create(room.path("f")));
  Status synced;
  std::thread syncer([&] {
    for (int i = 0; i < 50 && synced.is_ok(); ++i) {
      synced = file->sync();
      if (file->size() > 40'000) synced = Status::corruption("larger than what is ever appended");
    }
  });
  Status appended;
  for (int i = 0; i < 200 && appended.is_ok(); ++i) appended = file->append(noise(static_cast<std::uint64_t>(i), 200));
  syncer.join();
  require_ok(appended);
  require_ok(synced);
  REQUIRE(value_of(room.fs().file_size(room.path("f"))) == 40'000);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
