// ReadQueue over io_uring.
#pragma once

#include <memory>

#include "io/read_queue.h"

namespace ebbtide {

/// Null if the kernel, or a sandbox around this process, does not allow it.
std::unique_ptr<ReadQueue> new_uring_queue();

}  // namespace ebbtide
