// The distribution of bytes over the key space: a histogram of few bins, made in one pass.
//
// Ben-Haim and Tom-Tov, "A Streaming Parallel Decision Tree Algorithm" (JMLR 2010), as Mao's thesis uses it (section 5.4.4,
// Algorithm 5.8). A bin is a point and a weight. When there are too many bins, the two closest become one, at their centre of
// gravity. Between two bins the weight is assumed to change evenly. One rule is added: no merged bin gets more than four times
// the average weight of a bin. The two closest bins are always where keys are densest. Without the rule, the bins of a dense
// range, which most partitions must divide, would merge into a few, and most bins would remain in sparse ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compaction/key_space.h"

namespace ebbtide {

/// Not thread-safe.
class StreamingHistogram {
 public:
  /// The thesis uses 128 bins for a table.
  explicit StreamingHistogram(std::size_t bins = 128) : most_(bins) {}

  /// Adds a point. Points may come in any order; ascending order is the cheapest. A weight of 0 or less is ignored.
  void add(KeyPosition at, double weight);
  /// Adds all bins of `other`.
  void merge(const StreamingHistogram& other);
  /// Returns the estimated weight of all points up to a position. The estimate never falls as the position grows, except by
  /// rounding. It is 0 before the first added position, and total() from the last one on.
  [[nodiscard]] double sum(KeyPosition at);
  [[nodiscard]] double total() const { return total_; }
  /// The first and the last position that was added. In an empty histogram smallest() > largest().
  [[nodiscard]] KeyPosition smallest() const { return smallest_; }
  [[nodiscard]] KeyPosition largest() const { return largest_; }
  /// Number of bins in memory: up to twice the number given to the constructor.
  [[nodiscard]] std::size_t bins() const { return bins_.size(); }

 private:
  struct Bin {
    KeyPosition at = 0;
    double weight = 0;
  };
  void sort();
  void shrink();
  void settle();

  std::size_t most_;
  std::vector<Bin> bins_;      // if sorted_ is true: ascending, no two bins at the same position
  std::vector<double> below_;  // for each bin, the weight of all bins before it; empty until settle()
  bool sorted_ = true;
  double total_ = 0;
  KeyPosition smallest_ = kLastPosition, largest_ = 0;
};

}  // namespace ebbtide
