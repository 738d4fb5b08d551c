// Measures the free space on the disk, decides which uses may take it, and keeps a reserve for a full disk.
//
// Each use may take free space only as long as the following bytes stay free:
//
//   log, deletes, flushes, manifest     none
//   compactions for delete deadlines    unflushed + floor; the reserve counts as free
//   other compactions                   unflushed + floor + deadlines
//   writes that add data                unflushed + low, plus the size of the reserve while the reserve does not exist
//
// `unflushed` is the size of all memtables. Their flush must always find room, however much space new data and compactions take,
// since a failed flush stops deletes, too. `low` is 5 % of the disk. When less than unflushed + low / 2 is free, the reserve
// (io/reserve_file.h) is released. Deletes, flushes and compactions can then still run, and make room. New data may not use the
// space of the reserve. The reserve is created again when there is room for it.
//
// Compactions leave `floor`, an eighth of `low`, to the log: a merge can be aborted without loss, a write to the log cannot.
// `deadlines` is only for merges that delete deadlines need, since other merges would use the space and free less. It is 0 while
// the reserve exists, since the reserve is then released for such a merge. While such a merge runs, `deadlines` is at least the
// number of bytes that the merge may write.
//
// The disk is measured on each tick, and between ticks whenever an eighth of the room was logged. A disk that became full between
// two ticks would make the log fail, and then deletes would fail, too.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/mutex.h"
#include "io/file_system.h"
#include "io/reserve_file.h"

namespace ebbtide {

struct DiskWatchOptions {
  FileSystem* fs = nullptr;
  std::string dir;
  std::uint64_t max_disk_bytes = 0;  ///< bytes that the files in `dir` may use; 0 = 5 % of the disk stays free
  std::uint64_t reserve_bytes = 0;   ///< size of the reserve; at most a 16th of the disk
};

/// A use of the disk's room: by any merge, or by a merge that a delete deadline needs.
enum class DiskUse : std::uint8_t { kMerge, kDeadline };

/// Watches the free space on the disk that holds the data directory. Thread-safe.
class DiskWatch {
 public:
  explicit DiskWatch(DiskWatchOptions options);

  /// Measures the disk, and takes over the reserve that an earlier run has left.
  Status open();
  struct Use {
    std::uint64_t logged_bytes = 0;     ///< running total of bytes written to the log
    std::uint64_t file_bytes = 0;       ///< bytes of all files in the directory
    std::uint64_t unflushed_bytes = 0;  ///< bytes of all memtables
    std::uint64_t deadline_bytes = 0;   ///< bytes reserved for merges for deadlines, if the disk is large enough
  };
  /// Stores `use`, measures the free space on the disk, and decides whether writes that add data are refused.
  void look(const Use& use);
  /// Returns true if writes that add data are refused. Costs two loads, except when a measurement is due.
  bool full(std::uint64_t logged_bytes);
  /// Returns kNoSpace if a compaction must not take `bytes` more. May release the reserve for a deadline.
  Status may_compact(std::uint64_t bytes, DiskUse use);
  /// claim() begins and release() ends a merge for a deadline that writes at most `bytes`. In between, other merges leave that
  /// much room free.
  void claim(std::uint64_t bytes) { claimed_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void release(std::uint64_t bytes) { claimed_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t claimed_bytes() const { return claimed_bytes_.load(std::memory_order_relaxed); }
  /// Returns the bytes that compactions may take, measured now. Returns the largest number if the disk cannot be measured.
  [[nodiscard]] std::uint64_t room(DiskUse use) const;
  /// Releases the reserve so that the database can recover. Call this after a write found the disk full. Writes that add data are
  /// refused until the disk is measured again. Returns true if there was a reserve.
  bool give_up_reserve();
  /// True if set_aside_reserve() should be called, on a thread for which no other thread waits.
  [[nodiscard]] bool wants_reserve() const { return wants_reserve_.load(std::memory_order_relaxed); }
  Status set_aside_reserve();
  [[nodiscard]] std::uint64_t reserve_bytes() const { return reserve_.bytes(); }
  /// Returns the used part of the disk or of max_disk_bytes, whichever is larger, at the last measurement. 0 to 1, but can exceed
  /// 1 for max_disk_bytes.
  [[nodiscard]] double used_ratio() const { return used_ratio_.load(std::memory_order_relaxed); }

 private:
  void measure(std::uint64_t logged_bytes) REQUIRES(mutex_);
  [[nodiscard]] std::uint64_t wanted_reserve(const DiskSpace& space) const;
  [[nodiscard]] std::uint64_t low(const DiskSpace& space) const;
  [[nodiscard]] std::uint64_t room_of(const DiskSpace& space, DiskUse use) const;

  const DiskWatchOptions options_;
  ReserveFile reserve_;
  std::atomic<bool> full_{false}, wants_reserve_{false};
  std::atomic<double> used_ratio_{0};
  std::atomic<std::uint64_t> look_again_at_{0};    // number of logged bytes at which the disk is measured again
  Mutex mutex_;                                    // held during a measurement
  Use use_ GUARDED_BY(mutex_);                     // the argument of the last look()
  std::atomic<std::uint64_t> unflushed_bytes_{0};  // use_.unflushed_bytes, plus the bytes logged since the last look()
  std::atomic<std::uint64_t> deadline_bytes_{0};   // use_.deadline_bytes, readable without the mutex
  std::atomic<std::uint64_t> claimed_bytes_{0};
};

}  // namespace ebbtide
