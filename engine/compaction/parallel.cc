#include "compaction/parallel.h"

#include <algorithm>
#include <memory>

#include "base/mutex.h"

namespace ebbtide {
namespace {

/// The state that run_parts() shares with the pool's tasks. A task that starts after run_parts() has returned finds no part to
/// run, and uses no other member.
struct Parts {
  Parts(std::size_t n, const std::function<void(std::size_t)>& f) : count(n), part(&f) {}

  void work() {
    for (;;) {
      std::size_t mine = 0;
      {
        MutexLock lock(mutex);
        if (next == count) return;
        mine = next++;
      }
      (*part)(mine);
      MutexLock lock(mutex);
      if (++done == count) finished.notify_all();
    }
  }

  void wait() {
    MutexLock lock(mutex);
    while (done < count) finished.wait(mutex);
  }

  const std::size_t count;
  const std::function<void(std::size_t)>* const part;  // valid until the last part has ended
  Mutex mutex;
  CondVar finished;
  std::size_t next GUARDED_BY(mutex) = 0;
  std::size_t done GUARDED_BY(mutex) = 0;
};

}  // namespace

void run_parts(BackgroundPool* pool, std::size_t parts, const std::function<void(std::size_t)>& part) {
  auto shared = std::make_shared<Parts>(parts, part);
  const std::size_t helpers = pool == nullptr || parts < 2 ? 0 : std::min<std::size_t>(pool->width(), parts - 1);
  for (std::size_t i = 0; i < helpers; ++i) pool->submit(Priority::kLow, [shared] { shared->work(); });
  shared->work();
  shared->wait();
}

}  // namespace ebbtide
