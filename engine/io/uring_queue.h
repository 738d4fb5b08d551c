// A ReadQueue that uses io_uring.
#pragma once

#include <memory>

#include "io/read_queue.h"

namespace ebbtide {

/// Returns a new queue, or null if the kernel, or a sandbox around this process, does not allow io_uring.
std::unique_ptr<ReadQueue> new_uring_queue();

}  // namespace ebbtide
