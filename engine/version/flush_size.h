// Measures how many bytes a full memtable of a tree has on disk after its flush. This size is the unit of level capacities.
//
// A memtable is larger than its flush: in memory an entry has a node, indexes and a plain value; in a table the entry is packed
// and compressed. If memtable_size were the unit, data that compresses to a tenth would have levels ten times too large for their
// input. Each flush would then cause ten times too many bytes of merges. So flushes are measured.
//
// Weights: a flush is weighted by how full its memtables were, and its bytes are scaled to full memtables. So a memtable that was
// flushed early (by a deadline, a command or lack of memory) counts as a smaller sample. The average is the plain mean of the
// first few full memtables, then an exponential average.
//
// Hysteresis: the value in use changes only when the average differs from it by a quarter, so that levels at their bounds do not
// appear and disappear with every flush. The manifest stores the value in use as a share of memtable_size
// (TreeEdit::flush_share). So level sizes change at once after a restart with another memtable_size.
#pragma once

#include <cstdint>
#include <optional>

namespace ebbtide {

/// The bytes of tables to which a full memtable is flushed, as a share of memtable_size: 16.16 fixed point.
struct FlushShare {
  static constexpr std::uint32_t kOne = 1 << 16;
  /// The smallest share. Repeated overwrites of hot keys, or deletes alone, flush to almost nothing; levels must not become that
  /// small.
  static constexpr std::uint32_t kLeast = kOne / 64;
  static constexpr std::uint32_t kMost = kOne * 2;

  /// Returns `share` of `memtable_size` in bytes; memtable_size itself if `share` is 0 (not measured yet).
  static std::uint64_t bytes(std::uint32_t share, std::uint64_t memtable_size);
};

/// The moving average for one tree. Not thread-safe.
class FlushSize {
 public:
  /// Adds one flush. `full_memtables`: how many full memtables the entries of its memtables would fill. `written`: the bytes of
  /// its tables. `in_force`: the tree's present share, 0 = none. Returns the new share if it changes.
  std::optional<std::uint32_t> add(double full_memtables, std::uint64_t written, std::uint64_t memtable_size,
                                   std::uint32_t in_force);

 private:
  double mean_ = 0;    // the average share
  double weight_ = 0;  // number of memtables in the average
};

}  // namespace ebbtide
