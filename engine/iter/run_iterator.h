// Iterates over a sorted run: over its files one after the other. A file is opened when the iterator reaches it.
//
// The files of a run have disjoint bounds, so a merge needs one child per run, not one per file. Files outside `bounds` are
// never opened. The bounds of a file include its range tombstones, so a seek may find no entry in the file whose bounds contain
// the key. The seek then goes on to the next file.
#pragma once

#include <functional>
#include <memory>

#include "base/table_stats.h"
#include "iter/internal_iterator.h"

namespace ebbtide {

/// Access to the run. Both functions must outlive the iterator. Their arguments are 0 .. files - 1, in key order.
struct RunFiles {
  std::size_t files = 0;
  std::function<const TableStats&(std::size_t)> stats;  ///< stats of a file, for its bounds
  /// Returns an iterator over one file, or error_iterator() if the file cannot be opened.
  std::function<std::unique_ptr<InternalIterator>(std::size_t)> open;
};

class RunIterator final : public InternalIterator {
 public:
  /// Leaves out files outside `bounds`. Shows all entries of the other files: the caller removes entries outside `bounds`, once
  /// for all runs, after merging.
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
  std::size_t begin_ = 0, end_ = 0;  ///< indexes of the files that overlap the bounds: [begin_, end_)
  std::size_t current_ = 0;          ///< index of the file of child_
  std::unique_ptr<InternalIterator> child_;
};

/// Returns an empty iterator whose status is `status`.
std::unique_ptr<InternalIterator> error_iterator(Status status);

}  // namespace ebbtide
