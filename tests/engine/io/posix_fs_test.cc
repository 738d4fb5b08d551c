// Tests of features that only the real file system has: modes, descriptors, errors of the system.
#include <engine/side_file.h>
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/io/rooms.h"
#include "io/errno_status.h"
#include "io/vectors.h"

namespace ebbtide {
namespace TEST_FILE {

unsigned mode_of(const std::string& path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

TEST_CASE("file is created: only its owner can read it") {
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

TEST_CASE("files and a lock are open: every descriptor is close-on-exec, and another process sees the lock") {
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

TEST_CASE("directory has the name of the lock file: the error names the path and says to remove it") {
  PosixRoom room;
  require_ok(room.fs().create_dir(room.path("LOCK")));
  const Status status = room.fs().lock(room.path("LOCK")).status();
  CHECK(status.to_string() == "I/O error: lock " + room.path("LOCK") + ": Is a directory; remove it: this file has no content");
}

TEST_CASE("broken link has the name of the temporary file: an atomic write replaces the link") {
  PosixRoom room;
  REQUIRE(::symlink("nothing", room.path("CURRENT.tmp").c_str()) == 0);
  require_ok(write_file_atomically(room.fs(), room.dir(), "CURRENT", "one"));
  CHECK(value_of(read_file(room.fs(), room.path("CURRENT"))) == "one");
  CHECK(value_of(room.fs().list(room.dir())) == std::vector<std::string>{"CURRENT"});
}

TEST_CASE("file of a held lock is removed: a second lock still fails") {
  PosixRoom room;
  auto lock = value_of(room.fs().lock(room.path("LOCK")));
  require_ok(room.fs().unlink(room.path("LOCK")));
  const Status second = room.fs().lock(room.path("LOCK")).status();
  CHECK(second.code() == Code::kBusy);
  CHECK(second.to_string().find("LOCK was removed") != std::string::npos);
  lock.reset();
  CHECK(room.fs().lock(room.path("LOCK")).is_ok());
}

TEST_CASE("file of a held lock is removed or replaced: renew() locks a new file, and reports this once") {
  PosixRoom room;
  const std::string path = room.path("LOCK");
  const auto lock = value_of(room.fs().lock(path));
  CHECK(value_of(lock->renew()).empty());
  require_ok(room.fs().unlink(path));
  CHECK(value_of(lock->renew()) == path + " was removed while the database used it; a new file was created and locked");
  CHECK(value_of(lock->renew()).empty());
  CHECK(room.fs().lock(path).status().to_string().find("lock " + path + ": held by another process") != std::string::npos);
  require_ok(room.fs().unlink(path));
  write_file(room.fs(), path, "");
  CHECK(value_of(lock->renew()) == path + " was replaced while the database used it; the new file is locked now");
  CHECK(value_of(lock->renew()).empty());
}

TEST_CASE(
    "file of a held lock is replaced and locked by another process: renew() fails, and the directory still counts as "
    "locked") {
  PosixRoom room;
  const std::string path = room.path("LOCK");
  const auto lock = value_of(room.fs().lock(path));
  require_ok(room.fs().unlink(path));
  const int other = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(::flock(other, LOCK_EX | LOCK_NB) == 0);
  const Status status = lock->renew().status();
  CHECK(status.code() == Code::kBusy);
  CHECK(status.to_string().find("another process has locked it") != std::string::npos);
  CHECK(lock->check_directory().is_ok());
  REQUIRE(::close(other) == 0);
  CHECK(value_of(lock->renew()) == path + " was replaced while the database used it; the new file is locked now");
}

TEST_CASE("file has a hole: next_data() returns an offset behind the hole and within the file") {
  PosixRoom room;
  const std::string path = room.path("f");
  constexpr std::uint64_t kData = 1 << 20, kEnd = 8 << 20;
  write_file(room.fs(), path, std::string(100, 'x'));
  require_ok(room.fs().truncate(path, kData));
  std::ofstream(path, std::ios::app) << "y";
  require_ok(room.fs().truncate(path, kEnd));
  const auto file = value_of(room.fs().open(path));
  CHECK(file->next_data(0) == 0);
  for (const std::uint64_t offset : {std::uint64_t{100}, std::uint64_t{65536}, kData - 1}) {
    const std::uint64_t data = file->next_data(offset);
    INFO(offset << " " << data);
    CHECK(data >= offset);
    CHECK(data <= kData);
  }
  CHECK(file->next_data(kData) == kData);
  CHECK(file->next_data(kEnd - 1) <= kEnd);
  CHECK(file->next_data(kEnd) == kEnd);
}

TEST_CASE("pipe or directory has the name of a file: open returns kCorruption without waiting") {
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

TEST_CASE("loop of links, or a socket, has the name of a file: open returns kCorruption") {
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

TEST_CASE("error is EIO or EACCES: it counts as an error of the file, unlike EMFILE, ENOMEM and ENOSPC") {
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

TEST_CASE("sparse file of a terabyte is read whole: the read is refused without an allocation") {
  PosixRoom room;
  write_file(room.fs(), room.path("f"), "x");
  if (!room.fs().truncate(room.path("f"), std::uint64_t{1} << 40).is_ok()) return;  // this file system has no files so large
  REQUIRE(read_file(room.fs(), room.path("f")).status().code() == Code::kCorruption);
}

TEST_CASE("gathered write is partial: exactly the unwritten bytes are left") {
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

TEST_CASE("system call writes only a part: the write continues with the rest, and then returns the error") {
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

TEST_CASE("write_back() sends bytes to the drive between appends: the file has all appended bytes") {
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

TEST_CASE("page was just written: read_if_cached() reads it, if the file system supports such reads") {
  PosixRoom room;
  write_file(room.fs(), room.path("f"), std::string(8192, 'x'));
  const auto file = value_of(room.fs().open(room.path("f")));
  std::string buffer(4096, '\0');
  if (value_of(file->read_if_cached(100, 4096, buffer.data()))) REQUIRE(buffer == std::string(4096, 'x'));
  const auto direct = value_of(room.fs().open(room.path("f"), {.direct = true}));
  require_ok(direct->read(8000, 192, buffer.data()));
  REQUIRE(buffer.substr(0, 192) == std::string(192, 'x'));
}

// --- a locked directory that is moved away

/// A directory whose name leads to another directory since it was locked. Both have files of the same names.
struct Replaced {
  PosixRoom room;
  std::string dir = room.path("data"), away = room.path("away");
  std::unique_ptr<FileLock> lock;

  Replaced() {
    make(dir, "own");
    lock = value_of(fs().lock(path("LOCK")));
    make(room.path("other"), "foreign");
    move(dir, away);
    move(room.path("other"), dir);
  }
  [[nodiscard]] FileSystem& fs() const { return room.fs(); }
  [[nodiscard]] std::string path(Bytes name) const { return join_path(dir, name); }
  void make(const std::string& place, Bytes content) const {
    require_ok(fs().create_dir(place));
    for (const char* name : {"a", "b", "c", "d"}) write_file(fs(), join_path(place, name), content);
  }
  static void move(const std::string& from, const std::string& to) { REQUIRE(::rename(from.c_str(), to.c_str()) == 0); }
  /// Returns the names of all files in a directory, each with its content, as a process without a lock sees them.
  static std::map<std::string, std::string> contents(const std::string& of) {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(of)) {
      std::ifstream in(entry.path(), std::ios::binary);
      found[entry.path().filename()] = {std::istreambuf_iterator<char>(in), {}};
    }
    return found;
  }
};

TEST_CASE("locked directory is replaced by another: every path in it still leads to the locked directory") {
  Replaced at;
  const auto foreign = Replaced::contents(at.dir);
  write_file(at.fs(), at.path("new"), "new");
  require_ok(at.fs().rename(at.path("a"), at.path("renamed")));
  require_ok(at.fs().unlink(at.path("b")));
  require_ok(at.fs().link(at.path("c"), at.path("linked")));
  require_ok(at.fs().link(at.path("c"), at.room.path("beside")));
  require_ok(at.fs().truncate(at.path("d"), 1));
  require_ok(at.fs().punch_hole(at.path("d"), 0, 1));
  require_ok(at.fs().sync_file(at.path("d")));
  require_ok(at.fs().allocate(at.path("RESERVE"), 4096));
  require_ok(write_file_atomically(at.fs(), at.dir, "CURRENT", "1"));
  require_ok(at.fs().create_dir(at.path("made")));
  require_ok(at.fs().remove_dir(at.path("made")));
  require_ok(at.fs().create_dir(at.dir));
  CHECK(Replaced::contents(at.dir) == foreign);
  CHECK(Replaced::contents(at.away) == std::map<std::string, std::string>{{"CURRENT", "1"},
                                                                          {"LOCK", ""},
                                                                          {"RESERVE", std::string(4096, '\0')},
                                                                          {"c", "own"},
                                                                          {"d", std::string(1, '\0')},
                                                                          {"linked", "own"},
                                                                          {"new", "new"},
                                                                          {"renamed", "own"}});
  CHECK(value_of(at.fs().list(at.dir)).size() == 8);
  CHECK(value_of(at.fs().list(at.dir + "/")).size() == 8);
  CHECK(value_of(read_file(at.fs(), at.dir + "//c")) == "own");
  CHECK(value_of(read_file(at.fs(), at.room.path("beside"))) == "own");
  CHECK((at.fs().exists(at.path("renamed")) && !at.fs().exists(at.path("a"))));
  CHECK(value_of(at.fs().file_size(at.path("d"))) == 1);
  CHECK(value_of(at.fs().link_count(at.path("c"))) == 3);
  CHECK(value_of(at.fs().allocated_bytes(at.path("RESERVE"))) >= 4096);
  CHECK(value_of(at.fs().disk_space(at.dir)).total_bytes == value_of(at.fs().disk_space(at.away)).total_bytes);
  CHECK(at.fs().lock(at.path("LOCK")).status().code() == Code::kBusy);
}

TEST_CASE("locked directory is replaced: paths beside it, and all paths after the lock's end, are resolved by name") {
  Replaced at;
  REQUIRE(::mkdir(at.room.path("data-backups").c_str(), 0700) == 0);
  write_file(at.fs(), at.room.path("data-backups/f"), "backup");
  write_file(at.fs(), at.room.path("beside"), "beside");
  CHECK(value_of(read_file(at.fs(), at.room.path("data-backups/f"))) == "backup");
  CHECK(value_of(read_file(at.fs(), at.path("../beside"))) == "beside");
  REQUIRE(::mkdir(at.room.path("archive").c_str(), 0700) == 0);
  Replaced::move(at.away, at.room.path("archive/away"));
  CHECK(value_of(read_file(at.fs(), at.path("../beside"))) == "beside");
  CHECK(value_of(read_file(at.fs(), at.path("a"))) == "own");
  at.lock.reset();
  CHECK(value_of(read_file(at.fs(), at.path("a"))) == "foreign");
  CHECK(at.fs().lock(at.path("LOCK")).is_ok());
}

TEST_CASE("locked directory is replaced: read_side_file() and write_side_file() use the locked directory") {
  Replaced at;
  const auto foreign = Replaced::contents(at.dir);
  CHECK(value_of(read_side_file(at.dir, "a", 100)) == "own");
  require_ok(write_side_file(at.dir, "a", "new"));
  CHECK(value_of(read_side_file(at.dir, "a", 100)) == "new");
  CHECK(read_side_file(at.dir, "a", 2).status().code() == Code::kCorruption);
  CHECK(Replaced::contents(at.away)["a"] == "new");
  CHECK(Replaced::contents(at.dir) == foreign);
}

TEST_CASE("locked directory is moved, replaced or removed: the error says where it is, until it is moved back") {
  PosixRoom room;
  const std::string dir = room.path("data"), away = room.path("away");
  require_ok(room.fs().create_dir(dir));
  const auto lock = value_of(room.fs().lock(join_path(dir, "LOCK")));
  require_ok(lock->check_directory());
  Replaced::move(dir, away);
  const std::string moved = "I/O error: " + dir + " was moved away or replaced while the database used it: it is now " + away +
                            "; move it back, and the server accepts writes again";
  CHECK(lock->check_directory().to_string() == moved);
  REQUIRE(::mkdir(dir.c_str(), 0700) == 0);
  CHECK(lock->check_directory().to_string() == moved);
  REQUIRE(::rmdir(dir.c_str()) == 0);
  REQUIRE(::symlink(away.c_str(), dir.c_str()) == 0);
  require_ok(lock->check_directory());  // the name leads to the directory again
  REQUIRE(::unlink(dir.c_str()) == 0);
  Replaced::move(away, dir);
  require_ok(lock->check_directory());
  require_ok(room.fs().unlink(join_path(dir, "LOCK")));
  require_ok(lock->check_directory());  // the directory is locked, too
  REQUIRE(::rmdir(dir.c_str()) == 0);
  REQUIRE(::mkdir(dir.c_str(), 0700) == 0);
  CHECK(lock->check_directory().to_string().find(dir + " was removed while the database used it") != std::string::npos);
  CHECK(room.fs().create(join_path(dir, "f")).status().is_not_found());
  CHECK(Replaced::contents(dir).empty());
}

TEST_CASE("locked directory was named by a link that now leads elsewhere: paths still lead to the locked directory") {
  PosixRoom room;
  for (const char* name : {"one", "two"}) require_ok(room.fs().create_dir(room.path(name)));
  const std::string dir = room.path("data");
  REQUIRE(::symlink("one", dir.c_str()) == 0);
  const auto lock = value_of(room.fs().lock(join_path(dir, "LOCK")));
  require_ok(lock->check_directory());
  REQUIRE(::unlink(dir.c_str()) == 0);
  REQUIRE(::symlink("two", dir.c_str()) == 0);
  CHECK(lock->check_directory().to_string().find("it is now " + room.path("one")) != std::string::npos);
  write_file(room.fs(), join_path(dir, "f"), "x");
  CHECK(room.fs().exists(room.path("one/f")));
  CHECK(Replaced::contents(room.path("two")).empty());
  REQUIRE(::unlink(dir.c_str()) == 0);
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

TEST_CASE("any number of reads is queued: the read queue returns the same bytes as read()") {
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

TEST_CASE("queued read is past the end of its file: it fails") {
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

TEST_CASE("read queue is destroyed with submitted and queued reads: the destructor waits for the submitted ones") {
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

}  // namespace TEST_FILE
}  // namespace ebbtide
