// Epoch-based reclamation. Readers announce that they are reading. A writer frees an unlinked object only after every reader that
// could have seen the object has finished. A reader makes two stores to its own cache line and writes no shared memory.
//
//   reader:  EpochGuard guard(epoch);  use(ptr.load());
//   writer:  old = ptr.exchange(fresh);  epoch.retire([old] { delete old; });
//
// Guards nest. Do not hold a guard for long: objects that are retired while a guard is held stay in memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"

namespace ebbtide {

class Epoch {
 public:
  Epoch();
  ~Epoch();  ///< calls all `free` functions that were not called yet; no guard may be alive
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  /// Begin and end a read on the calling thread; use an EpochGuard. Calls nest.
  void enter();
  void leave();
  /// Calls `free` in a later retire() or collect(), once all guards that are alive now have ended. Thread-safe.
  void retire(std::function<void()> free);
  /// Calls all `free` functions whose readers have finished. Call this from time to time. Thread-safe.
  void collect();
  /// Returns the number of `free` functions that were not called yet.
  [[nodiscard]] std::size_t pending() const;

 private:
  struct Slot;
  struct Retired {
    std::uint64_t epoch;
    std::function<void()> free;
  };
  Slot* slot();
  std::uint64_t oldest_active() const;

  const std::uint64_t id_;  ///< identifies this Epoch in the threads' slot caches
  std::atomic<std::uint64_t> global_{2};
  std::atomic<Slot*> slots_{nullptr};  ///< list of the threads' slots; it only grows, and slots of ended threads are reused
  mutable Mutex mutex_;
  std::vector<Retired> retired_ GUARDED_BY(mutex_);
};

class EpochGuard {
 public:
  explicit EpochGuard(Epoch& epoch) : epoch_(epoch) { epoch_.enter(); }
  ~EpochGuard() { epoch_.leave(); }
  EpochGuard(const EpochGuard&) = delete;
  EpochGuard& operator=(const EpochGuard&) = delete;

 private:
  Epoch& epoch_;
};

}  // namespace ebbtide
