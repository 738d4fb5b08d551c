#include "base/mutex.h"

#include <chrono>

namespace ebbtide {

void CondVar::wait_for_ms(Mutex& mutex, unsigned ms) {
  std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
  cv_.wait_for(lock, std::chrono::milliseconds(ms));
  lock.release();
}

}  // namespace ebbtide
