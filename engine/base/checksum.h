// The checksum of all file contents: xxh3-64 of the bytes, with a seed made of the file's number and the offset.
//
// A block that was copied to another file or offset fails the check, like a block with a changed bit.
#pragma once

#include <cstdint>

#include <engine/types.h>

namespace ebbtide {

/// Returns the checksum of `data`, the block that starts at `offset` of file `file`.
std::uint64_t block_checksum(Bytes data, FileNum file, std::uint64_t offset);
/// Computes block_checksum() of a block that is passed in several parts.
class BlockChecksummer {
 public:
  BlockChecksummer(FileNum file, std::uint64_t offset);
  ~BlockChecksummer();
  BlockChecksummer(const BlockChecksummer&) = delete;
  BlockChecksummer& operator=(const BlockChecksummer&) = delete;
  void update(Bytes piece);
  [[nodiscard]] std::uint64_t digest() const;

 private:
  void* state_;
};

}  // namespace ebbtide
