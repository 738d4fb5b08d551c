// Brings missing pages in, so that event loops never wait for the disk: through a queue of the loop's own, or by threads.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include <engine/read_view.h>
#include "base/background_pool.h"
#include "db/large_values.h"

namespace ebbtide {

class FileSystem;
struct PageFetch;

/// Thread-safe. With no threads, everything is read on the calling thread.
class PageFetcher {
 public:
  /// What is fetched is charged to `account`, pages for as long as their set keeps them; what it has no room for is not fetched,
  /// and the set says so (MissSet::refused).
  PageFetcher(unsigned threads, std::shared_ptr<MemoryAccount> account, LargeValues& large);
  /// Every fetch that was begun is answered first. Queues are gone by then.
  ~PageFetcher();

  /// As Db::fetch.
  bool fetch(MissSet* misses, std::function<void()> done, FetchQueue* queue);
  /// As Db::new_fetch_queue.
  std::unique_ptr<FetchQueue> new_queue(FileSystem& fs);
  /// Pages read from files since the start.
  [[nodiscard]] std::uint64_t pages_read() const { return pages_read_.load(std::memory_order_relaxed); }

 private:
  class Queue;

  std::shared_ptr<PageFetch> begin(MissSet* misses);
  /// Has threads read what is wanted from index `first` on.
  void read_by_threads(const std::shared_ptr<PageFetch>& fetch, std::size_t first);

  /// Has a thread read one that a queue could not: it may yet succeed, or knows how to say why not.
  void read_again(std::shared_ptr<PageFetch> fetch, std::size_t i);

  const std::shared_ptr<MemoryAccount> account_;
  LargeValues& large_;
  std::atomic<std::uint64_t> pages_read_{0};
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace ebbtide
