// Measures the free space on the disk, decides which uses may take it, and holds a reserve for a full disk.
//
//   free space:   |-- unflushed --|-- floor --|-- deadlines --|-- low / 2 --|-- low --|-- low + reserve --|------------
//   adds data     |               |           |               |             |         |  while the reserve is given up: no  |  yes
//   compactions   |              no           |    only for deadlines: no reserve, or one runs  |  yes                      ...
//   log, deletes, flushes, manifest: always
//
// `unflushed` is the size of all memtables. Their flush must always find room, whatever new data and compactions take, since a failed flush
// stops deletes, too. `low` is 5 % of the disk. Below half of it the reserve (io/reserve_file.h) is given up, so that deletes, flushes and
// compactions, which make room, can still run. New data may not use the space of the reserve. The reserve is created again when there is
// room for it.
//
// Compactions leave the last bytes to the log and to flushes: a merge can be aborted without loss, a write to the log cannot. `deadlines`
// is for merges that delete deadlines need, since other merges would use the space and free less. While the reserve is held, it serves this
// purpose: such a merge may have it given up. While such a merge runs, the space that it may write is reserved for it.
//
// The disk is measured on each tick. In between it is measured whenever an eighth of the room was logged: a disk that becomes full between
// two ticks would make the log fail, and with it deletes.
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
  std::uint64_t max_disk_bytes = 0;  ///< of the files in `dir`; 0 = 5 % of the disk stays free
  std::uint64_t reserve_bytes = 0;   ///< the reserve; less if that exceeds a 16th of the disk
};

/// A use of the disk's room: by merges of any kind, or by those that delete deadlines need.
enum class DiskUse : std::uint8_t { kMerge, kDeadline };

/// Thread-safe.
class DiskWatch {
 public:
  explicit DiskWatch(DiskWatchOptions options);

  /// Takes over the reserve that an earlier run has left.
  Status open();
  struct Use {
    std::uint64_t logged_bytes = 0;     ///< running total of bytes written to the log
    std::uint64_t file_bytes = 0;       ///< of all files together
    std::uint64_t unflushed_bytes = 0;  ///< of all memtables
    std::uint64_t deadline_bytes = 0;   ///< reserved for merges for deadlines, if the disk is large enough
  };
  /// Measures the disk.
  void look(const Use& use);
  /// True if writes that add data are refused. Nearly always two loads.
  bool full(std::uint64_t logged_bytes);
  /// kNoSpace if a compaction must not take `bytes` more. May give the reserve up for a deadline.
  Status may_compact(std::uint64_t bytes, DiskUse use);
  /// claim() begins and release() ends a merge for a deadline that writes at most `bytes`. Meanwhile other merges leave it that much room.
  void claim(std::uint64_t bytes) { claimed_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void release(std::uint64_t bytes) { claimed_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t claimed_bytes() const { return claimed_bytes_.load(std::memory_order_relaxed); }
  /// Bytes that compactions may take, measured now. The largest number if the disk cannot be measured.
  [[nodiscard]] std::uint64_t room(DiskUse use) const;
  /// Call it after a write found the disk full. Gives up the reserve so that the database can recover. Writes that add data are refused
  /// until the disk is measured again. True if there was a reserve.
  bool give_up_reserve();
  /// True if set_aside_reserve() should be called, on a thread for which no other thread waits.
  [[nodiscard]] bool wants_reserve() const { return wants_reserve_.load(std::memory_order_relaxed); }
  Status set_aside_reserve();
  [[nodiscard]] std::uint64_t reserve_bytes() const { return reserve_.bytes(); }
  /// The used part of the disk or of max_disk_bytes, whichever is larger, at the last measurement. 0 to 1; can exceed 1 for max_disk_bytes.
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
  std::atomic<std::uint64_t> look_again_at_{0};    // logged bytes
  Mutex mutex_;                                    // one measurement at a time
  Use use_ GUARDED_BY(mutex_);                     // as of the last look()
  std::atomic<std::uint64_t> unflushed_bytes_{0};  // at the last look(), plus bytes logged since
  std::atomic<std::uint64_t> deadline_bytes_{0};   // of the last look()
  std::atomic<std::uint64_t> claimed_bytes_{0};
};

}  // namespace ebbtide
