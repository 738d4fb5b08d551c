// The server's text log: one line per message, to standard output or a file, which SIGHUP reopens. Nothing is logged per command.
//
// A message may contain bytes from a client or a file name. write() escapes control bytes in every message. So no client can
// forge a line, or control the terminal on which the log is read.
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

/// Returns the text with some characters escaped, as \n, \r, \t or \x1b. These are control characters, characters that are
/// invisible or change the direction of text, and bytes that are not UTF-8.
std::string escape_controls(std::string_view text);
/// Returns the inside of a JSON string: escape_controls(text), with quotes and backslashes escaped. So a message has the same
/// text in both formats of the log.
std::string json_escape(std::string_view text);

/// Lets one message of its kind through per interval, and counts the suppressed ones. Thread-safe.
class LogLimiter {
 public:
  explicit LogLimiter(std::int64_t interval_ms) : interval_ms_(interval_ms) {}
  /// Returns the line to log, with the number of messages suppressed before it; nullopt if the message is suppressed.
  [[nodiscard]] std::optional<std::string> pass(const std::string& text, std::int64_t now_ms);

 private:
  const std::int64_t interval_ms_;
  std::mutex mutex_;
  std::optional<std::int64_t> last_ms_;  // guarded by mutex_
  std::uint64_t suppressed_ = 0;         // guarded by mutex_
};

/// The log. Thread-safe, except for the constructor.
class ServerLog {
 public:
  enum class Level { kDebug, kInfo, kWarning, kError };

  /// `file`: the log file; "" for standard output. `format`: "text", or "json" for one object per line with time, level and
  /// message. Throws std::runtime_error if the file cannot be opened, or is a pipe other than this process's standard output.
  ServerLog(const std::string& level, const std::string& file, const std::string& format = "text");
  ~ServerLog();

  void write(Level level, const std::string& text);
  void set_level(const std::string& level);
  /// Reopens the file, for log rotation. Returns "" or the error; after an error the previous file stays in use.
  std::string reopen();

 private:
  struct Sinks;
  std::unique_ptr<Sinks> sinks_;
  std::shared_ptr<spdlog::logger> logger_;
  const std::string file_;
  const bool json_;
};

}  // namespace ebbtide
