// Epoch-based reclamation: readers announce that they are reading, writers free what they unlinked only after every reader that
// could have seen it is done. A reader's cost is two stores to its own cache line; nothing is shared.
//
//   reader:  EpochGuard guard(epoch);  use(ptr.load());
//   writer:  old = ptr.exchange(fresh);  epoch.retire([old] { delete old; });
//
// Guards nest. A guard must not be held for long: what is retired meanwhile waits.
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
  ~Epoch();  ///< runs everything still retired; no guard may be alive
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  void enter();
  void leave();
  /// Runs `free` once no guard that is alive now is left; from some later retire() or collect(). Thread-safe.
  void retire(std::function<void()> free);
  /// Runs what may run. Call now and then.
  void collect();
  [[nodiscard]] std::size_t pending() const;

 private:
  struct Slot;
  struct Retired {
    std::uint64_t epoch;
    std::function<void()> free;
  };
  Slot* slot();
  std::uint64_t oldest_active() const;

  const std::uint64_t id_;  ///< tells instances apart in the threads' slot caches
  std::atomic<std::uint64_t> global_{2};
  std::atomic<Slot*> slots_{nullptr};  ///< grows only; slots of ended threads are reused
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
