// A file of the memory file system: two copies of its content, durable and volatile, and the sectors in which they may differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <engine/types.h>

#include "base/random.h"

namespace ebbtide {

/// Not thread-safe; the file system's mutex guards it. Keeps two copies of the content in memory: durable and volatile.
class MemoryFile {
 public:
  static constexpr std::uint64_t kSectorBytes = 512;

  [[nodiscard]] std::uint64_t size() const { return data_.size(); }
  [[nodiscard]] Bytes data() const { return data_; }
  /// Returns the bytes of all allocated sectors.
  [[nodiscard]] std::uint64_t allocated_bytes() const { return allocated_sectors_ * kSectorBytes; }
  /// Returns the number of bytes, at most `length`, that can be appended if at most `free_bytes` more bytes may be allocated.
  [[nodiscard]] std::uint64_t appendable(std::uint64_t length, std::uint64_t free_bytes) const;

  void append(Bytes data);
  /// Truncates the file, or extends it by a hole.
  void truncate(std::uint64_t size);
  /// Zeros the range up to the end of the file, and frees whole sectors in it.
  void punch(std::uint64_t offset, std::uint64_t length);
  void sync();

  /// The next three functions return the file as it may be after a crash: with only the durable bytes, with a random mix of
  /// durable and volatile bytes, or with all volatile bytes. All of the result is durable.
  [[nodiscard]] MemoryFile durable_copy() const;
  [[nodiscard]] MemoryFile torn_copy(Random& random) const;
  [[nodiscard]] MemoryFile volatile_copy() const;

 private:
  struct Sector {
    bool dirty = false;      // true if the sector was written since the last sync
    bool allocated = false;  // true if the volatile copy has the sector
    bool durable = false;    // true if the device has the sector
  };
  static MemoryFile synced(std::string bytes, std::vector<Sector> sectors);
  void touch(std::uint64_t first, std::uint64_t end, bool allocate);
  void tear_sector(Random& random, std::uint64_t sector, std::string* bytes) const;

  std::string data_;
  std::string durable_;
  std::vector<Sector> sectors_;  // one per 512 bytes of data_ or durable_, whichever is longer
  std::uint64_t allocated_sectors_ = 0;
  std::uint64_t dirty_first_ = 0, dirty_end_ = 0;  // range of sector numbers that contains all dirty sectors
};

}  // namespace ebbtide
