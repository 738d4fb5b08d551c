// Logs a last line when the process must end: an allocation failed, or an exception was not caught.
//
// This code never allocates, takes a lock or uses the log's buffers, since these may have failed. It builds the line on the
// stack, and writes it by one system call to the log's file or standard output. The line has the form of any log line, text or
// JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ebbtide {

/// From now on, failed allocations and uncaught exceptions log a line and end the process (SIGABRT). `file`: the log file, of at
/// most 4095 bytes; "" for standard output. `json`: log.format is json. Call it once, before other threads run.
void install_failure_log(const std::string& file, bool json);

/// Stores that an allocation of `bytes` failed on this thread; 0: the size is unknown. If the process then aborts because of it,
/// the last log line says so. Async-signal-safe.
void note_refused_allocation(std::uint64_t bytes);

/// Sets the memory budget, in bytes, that the line shows. Thread-safe.
void set_failure_log_budget(std::uint64_t bytes);

/// Formats a line of the log into `out`: time, level, text, newline; with `json` an object. `utc_offset`: offset of the shown
/// time, in seconds. Returns the line's length. Text that does not fit is cut, but not the newline. `out` must have at least one
/// byte, with `json` at least 128. Async-signal-safe.
std::size_t format_failure(std::span<char> out, std::int64_t unix_micros, std::int64_t utc_offset,
                           std::span<const std::string_view> text, bool json = false);

}  // namespace ebbtide
