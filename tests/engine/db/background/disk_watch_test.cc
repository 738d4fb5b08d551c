// Tests of which writes may use the free space of a small simulated disk that other programs fill and empty.
#include "db/background/disk_watch.h"

#include <catch2/catch.hpp>

#include "io/memory_fs.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kDisk = 64 * kMiB, kReserve = 4 * kMiB;  // the disk counts as nearly full below 3.2 MiB

struct Disk {
  explicit Disk(std::uint64_t max_disk_bytes = 0)
      : watch({.fs = &fs, .dir = "data", .max_disk_bytes = max_disk_bytes, .reserve_bytes = 8 * kMiB}) {
    REQUIRE(fs.create_dir("data").is_ok());
    fs.set_capacity(kDisk);
    REQUIRE(watch.open().is_ok());
    ballast = std::move(fs.create("ballast")).value();
  }
  /// Another program takes or frees space until `bytes` are free.
  void leave(std::uint64_t bytes) {
    const std::uint64_t free = fs.disk_space("data")->free_bytes;
    if (free > bytes) {
      const std::string some(static_cast<std::size_t>(free - bytes), 'x');
      (void)ballast->append(some);
    } else {
      const std::uint64_t size = *fs.file_size("ballast");
      ballast.reset();
      REQUIRE(fs.unlink("ballast").is_ok());
      ballast = std::move(fs.create("ballast")).value();
      const std::string rest(static_cast<std::size_t>(size - (bytes - free)), 'x');
      REQUIRE(ballast->append(rest).is_ok());
    }
    watch.look({});
  }
  void settle() {
    for (int i = 0; i < 3; ++i) {
      watch.look({});
      if (watch.wants_reserve()) (void)watch.set_aside_reserve();
    }
  }
  MemoryFileSystem fs;
  DiskWatch watch;
  std::unique_ptr<WritableFile> ballast;
};

TEST_CASE("disk becomes full: the reserve file is removed, and made again once there is room") {
  Disk disk;
  CHECK(disk.watch.wants_reserve());
  disk.settle();
  CHECK(disk.watch.reserve_bytes() == kReserve);
  CHECK_FALSE(disk.watch.full(0));

  disk.leave(4 * kMiB);
  CHECK_FALSE(disk.watch.full(0));
  disk.leave(3 * kMiB);
  CHECK(disk.watch.full(0));
  CHECK(disk.watch.reserve_bytes() == kReserve);
  disk.leave(kMiB);
  CHECK(disk.watch.full(0));
  CHECK(disk.watch.reserve_bytes() == 0);
  CHECK(disk.fs.disk_space("data")->free_bytes >= 3 * kMiB);

  // The released reserve must not be used for new data.
  disk.leave(4 * kMiB);
  disk.settle();
  CHECK(disk.watch.full(0));
  CHECK(disk.watch.reserve_bytes() == 0);
  disk.leave(9 * kMiB);
  disk.settle();
  CHECK_FALSE(disk.watch.full(0));
  CHECK(disk.watch.reserve_bytes() == kReserve);
}

TEST_CASE("disk fills between two ticks: free space is measured again after enough logged bytes") {
  Disk disk;
  disk.settle();
  disk.leave(5 * kMiB);
  disk.watch.look({.logged_bytes = 1000});
  CHECK_FALSE(disk.watch.full(1000));
  REQUIRE(disk.ballast->append(std::string(2 * kMiB, 'x')).is_ok());
  CHECK_FALSE(disk.watch.full(1000 + (10 << 10)));  // too little was logged for another check
  CHECK(disk.watch.full(1000 + kMiB));
}

TEST_CASE("disk is nearly full: merges are refused, and a write that finds it full frees the reserve") {
  Disk disk;
  disk.settle();
  CHECK(disk.watch.may_compact(kMiB, DiskUse::kMerge).is_ok());
  disk.leave(500 << 10);
  CHECK(disk.watch.reserve_bytes() == 0);  // the file is removed already
  disk.leave(500 << 10);
  CHECK(disk.watch.may_compact(64 << 10, DiskUse::kMerge).is_ok());
  CHECK(disk.watch.may_compact(256 << 10, DiskUse::kMerge).code() == Code::kNoSpace);
  CHECK_FALSE(disk.watch.give_up_reserve());
  disk.leave(20 * kMiB);
  disk.settle();
  CHECK(disk.watch.give_up_reserve());
  CHECK(disk.watch.reserve_bytes() == 0);
}

// Otherwise new data could fill the released reserve before the next check, with no space left for healing.
TEST_CASE("write failed on a full disk: further writes of data are refused until a check finds free space") {
  Disk disk;
  disk.settle();
  CHECK_FALSE(disk.watch.full(0));
  const std::string all(disk.fs.disk_space("data")->free_bytes, 'x');
  REQUIRE(disk.ballast->append(all).is_ok());
  CHECK_FALSE(disk.watch.full(0));  // no check has run yet
  CHECK(disk.watch.give_up_reserve());
  CHECK(disk.watch.full(0));
  disk.leave(20 * kMiB);
  disk.settle();
  CHECK_FALSE(disk.watch.full(0));
}

