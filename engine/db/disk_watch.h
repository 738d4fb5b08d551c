// How much room the disk has, who may still use it, and what is kept back for when there is none.
//
//   free space:   |-- unflushed --|-- floor --|-- deadlines --|-- low / 2 --|-- low --|-- low + reserve --|------------
//   adds data     |               |           |               |             |         |  while the reserve is given up: no  |  yes
//   compactions   |              no           |    only for deadlines: no reserve, or one runs  |  yes                      ...
//   log, deletes, flushes, manifest: always
//
// `unflushed` is what memtables hold: the tables that they become must find their room, whatever data and compactions would like to
// take, because a flush that fails stops deletes too. `low` is 5 % of the disk. Below half of it the reserve is given up
// (io/reserve_file.h), so that deletes, flushes and compactions, which make room, can still run; what it gave back is not for new
// data. It is set aside again when there is room for it. Compactions leave the last bytes to the log and to flushes: a merge can
// be given up at no loss, a write to the log cannot. `deadlines` is for merges that delete deadlines need: others would take the
// room and make less of it. As long as the reserve is held it serves for that: such a merge may have it given up. While one runs,
// all that it may write is kept for it. The disk is looked at on each tick, and in between whenever an eighth of the room was
// logged: what fills it between two ticks would make the log fail, and with it deletes.
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
  std::uint64_t reserve_bytes = 0;   ///< at most; a 16th of the disk if that is less
};

/// A use of the disk's room: by merges of any kind, or by those that delete deadlines need.
enum class DiskUse : std::uint8_t { kMerge, kDeadline };

/// Thread-safe.
class DiskWatch {
 public:
  explicit DiskWatch(DiskWatchOptions options);

  /// Takes over the reserve that an earlier run left.
  Status open();
  struct Use {
    std::uint64_t logged_bytes = 0;     ///< the running total of what was logged
    std::uint64_t file_bytes = 0;       ///< what all files together have
    std::uint64_t unflushed_bytes = 0;  ///< what all memtables hold
    std::uint64_t deadline_bytes = 0;   ///< kept for merges for deadlines, if the disk is large enough
  };
  /// Measures.
  void look(const Use& use);
  /// Whether writes that add data are refused. Two loads, nearly always.
  bool full(std::uint64_t logged_bytes);
  /// kNoSpace if a compaction must not take `bytes` more. May give the reserve up for a deadline.
  Status may_compact(std::uint64_t bytes, DiskUse use);
  /// A merge for a deadline that writes at most so much begins, and ends: others leave it as much room meanwhile.
  void claim(std::uint64_t bytes) { claimed_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void release(std::uint64_t bytes) { claimed_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t claimed_bytes() const { return claimed_bytes_.load(std::memory_order_relaxed); }
  /// Bytes that compactions may take, measured now; as many as there can be if the disk cannot be measured.
  [[nodiscard]] std::uint64_t room(DiskUse use) const;
  /// Somebody found the disk full: gives the reserve up, and writes that add data are refused until it was measured again; what it
  /// gives back is for whatever heals. True if there was one.
  bool give_up_reserve();
  /// Whether set_aside_reserve() should be called, off any thread that others wait for.
  [[nodiscard]] bool wants_reserve() const { return wants_reserve_.load(std::memory_order_relaxed); }
  Status set_aside_reserve();
  [[nodiscard]] std::uint64_t reserve_bytes() const { return reserve_.bytes(); }
  /// Which part is used, of the disk or of max_disk_bytes, whichever is fuller; as of the last measurement, 0 to 1 and, of
  /// max_disk_bytes, beyond.
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
  std::atomic<std::uint64_t> unflushed_bytes_{0};  // at most: what was logged since counts, too
  std::atomic<std::uint64_t> deadline_bytes_{0};   // of the last look()
  std::atomic<std::uint64_t> claimed_bytes_{0};
};

}  // namespace ebbtide
