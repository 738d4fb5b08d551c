// Finds the range tombstone that covers a key, for an iterator whose keys come in order.
//
// A source (memtable or sorted run) has sets of fragments (deletes/range_tombstone.h) with disjoint bounds; an iterator has
// several sources. Between two adjacent borders of fragments, of all sources, the answer is the same for all keys. So Coverage
// keeps the last such interval and its answer, and most calls cost one or two key comparisons. Without range tombstones a call
// costs one branch.
#pragma once

#include <cstddef>
#include <vector>

#include "deletes/range_tombstone.h"

namespace ebbtide {

/// The range tombstones of one source. The runs of a memtable's TombstoneSet may overlap, so each of them is a source of its
/// own; they have the same age.
struct TombstoneSource {
  std::size_t age = 0;  ///< index of the source among the merging iterator's children, 0 = newest
  /// In key order, disjoint: one set per table of a run, or one run of a memtable's TombstoneSet.
  std::vector<SharedTombstones> sets;
};

/// Not thread-safe.
class Coverage {
 public:
  /// The newest range tombstone with seq <= view_seq that covers a key.
  struct Answer {
    SeqNum seq = 0;  ///< 0 = the key is not covered
    Millis birth = 0;
    std::size_t age = 0;  ///< age of the source that has the tombstone
    Bytes start, end;     ///< bounds of the tombstone's fragment; end "" = no upper bound
  };

  Coverage(std::vector<TombstoneSource> sources, SeqNum view_seq);

  [[nodiscard]] bool empty() const { return sources_.empty(); }
  /// Returns the answer for `key`. The reference is valid until the next call; views in it are valid as long as the sets.
  const Answer& at(Bytes key) {
    if (sources_.empty()) return answer_;
    if (known_ && key >= low_ && (high_open_ || key < high_)) return answer_;
    look_up(key);
    return answer_;
  }

 private:
  void look_up(Bytes key);
  void look_up_in(const TombstoneSource& source, Bytes key);
  void narrow_high(Bytes border);

  std::vector<TombstoneSource> sources_;  // the constructor's sources, without empty sets
  const SeqNum view_seq_;
  bool known_ = false;
  Bytes low_, high_;       // the interval for which answer_ is valid
  bool high_open_ = true;  // true if the interval has no upper border
  Answer answer_;
};

}  // namespace ebbtide
