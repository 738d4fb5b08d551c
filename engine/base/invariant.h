// Assertions against bugs in this code. They also run in release builds: wrong bytes on disk cost more than a branch.
#pragma once

namespace ebbtide {

/// Prints file, line, condition and message, then aborts.
[[noreturn]] void assertion_failed(const char* file, int line, const char* condition, const char* message);

}  // namespace ebbtide

/// Aborts the process if the condition is false, so that no wrong data is written. Do not use it for input from disk, network
/// or users: return a Status.
#define ASSERT(condition)                                              \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::ebbtide::assertion_failed(__FILE__, __LINE__, #condition, ""); \
  } while (false)
#define ASSERT_MSG(condition, message)                                      \
  do {                                                                      \
    if (!(condition)) [[unlikely]]                                          \
      ::ebbtide::assertion_failed(__FILE__, __LINE__, #condition, message); \
  } while (false)

/// Like ASSERT, but only in debug and sanitizer builds. For hot paths, where the check would cost more than the work.
#ifdef NDEBUG
#define DEBUG_ASSERT(condition) \
  do {                          \
  } while (false)
#else
#define DEBUG_ASSERT(condition) ASSERT(condition)
#endif
