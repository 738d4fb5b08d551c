// Pins of log segments. A checkpoint pins the segments that it copies, so that they stay even if the database no longer needs
// them.
#pragma once

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include <engine/types.h>
#include "base/mutex.h"

namespace ebbtide {

/// Pins the segments from `oldest` to `newest`. A pin is revoked before it makes a delete miss its deadline; its holder must
/// check revoked() before and after each read.
class LogPin {
 public:
  LogPin(FileNum oldest, FileNum newest) : oldest_(oldest), newest_(newest) {}
  [[nodiscard]] FileNum oldest() const { return oldest_; }
  [[nodiscard]] FileNum newest() const { return newest_; }
  void revoke() { revoked_.store(true, std::memory_order_release); }
  [[nodiscard]] bool revoked() const { return revoked_.load(std::memory_order_acquire); }

 private:
  const FileNum oldest_, newest_;
  std::atomic<bool> revoked_{false};
};

/// All pins of log segments. Thread-safe.
class LogPins {
 public:
  std::shared_ptr<LogPin> pin(FileNum oldest, FileNum newest) EXCLUDES(mutex_) {
    auto pin = std::make_shared<LogPin>(oldest, newest);
    MutexLock lock(mutex_);
    pins_.push_back(pin);
    return pin;
  }
  void unpin(const std::shared_ptr<LogPin>& pin) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::erase(pins_, pin);
  }
  /// Returns the oldest pinned segment, or the largest number if no segment is pinned.
  [[nodiscard]] FileNum oldest() const EXCLUDES(mutex_) {
    FileNum oldest = std::numeric_limits<FileNum>::max();
    MutexLock lock(mutex_);
    for (const auto& pin : pins_) oldest = std::min(oldest, pin->oldest());
    return oldest;
  }
  /// Revokes every pin that contains one of `segments`.
  void revoke(std::span<const FileNum> segments) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    for (const auto& pin : pins_) {
      const auto pinned = [&](FileNum segment) { return pin->oldest() <= segment && segment <= pin->newest(); };
      if (std::any_of(segments.begin(), segments.end(), pinned)) pin->revoke();
    }
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<LogPin>> pins_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
