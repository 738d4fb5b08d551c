#include "compaction/output_splitter.h"

#include <utility>

#include "compaction/key_ranges.h"

namespace ebbtide {
namespace {

// A file that closes for the sake of the run below has at least this part of its size.
constexpr std::uint64_t kSmallestPart = 8;

}  // namespace

bool OutputSplitter::should_close(Bytes key, std::uint64_t bytes) {
  while (below_at_ < below_.size() && ends_at_or_before(below_[below_at_].end, key)) below_met_ += below_[below_at_++].bytes;
  const std::size_t before = partition_;
  while (partition_ < partitions_.size() && Bytes(partitions_[partition_]) <= key) ++partition_;
  crossed_ = partition_ != before;
  if (bytes >= limits_.file_bytes || (crossed_ && bytes >= limits_.least_bytes)) return true;
  return limits_.below_bytes != 0 && below_met_ >= limits_.below_bytes && bytes >= limits_.file_bytes / kSmallestPart;
}

std::vector<RangeTombstone> OutputSplitter::close_before(Bytes key) {
  below_met_ = 0;
  // So that a tombstone does not have the file reach into the next partition, up to wherever that has its first key.
  if (crossed_) key = partitions_[partition_ - 1];
  std::vector<RangeTombstone> closed, open;
  const auto cut = [&](RangeTombstone tombstone) {
    if (!ends_at_or_before(tombstone.end, key)) {
      RangeTombstone right = tombstone;
      right.start.assign(key);
      open.push_back(std::move(right));
      tombstone.end.assign(key);
    }
    closed.push_back(std::move(tombstone));
  };
  for (RangeTombstone& tombstone : open_) cut(std::move(tombstone));
  while (next_ < tombstones_.size() && Bytes(tombstones_[next_].start) < key) cut(std::move(tombstones_[next_++]));
  open_ = std::move(open);
  return closed;
}

std::vector<RangeTombstone> OutputSplitter::close_last() {
  std::vector<RangeTombstone> closed = std::move(open_);
  open_.clear();
  while (next_ < tombstones_.size()) closed.push_back(std::move(tombstones_[next_++]));
  return closed;
}

}  // namespace ebbtide