// Regression: a merge took the space of a flush, and then deletes were refused.
TEST_CASE("flush of memtables needs disk space: new data and merges cannot use that space") {
  Disk disk;
  disk.settle();
  disk.leave(6 * kMiB);
  const auto with = [&](std::uint64_t unflushed) { disk.watch.look({.logged_bytes = kMiB, .unflushed_bytes = unflushed}); };
  with(2 * kMiB);
  CHECK_FALSE(disk.watch.full(kMiB));
  CHECK(disk.watch.may_compact(3 * kMiB, DiskUse::kMerge).is_ok());
  with(4 * kMiB);
  CHECK(disk.watch.full(kMiB));
  CHECK(disk.watch.may_compact(kMiB, DiskUse::kMerge).is_ok());
  CHECK(disk.watch.may_compact(2 * kMiB, DiskUse::kMerge).code() == Code::kNoSpace);
  CHECK(disk.watch.reserve_bytes() == kReserve);
  with(5 * kMiB);
  CHECK(disk.watch.reserve_bytes() == 0);
  // Until the next check, the space for the flush of logged data is not known yet.
  disk.leave(20 * kMiB);
  disk.settle();
  disk.leave(6 * kMiB);
  with(0);
  CHECK_FALSE(disk.watch.full(kMiB));
  CHECK(disk.watch.full(4 * kMiB));
  CHECK(disk.watch.may_compact(3 * kMiB, DiskUse::kMerge).code() == Code::kNoSpace);
}

TEST_CASE("there is no reserve file: merges that are not for deadlines leave room for those that are") {
  Disk disk;
  disk.leave(2 * kMiB);  // so there is no reserve file
  REQUIRE(disk.watch.reserve_bytes() == 0);
  const std::uint64_t floor = kDisk / 160;
  CHECK(disk.watch.room(DiskUse::kMerge) == 2 * kMiB - floor);
  CHECK(disk.watch.room(DiskUse::kDeadline) == 2 * kMiB - floor);

  disk.watch.look({.unflushed_bytes = 100 << 10, .deadline_bytes = kMiB});
  const std::uint64_t deadlines = 2 * kMiB - floor - (100 << 10);
  CHECK(disk.watch.room(DiskUse::kMerge) == deadlines - kMiB);
  CHECK(disk.watch.room(DiskUse::kDeadline) == deadlines);
  CHECK(disk.watch.may_compact(deadlines - kMiB, DiskUse::kMerge).is_ok());
  CHECK(disk.watch.may_compact(deadlines - kMiB + 1, DiskUse::kMerge).code() == Code::kNoSpace);
  CHECK(disk.watch.may_compact(deadlines, DiskUse::kDeadline).is_ok());
  CHECK(disk.watch.may_compact(deadlines + 1, DiskUse::kDeadline).code() == Code::kNoSpace);

  // The possible output of a running merge is reserved.
  disk.watch.claim(kMiB + (200 << 10));
  CHECK(disk.watch.room(DiskUse::kMerge) == deadlines - kMiB - (200 << 10));
  CHECK(disk.watch.room(DiskUse::kDeadline) == deadlines);
  disk.watch.release(kMiB + (200 << 10));
  CHECK(disk.watch.room(DiskUse::kMerge) == deadlines - kMiB);

  // Other merges may use half of the free space of a full disk. The disk counts as full below 3.2 MiB plus the size of the
  // reserve file.
  disk.leave(7 * kMiB);
  disk.watch.look({.deadline_bytes = 64 * kMiB});
  CHECK(disk.watch.room(DiskUse::kMerge) == 7 * kMiB - floor - (kDisk / 20 + kReserve) / 2);
  CHECK(disk.watch.room(DiskUse::kDeadline) == 7 * kMiB - floor);
}

TEST_CASE("merge for a deadline needs the space of the reserve file: the disk watch removes the file") {
  Disk disk;
  disk.settle();
  disk.leave(6 * kMiB);
  disk.watch.look({.deadline_bytes = kMiB});
  const std::uint64_t floor = kDisk / 160;
  CHECK(disk.watch.room(DiskUse::kMerge) == 6 * kMiB - floor);
  CHECK(disk.watch.room(DiskUse::kDeadline) == 6 * kMiB - floor + kReserve);
  CHECK(disk.watch.may_compact(6 * kMiB, DiskUse::kMerge).code() == Code::kNoSpace);
  CHECK(disk.watch.may_compact(6 * kMiB - floor, DiskUse::kDeadline).is_ok());
  CHECK(disk.watch.may_compact(11 * kMiB, DiskUse::kDeadline).code() == Code::kNoSpace);
  CHECK(disk.watch.reserve_bytes() == kReserve);
  CHECK_FALSE(disk.watch.full(0));
  CHECK(disk.watch.may_compact(8 * kMiB, DiskUse::kDeadline).is_ok());
  CHECK(disk.watch.reserve_bytes() == 0);
  CHECK(disk.fs.disk_space("data")->free_bytes == 6 * kMiB + kReserve);
}

TEST_CASE("disk and size limit are used to different degrees: used_ratio() returns the higher one") {
  Disk disk(10 * kMiB);
  disk.leave(48 * kMiB);
  CHECK(disk.watch.used_ratio() == Approx(0.25));
  disk.watch.look({.file_bytes = 9 * kMiB});
  CHECK(disk.watch.used_ratio() == Approx(0.9));
  disk.leave(4 * kMiB);
  CHECK(disk.watch.used_ratio() > 0.9);
  Disk whole;
  whole.leave(16 * kMiB);
  whole.watch.look({.file_bytes = 60 * kMiB});
  CHECK(whole.watch.used_ratio() == Approx(0.75));
}

TEST_CASE("directory has a size limit: its files may use the disk up to the limit, except for the reserve") {
  Disk disk(10 * kMiB);
  disk.settle();
  CHECK(disk.watch.reserve_bytes() == kReserve);
  disk.watch.look({.file_bytes = 11 * kMiB});
  CHECK(disk.watch.full(0));
  disk.watch.look({.file_bytes = 10 * kMiB});
  CHECK_FALSE(disk.watch.full(0));
  disk.leave(4 * kMiB);
  CHECK_FALSE(disk.watch.full(0));
  disk.leave(kMiB + (kMiB / 2));
  CHECK(disk.watch.full(0));
}

}  // namespace TEST_FILE
}  // namespace ebbtide
