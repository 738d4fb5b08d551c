// The end of memory that takes long to free: half a gigabyte keeps a thread busy for a tenth of a second. Event loops do not free it
// themselves, they hand it to a disposer.
#pragma once

#include <cstddef>
#include <memory>

namespace ebbtide {

/// From so many bytes, or so many small pieces of memory, on: about a millisecond.
inline constexpr std::size_t kDisposedBytes = std::size_t{4} << 20;
inline constexpr std::size_t kDisposedPieces = 8192;

/// Thread-safe.
class Disposer {
 public:
  virtual ~Disposer() = default;
  /// Frees `garbage` on another thread, soon.
  virtual void dispose(std::shared_ptr<const void> garbage) = 0;
};

/// Who disposes of this process's garbage from now on; null: each thread of its own. What it has been handed may end later. It
/// outlives the next call.
void set_disposer(Disposer* disposer);

/// Frees `garbage`: here, or if `is_long` by the disposer.
void let_go(std::shared_ptr<const void> garbage, bool is_long);

}  // namespace ebbtide
