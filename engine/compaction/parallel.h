// Parts of a job on several threads, without anybody who waits for a thread that has not begun.
#pragma once

#include <cstddef>
#include <functional>

#include "base/background_pool.h"

namespace ebbtide {

/// Calls part(0) .. part(parts - 1), each once, on this thread and on what threads of the pool are free; returns when all are
/// done. The pool may be null, busy, shutting down, or turned by hand: this thread takes every part that nobody else has taken
/// yet, and waits only for parts that are running. A part must not block on another one.
void run_parts(BackgroundPool* pool, std::size_t parts, const std::function<void(std::size_t)>& part);

}  // namespace ebbtide
