// Iterates over a sorted run: its files one after the other, each opened when it is reached.
//
// The files of a run have disjoint bounds, so a merge needs one child per run, not per file. Files outside `bounds` are never
// opened. Bounds include range tombstones, so a seek may find no entry in the file whose bounds contain the key; it goes on to
// the next.
#pragma once

#include <functional>
#include <memory>

#include "base/table_stats.h"
#include "iter/internal_iterator.h"

namespace ebbtide {

/// Access to the run. Both functions must outlive the iterator; they take 0 .. files - 1, in key order.
struct RunFiles {
  std::size_t files = 0;
  std::function<const TableStats&(std::size_t)> stats;  ///< for the bounds
  /// An iterator over one file; one with an error status if the file cannot be opened (error_iterator below).
  std::function<std::unique_ptr<InternalIterator>(std::size_t)> open;
};

class RunIterator final : public InternalIterator {
 public:
  /// Files outside `bounds` are left out. Entries are not clipped; the caller does that once, after merging.
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

/// An empty iterator with `status`.
std::unique_ptr<InternalIterator> error_iterator(Status status);

}  // namespace ebbtide
