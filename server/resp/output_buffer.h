// What is waiting to be sent to one client: a queue of chunks.
//
// Replies are written into chunks of kChunkBytes taken from the thread's pool of blocks, so that an idle client holds none and a
// reply allocates nothing. A large value is not copied: a chunk may refer to bytes that somebody else owns and keeps alive.
//
// With a limit set, a buffer that would hold more own memory drops everything, from then on keeps nothing for long, and says so
// in overflown(): its client is to be closed. What was written is garbage then, but writing stays safe.
//
// Positions count bytes since the buffer was made, sent or not. They name how far a client may be sent (the reply gate) and how
// far a handler's reply has to be taken back (truncate). `end() - begin()` bytes are waiting.
//
// A length that is known only at the end (an array whose elements are found on the way) gets a hole: a chunk of its own start
// with kHoleBytes in front, into which the header is written later, right-aligned. Filling a hole moves later positions; so marks
// are taken and given back in stack order.
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

/// Belongs to one thread at a time.
class OutputBuffer {
 public:
  static constexpr std::size_t kChunkBytes = kBlockBytes;
  static constexpr std::size_t kHoleBytes = 32;

  OutputBuffer() = default;
  ~OutputBuffer() { clear(); }
  OutputBuffer(const OutputBuffer&) = delete;
  OutputBuffer& operator=(const OutputBuffer&) = delete;

  /// Position of the first byte that was not consumed.
  [[nodiscard]] std::uint64_t begin() const { return begin_; }
  /// Position after the last byte.
  [[nodiscard]] std::uint64_t end() const { return end_; }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(end_ - begin_); }
  [[nodiscard]] bool empty() const { return end_ == begin_; }
  /// Bytes of memory held by own chunks; shared values do not count.
  [[nodiscard]] std::size_t memory() const { return memory_; }

  /// The buffer as CLIENT LIST shows it: a first chunk, in the place of Redis's reply buffer, and those behind it, in the place of
  /// its list of replies. Bytes.
  struct Usage {
    std::size_t first_capacity = 0, first_waiting = 0;
    std::size_t more = 0, more_bytes = 0;  ///< chunks behind the first, and what they hold, shared values included
  };
  [[nodiscard]] Usage usage() const;
  /// The most own memory that it held since the last reset_peak().
  [[nodiscard]] std::size_t peak_memory() const { return peak_memory_; }
  void reset_peak() { peak_memory_ = memory_; }

  /// At most about this much own memory; 0 = no limit.
  void set_limit(std::size_t bytes) { limit_bytes_ = bytes; }
  [[nodiscard]] std::size_t limit() const { return limit_bytes_; }
  /// The limit was met: contents, marks and holes are gone, for good.
  [[nodiscard]] bool overflown() const { return overflown_; }
  void overflow();

  /// Room for `n` <= kChunkBytes - kHoleBytes contiguous bytes; write them and call advance(written).
  char* reserve(std::size_t n) {
    if (static_cast<std::size_t>(limit_ - cursor_) < n) [[unlikely]]
      add_chunk(n);
    return cursor_;
  }
  void advance(std::size_t n) {
    cursor_ += n;
    end_ += n;
  }
  /// Copies `data`, whatever its length.
  void append(Bytes data) {
    if (data.size() <= static_cast<std::size_t>(limit_ - cursor_)) [[likely]] {
      if (!data.empty()) std::memcpy(cursor_, data.data(), data.size());
      advance(data.size());
    } else {
      append_slow(data);
    }
  }
  /// Refers to `data`, which `owner` keeps alive and unchanged, until it is consumed or truncated.
  void append_shared(std::shared_ptr<const void> owner, Bytes data);

  /// Moves everything that is waiting in `from` to the end, without copying unless it is little. No hole may be open in `from`.
  void take(OutputBuffer& from);

  /// Opens a hole at the end; fill_hole(hole, header) puts at most kHoleBytes there. A hole left open is nothing on the wire.
  [[nodiscard]] std::uint64_t open_hole();
  void fill_hole(std::uint64_t hole, Bytes header);

  /// A place to come back to. Good until bytes before it are consumed or taken back.
  struct Mark {
    std::uint64_t position;
    std::uint64_t next_chunk;
  };
  [[nodiscard]] Mark mark() const { return {end_, next_number_}; }
  /// Takes back everything appended, and every hole opened, since the mark.
  void truncate(Mark mark);
  /// Drops every byte from `position` on. Requires begin() <= position <= end() and no open hole.
  void drop_from(std::uint64_t position) { truncate({position, next_number_}); }
  /// The next bytes to send, up to position `limit`, as at most `max` pieces; returns how many pieces.
  int pieces(iovec* out, int max, std::uint64_t limit) const;
  /// `n` bytes were sent. Requires n <= size().
  void consume(std::size_t n);
  /// Drops everything and gives the memory back.
  void clear();
  /// A copy of what is waiting: for tests and for replies made to be looked at.
  [[nodiscard]] std::string to_string() const;

 private:
  struct Chunk {
    char* data = nullptr;               ///< first byte waiting
    std::size_t size = 0;               ///< bytes waiting; of the last chunk, cursor_ knows
    char* block = nullptr;              ///< own memory, or null for a shared value
    std::size_t capacity = 0;           ///< of `block`
    std::shared_ptr<const void> owner;  ///< of a shared value
    std::size_t shared_bytes = 0;       ///< of which this chunk had so many at first
    std::uint64_t number = 0;           ///< counts up; how a hole names its chunk
  };

  void add_chunk(std::size_t room);
  void append_slow(Bytes data);
  void seal();
  void release(Chunk& chunk);
  [[nodiscard]] std::size_t chunk_size(std::size_t index) const;
  void drop_consumed();

  std::vector<Chunk> chunks_;  ///< from first_ on; those before are done with
  std::size_t first_ = 0;
  char* cursor_ = nullptr;  ///< next free byte of the last chunk, or null when that is shared or missing
  char* limit_ = nullptr;
  std::uint64_t begin_ = 0, end_ = 0;
  std::uint64_t next_number_ = 0;
  std::size_t memory_ = 0, peak_memory_ = 0;
  std::size_t limit_bytes_ = 0;
  bool overflown_ = false;
};

}  // namespace ebbtide
