// Tests of features that only the real file system has: modes, descriptors, errors of the system.
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/io/rooms.h"
#include "io/errno_status.h"
#include "io/vectors.h"

namespace ebbtide {
namespace {

unsigned mode_of(const std::string& path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

TEST_CASE("new file: only its owner can read it") {
  PosixRoom room;
  const mode_t before = ::umask(0);
  write_file(room.fs(), room.path("f"), "x");
  const auto lock = value_of(room.fs().lock(room.path("LOCK")));
  require_ok(room.fs().create_dir(room.path("d")));
  ::umask(before);
  REQUIRE(mode_of(room.path("f")) == 0600);
  REQUIRE(mode_of(room.path("LOCK")) == 0600);
  REQUIRE(mode_of(room.path("d")) == 0700);
}

TEST_CASE("lock: other processes see it, and every descriptor is close-on-exec") {
  PosixRoom room;
  const auto writer = value_of(room.fs().create(room.path("f")));
  const auto reader = value_of(room.fs().open(room.path("f")));
  const auto lock = value_of(room.fs().lock(room.path("LOCK")));
  int ours = 0;
  for (int fd = 0; fd < 256; ++fd) {
    char target[4096];
    const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, sizeof(target));
    if (length < 0 || Bytes(target, static_cast<std::size_t>(length)).find(room.dir()) == Bytes::npos) continue;
    ++ours;
    REQUIRE((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  }
  REQUIRE(ours == 4);  // the lock of a database has two descriptors

  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(room.fs().lock(room.path("LOCK")).status().code() == Code::kBusy ? 0 : 1);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("directory has the name of the lock file: the error names it and the remedy") {
  PosixRoom room;
  require_ok(room.fs().create_dir(room.path("LOCK")));
  const Status status = room.fs().lock(room.path("LOCK")).status();
  CHECK(status.to_string() == "I/O error: lock " + room.path("LOCK") + ": Is a directory; remove it: this file has no content");
}

TEST_CASE("link to nothing has the name of the temporary file: an atomic write replaces it") {
  PosixRoom room;
  REQUIRE(::symlink("nothing", room.path("CURRENT.tmp").c_str()) == 0);
  require_ok(write_file_atomically(room.fs(), room.dir(), "CURRENT", "one"));
  CHECK(value_of(read_file(room.fs(), room.path("CURRENT"))) == "one");
  CHECK(value_of(room.fs().list(room.dir())) == std::vector<std::string>{"CURRENT"});
}

TEST_CASE("file of a held lock is removed: the lock is still held") {
  PosixRoom room;
  auto lock = value_of(room.fs().lock(room.path("LOCK")));
  require_ok(room.fs().unlink(room.path("LOCK")));
  const Status second = room.fs().lock(room.path("LOCK")).status();
  CHECK(second.code() == Code::kBusy);
  CHECK(second.to_string().find("LOCK was removed") != std::string::npos);
  lock.reset();
  CHECK(room.fs().lock(room.path("LOCK")).is_ok());
}

TEST_CASE("pipe or directory has the name of a file: this is damage, and nothing waits for it") {
  PosixRoom room;
  REQUIRE(::mkfifo(room.path("000001.wal").c_str(), 0600) == 0);
  const Status pipe = room.fs().open(room.path("000001.wal")).status();
  CHECK(pipe.code() == Code::kCorruption);
  CHECK(pipe.to_string().find("000001.wal: not a regular file") != std::string::npos);
  REQUIRE(::mkdir(room.path("000002.data").c_str(), 0700) == 0);
  const Status directory = room.fs().open(room.path("000002.data")).status();
  CHECK(directory.code() == Code::kCorruption);
  CHECK(directory.to_string().find("000002.data: a directory") != std::string::npos);
}

TEST_CASE("loop of links or socket has the name of a file: this is damage") {
  PosixRoom room;
  for (const bool direct : {false, true}) {
    const std::string loop = room.path(direct ? "000001.data" : "000002.data");
    REQUIRE(::symlink(loop.c_str(), loop.c_str()) == 0);
    const Status looped = room.fs().open(loop, {.direct = direct}).status();
    CHECK(looped.code() == Code::kCorruption);
    CHECK(looped.to_string().find(loop) != std::string::npos);
  }
  REQUIRE(::mknod(room.path("000003.data").c_str(), S_IFSOCK | 0600, 0) == 0);
  CHECK(room.fs().open(room.path("000003.data")).status().code() == Code::kCorruption);
  write_file(room.fs(), room.path("f"), "x");
  CHECK(room.fs().open(room.path("f/000004.data")).status().code() == Code::kCorruption);
  CHECK(room.fs().open(room.path("000005.data")).status().is_not_found());
}

TEST_CASE("error is EIO or EACCES: it is an error of the file; EMFILE, ENOMEM or ENOSPC: it is not") {
  for (const int error : {EIO, EUCLEAN, EBADMSG, ENODATA, EACCES, EPERM}) {
    INFO(error);
    CHECK(is_file_error(errno_status("read", "db/1.data", error)));
    CHECK(is_file_error(errno_status("read", "db/1.data", error).with_context("table 1")));
  }
  for (const int error : {EMFILE, ENFILE, ENOMEM, EINVAL, ENOENT, ENOSPC}) {
    INFO(error);
    CHECK_FALSE(is_file_error(errno_status("read", "db/1.data", error)));
  }
  CHECK_FALSE(is_file_error(Status::ok()));
}

TEST_CASE("sparse file of a terabyte is read: this is refused without an allocation") {
  PosixRoom room;
  write_file(room.fs(), room.path("f"), "x");
  if (!room.fs().truncate(room.path("f"), std::uint64_t{1} << 40).is_ok()) return;  // this file system has no files so large
  REQUIRE(read_file(room.fs(), room.path("f")).status().code() == Code::kCorruption);
}

TEST_CASE("gathered write is partial: exactly the rest is left") {
  const std::string pieces[] = {"abc", "d", "efgh"};
  for (std::size_t written = 0; written <= 8; ++written) {
    iovec all[3];
    for (std::size_t i = 0; i < 3; ++i) all[i] = {const_cast<char*>(pieces[i].data()), pieces[i].size()};
    std::span<iovec> left(all);
    drop_written(&left, written);
    std::string rest;
    for (const iovec& vector : left) rest.append(static_cast<const char*>(vector.iov_base), vector.iov_len);
    REQUIRE(rest == std::string("abcdefgh").substr(written));
  }
}

TEST_CASE("write is short: it is continued and then returns its error") {
  PosixRoom room;
  // The file-size limit makes the kernel take a part of the first write and refuse the rest.
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 10'000, .rlim_max = 10'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto file = room.fs().create(room.path("f"));
    if (!file.is_ok()) ::_exit(1);
    const std::string a(6000, 'a'), b(6000, 'b');
    const Bytes pieces[] = {a, b};
    const Status status = (*file)->append(pieces);
    if (status.code() != Code::kIoError || !status.message().starts_with("write " + room.path("f") + ": ")) ::_exit(2);
    ::_exit((*file)->size() == 10'000 ? 0 : 3);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  REQUIRE(value_of(read_file(room.fs(), room.path("f"))) == std::string(6000, 'a') + std::string(4000, 'b'));
}

TEST_CASE("file is written back between appends: it has all appended bytes") {
  PosixRoom room;
  const auto file = value_of(room.fs().create(room.path("f")));
  std::string expected;
  for (int i = 0; i < 40; ++i) {
    const std::string piece(1 + static_cast<std::size_t>(i) * 1000, static_cast<char>('a' + i % 26));
    require_ok(file->append(piece));
    require_ok(file->write_back());
    expected += piece;
  }
  require_ok(file->write_back());
  require_ok(file->sync());
  require_ok(file->close());
  REQUIRE(value_of(read_file(room.fs(), room.path("f"))) == expected);
}

TEST_CASE("page was just written: it is read without waiting, if the file system supports this") {
  PosixRoom room;
  write_file(room.fs(), room.path("f"), std::string(8192, 'x'));
  const auto file = value_of(room.fs().open(room.path("f")));
  std::string buffer(4096, '\0');
  if (value_of(file->read_if_cached(100, 4096, buffer.data()))) REQUIRE(buffer == std::string(4096, 'x'));
  const auto direct = value_of(room.fs().open(room.path("f"), {.direct = true}));
  require_ok(direct->read(8000, 192, buffer.data()));
  REQUIRE(buffer.substr(0, 192) == std::string(192, 'x'));
}

// --- queued reads

// Waits for all queued reads. Returns the bytes of each read, by its tag.
std::map<std::uint64_t, std::optional<std::string>> reap_all(ReadQueue& queue) {
  std::map<std::uint64_t, std::optional<std::string>> ended;
  while (queue.unfinished() != 0) {
    queue.submit();
    queue.wait();
    queue.reap(7, [&](std::uint64_t tag, std::optional<Bytes> bytes) {
      REQUIRE(ended.count(tag) == 0);
      ended[tag] = bytes.has_value() ? std::optional(std::string(*bytes)) : std::nullopt;
    });
  }
  return ended;
}

TEST_CASE("read queue: it returns the same bytes as read(), for any number of queued reads") {
  PosixRoom room;
  const auto queue = room.fs().new_read_queue();
  if (queue == nullptr) {
    WARN("io_uring is not allowed here");
    return;
  }
  std::string content(3'000'001, '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>((i * 2654435761u) >> 13);
  write_file(room.fs(), room.path("f"), content);
  for (const bool direct : {false, true}) {
    CAPTURE(direct);
    const auto file = value_of(room.fs().open(room.path("f"), {.direct = direct}));
    std::vector<std::pair<std::uint64_t, std::uint32_t>> wanted;
    for (std::uint64_t i = 0; i < 2'000; ++i) {
      const std::uint64_t offset = i * 7'919'000'003 % (content.size() - 70'000);
      wanted.emplace_back(offset, i % 97 == 0 ? 70'000 : 1 + static_cast<std::uint32_t>(i * 31 % 5'000));
    }
    wanted.emplace_back(content.size() - 1, 1);
    for (std::size_t i = 0; i < wanted.size(); ++i) REQUIRE(queue->add(*file, wanted[i].first, wanted[i].second, i));
    REQUIRE(queue->unfinished() == wanted.size());
    const auto ended = reap_all(*queue);
    REQUIRE(ended.size() == wanted.size());
    for (const auto& [tag, bytes] : ended) {
      REQUIRE(bytes.has_value());
      REQUIRE(*bytes == Bytes(content).substr(wanted[tag].first, wanted[tag].second));
    }
  }
}

TEST_CASE("read queue: a read past the end fails, and a file of another file system is refused") {
  PosixRoom room;
  const auto queue = room.fs().new_read_queue();
  if (queue == nullptr) {
    WARN("io_uring is not allowed here");
    return;
  }
  write_file(room.fs(), room.path("f"), std::string(5'000, 'x'));
  const auto file = value_of(room.fs().open(room.path("f")));
  REQUIRE(queue->add(*file, 4'990, 11, 1));
  REQUIRE(queue->add(*file, 4'990, 10, 2));
  REQUIRE(queue->add(*file, 60'000, 10, 3));
  const auto ended = reap_all(*queue);
  CHECK(ended.at(1) == std::nullopt);
  CHECK(ended.at(2) == std::string(10, 'x'));
  CHECK(ended.at(3) == std::nullopt);

  MemoryFileSystem memory;
  CHECK(memory.new_read_queue() == nullptr);
  write_file(memory, "f", "x");
  const auto unknown = value_of(memory.open("f"));
  CHECK_FALSE(queue->add(*unknown, 0, 1, 4));
}

TEST_CASE("read queue with submitted and queued reads: it may be destroyed") {
  PosixRoom room;
  auto queue = room.fs().new_read_queue();
  if (queue == nullptr) {
    WARN("io_uring is not allowed here");
    return;
  }
  write_file(room.fs(), room.path("f"), std::string(1 << 20, 'x'));
  const auto file = value_of(room.fs().open(room.path("f"), {.direct = true}));
  for (std::uint64_t i = 0; i < 1'000; ++i) REQUIRE(queue->add(*file, i * 1'000, 4'096, i));
  queue->submit();
  queue.reset();
}

}  // namespace
}  // namespace ebbtide
