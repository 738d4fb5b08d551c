// Runs parts of a job on several threads, and never waits for a thread that has not begun a part.
#pragma once

#include <cstddef>
#include <functional>

#include "base/background_pool.h"

namespace ebbtide {

/// Calls part(0) .. part(parts - 1), each once, on this thread and on free threads of the pool. Returns when all calls have
/// ended. The pool may be null, busy, shutting down, or run by a test. This thread takes every part that no other thread has
/// taken, and waits only for parts that are running. A part must not block on another part.
void run_parts(BackgroundPool* pool, std::size_t parts, const std::function<void(std::size_t)>& part);

}  // namespace ebbtide
