// std::mutex and std::condition_variable with clang's thread-safety annotations, so that the compiler checks GUARDED_BY.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define EBBTIDE_TSA(x) __attribute__((x))
#else
#define EBBTIDE_TSA(x)
#endif
#define CAPABILITY(x) EBBTIDE_TSA(capability(x))
#define SCOPED_CAPABILITY EBBTIDE_TSA(scoped_lockable)
#define GUARDED_BY(x) EBBTIDE_TSA(guarded_by(x))
#define REQUIRES(...) EBBTIDE_TSA(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) EBBTIDE_TSA(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) EBBTIDE_TSA(acquire_capability(__VA_ARGS__))
#define RELEASE(...) EBBTIDE_TSA(release_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) EBBTIDE_TSA(try_acquire_capability(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS EBBTIDE_TSA(no_thread_safety_analysis)

namespace ebbtide {

class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  bool try_lock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  /// Atomically releases `mutex` and waits; holds `mutex` again on return. May wake up spuriously, so call it in a loop.
  void wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }
  /// Like wait(), but returns after `limit` of real time at the latest. Do not use it on threads that a test runs on simulated
  /// time.
  void wait_for(Mutex& mutex, std::chrono::nanoseconds limit) REQUIRES(mutex);
  void notify_one() { cv_.notify_one(); }
  void notify_all() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace ebbtide
