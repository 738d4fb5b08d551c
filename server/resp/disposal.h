// Freeing memory takes long if there is much of it: half a gigabyte keeps a thread busy for a tenth of a second. Event loops hand
// such memory to a disposer.
#pragma once

#include <cstddef>
#include <memory>

namespace ebbtide {

/// Memory of so many bytes, or of so many small pieces, takes about a millisecond to free.
inline constexpr std::size_t kDisposedBytes = std::size_t{4} << 20;
inline constexpr std::size_t kDisposedPieces = 8192;

/// Thread-safe.
class Disposer {
 public:
  virtual ~Disposer() = default;
  /// Frees `garbage` on another thread, soon.
  virtual void dispose(std::shared_ptr<const void> garbage) = 0;
};

/// Sets the disposer of this process. Null: each thread frees memory by itself. A replaced disposer may free what it has got
/// later. A disposer outlives the next call of this.
void set_disposer(Disposer* disposer);

/// Frees `garbage`: here, or by the disposer if `is_long`.
void let_go(std::shared_ptr<const void> garbage, bool is_long);

}  // namespace ebbtide
