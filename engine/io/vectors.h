// Computes the unwritten part of a gathered write after the kernel has written only some of its bytes.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

namespace ebbtide {

/// Removes the first `written` bytes from `vectors`, which must have at least this many bytes.
inline void drop_written(std::span<iovec>* vectors, std::size_t written) {
  while (!vectors->empty() && written >= vectors->front().iov_len) {
    written -= vectors->front().iov_len;
    *vectors = vectors->subspan(1);
  }
  if (written == 0) return;
  iovec& first = vectors->front();
  first.iov_base = static_cast<char*>(first.iov_base) + written;
  first.iov_len -= written;
}

}  // namespace ebbtide
