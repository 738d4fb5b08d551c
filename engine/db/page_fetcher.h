// Threads that bring missing pages in, so that event loops never wait for the disk.
#pragma once

#include <engine/read_view.h>
#include "base/background_pool.h"

namespace ebbtide {

/// Thread-safe. With no threads, everything is read on the calling thread.
class PageFetcher {
 public:
  explicit PageFetcher(unsigned threads);
  /// Every fetch that was begun is answered first.
  ~PageFetcher();

  /// As Db::fetch.
  bool fetch(MissSet* misses, std::function<void()> done);

 private:
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace ebbtide
