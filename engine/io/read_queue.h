// Asynchronous reads without other threads, by io_uring.
//
// If io_uring is not available, FileSystem::new_read_queue() returns null. add() returns false for a file that io_uring cannot
// read. In both cases the caller reads with RandomAccessFile::read().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include <engine/types.h>

namespace ebbtide {

class RandomAccessFile;

/// One thread at a time may use a queue.
class ReadQueue {
 public:
  /// Takes the bytes of a completed read, which are valid during the call. `bytes` is empty if the read failed or was short; an
  /// ordinary read of the same range then returns the error.
  using Take = std::function<void(std::uint64_t tag, std::optional<Bytes> bytes)>;

  /// Waits for the reads in the kernel and discards their results.
  virtual ~ReadQueue() = default;
  /// Queues a read of `length` > 0 bytes at `offset` of a file that stays open until the read ends. `tag` is passed to `take`.
  /// Returns false if this file is not supported.
  virtual bool add(const RandomAccessFile& file, std::uint64_t offset, std::uint32_t length, std::uint64_t tag) = 0;
  /// Submits queued reads to the kernel by at most one system call. If the kernel does not accept all of them, later calls submit
  /// the others.
  virtual void submit() = 0;
  /// Passes at most `most` completed reads to `take`, which may add further reads to the queue.
  virtual void reap(std::size_t most, const Take& take) = 0;
  /// Blocks until a read has completed. Call only while unfinished() is not 0.
  virtual void wait() = 0;
  /// Returns the number of reads that were added and not yet passed to `take`.
  [[nodiscard]] virtual std::size_t unfinished() const = 0;
  /// Returns a descriptor for epoll, which is readable while there are completed reads.
  [[nodiscard]] virtual int descriptor() const = 0;
};

}  // namespace ebbtide
