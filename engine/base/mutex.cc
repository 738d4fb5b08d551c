#include "base/mutex.h"

namespace ebbtide {

void CondVar::wait_for(Mutex& mutex, std::chrono::nanoseconds limit) {
  std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
  cv_.wait_for(lock, limit);
  lock.release();
}

}  // namespace ebbtide
