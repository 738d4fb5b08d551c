#include "base/background_pool.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ebbtide {

ThreadPool::ThreadPool(unsigned threads, std::string name, int nice) : name_(std::move(name)) {
  try {
    for (unsigned i = 0; i < threads; ++i) {
      threads_.emplace_back([this, nice, i] {
        pthread_setname_np(pthread_self(), (name_ + "-" + std::to_string(i)).substr(0, 15).c_str());
        const auto self = static_cast<id_t>(syscall(SYS_gettid));
        if (nice != 0) setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + nice);
        run();
      });
    }
  } catch (...) {  // the system has no room for another thread
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    high_.clear();
    low_.clear();
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void ThreadPool::submit(Priority priority, Task task) {
  {
    MutexLock lock(mutex_);
    if (stop_) return;
    (priority == Priority::kHigh ? high_ : low_).push_back(std::move(task));
  }
  wake_.notify_one();
}

bool ThreadPool::take(Task* task) {
  auto& queue = !high_.empty() ? high_ : low_;
  if (queue.empty()) return false;
  *task = std::move(queue.front());
  queue.pop_front();
  return true;
}

bool ThreadPool::run_one() {
  Task task;
  {
    MutexLock lock(mutex_);
    if (!take(&task)) return false;
  }
  task();
  return true;
}

void ThreadPool::run() {
  for (;;) {
    Task task;
    {
      MutexLock lock(mutex_);
      while (!stop_ && !take(&task)) wake_.wait(mutex_);
      if (stop_) return;
    }
    task();
  }
}

void ManualPool::submit(Priority priority, Task task) {
  MutexLock lock(mutex_);
  (priority == Priority::kHigh ? high_ : low_).push_back(std::move(task));
}

bool ManualPool::run_one() {
  Task task;
  {
    MutexLock lock(mutex_);
    auto& queue = !high_.empty() ? high_ : low_;
    if (queue.empty()) return false;
    task = std::move(queue.front());
    queue.pop_front();
  }
  task();
  return true;
}

std::size_t ManualPool::queued() const {
  MutexLock lock(mutex_);
  return high_.size() + low_.size();
}

}  // namespace ebbtide
