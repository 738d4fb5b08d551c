// Reads that are under way while the thread that asked for them goes on, without other threads: io_uring.
//
// A file system that has no such thing gives none out (FileSystem::new_read_queue), and a file that cannot be read that way is not
// taken; whoever asks has another way to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include <engine/types.h>

namespace ebbtide {

class RandomAccessFile;

/// Used by one thread at a time.
class ReadQueue {
 public:
  /// What was read, valid during the call; nothing if it could not be, or not whole: reading it in another way tells why.
  using Take = std::function<void(std::uint64_t tag, std::optional<Bytes> bytes)>;

  /// Waits for what the kernel still reads, and forgets it.
  virtual ~ReadQueue() = default;
  /// Queues a read of `length` > 0 bytes at `offset` of a file that stays open until its end. False: not this file.
  virtual bool add(const RandomAccessFile& file, std::uint64_t offset, std::uint32_t length, std::uint64_t tag) = 0;
  /// Hands what was queued to the kernel, as far as it takes so much; the rest follows with later calls. One system call at most.
  virtual void submit() = 0;
  /// Hands out what has been read, at most `most` reads. `take` may add others.
  virtual void reap(std::size_t most, const Take& take) = 0;
  /// Blocks until there is something to reap. Only while unfinished() is not 0.
  virtual void wait() = 0;
  /// Reads that were added and not handed out yet.
  [[nodiscard]] virtual std::size_t unfinished() const = 0;
  /// For epoll: readable while there is something to reap.
  [[nodiscard]] virtual int descriptor() const = 0;
};

}  // namespace ebbtide
