#include "io/uring_queue.h"

#include <liburing.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <utility>
#include <vector>

#include "base/invariant.h"
#include "io/file_system.h"

namespace ebbtide {
namespace {

// The number of reads that may be in the kernel at once; further reads wait in the queue.
constexpr unsigned kDepth = 256;
// Alignment of all buffers, whatever file is read, so that each buffer can be used for any read.
constexpr std::size_t kBufferUnit = 4096;

class UringQueue final : public ReadQueue {
 public:
  explicit UringQueue(const io_uring& ring) : ring_(ring) {
    for (unsigned s = 0; s < kDepth; ++s) free_.push_back(kDepth - 1 - s);
  }

  ~UringQueue() override {
    waiting_.clear();
    while (free_.size() < kDepth) {
      submit();
      wait();
      reap(kDepth, [](std::uint64_t, std::optional<Bytes>) {});
    }
    io_uring_queue_exit(&ring_);
  }
  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;

  bool add(const RandomAccessFile& file, std::uint64_t offset, std::uint32_t length, std::uint64_t tag) override {
    NativeFile native = file.native();
    if (native.descriptor < 0) return false;
    waiting_.push_back({std::move(native), offset, length, tag});
    return true;
  }

  void submit() override {
    no_memory_ = false;
    while (!waiting_.empty() && !free_.empty() && prepare(waiting_.front())) waiting_.pop_front();
    // Entries that the kernel does not take now (it is out of memory) stay in the ring until the next submit().
    if (io_uring_sq_ready(&ring_) != 0) (void)io_uring_submit(&ring_);
  }

  void reap(std::size_t most, const Take& take) override {
    // If no read is in the kernel, and there is no memory to begin one, passes waiting reads to `take` without bytes. The caller
    // then uses ordinary reads.
    while (no_memory_ && free_.size() == kDepth && !waiting_.empty() && most != 0) {
      const std::uint64_t tag = waiting_.front().tag;
      waiting_.pop_front();
      --most;
      take(tag, std::nullopt);
    }
    while (most != 0) {
      std::array<io_uring_cqe*, 64> ended{};
      const auto room = static_cast<unsigned>(std::min(most, ended.size()));
      const unsigned count = io_uring_peek_batch_cqe(&ring_, ended.data(), room);
      for (unsigned i = 0; i < count; ++i) {
        const auto number = static_cast<unsigned>(ended[i]->user_data);
        hand_out(number, ended[i]->res, take);
        free_.push_back(number);
      }
      io_uring_cq_advance(&ring_, count);
      most -= count;
      if (count < room) return;
    }
  }

  void wait() override {
    ASSERT_MSG(unfinished() != 0, "wait() needs an unfinished read");
    if (free_.size() == kDepth) return;  // no read could begin; the next reap() passes the reads to `take` without bytes
    io_uring_cqe* first = nullptr;
    (void)io_uring_submit_and_wait(&ring_, 1);
    (void)io_uring_peek_cqe(&ring_, &first);
  }

  [[nodiscard]] std::size_t unfinished() const override { return waiting_.size() + kDepth - free_.size(); }
  [[nodiscard]] int descriptor() const override { return ring_.ring_fd; }

 private:
  struct Wanted {
    NativeFile file;
    std::uint64_t offset;
    std::uint32_t length;
    std::uint64_t tag;
  };
  struct FreeBuffer {
    void operator()(char* p) const { std::free(p); }
  };
  /// A read that was submitted, or will be soon.
  struct Slot {
    std::unique_ptr<char, FreeBuffer> buffer;
    std::size_t capacity = 0;
    std::size_t skip = 0, length = 0;  ///< where the requested bytes are in the buffer
    std::uint64_t tag = 0;
    std::shared_ptr<const void> keeps_open;  ///< keeps the file's descriptor open (NativeFile::keeps_open)
  };

  /// Puts a read into the ring. Returns false if there is no memory for its buffer now, or the ring is full.
  bool prepare(Wanted& wanted) {
    const std::uint64_t unit = wanted.file.alignment;
    const std::uint64_t start = wanted.offset / unit * unit;
    const auto skip = static_cast<std::size_t>(wanted.offset - start);
    const std::size_t span = (skip + wanted.length + unit - 1) / unit * unit;
    Slot& slot = slots_[free_.back()];
    if (slot.capacity < span) {
      const std::size_t capacity = (span + kBufferUnit - 1) / kBufferUnit * kBufferUnit;
      slot.buffer.reset(static_cast<char*>(std::aligned_alloc(kBufferUnit, capacity)));
      slot.capacity = slot.buffer == nullptr ? 0 : capacity;
      no_memory_ = slot.buffer == nullptr;
      if (no_memory_) return false;
    }
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) return false;  // the ring is full, since the kernel has not taken its entries
    slot.skip = skip;
    slot.length = wanted.length;
    slot.tag = wanted.tag;
    slot.keeps_open = std::move(wanted.file.keeps_open);
    io_uring_prep_read(entry, wanted.file.descriptor, slot.buffer.get(), static_cast<unsigned>(span), start);
    entry->user_data = free_.back();
    free_.pop_back();
    return true;
  }

  void hand_out(unsigned number, int result, const Take& take) {
    Slot& slot = slots_[number];
    slot.keeps_open.reset();
    const bool whole = result >= 0 && static_cast<std::size_t>(result) >= slot.skip + slot.length;
    take(slot.tag, whole ? std::optional(Bytes(slot.buffer.get() + slot.skip, slot.length)) : std::nullopt);
    if (slot.capacity <= kKeptBuffer) return;
    slot.buffer.reset();
    slot.capacity = 0;
  }

  // Buffers up to this size, which is enough for most pages, are kept for later reads; larger buffers are freed after the read.
  static constexpr std::size_t kKeptBuffer = 16 << 10;

  io_uring ring_;
  std::array<Slot, kDepth> slots_;
  std::vector<unsigned> free_;
  std::deque<Wanted> waiting_;
  bool no_memory_ = false;  ///< true if the last submit() had no memory for the next read's buffer
};

}  // namespace

std::unique_ptr<ReadQueue> new_uring_queue() {
  io_uring ring{};
  // COOP_TASKRUN: the thread polls for results in each pass, so the kernel need not interrupt it. Older kernels refuse the flag.
  if (io_uring_queue_init(kDepth, &ring, IORING_SETUP_COOP_TASKRUN) != 0 && io_uring_queue_init(kDepth, &ring, 0) != 0)
    return nullptr;
  return std::make_unique<UringQueue>(ring);
}

}  // namespace ebbtide
