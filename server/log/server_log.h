// The server's text log: one line per message, to standard output or a file, which SIGHUP reopens. Nothing is logged per command.
//
// A message may contain bytes from a client or a file name. write() escapes control bytes in every message, so that no client can
// forge a line or control the terminal of a person who reads the log.
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

/// Returns the text with control characters, and bytes that are not UTF-8, as \n, \r, \t or \x1b.
std::string escape_controls(std::string_view text);

/// Lets one message of a kind through per interval and counts the others. Thread-safe.
class LogLimiter {
 public:
  explicit LogLimiter(std::int64_t interval_ms) : interval_ms_(interval_ms) {}
  /// Returns the line to write, with the number of suppressed messages since the last line; nothing if it is too early.
  [[nodiscard]] std::optional<std::string> pass(const std::string& text, std::int64_t now_ms);

 private:
  const std::int64_t interval_ms_;
  std::mutex mutex_;
  std::optional<std::int64_t> last_ms_;  // guarded by mutex_
  std::uint64_t suppressed_ = 0;         // guarded by mutex_
};

/// Thread-safe, except for the constructor.
class ServerLog {
 public:
  enum class Level { kDebug, kInfo, kWarning, kError };

  /// `file` empty: standard output. Throws std::runtime_error if the file cannot be opened.
  ServerLog(const std::string& level, const std::string& file);
  ~ServerLog();

  void write(Level level, const std::string& text);
  void set_level(const std::string& level);
  /// Reopens the file, for log rotation. Returns the error, or "".
  std::string reopen();

 private:
  struct Sinks;
  std::unique_ptr<Sinks> sinks_;
  std::shared_ptr<spdlog::logger> logger_;
  const std::string file_;
};

}  // namespace ebbtide
