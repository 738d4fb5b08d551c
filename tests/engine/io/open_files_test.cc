// Tests of a limited number of open files, with the real file system and the simulated one.
#include "io/open_files.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "engine/io/rooms.h"
#include "io/fault_fs.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr int kFiles = 10;

std::string content_of(int file) { return "file " + std::to_string(file); }

std::string text_of(const RandomAccessFile& file) {
  std::string text(file.size(), '\0');
  require_ok(file.read(0, text.size(), text.data()));
  return text;
}

template <typename Room>
struct Files {
  explicit Files(std::uint64_t limit) : open(std::make_shared<OpenFiles>(room.fs(), limit)) {
    for (int f = 0; f < kFiles; ++f) {
      write_file(room.fs(), name(f), content_of(f));
      files.push_back(value_of(open->open(name(f))));
    }
  }
  std::string name(int file) { return room.path("f" + std::to_string(file)); }

  Room room;
  std::shared_ptr<OpenFiles> open;
  std::vector<std::unique_ptr<RandomAccessFile>> files;
};

/// Returns the number of this process's descriptors for files in the directory.
int descriptors_in(const std::string& dir) {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    std::array<char, 4096> target{};
    const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target.data(), target.size());
    if (length > 0 && Bytes(target.data(), static_cast<std::size_t>(length)).find(dir) != Bytes::npos) ++count;
  }
  return count;
}

TEST_CASE("more files are in use than may be open: some are closed, and a read opens its file again") {
  Files<PosixRoom> bed(3);
  REQUIRE(descriptors_in(bed.room.dir()) == 3);
  for (int round = 0; round < 3; ++round) {
    for (int f = 0; f < kFiles; ++f) REQUIRE(text_of(*bed.files[static_cast<std::size_t>(f)]) == content_of(f));
  }
  REQUIRE(descriptors_in(bed.room.dir()) == 3);
  REQUIRE(bed.open->counts().files == kFiles);
  REQUIRE(bed.open->counts().open == 3);
  REQUIRE(bed.open->counts().reopened >= 2 * kFiles);
  bed.files.clear();
  REQUIRE(descriptors_in(bed.room.dir()) == 0);
  REQUIRE(bed.open->counts().files == 0);
}

TEST_CASE("OpenFiles object is destroyed: the files that it opened can still be read") {
  Files<PosixRoom> bed(3);
  bed.open.reset();
  REQUIRE(text_of(*bed.files[0]) == content_of(0));
  REQUIRE(descriptors_in(bed.room.dir()) == 3);
}

TEST_CASE("number of open files has no limit: no file is closed") {
  Files<PosixRoom> bed(0);
  for (const auto& file : bed.files) (void)text_of(*file);
  REQUIRE(descriptors_in(bed.room.dir()) == kFiles);
  REQUIRE(bed.open->counts().reopened == 0);
}

TEST_CASE("file is read again and again: it stays open while others are closed") {
  Files<MemoryRoom> bed(3);
  (void)text_of(*bed.files[0]);
  const std::uint64_t before = bed.open->counts().reopened;
  for (std::size_t f = 1; f < kFiles; ++f) {
    (void)text_of(*bed.files[f]);
    (void)text_of(*bed.files[0]);
  }
  REQUIRE(bed.open->counts().reopened - before <= kFiles - 1);  // no reopened file was file 0
}

TEST_CASE("limit of open files is lowered: files beyond it are closed at once") {
  Files<PosixRoom> bed(0);
  bed.open->set_limit(2);
  REQUIRE(descriptors_in(bed.room.dir()) == 2);
  bed.open->set_limit(kFiles);
  for (const auto& file : bed.files) (void)text_of(*file);
  REQUIRE(descriptors_in(bed.room.dir()) == kFiles);
}

TEST_CASE("closed file was unlinked: reading it returns kCorruption, and the error names the file") {
  Files<MemoryRoom> bed(1);
  require_ok(bed.room.fs().unlink(bed.name(0)));
  char byte = 0;
  const Status status = bed.files[0]->read(0, 1, &byte);
  REQUIRE(status.code() == Code::kCorruption);
  REQUIRE(status.message().find(bed.name(0) + ": is missing") != Bytes::npos);
}

