// Frees large memory on other threads. Freeing half a gigabyte takes a tenth of a second, so event loops pass large memory to a
// disposer. In the server that is OffloadDisposer (dispatch/offload.h), which uses the threads of long writes.
#pragma once

#include <cstddef>
#include <memory>

namespace ebbtide {

/// Freeing this many bytes, or this many small allocations, takes about a millisecond.
inline constexpr std::size_t kDisposedBytes = std::size_t{4} << 20;
inline constexpr std::size_t kDisposedPieces = 8192;

/// Frees memory. Thread-safe.
class Disposer {
 public:
  virtual ~Disposer() = default;
  /// Frees `garbage` on another thread, soon.
  virtual void dispose(std::shared_ptr<const void> garbage) = 0;
};

/// Sets the disposer of this process. Null: each thread frees its memory itself. The replaced disposer may still be called by
/// another thread, so it must live until the next call of set_disposer().
void set_disposer(Disposer* disposer);

/// Frees `garbage`: through the disposer if `is_long`, else on this thread.
void let_go(std::shared_ptr<const void> garbage, bool is_long);

}  // namespace ebbtide
