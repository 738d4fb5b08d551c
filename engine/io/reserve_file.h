// Space kept back for a full disk: a file that occupies blocks and holds nothing. When nothing is left it is unlinked, and what
// it occupied lets deletes, flushes and compactions, which are what makes room, go on.
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

  /// Takes over what an earlier run left, if it occupies at least `bytes`; removes it if not.
  Status open(std::uint64_t bytes);
  /// Sets `bytes` aside, durably. Ok if something is set aside already, or just being so. kNoSpace: there is not so much; nothing
  /// is left behind. May take as long as writing them.
  Status create(std::uint64_t bytes);
  /// Gives the space back; ok if there is none. After an error it still counts as held.
  Status release();
  /// Bytes set aside now; 0 = none.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_acquire); }

 private:
  FileSystem& fs_;
  const std::string dir_, path_;
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<bool> creating_{false};
};

}  // namespace ebbtide
