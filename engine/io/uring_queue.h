// ReadQueue over io_uring.
#pragma once

#include <memory>

#include "io/read_queue.h"

namespace ebbtide {

/// Null where the kernel, or whoever confines this process, does not allow it.
std::unique_ptr<ReadQueue> new_uring_queue();

}  // namespace ebbtide
