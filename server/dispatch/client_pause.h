// CLIENT PAUSE: commands of all clients wait until a given time.
#pragma once

#include <cstdint>
#include <mutex>

#include "dispatch/switches.h"

namespace ebbtide {

/// Thread-safe.
class ClientPause {
 public:
  explicit ClientPause(Switches& switches) : switches_(switches) {}

  /// Pauses writes, with `all` reads too, until a monotonic time in ms. If a pause is in effect, the later end and the stricter
  /// mode count.
  void begin(std::uint64_t until_ms, bool all);
  void end();
  /// Returns how many ms a command waits before it asks again; 0: it may run. Ends a pause whose time is over.
  [[nodiscard]] std::uint32_t wait_ms(std::uint64_t now_ms, bool writes);

 private:
  Switches& switches_;
  std::mutex mutex_;
  std::uint64_t until_ms_ = 0;  // guarded by mutex_
  bool all_ = false;            // guarded by mutex_
};

}  // namespace ebbtide
