// Reads the operations of a group of batches (batch_group.h) one by one. The group need not fit into memory.
//
//   GroupReader group(payload);
//   while (group.next_batch(&batch)) while (group.next_op(&op)) ...          (each with its Status)
//
// It holds a window of the payload, and the current value if that does not fit into the window.
#pragma once

#include <cstdint>
#include <string>

#include <engine/result.h>
#include <engine/write_batch.h>
#include "wal/log_payload.h"

namespace ebbtide {

/// Checks the grammar like WriteBatch::parse(), but reports a fault at the end of a batch only when it gets there. Not
/// thread-safe. `payload` outlives it.
class GroupReader {
 public:
  explicit GroupReader(const LogPayload& payload) : payload_(payload) {}

  struct Batch {
    SeqNum first_seq = 0;
    Millis time = 0;
    std::uint32_t count = 0;
  };
  /// The next batch; false after the last one. All operations of the one before have been read.
  Result<bool> next_batch(Batch* batch);
  /// The next operation of that batch; false after the last one. Views in `op` are valid until the next call. `op->shared` is set
  /// for values above kLargeValueBytes, and may be kept.
  Result<bool> next_op(WriteBatch::Op* op);

 private:
  Status fill(std::uint64_t bytes);
  [[nodiscard]] Bytes window() const { return Bytes(window_).substr(static_cast<std::size_t>(at_ - window_begin_)); }

  const LogPayload& payload_;
  std::uint64_t at_ = 0;         // the next byte
  std::uint64_t batch_at_ = 0;   // where the batch begins
  std::uint64_t batch_end_ = 0;  // where it ends
  std::uint32_t ops_ = 0, count_ = 0;
  std::string window_;
  std::uint64_t window_begin_ = 0;
  SharedValue value_;
};

}  // namespace ebbtide
