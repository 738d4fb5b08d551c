// Reserves disk space by a file whose content has no meaning. When the disk is full, the file is unlinked. Deletes, flushes and
// compactions can then go on in the file's space, and they free more space.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "io/file_system.h"

namespace ebbtide {

/// Thread-safe. release() never waits for create().
class ReserveFile {
 public:
  /// The constructor does no I/O. `fs` must outlive this object.
  ReserveFile(FileSystem& fs, std::string dir);

  /// Takes over the file of an earlier process if it occupies at least `bytes`. Removes the file if it is smaller, or if its
  /// size cannot be read. Returns ok in each case: a database can work without reserved space.
  Status open(std::uint64_t bytes);
  /// Reserves `bytes`, durably. Returns ok if space is reserved already, or another call is reserving it. If there is too little
  /// space, returns kNoSpace and leaves no file behind. May take as long as writing the bytes.
  Status create(std::uint64_t bytes);
  /// Releases the space. Returns ok if no space is reserved. After an error the space still counts as reserved.
  Status release();
  /// Number of bytes reserved now; 0 = none.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_acquire); }

 private:
  FileSystem& fs_;
  const std::string dir_, path_;
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<bool> creating_{false};
};

}  // namespace ebbtide
