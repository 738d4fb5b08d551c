// Reports to the service manager that started this process, in the protocol of systemd's sd_notify(3) and sd_watchdog_enabled(3):
// text datagrams to the socket that $NOTIFY_SOCKET names. If that variable is not set, there is no manager, and reports do
// nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ebbtide {

/// Sends reports to a service manager. Thread-safe. A report never blocks: if the manager does not read, the report is lost.
class ServiceManager {
 public:
  /// `socket`: the value of $NOTIFY_SOCKET: an absolute path, or "@name" in the abstract namespace; "" without a manager.
  explicit ServiceManager(std::string socket) : socket_(std::move(socket)) {}

  /// Reports that the service is ready.
  void ready() const { report("READY=1\nSTATUS=ready to accept connections"); }
  /// Reports that the service is stopping.
  void stopping() const { report("STOPPING=1\nSTATUS=stopping"); }
  /// Reports that the start is still under way, so that the manager waits `extend_ms` longer. `text` is one line. Returns the
  /// result of report().
  std::string starting(std::string_view text,
                       std::uint64_t extend_ms) const;  // NOLINT(modernize-use-nodiscard): only the first caller needs it
  /// Reports to the watchdog that the service still works.
  void alive() const { report("WATCHDOG=1"); }

  /// Sends `state`, lines of NAME=value. Returns "" if they were sent or there is no manager, otherwise the error.
  std::string report(std::string_view state) const;  // NOLINT(modernize-use-nodiscard): most callers cannot do anything about it

 private:
  const std::string socket_;
};

/// Returns how often alive() must be called, in ms: half of the manager's limit. Returns 0 if there is no watchdog, or if it
/// watches another process. `usec` and `pid`: the values of $WATCHDOG_USEC and $WATCHDOG_PID, "" if they are not set.
[[nodiscard]] std::uint64_t watchdog_period_ms(std::string_view usec, std::string_view pid, std::int64_t own_pid);

}  // namespace ebbtide
