// Asynchronous reads without other threads: io_uring.
//
// A file system without it returns null (FileSystem::new_read_queue), and add() refuses a file that cannot be read this way. The
// caller then reads in another way.
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
  /// The bytes read, valid during the call; empty if the read failed or was short. A plain read of the same range gives the
  /// error.
  using Take = std::function<void(std::uint64_t tag, std::optional<Bytes> bytes)>;

  /// Waits for the reads in the kernel and discards them.
  virtual ~ReadQueue() = default;
  /// Queues a read of `length` > 0 bytes at `offset` of a file that stays open until the read ends. False: this file is not
  /// supported.
  virtual bool add(const RandomAccessFile& file, std::uint64_t offset, std::uint32_t length, std::uint64_t tag) = 0;
  /// Submits queued reads to the kernel, as many as it takes; later calls submit the rest. One system call at most.
  virtual void submit() = 0;
  /// Passes completed reads to `take`, at most `most` of them. `take` may add others.
  virtual void reap(std::size_t most, const Take& take) = 0;
  /// Blocks until a read has completed. Only while unfinished() is not 0.
  virtual void wait() = 0;
  /// Reads that were added and not yet passed to `take`.
  [[nodiscard]] virtual std::size_t unfinished() const = 0;
  /// For epoll: readable while there are completed reads.
  [[nodiscard]] virtual int descriptor() const = 0;
};

}  // namespace ebbtide
