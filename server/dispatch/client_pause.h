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

  /// Pauses writes, and with `all` also reads, until `until_ms` on the monotonic clock. If a pause is in effect, the later end
  /// and the stricter mode apply.
  void begin(std::uint64_t until_ms, bool all);
  void end();
  /// Returns 0 if the command may run, else how many ms the command waits before dispatch asks again. Ends the pause if its time
  /// is over. `writes`: the command may write.
  [[nodiscard]] std::uint32_t wait_ms(std::uint64_t now_ms, bool writes);

 private:
  Switches& switches_;
  std::mutex mutex_;
  std::uint64_t until_ms_ = 0;  // guarded by mutex_
  bool all_ = false;            // guarded by mutex_
};

}  // namespace ebbtide
