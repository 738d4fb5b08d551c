// The server's own log: one line a message, to standard output or a file that SIGHUP reopens. Never anything per command.
//
// A message may hold bytes that a client or a file name chose. write() escapes control bytes in every message, so no client can
// forge a line or drive the terminal of who reads the log.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace spdlog {
class logger;
}

namespace ebbtide {

/// The text with control characters and bytes that are no UTF-8 written as \n, \r, \t or \x1b.
std::string escape_controls(std::string_view text);

/// Lets one message of a kind through per interval and counts the others. Thread-safe.
class LogLimiter {
 public:
  explicit LogLimiter(std::int64_t interval_ms) : interval_ms_(interval_ms) {}
  /// The line to write, with the number of messages left out since the last line; nothing if it is too early.
  [[nodiscard]] std::optional<std::string> pass(const std::string& text, std::int64_t now_ms);

 private:
  const std::int64_t interval_ms_;
  std::mutex mutex_;
  std::optional<std::int64_t> last_ms_;  // guarded by mutex_
  std::uint64_t suppressed_ = 0;         // guarded by mutex_
};

/// Thread-safe, but for the constructor.
class ServerLog {
 public:
  enum class Level { kDebug, kInfo, kWarning, kError };

  /// `file` empty: standard output. Throws std::runtime_error if the file cannot be opened.
  ServerLog(const std::string& level, const std::string& file);
  ~ServerLog();

  void write(Level level, const std::string& text);
  void set_level(const std::string& level);
  /// For log rotation. What went wrong, or empty.
  std::string reopen();

 private:
  struct Sinks;
  std::unique_ptr<Sinks> sinks_;
  std::shared_ptr<spdlog::logger> logger_;
  const std::string file_;
};

}  // namespace ebbtide
