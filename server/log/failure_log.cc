#include "log/failure_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <new>
#include <system_error>

namespace ebbtide {
namespace {

constexpr std::size_t kMaxPath = 4096, kMaxLine = 1024;
constexpr std::int64_t kMicros = 1'000'000, kDaySeconds = 86'400;

// Set once, by install_failure_log().
char log_path[kMaxPath];
std::int64_t utc_offset_seconds = 0;
bool log_json = false;

std::atomic<std::uint64_t> budget{0};
std::atomic<bool> failing{false};
std::atomic<bool> logged{false};        // the line of the first failure was written
thread_local bool was_refused = false;  // an allocation of this thread has failed
thread_local std::uint64_t refused_bytes = 0;

/// A number's decimal digits, at least `width` of them.
class Digits {
 public:
  explicit Digits(std::uint64_t number, int width = 1) {
    do {
      text_[--begin_] = static_cast<char>('0' + number % 10);
      number /= 10;
      --width;
    } while (number != 0 || width > 0);
  }
  [[nodiscard]] std::string_view text() const { return {text_.data() + begin_, text_.size() - begin_}; }

 private:
  std::array<char, 20> text_{};
  std::size_t begin_ = text_.size();
};

struct Date {
  std::int64_t year;
  unsigned month, day;
};

/// Returns the date of a day since 1970-01-01 in the Gregorian calendar (Howard Hinnant, "chrono-compatible low-level date
/// algorithms").
Date date_of(std::int64_t day) {
  constexpr std::int64_t kEraDays = 146'097, kEpoch = 719'468;  // 400 years; from 0000-03-01 to 1970-01-01
  day += kEpoch;
  const std::int64_t era = (day >= 0 ? day : day - kEraDays + 1) / kEraDays;
  const auto of_era = static_cast<unsigned>(day - era * kEraDays);
  const unsigned year = (of_era - of_era / 1460 + of_era / 36'524 - of_era / 146'096) / 365;
  const unsigned of_year = of_era - (365 * year + year / 4 - year / 100);
  const unsigned month = (5 * of_year + 2) / 153;  // counted from March
  return {static_cast<std::int64_t>(year) + era * 400 + (month >= 10 ? 1 : 0), month < 10 ? month + 3 : month - 9,
          of_year - (153 * month + 2) / 5 + 1};
}

/// Returns the resident bytes of the process, from the second field of /proc/self/statm; 0 if the file cannot be read.
std::uint64_t resident_now() {
  const int fd = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[128];
  const ssize_t n = ::read(fd, text, sizeof(text));
  ::close(fd);
  std::uint64_t pages = 0;
  int field = 0;
  for (ssize_t i = 0; i < n && field < 2; ++i) {
    if (text[i] == ' ') {
      ++field;
    } else if (field == 1) {
      pages = pages * 10 + static_cast<std::uint64_t>(text[i] - '0');
    }
  }
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void write_failure(std::span<const std::string_view> text) {
  timespec now{};
  (void)::clock_gettime(CLOCK_REALTIME, &now);
  char line[kMaxLine];
  const std::size_t length = format_failure(line, now.tv_sec * kMicros + now.tv_nsec / 1000, utc_offset_seconds, text, log_json);
  const int file = log_path[0] == '\0' ? -1 : ::open(log_path, O_WRONLY | O_APPEND | O_CLOEXEC);
  (void)!::write(file >= 0 ? file : STDOUT_FILENO, line, length);
  if (file >= 0) ::close(file);
  logged = true;
}

void log_out_of_memory() {
  const Digits allowed(budget.load(std::memory_order_relaxed)), resident(resident_now()), refused(refused_bytes);
  const bool known = refused_bytes != 0;
  const std::string_view text[] = {
      "out of memory: the system refused an allocation",
      known ? " of " : "",
      known ? refused.text() : "",
      known ? " bytes" : "",
      ". storage.memory_budget is ",
      allowed.text(),
      " bytes, and ",
      resident.text(),
      " bytes are resident: a limit of the process or of the machine is below what the budget needs"};
  write_failure(text);
}

// Several threads may fail at once, but only the first one logs. The others wait for its line, since abort() ends all threads.
void await_line() {
  constexpr int kMostWaits = 1000;
  constexpr timespec kWait{.tv_sec = 0, .tv_nsec = 1'000'000};
  for (int waits = 0; !logged && waits < kMostWaits; ++waits) (void)::nanosleep(&kWait, nullptr);
}

bool is_first_failure() {
  if (!failing.exchange(true)) return true;
  await_line();
  return false;
}

void allocation_failed() {
  if (is_first_failure()) log_out_of_memory();
  std::abort();
}

// Handles SIGABRT, which the allocator may raise. If an allocation of this thread has failed, logs the last line. Otherwise, if
// another thread has failed, waits until that thread's line is written. After this returns, abort() continues.
void aborted(int /*signal*/) {
  if (was_refused) {
    if (is_first_failure()) log_out_of_memory();
  } else if (failing) {
    await_line();
  }
}

void log_uncaught(std::string_view what) {
  const std::string_view text[] = {"the process ends after an uncaught exception: ", what};
  write_failure(text);
}

// A new thread needs memory for its stack. Under a small memory limit, starting a thread fails before any allocation fails.
void log_no_thread(std::string_view what) {
  const std::string_view text[] = {"out of memory or threads: the system refused to start a thread (", what,
                                   "): a limit of the process (ulimit -v, ulimit -u) or of the machine is too small"};
  write_failure(text);
}

void terminated() {
  if (!is_first_failure()) std::abort();
  try {
    if (const std::exception_ptr thrown = std::current_exception(); thrown != nullptr) std::rethrow_exception(thrown);
    log_uncaught("none is known; std::terminate() was called");
  } catch (const std::bad_alloc&) {  // an allocation not made by operator new has failed
    log_out_of_memory();
  } catch (const std::system_error& e) {
    e.code() == std::errc::resource_unavailable_try_again ? log_no_thread(e.what()) : log_uncaught(e.what());
  } catch (const std::exception& e) {
    log_uncaught(e.what());
  } catch (...) {
    log_uncaught("an exception of unknown type");
  }
  std::abort();
}

}  // namespace

void install_failure_log(const std::string& file, bool json) {
  log_json = json;
  const std::size_t length = std::min(file.size(), kMaxPath - 1);
  std::memcpy(log_path, file.data(), length);
  log_path[length] = '\0';
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  if (::localtime_r(&now, &local) != nullptr) utc_offset_seconds = local.tm_gmtoff;
  struct sigaction action {};
  action.sa_handler = aborted;
  // SA_RESETHAND is not set: with it, a second aborting thread would end the process while the first one still writes its line.
  (void)::sigaction(SIGABRT, &action, nullptr);
  std::set_new_handler(allocation_failed);
  std::set_terminate(terminated);
}

void note_refused_allocation(std::uint64_t bytes) {
  was_refused = true;
  if (bytes != 0) refused_bytes = bytes;
}

void set_failure_log_budget(std::uint64_t bytes) { budget.store(bytes, std::memory_order_relaxed); }

std::size_t format_failure(std::span<char> out, std::int64_t unix_micros, std::int64_t utc_offset,
                           std::span<const std::string_view> text, bool json) {
  constexpr std::string_view kEnd = "\"}";
  std::size_t length = 0;
  const std::size_t room = out.size() - 1 - (json ? kEnd.size() : 0);
  const auto add = [&](std::string_view part) {
    const std::size_t n = std::min(part.size(), room - length);
    std::memcpy(out.data() + length, part.data(), n);
    length += n;
  };
  const auto number = [&](std::int64_t value, int width) { add(Digits(static_cast<std::uint64_t>(value), width).text()); };
  const std::int64_t seconds = unix_micros / kMicros + utc_offset, day = seconds / kDaySeconds, of_day = seconds % kDaySeconds;
  const Date date = date_of(day);
  if (json) add("{\"time\":\"");
  number(date.year, 4), add("-"), number(date.month, 2), add("-"), number(date.day, 2), add("T");
  number(of_day / 3600, 2), add(":"), number(of_day / 60 % 60, 2), add(":"), number(of_day % 60, 2), add(".");
  number(unix_micros / 1000 % 1000, 3);
  const std::int64_t offset_minutes = (utc_offset < 0 ? -utc_offset : utc_offset) / 60;
  add(utc_offset < 0 ? "-" : "+"), number(offset_minutes / 60, 2), add(":"), number(offset_minutes % 60, 2);
  add(json ? "\",\"level\":\"error\",\"message\":\"" : " E ");
  for (const std::string_view part : text) {
    if (!json) add(part);
    for (const char& c : json ? part : std::string_view()) {  // replaces characters that JSON would have to escape
      const auto byte = static_cast<unsigned char>(c);
      add(byte < 0x20 || byte >= 0x7f || c == '\\' ? "?" : c == '"' ? "'" : std::string_view(&c, 1));
    }
  }
  if (json) {
    std::memcpy(out.data() + length, kEnd.data(), kEnd.size());
    length += kEnd.size();
  }
  out[length++] = '\n';
  return length;
}

}  // namespace ebbtide
