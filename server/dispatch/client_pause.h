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

  /// Pauses writes, and with `all` reads too, until `until_ms` on the monotonic clock. If a pause is in effect, the later end and
  /// the stricter mode apply.
  void begin(std::uint64_t until_ms, bool all);
  void end();
  /// Returns how many ms a command waits before it calls this again; 0 if it may run. Ends a pause whose time is over.
  [[nodiscard]] std::uint32_t wait_ms(std::uint64_t now_ms, bool writes);

 private:
  Switches& switches_;
  std::mutex mutex_;
  std::uint64_t until_ms_ = 0;  // guarded by mutex_
  bool all_ = false;            // guarded by mutex_
};

}  // namespace ebbtide
