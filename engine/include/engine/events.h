// Notifications from the engine to its user. Engine threads call the listener while they hold no lock that the listener could
// need.
#pragma once

#include <cstdint>
#include <string>

#include <engine/status.h>
#include <engine/types.h>

namespace ebbtide {

enum class Severity : std::uint8_t { kDebug, kInfo, kWarning, kError };

class EventListener {
 public:
  virtual ~EventListener() = default;
  /// Called with one sentence for the text log. The sentence never contains a key or a value.
  virtual void on_message(Severity severity, const std::string& text) = 0;
  /// Called repeatedly during Db::open: `done` of `total` bytes of the log have been replayed.
  virtual void on_recovery_progress(std::uint64_t done, std::uint64_t total) {
    (void)done;
    (void)total;
  }
};

}  // namespace ebbtide
