#include "log/server_log.h"

#include <fcntl.h>
#include <spdlog/details/os.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace ebbtide {
namespace {

spdlog::level::level_enum level_of(const std::string& name) {
  if (name == "debug") return spdlog::level::debug;
  if (name == "warning") return spdlog::level::warn;
  return name == "error" ? spdlog::level::err : spdlog::level::info;
}

// Returns true for a character that is invisible, ends a line, or changes the order in which a terminal shows text. These are
// zero-width spaces, marks of direction, line and paragraph separators, embeddings, overrides, isolates, annotations and tags.
bool misleads(std::uint32_t c) {
  return c == 0x61c || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
         c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}

// Returns the length of the UTF-8 character at the beginning of `text`, 1 to 4. Returns 0 if there is none, or if it is a control
// character (C0, DEL, C1) or misleads().
std::size_t printable(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  std::uint32_t character = first & (0x7fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    character = character << 6 | (byte(i) & 0x3f);
  }
  const unsigned second = byte(1);
  // Rejects C1 controls, overlong forms, surrogates, and numbers beyond Unicode.
  const bool wrong = (first == 0xc2 && second < 0xa0) || (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return wrong || misleads(character) ? 0 : size;
}

}  // namespace

std::string escape_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = std::max<std::size_t>(printable(text), 1);
    if (printable(text) != 0) {
      out += text.substr(0, size);
    } else if (text[0] == '\n' || text[0] == '\r' || text[0] == '\t') {
      out += text[0] == '\n' ? "\\n" : text[0] == '\r' ? "\\r" : "\\t";
    } else {
      static const char kHex[] = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(text[0]);
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
    text.remove_prefix(size);
  }
  return out;
}

std::optional<std::string> LogLimiter::pass(const std::string& text, std::int64_t now_ms) {
  std::lock_guard lock(mutex_);
  if (last_ms_ && now_ms >= *last_ms_ && now_ms - *last_ms_ < interval_ms_) {
    ++suppressed_;
    return std::nullopt;
  }
  last_ms_ = now_ms;
  const std::uint64_t suppressed = std::exchange(suppressed_, 0);
  return suppressed == 0 ? text : text + " (" + std::to_string(suppressed) + " similar messages since the last such line)";
}

std::string json_escape(std::string_view text) {
  std::string out;
  for (const char c : escape_controls(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

namespace {

const char* pattern(bool json) {
  return json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":"%v"})" : "%Y-%m-%dT%H:%M:%S.%e%z %L %v";
}

bool is_standard_output(const struct stat& file) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    if (struct stat own{}; ::fstat(fd, &own) == 0 && own.st_dev == file.st_dev && own.st_ino == file.st_ino) return true;
  }
  return false;
}

/// Opens the log for appending; creates the file and its directory if they are missing. On failure returns null and sets `why`.
/// Refuses a pipe, since its reader could block the server; only /dev/stdout may be one.
std::FILE* open_log(const std::string& path, std::string* why) {
  spdlog::details::os::create_dir(spdlog::details::os::dir_name(path));
  // Without O_NONBLOCK, opening a pipe would wait for a reader.
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
  const int error = errno;
  struct stat info {};
  const bool found = fd >= 0 ? ::fstat(fd, &info) == 0 : ::stat(path.c_str(), &info) == 0;
  if (found && !S_ISREG(info.st_mode) && !S_ISCHR(info.st_mode) && !S_ISDIR(info.st_mode) &&
      !(fd >= 0 && is_standard_output(info))) {
    *why =
        path + ": is a named pipe, a socket or a block device; use a regular file, or leave log.file empty for standard output";
  } else if (fd < 0) {
    *why = path + ": cannot be opened for writing: " + std::generic_category().message(error);
  } else if (::fcntl(fd, F_SETFL, O_APPEND) == 0) {  // writes block again, so that no line is lost
    if (std::FILE* const file = ::fdopen(fd, "a"); file != nullptr) return file;
  }
  if (why->empty()) *why = path + ": " + std::generic_category().message(errno);
  if (fd >= 0) ::close(fd);
  return nullptr;
}

class FileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  /// Takes ownership of `file`.
  explicit FileSink(std::FILE* file) : file_(file) {}
  ~FileSink() override { std::fclose(file_); }
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (std::fwrite(line.data(), 1, line.size(), file_) != line.size()) spdlog::throw_spdlog_ex("log.file: write", errno);
  }
  void flush_() override {
    if (std::fflush(file_) != 0) spdlog::throw_spdlog_ex("log.file: write", errno);
  }

 private:
  std::FILE* const file_;
};

}  // namespace

struct ServerLog::Sinks {
  std::shared_ptr<spdlog::sinks::dist_sink_mt> all = std::make_shared<spdlog::sinks::dist_sink_mt>();
  std::mutex mutex;
  spdlog::sink_ptr current;  // guarded by mutex
};

ServerLog::ServerLog(const std::string& level, const std::string& file, const std::string& format)
    : sinks_(std::make_unique<Sinks>()), file_(file), json_(format == "json") {
  logger_ = std::make_shared<spdlog::logger>("ebbtide", sinks_->all);
  logger_->set_pattern(pattern(json_));
  logger_->flush_on(spdlog::level::info);
  set_level(level);
  if (file.empty()) {
    sinks_->current = std::make_shared<spdlog::sinks::stdout_sink_mt>();
    sinks_->current->set_pattern(pattern(json_));
    sinks_->all->add_sink(sinks_->current);
  } else if (const std::string why = reopen(); !why.empty()) {
    throw std::runtime_error(why);
  }
}

ServerLog::~ServerLog() { logger_->flush(); }

void ServerLog::write(Level level, const std::string& text) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                   spdlog::level::err};
  logger_->log(kLevels[static_cast<int>(level)], "{}", json_ ? json_escape(text) : escape_controls(text));
}

void ServerLog::set_level(const std::string& level) { logger_->set_level(level_of(level)); }

std::string ServerLog::reopen() {
  if (file_.empty()) return {};
  std::string why;
  std::FILE* const file = open_log(file_, &why);
  if (file == nullptr) return "log.file: " + why;
  auto next = std::make_shared<FileSink>(file);
  next->set_pattern(pattern(json_));
  std::lock_guard lock(sinks_->mutex);
  sinks_->all->add_sink(next);
  if (sinks_->current != nullptr) sinks_->all->remove_sink(sinks_->current);
  sinks_->current = std::move(next);
  return {};
}

}  // namespace ebbtide
