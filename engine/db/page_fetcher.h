// Threads that bring missing pages in, so that event loops never wait for the disk.
#pragma once

#include <atomic>

#include <engine/read_view.h>
#include "base/background_pool.h"
#include "db/large_values.h"

namespace ebbtide {

/// Thread-safe. With no threads, everything is read on the calling thread.
class PageFetcher {
 public:
  /// What is fetched is charged to `account`, pages for as long as their set keeps them; what it has no room for is not fetched,
  /// and the set says so (MissSet::refused).
  PageFetcher(unsigned threads, std::shared_ptr<MemoryAccount> account, LargeValues& large);
  /// Every fetch that was begun is answered first.
  ~PageFetcher();

  /// As Db::fetch.
  bool fetch(MissSet* misses, std::function<void()> done);
  /// Pages read from files since the start.
  [[nodiscard]] std::uint64_t pages_read() const { return pages_read_.load(std::memory_order_relaxed); }

 private:
  const std::shared_ptr<MemoryAccount> account_;
  LargeValues& large_;
  std::atomic<std::uint64_t> pages_read_{0};
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace ebbtide
