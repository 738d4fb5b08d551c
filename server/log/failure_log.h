// The last line of the log when the process cannot go on: an allocation that fails, or an exception that nothing catches.
//
// Nothing here allocates, takes a lock or uses the log's own buffers, all of which may be what has failed: the line is put together on
// the stack and written by one system call, to the log's file, or to standard output. It looks like any line of the log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ebbtide {

/// From here on, an allocation that fails and an exception that nothing catches are logged, and then end the process (SIGABRT).
/// `file`: the log's, empty for standard output; at most 4095 bytes are used. Once, before other threads run.
void install_failure_log(const std::string& file);

/// An allocation of so many bytes fails on this thread: if the process is aborted for it, the line says so. Async-signal-safe.
void note_refused_allocation(std::uint64_t bytes);

/// The memory budget that the line names, in bytes. Thread-safe.
void set_failure_log_budget(std::uint64_t bytes);

/// A line as the log writes it: time, level, text, newline. `utc_offset`: of the time that is shown, in seconds. Returns the line's
/// length; what does not fit is cut, but for the newline. Async-signal-safe. `out` has at least one byte.
std::size_t format_failure(std::span<char> out, std::int64_t unix_micros, std::int64_t utc_offset,
                           std::span<const std::string_view> text);

}  // namespace ebbtide