TEST_CASE("name of a closed file now leads to another file: reading it returns kCorruption") {
  Files<PosixRoom> bed(1);
  write_file(bed.room.fs(), bed.room.path("other"), content_of(5));
  require_ok(bed.room.fs().rename(bed.room.path("other"), bed.name(0)));
  char byte = 0;
  const Status status = bed.files[0]->read(0, 1, &byte);
  REQUIRE(status.code() == Code::kCorruption);
  REQUIRE(status.message().find("was replaced by another file") != Bytes::npos);
}

TEST_CASE("closed file was truncated: reading it returns kCorruption, and the error has both sizes") {
  Files<MemoryRoom> bed(1);
  require_ok(bed.room.fs().truncate(bed.name(0), 3));
  char byte = 0;
  const Status status = bed.files[0]->read(0, 1, &byte);
  REQUIRE(status.code() == Code::kCorruption);
  REQUIRE(status.message().find("has 3 bytes instead of 6") != Bytes::npos);
}

TEST_CASE("file is closed while its descriptor is in use: the descriptor stays valid") {
  Files<PosixRoom> bed(2);
  const NativeFile native = bed.files[0]->native();
  REQUIRE(native.descriptor >= 0);
  for (const auto& file : bed.files) (void)text_of(*file);
  std::string text(content_of(0).size(), '\0');
  REQUIRE(::pread(native.descriptor, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  REQUIRE(text == content_of(0));
}

TEST_CASE("read_if_cached() of a closed file: it returns false without opening the file, which could wait for the device") {
  Files<MemoryRoom> bed(1);
  char byte = 0;
  REQUIRE_FALSE(value_of(bed.files[0]->read_if_cached(0, 1, &byte)));
  REQUIRE(bed.open->counts().reopened == 0);
}

TEST_CASE("system refuses to open another file: half of the open files are closed, and the open succeeds") {
  MemoryRoom room;
  FaultFileSystem faulty(room.fs());
  const auto open = std::make_shared<OpenFiles>(faulty, 0);
  std::vector<std::unique_ptr<RandomAccessFile>> files;
  for (int f = 0; f < kFiles; ++f) {
    write_file(room.fs(), room.path("f" + std::to_string(f)), content_of(f));
    files.push_back(value_of(open->open(room.path("f" + std::to_string(f)))));
  }
  faulty.inject({.ops = ops_of(FileOp::kOpen)});
  const auto last = value_of(open->open(room.path("f0")));
  REQUIRE(open->counts().open == kFiles / 2 + 1);
}

TEST_CASE("open files reach 80 % of the limit: a warning is due once, and again only after fewer than 70 %") {
  Files<MemoryRoom> bed(kFiles + 2);
  REQUIRE(bed.open->newly_crowded());  // 10 of 12 files
  REQUIRE_FALSE(bed.open->newly_crowded());
  bed.open->set_limit(kFiles + 4);  // 71 % of the limit
  REQUIRE_FALSE(bed.open->newly_crowded());
  bed.open->set_limit(kFiles * 2);
  REQUIRE_FALSE(bed.open->newly_crowded());
  bed.open->set_limit(kFiles + 4);
  REQUIRE_FALSE(bed.open->newly_crowded());
  bed.open->set_limit(kFiles);
  REQUIRE(bed.open->newly_crowded());
}

TEST_CASE("threads read more files than may be open: all read the right bytes") {
  Files<PosixRoom> bed(2);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&bed, &wrong, t] {
      for (std::size_t n = 0; n < 2000; ++n) {
        const std::size_t f = (n * (t + 1) + t) % kFiles;
        std::string text(bed.files[f]->size(), '\0');
        if (!bed.files[f]->read(0, text.size(), text.data()).is_ok() || text != content_of(static_cast<int>(f))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(wrong == 0);
  REQUIRE(bed.open->counts().open <= 2);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
