// Walks over the elements of a large collection that begin at a given rank, or count the rank of each element. They use the
// collection's rank index (store/rank_indexes.h). They also split the index's segments on the way, so that later walks are
// shorter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commands/large_part.h"
#include "store/rank_indexes.h"

namespace ebbtide {

/// A walk in rank order over the elements of a sorted set or set. For one attempt of a command.
class RankedWalk {
 public:
  /// For walks over fewer elements the index saves nothing.
  static constexpr std::uint64_t kFew = 2 * RankIndex::kSegmentElements;

  /// Returns true if the ranks of the collection may be indexed: its elements do not expire, and are not changed by pending
  /// writes of a transaction.
  static bool helps(const Ctx& ctx, const Found& found, const LargeHeader& header);

  /// `part`: a part of the same collection.
  RankedWalk(Ctx& ctx, const Found& found, const LargeHeader& header, ElementKeys& keys, const LargePart& part);
  ~RankedWalk() { end_segment(); }
  RankedWalk(const RankedWalk&) = delete;
  RankedWalk& operator=(const RankedWalk&) = delete;

  /// Moves to the first element whose name is not below `name`, or behind the last element. Errors as from ElementWalk.
  Status seek(Bytes name);
  /// Moves to the element with this rank. kCorruption if the collection has fewer elements than its header counts.
  Status seek_rank(std::uint64_t rank);
  Status next();
  [[nodiscard]] bool valid() const { return walk_->valid(); }
  [[nodiscard]] Bytes name() const { return walk_->name(); }
  /// Returns the rank of the current element: the number of elements before it.
  [[nodiscard]] std::uint64_t rank() const { return rank_; }

 private:
  [[nodiscard]] RankIndexes::State state() const;
  /// Returns the seq of the collection's newest header; 0 if there is none.
  [[nodiscard]] SeqNum newest() const;
  Status begin(std::optional<RankIndexes::Walk> from);
  /// Passes the points that the walk has collected to the index, which splits its segment there.
  void end_segment();

  Ctx& ctx_;
  RankIndexes& indexes_;
  const Found& found_;
  const LargeHeader& header_;
  ElementKeys& keys_;
  const LargePart& part_;
  std::optional<ElementWalk> walk_;
  std::uint64_t rank_ = 0;
  RankIndexes::Walk segment_;
  std::uint64_t since_point_ = 0;
  std::vector<RankIndex::Point> points_;
};

}  // namespace ebbtide
