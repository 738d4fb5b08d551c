// Range tombstones, cut into fragments that do not overlap, so that a key asks once.
//
// Input: tombstones that overlap as they like. Output: fragments in key order; each has the (seq, birth) pairs of all tombstones
// that cover it, newest first. Immutable and shared; a table builds one when opened, a memtable one per version of its set.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/entry.h"

namespace ebbtide {

class FragmentedRangeTombstones {
 public:
  struct Cover {
    SeqNum seq;
    Millis birth;
  };
  struct Fragment {
    std::string start;
    std::string end;            ///< "" = no upper bound (the last fragment only)
    std::vector<Cover> covers;  ///< newest first
  };

  FragmentedRangeTombstones() = default;
  explicit FragmentedRangeTombstones(std::span<const RangeTombstone> tombstones);

  [[nodiscard]] bool empty() const { return fragments_.empty(); }
  /// The newest cover of `key` with seq <= view_seq, or null. O(log fragments).
  [[nodiscard]] const Cover* newest_cover(Bytes key, SeqNum view_seq) const;
  /// The same fragment walk for iterators: the fragment that contains `key`, or null.
  [[nodiscard]] const Fragment* fragment_at(Bytes key) const;
  [[nodiscard]] const std::vector<Fragment>& fragments() const { return fragments_; }

 private:
  std::vector<Fragment> fragments_;
};

using SharedTombstones = std::shared_ptr<const FragmentedRangeTombstones>;

}  // namespace ebbtide
