// Reserved space for a full disk: a file that occupies blocks and has no content. When the disk is full it is unlinked, and the
// space lets deletes, flushes and compactions go on, which free more.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "io/file_system.h"

namespace ebbtide {

/// Thread-safe. release() never waits for create().
class ReserveFile {
 public:
  /// Does nothing yet. `fs` outlives this.
  ReserveFile(FileSystem& fs, std::string dir);

  /// Takes over the file of an earlier run if it occupies at least `bytes`; removes it if not.
  Status open(std::uint64_t bytes);
  /// Reserves `bytes`, durably. Ok if space is reserved already, or another call is reserving it. kNoSpace: there is too little
  /// space, and no file is left behind. May take as long as writing the bytes.
  Status create(std::uint64_t bytes);
  /// Releases the space; ok if none is reserved. After an error it still counts as reserved.
  Status release();
  /// Bytes reserved now; 0 = none.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_acquire); }

 private:
  FileSystem& fs_;
  const std::string dir_, path_;
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<bool> creating_{false};
};

}  // namespace ebbtide
