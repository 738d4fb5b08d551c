// Reads missing pages so that event loops never wait for the disk: by a queue of the loop (io_uring), or by fetcher threads.
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

/// Carries out fetches. Thread-safe. If there are no threads, everything is read on the calling thread.
class PageFetcher {
 public:
  /// Charges fetched pages and values to `account`; a page stays charged as long as its MissSet keeps it. If the account has no
  /// room, the fetch skips the remaining misses and sets MissSet::refused. Calls `on_charge` after each charge of a page, so that
  /// other users of the budget free memory. `large` must outlive the fetcher.
  PageFetcher(unsigned threads, std::shared_ptr<MemoryAccount> account, std::function<void()> on_charge, LargeValues& large);
  /// Ends every started fetch. All queues must be destroyed before the fetcher.
  ~PageFetcher();

  /// Carries out Db::fetch().
  bool fetch(MissSet* misses, std::function<void()> done, FetchQueue* queue);
  /// Carries out Db::new_fetch_queue().
  std::unique_ptr<FetchQueue> new_queue(FileSystem& fs);
  /// Returns the number of pages read from files since the start.
  [[nodiscard]] std::uint64_t pages_read() const { return pages_read_.load(std::memory_order_relaxed); }

 private:
  class Queue;

  std::shared_ptr<PageFetch> begin(MissSet* misses);
  /// Makes threads read the fetch's pages from index `first` on.
  void read_by_threads(const std::shared_ptr<PageFetch>& fetch, std::size_t first);
  /// Makes a thread read a page whose read through a queue failed.
  void read_again(std::shared_ptr<PageFetch> fetch, std::size_t i);

  const std::shared_ptr<MemoryAccount> account_;
  const std::function<void()> on_charge_;
  LargeValues& large_;
  std::atomic<std::uint64_t> pages_read_{0};
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace ebbtide
