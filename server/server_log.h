// The server's own log: one line a message, to standard output or a file that SIGHUP opens anew. Never anything per command.
#pragma once

#include <memory>
#include <string>

namespace spdlog {
class logger;
}

namespace ebbtide {

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
