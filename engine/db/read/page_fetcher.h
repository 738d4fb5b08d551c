// Reads missing pages so that event loops never wait for the disk: by a queue of the loop (io_uring), or by threads.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include <engine/read_view.h>
#include "base/background_pool.h"
#include "db/read/large_values.h"

namespace ebbtide {

class FileSystem;
struct PageFetch;

/// Thread-safe. With no threads, everything is read on the calling thread.
class PageFetcher {
 public:
  /// Charges pages and values to `account`; pages as long as their set keeps them. If the account has no room, the fetch skips the rest and
  /// sets MissSet::refused. Calls `on_charge` after each charge of a page: something else has to give up memory. `large` outlives this.
  PageFetcher(unsigned threads, std::shared_ptr<MemoryAccount> account, std::function<void()> on_charge, LargeValues& large);
  /// Ends every started fetch. All queues must be destroyed before.
  ~PageFetcher();

  /// See Db::fetch.
  bool fetch(MissSet* misses, std::function<void()> done, FetchQueue* queue);
  /// See Db::new_fetch_queue.
  std::unique_ptr<FetchQueue> new_queue(FileSystem& fs);
  /// Pages read from files since the start.
  [[nodiscard]] std::uint64_t pages_read() const { return pages_read_.load(std::memory_order_relaxed); }

 private:
  class Queue;

  std::shared_ptr<PageFetch> begin(MissSet* misses);
  /// Lets threads read the fetch's pages from index `first` on.
  void read_by_threads(const std::shared_ptr<PageFetch>& fetch, std::size_t first);
  /// Lets a thread read a page that a queue could not read; it succeeds or gets the error.
  void read_again(std::shared_ptr<PageFetch> fetch, std::size_t i);

  const std::shared_ptr<MemoryAccount> account_;
  const std::function<void()> on_charge_;
  LargeValues& large_;
  std::atomic<std::uint64_t> pages_read_{0};
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace ebbtide
