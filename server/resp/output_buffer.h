// The output of one client that is not sent yet: a queue of chunks.
//
// Replies are written into chunks of kChunkBytes from the pool of blocks. So an idle client holds no chunk, and the chunks of a
// large reply return to the pool once the reply is sent. A large value is not copied: a chunk may refer to bytes of another
// owner, which it keeps alive.
//
// If a buffer would exceed its limit (set_limit), it drops its contents, and overflown() returns true: the client must be closed.
// From then on the contents are garbage, but writing remains safe.
//
// Positions count all bytes since the buffer was made, sent or not. They say up to which byte output may be sent (Gate), or where
// a reply began that must be removed (truncate). `end() - begin()` bytes wait to be sent.
//
// The length of an array may be known only at its end, if its elements are found one by one. Then a new chunk begins with
// kHoleBytes of free space, a hole, into which the header is written later, right-aligned. Filling a hole moves later positions,
// so marks are taken and rolled back in stack order.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "resp/block_pool.h"

namespace ebbtide {

using Bytes = std::string_view;

/// The output of one client. Belongs to one thread at a time.
class OutputBuffer {
 public:
  static constexpr std::size_t kChunkBytes = kBlockBytes;
  static constexpr std::size_t kHoleBytes = 32;

  OutputBuffer() = default;
  ~OutputBuffer() { clear(); }
  OutputBuffer(const OutputBuffer&) = delete;
  OutputBuffer& operator=(const OutputBuffer&) = delete;

  /// Returns the position of the first byte that is not consumed.
  [[nodiscard]] std::uint64_t begin() const { return begin_; }
  /// Returns the position after the last byte.
  [[nodiscard]] std::uint64_t end() const { return end_; }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(end_ - begin_); }
  [[nodiscard]] bool empty() const { return end_ == begin_; }
  /// Returns the bytes of own chunks, and of those shared values that were appended with `counted`.
  [[nodiscard]] std::size_t memory() const { return memory_; }
  /// Returns the part of memory() that belongs to shared values.
  [[nodiscard]] std::size_t shared_memory() const { return shared_memory_; }

  /// The buffer's sizes in bytes for CLIENT LIST: the first chunk stands for Redis's reply buffer, and the other chunks for
  /// Redis's list of replies.
  struct Usage {
    std::size_t first_capacity = 0, first_waiting = 0;
    std::size_t more = 0, more_bytes = 0;  ///< chunks after the first, and their bytes, including shared values
  };
  [[nodiscard]] Usage usage() const;
  /// Returns the most memory() since the last reset_peak().
  [[nodiscard]] std::size_t peak_memory() const { return peak_memory_; }
  void reset_peak() { peak_memory_ = memory_; }

  /// Limits memory() to about `bytes`; 0: no limit.
  void set_limit(std::size_t bytes) { limit_bytes_ = bytes; }
  [[nodiscard]] std::size_t limit() const { return limit_bytes_; }
  /// Returns true if the limit was exceeded: contents, marks and holes are lost.
  [[nodiscard]] bool overflown() const { return overflown_; }
  void overflow();

  /// Returns room for at least `n` contiguous bytes, where n <= kChunkBytes - kHoleBytes. The caller writes bytes there and calls
  /// advance() with their number.
  char* reserve(std::size_t n) {
    if (static_cast<std::size_t>(limit_ - cursor_) < n) [[unlikely]]
      add_chunk();
    return cursor_;
  }
  void advance(std::size_t n) {
    cursor_ += n;
    end_ += n;
  }
  /// Appends a copy of `data`, of any length.
  void append(Bytes data) {
    if (data.size() <= static_cast<std::size_t>(limit_ - cursor_)) [[likely]] {
      if (!data.empty()) std::memcpy(cursor_, data.data(), data.size());
      advance(data.size());
    } else {
      append_slow(data);
    }
  }
  /// Appends a reference to `data`, which `owner` keeps alive and unchanged until the data is sent or removed. `counted`:
  /// memory() and the limit include the data, as if it was copied. The owner has the data's charge to the memory budget.
  void append_shared(std::shared_ptr<const void> owner, Bytes data, bool counted = false);

  /// Moves all contents of `from` to the end of this buffer; small contents are copied. `from` must have no open hole.
  void take(OutputBuffer& from);

  /// Opens a hole at the end. fill_hole(hole, header) writes at most kHoleBytes into it. If it is never filled, nothing is sent
  /// for it.
  [[nodiscard]] std::uint64_t open_hole();
  void fill_hole(std::uint64_t hole, Bytes header);

  /// A position to which truncate() can return. Valid until bytes before the position are sent or removed.
  struct Mark {
    std::uint64_t position;
    std::uint64_t next_chunk;
  };
  [[nodiscard]] Mark mark() const { return {end_, next_number_}; }
  /// Removes all bytes that were appended, and all holes that were opened, since the mark.
  void truncate(Mark mark);
  /// Drops all bytes from `position` on. Requires begin() <= position <= end() and no open hole.
  void drop_from(std::uint64_t position) { truncate({position, next_number_}); }
  /// Sets `out` to the next bytes to send, up to position `limit`, as at most `max` parts. Returns the number of parts.
  int pieces(iovec* out, int max, std::uint64_t limit) const;
  /// Removes the first `n` bytes, which were sent. Requires n <= size().
  void consume(std::size_t n);
  /// Drops everything and frees the memory.
  void clear();
  /// Returns a copy of the contents, for tests and for code that reads a reply.
  [[nodiscard]] std::string to_string() const;

 private:
  struct Chunk {
    char* data = nullptr;               ///< the first waiting byte
    std::size_t size = 0;               ///< number of waiting bytes; for the last chunk, cursor_ implies it
    char* block = nullptr;              ///< the chunk's own memory; null if the chunk refers to a shared value
    std::size_t capacity = 0;           ///< kChunkBytes, or the counted bytes of a shared value
    std::shared_ptr<const void> owner;  ///< owner of a shared value
    std::size_t shared_bytes = 0;       ///< bytes of the shared value in this chunk when it was appended
    std::uint64_t number = 0;           ///< serial number, by which a hole refers to its chunk
  };

  void add_chunk();
  void append_slow(Bytes data);
  void seal();
  void release(Chunk& chunk);
  [[nodiscard]] std::size_t chunk_size(std::size_t index) const;
  void drop_consumed();

  std::vector<Chunk> chunks_;  ///< chunks from first_ on are in use; earlier chunks are consumed
  std::size_t first_ = 0;
  char* cursor_ = nullptr;  ///< next free byte of the last chunk; null if there is no chunk, or the last one is shared
  char* limit_ = nullptr;
  std::uint64_t begin_ = 0, end_ = 0;
  std::uint64_t next_number_ = 0;
  std::size_t memory_ = 0, peak_memory_ = 0, shared_memory_ = 0;
  std::size_t limit_bytes_ = 0;
  bool overflown_ = false;
};

}  // namespace ebbtide
