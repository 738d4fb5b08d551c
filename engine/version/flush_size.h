// What a full memtable of a tree becomes on disk: the unit that capacities of levels are counted in.
//
// A memtable's bytes are not what arrives in level 0: an entry has its node, its indexes and its value as they are, in a table it
// is packed and compressed. With memtable_size as the unit, data that compresses to a tenth would have levels ten times too large
// for what comes in, and each flush would rewrite ten times its share. So flushes are measured.
//
// Weighing. A flush counts by how full its memtables were, and its bytes are scaled to full ones: a memtable that a deadline, a
// hand or short memory flushed early says the same about the data as a full one, only with less weight. The average is the plain
// mean of the first few full memtables, then an exponential one.
//
// Hysteresis. What is in force moves only when the average has left it by a quarter, so that levels at their bounds do not come
// and go with every flush. It is kept as a share of memtable_size, in the manifest (TreeEdit::flush_share): another memtable_size
// at the next start means levels of another size at once.
#pragma once

#include <cstdint>
#include <optional>

namespace ebbtide {

/// Bytes of tables that a full memtable flushes to, as a share of memtable_size.
struct FlushShare {
  static constexpr std::uint32_t kOne = 1 << 16;
  /// Hot keys that are overwritten over and over, or deletes alone, flush to next to nothing; levels must not become as small.
  static constexpr std::uint32_t kLeast = kOne / 64;
  static constexpr std::uint32_t kMost = kOne * 2;

  /// `share` of `memtable_size` in bytes; memtable_size itself if `share` is 0: nothing was measured yet.
  static std::uint64_t bytes(std::uint32_t share, std::uint64_t memtable_size);
};

/// The moving average of one tree. Not thread-safe.
class FlushSize {
 public:
  /// One flush: `full_memtables` is how much of their room its memtables had used, summed (1 for a full one, and for one that went
  /// beyond its room); `written` the bytes of its tables. `in_force` is the tree's share so far, 0 = none. Returns the share to
  /// put in its place, if it is to change.
  std::optional<std::uint32_t> add(double full_memtables, std::uint64_t written, std::uint64_t memtable_size,
                                   std::uint32_t in_force);

 private:
  double mean_ = 0;    // share
  double weight_ = 0;  // memtables that it stands for
};

}  // namespace ebbtide
