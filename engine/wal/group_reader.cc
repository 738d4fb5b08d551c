#include "wal/group_reader.h"

#include <algorithm>

#include "base/coding.h"
#include "base/write_batch_head.h"

namespace ebbtide {
namespace {

// Upper bound of an operation's bytes without its value: kind, flags and tree, two keys and their lengths, stamp, expiry, value
// length.
constexpr std::uint64_t kLongestHeadBytes = 2 * kMaxKeyBytes + 64;
constexpr std::uint64_t kWindowBytes = 4 * kLongestHeadBytes;  // so at most a quarter of a window is read twice

}  // namespace

// Loads the window so that it has `bytes` bytes from at_ on, or all bytes up to the end of the payload.
Status GroupReader::fill(std::uint64_t bytes) {
  const std::uint64_t needed = std::min(bytes, payload_.size() - at_);
  if (at_ >= window_begin_ && at_ + needed <= window_begin_ + window_.size()) return Status::ok();
  window_.resize(static_cast<std::size_t>(std::min(std::max(needed, kWindowBytes), payload_.size() - at_)));
  window_begin_ = at_;
  return payload_.read(at_, window_.size(), window_.data());
}

Result<bool> GroupReader::next_batch(Batch* batch) {
  if (at_ != batch_end_) return Status::corruption("malformed group of batches");
  if (at_ == payload_.size()) return false;
  TRY(fill(sizeof(std::uint32_t) + WriteBatch::kHeaderBytes));
  Bytes in = window();
  std::uint32_t length = 0, reserved = 0;
  std::uint64_t replication_id = 0;
  if (!get_u32(&in, &length) || length > payload_.size() - at_ - sizeof(length)) {
    return Status::corruption("malformed group of batches");
  }
  batch_at_ = at_ + sizeof(length);
  batch_end_ = batch_at_ + length;
  if (length < WriteBatch::kHeaderBytes) return Status::corruption("write batch: shorter than its header");
  const bool read = get_u64(&in, &batch->first_seq) && get_u64(&in, &batch->time) && get_u64(&in, &replication_id) &&
                    get_u32(&in, &batch->count) && get_u32(&in, &reserved);
  if (!read || batch->first_seq > kMaxSeqNum - batch->count) {
    return Status::corruption("write batch: first sequence number " + std::to_string(batch->first_seq) + " exceeds the maximum");
  }
  at_ = batch_at_ + WriteBatch::kHeaderBytes;
  ops_ = 0;
  count_ = batch->count;
  return true;
}

Result<bool> GroupReader::next_op(WriteBatch::Op* op) {
  value_.reset();
  if (at_ == batch_end_) {
    if (ops_ == count_) return false;
    return Status::corruption("write batch: " + std::to_string(ops_) + " operations, but its header says " +
                              std::to_string(count_));
  }
  TRY(fill(std::min(kLongestHeadBytes, batch_end_ - at_)));
  const Bytes all = window().substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(window().size(), batch_end_ - at_)));
  Bytes in = all;
  std::uint64_t value_length = 0;
  const bool good = decode_operation_head(&in, op, &value_length) && op->key.size() <= kMaxKeyBytes;
  const std::uint64_t head = all.size() - in.size();
  if (!good || ops_ == count_ || value_length > batch_end_ - at_ - head) {
    return Status::corruption("write batch: malformed operation at byte " + std::to_string(at_ - batch_at_));
  }
  if (value_length > kLargeValueBytes) {
    auto value = std::make_shared<std::string>(static_cast<std::size_t>(value_length), '\0');
    TRY(payload_.read(at_ + head, value->size(), value->data()));
    value_ = std::move(value);
    op->value = *value_;
    op->shared = &value_;
  } else if (value_length > in.size()) {
    TRY(fill(head + value_length));  // this moves the bytes to which `op` points, so the operation is decoded again
    return next_op(op);
  } else {
    op->value = in.substr(0, static_cast<std::size_t>(value_length));
  }
  at_ += head + value_length;
  ++ops_;
  return true;
}

}  // namespace ebbtide
