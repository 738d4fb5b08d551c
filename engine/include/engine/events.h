// Notifications of the engine to its user. Called from engine threads, never while a lock is held that the listener could need.
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
  /// One sentence for the log. Never contains a key or a value.
  virtual void on_message(Severity severity, const std::string& text) = 0;
  /// During open: `done` of `total` bytes of the log replayed.
  virtual void on_recovery_progress(std::uint64_t done, std::uint64_t total) {
    (void)done;
    (void)total;
  }
};

}  // namespace ebbtide
