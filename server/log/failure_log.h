// Logs a last line when the process must end: an allocation failed, or an exception was not caught.
//
// Nothing here allocates, takes a lock or uses the log's buffers, since these may have failed. The line is built on the stack and
// written by one system call to the log's file or standard output. It has the form of any log line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ebbtide {

/// Makes failed allocations and uncaught exceptions log a line and end the process (SIGABRT). `file`: the log file, of at most
/// 4095 bytes; empty for standard output. Call it once, before other threads run.
void install_failure_log(const std::string& file);

/// Notes that an allocation of `bytes` failed on this thread. If the process is aborted for it, the line has the size.
/// Async-signal-safe.
void note_refused_allocation(std::uint64_t bytes);

/// Sets the memory budget that the line names, in bytes. Thread-safe.
void set_failure_log_budget(std::uint64_t bytes);

/// Formats a line like the log: time, level, text, newline. `utc_offset`: of the displayed time, in seconds. Returns the line's
/// length; text that does not fit is cut, the newline is not. Async-signal-safe. `out` has at least one byte.
std::size_t format_failure(std::span<char> out, std::int64_t unix_micros, std::int64_t utc_offset,
                           std::span<const std::string_view> text);

}  // namespace ebbtide
