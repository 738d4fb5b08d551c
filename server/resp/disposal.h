// Frees large memory on other threads. Freeing half a gigabyte keeps a thread busy for a tenth of a second, so event loops give
// such memory to a disposer: in the server OffloadDisposer (dispatch/offload.h), the threads of long writes.
#pragma once

#include <cstddef>
#include <memory>

namespace ebbtide {

/// Freeing this many bytes, or this many small pieces, takes about a millisecond.
inline constexpr std::size_t kDisposedBytes = std::size_t{4} << 20;
inline constexpr std::size_t kDisposedPieces = 8192;

/// Frees memory. Thread-safe.
class Disposer {
 public:
  virtual ~Disposer() = default;
  /// Frees `garbage` on another thread, soon.
  virtual void dispose(std::shared_ptr<const void> garbage) = 0;
};

/// Sets the disposer of this process. Null: each thread frees memory by itself. Another thread may still call the replaced
/// disposer, so it must live until the next call of set_disposer().
void set_disposer(Disposer* disposer);

/// Frees `garbage` here, or through the disposer if `is_long`.
void let_go(std::shared_ptr<const void> garbage, bool is_long);

}  // namespace ebbtide
