#include "resp/output_buffer.h"

#include <algorithm>
#include <utility>

#include "resp/block_pool.h"
#include "resp/disposal.h"

namespace ebbtide {
// While the last chunk is open, cursor_ implies its size; seal() stores the size.
void OutputBuffer::seal() {
  if (cursor_ != nullptr) {
    Chunk& last = chunks_.back();
    last.size = static_cast<std::size_t>(cursor_ - last.data);
  }
  cursor_ = limit_ = nullptr;
}

std::size_t OutputBuffer::chunk_size(std::size_t index) const {
  const Chunk& chunk = chunks_[index];
  if (index + 1 == chunks_.size() && cursor_ != nullptr) return static_cast<std::size_t>(cursor_ - chunk.data);
  return chunk.size;
}

OutputBuffer::Usage OutputBuffer::usage() const {
  Usage usage;
  for (std::size_t i = first_; i < chunks_.size(); ++i) {
    const Chunk& chunk = chunks_[i];
    if (i == first_) {
      usage.first_capacity = chunk.capacity;
      usage.first_waiting = chunk_size(i);
    } else {
      ++usage.more;
      usage.more_bytes += chunk.block == nullptr ? chunk.size : chunk.capacity;
    }
  }
  return usage;
}

void OutputBuffer::release(Chunk& chunk) {
  const std::size_t capacity = std::exchange(chunk.capacity, 0);
  memory_ -= capacity;
  if (chunk.block == nullptr) shared_memory_ -= capacity;
  if (chunk.block != nullptr) give_block(std::exchange(chunk.block, nullptr));
  if (chunk.owner != nullptr) let_go(std::move(chunk.owner), chunk.shared_bytes >= kDisposedBytes);
}

void OutputBuffer::overflow() {
  clear();
  overflown_ = true;
}

void OutputBuffer::add_chunk() {
  if (limit_bytes_ != 0 && memory_ + chunks_.size() * sizeof(Chunk) + kChunkBytes > limit_bytes_) [[unlikely]]
    overflow();
  seal();
  Chunk chunk;
  chunk.capacity = kChunkBytes;
  chunk.data = chunk.block = take_block();
  chunk.number = next_number_++;
  memory_ += chunk.capacity;
  peak_memory_ = std::max(peak_memory_, memory_);
  cursor_ = chunk.block;
  limit_ = chunk.block + chunk.capacity;
  chunks_.push_back(std::move(chunk));
}

void OutputBuffer::append_slow(Bytes data) {
  while (!data.empty()) {
    if (cursor_ == limit_) add_chunk();
    const std::size_t n = std::min(data.size(), static_cast<std::size_t>(limit_ - cursor_));
    std::memcpy(cursor_, data.data(), n);
    advance(n);
    data.remove_prefix(n);
  }
}

void OutputBuffer::append_shared(std::shared_ptr<const void> owner, Bytes data, bool counted) {
  if (data.empty()) return;
  const std::size_t capacity = counted ? data.size() : 0;
  if (limit_bytes_ != 0 && memory_ + chunks_.size() * sizeof(Chunk) + capacity > limit_bytes_) [[unlikely]]
    overflow();
  seal();
  Chunk chunk;
  chunk.capacity = capacity;
  chunk.data = const_cast<char*>(data.data());  // never written: shared bytes are only read
  chunk.size = chunk.shared_bytes = data.size();
  chunk.owner = std::move(owner);
  chunk.number = next_number_++;
  memory_ += capacity;
  shared_memory_ += capacity;
  peak_memory_ = std::max(peak_memory_, memory_);
  chunks_.push_back(std::move(chunk));
  end_ += data.size();
}

void OutputBuffer::take(OutputBuffer& from) {
  if (from.overflown_) overflow();
  from.seal();
  // Small contents are copied, since moved ones would occupy a whole block. Shared values are always moved.
  constexpr std::size_t kLittle = 4096;
  for (std::size_t i = from.first_; i < from.chunks_.size(); ++i) {
    Chunk& chunk = from.chunks_[i];
    if (chunk.size == 0) continue;
    if (chunk.block != nullptr && chunk.size <= kLittle) {
      append(Bytes(chunk.data, chunk.size));
      continue;
    }
    if (limit_bytes_ != 0 && memory_ + chunks_.size() * sizeof(Chunk) + chunk.capacity > limit_bytes_) [[unlikely]]
      overflow();
    seal();
    Chunk moved;
    moved.data = chunk.data;
    moved.size = chunk.size;
    moved.block = std::exchange(chunk.block, nullptr);
    moved.capacity = std::exchange(chunk.capacity, 0);
    moved.owner = std::move(chunk.owner);
    moved.shared_bytes = chunk.shared_bytes;
    moved.number = next_number_++;
    memory_ += moved.capacity;
    if (moved.block == nullptr) {
      shared_memory_ += moved.capacity;
      from.shared_memory_ -= moved.capacity;
    }
    peak_memory_ = std::max(peak_memory_, memory_);
    from.memory_ -= moved.capacity;
    end_ += moved.size;
    chunks_.push_back(std::move(moved));
  }
  from.clear();
}

std::uint64_t OutputBuffer::open_hole() {
  add_chunk();
  Chunk& chunk = chunks_.back();
  chunk.data += kHoleBytes;
  cursor_ += kHoleBytes;
  return chunk.number;
}

void OutputBuffer::fill_hole(std::uint64_t hole, Bytes header) {
  if (overflown_) return;
  const std::size_t index = first_ + static_cast<std::size_t>(hole - chunks_[first_].number);
  Chunk& chunk = chunks_[index];
  const std::size_t size = chunk_size(index);
  chunk.data -= header.size();
  chunk.size = size + header.size();
  std::memcpy(chunk.data, header.data(), header.size());
  end_ += header.size();
}

void OutputBuffer::truncate(Mark mark) {
  if (overflown_) return clear();
  seal();
  while (chunks_.size() > first_ && (end_ > mark.position || chunks_.back().number >= mark.next_chunk)) {
    Chunk& last = chunks_.back();
    const std::uint64_t excess = end_ - mark.position;
    if (last.number < mark.next_chunk && last.size >= excess) {
      last.size -= static_cast<std::size_t>(excess);
      end_ = mark.position;
      break;
    }
    end_ -= last.size;
    release(last);
    chunks_.pop_back();
    --next_number_;
  }
  if (chunks_.size() > first_ && chunks_.back().block != nullptr) {
    Chunk& last = chunks_.back();
    cursor_ = last.data + last.size;
    limit_ = last.block + last.capacity;
  }
}

int OutputBuffer::pieces(iovec* out, int max, std::uint64_t limit) const {
  int count = 0;
  std::uint64_t at = begin_;
  for (std::size_t i = first_; i < chunks_.size() && count < max && at < limit; ++i) {
    const std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(chunk_size(i), limit - at));
    if (size == 0) continue;
    out[count].iov_base = chunks_[i].data;
    out[count].iov_len = size;
    ++count;
    at += size;
  }
  return count;
}

