// A sorted run as one walk: its files one after the other, each opened when the walk gets there.
//
// The files of a run have disjoint bounds, so a merge needs one child per run, not per file. Files outside `bounds` are never
// opened. Files are a superset of what they hold (bounds include range tombstones), so a seek may find nothing in the file that
// its bounds point to and goes on to the next.
#pragma once

#include <functional>
#include <memory>

#include "base/table_stats.h"
#include "iter/internal_iterator.h"

namespace ebbtide {

/// What a run iterator asks of its run. Both functions must outlive it and answer for 0 .. files - 1, in key order.
struct RunFiles {
  std::size_t files = 0;
  std::function<const TableStats&(std::size_t)> stats;  ///< for the bounds
  /// A walk over one file; an iterator with an error status if it cannot be opened (error_iterator below).
  std::function<std::unique_ptr<InternalIterator>(std::size_t)> open;
};

class RunIterator final : public InternalIterator {
 public:
  /// Files that do not meet `bounds` are left out. Entries are not clipped: that is the caller's, once, on the merged walk.
  RunIterator(RunFiles run, KeyRange bounds);

  void seek_to_first() override;
  void seek_to_last() override;
  void seek(Bytes key) override;
  void seek_before(Bytes key) override;
  void next() override;
  void prev() override;

 private:
  bool enter(std::size_t file);
  void skip_forward();
  void skip_backward();
  void settle();

  RunFiles run_;
  std::size_t begin_ = 0, end_ = 0;  ///< the files that meet the bounds
  std::size_t current_ = 0;          ///< file of child_
  std::unique_ptr<InternalIterator> child_;
};

/// An iterator that is at its end from the start, with `status`.
std::unique_ptr<InternalIterator> error_iterator(Status status);

}  // namespace ebbtide
