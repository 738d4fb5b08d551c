// Reads the operations of a group of batches (batch_group.h) one by one. The group need not fit into memory.
//
//   GroupReader group(payload);
//   while (group.next_batch(&batch)) while (group.next_op(&op)) ...          (each with its Status)
//
// A reader keeps a part (window) of the payload in memory, and also the current value if the value does not fit into the window.
#pragma once

#include <cstdint>
#include <string>

#include <engine/result.h>
#include <engine/write_batch.h>
#include "wal/log_payload.h"

namespace ebbtide {

/// Checks batches like WriteBatch::parse(), but reports a fault only when the caller reads the faulty operation.
/// Not thread-safe. `payload` must outlive the reader.
class GroupReader {
 public:
  explicit GroupReader(const LogPayload& payload) : payload_(payload) {}

  struct Batch {
    SeqNum first_seq = 0;
    Millis time = 0;
    std::uint32_t count = 0;
  };
  /// Reads the header of the next batch; returns false after the last batch. Call it only after next_op() has returned false
  /// for the batch before.
  Result<bool> next_batch(Batch* batch);
  /// Reads the next operation of the current batch; returns false after the last operation. Views in `op` are valid until the
  /// next call. `op->shared` is set for values above kLargeValueBytes, and the caller may keep that value.
  Result<bool> next_op(WriteBatch::Op* op);

 private:
  Status fill(std::uint64_t bytes);
  [[nodiscard]] Bytes window() const { return Bytes(window_).substr(static_cast<std::size_t>(at_ - window_begin_)); }

  const LogPayload& payload_;
  std::uint64_t at_ = 0;         // offset in the payload of the next byte to decode
  std::uint64_t batch_at_ = 0;   // offset in the payload of the current batch's first byte
  std::uint64_t batch_end_ = 0;  // offset in the payload of the current batch's end
  std::uint32_t ops_ = 0, count_ = 0;
  std::string window_;
  std::uint64_t window_begin_ = 0;
  SharedValue value_;
};

}  // namespace ebbtide