void OutputBuffer::consume(std::size_t n) {
  begin_ += n;
  if (begin_ == end_) {  // the usual case: everything is sent
    for (std::size_t i = first_; i < chunks_.size(); ++i) release(chunks_[i]);
    chunks_.clear();
    first_ = 0;
    cursor_ = limit_ = nullptr;
    return;
  }
  while (n > 0) {
    const std::size_t size = chunk_size(first_);
    if (n < size) {
      chunks_[first_].data += n;
      chunks_[first_].size = size - n;
      break;
    }
    n -= size;
    release(chunks_[first_]);
    ++first_;
  }
  drop_consumed();
}

void OutputBuffer::drop_consumed() {
  if (first_ > 64 && first_ * 2 > chunks_.size()) {
    chunks_.erase(chunks_.begin(), chunks_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
}

void OutputBuffer::clear() {
  for (std::size_t i = first_; i < chunks_.size(); ++i) release(chunks_[i]);
  chunks_.clear();
  chunks_.shrink_to_fit();
  first_ = 0;
  cursor_ = limit_ = nullptr;
  begin_ = end_;
}

std::string OutputBuffer::to_string() const {
  std::string text;
  text.reserve(size());
  for (std::size_t i = first_; i < chunks_.size(); ++i) text.append(chunks_[i].data, chunk_size(i));
  return text;
}

}  // namespace ebbtide
