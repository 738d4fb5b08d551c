#include "compaction/output_splitter.h"

#include <optional>
#include <utility>

#include "base/oldest.h"
#include "compaction/key_ranges.h"

namespace ebbtide {
namespace {

// A file that is closed early because of the run below has at least 1 / kSmallestPart of the size of a full file.
constexpr std::uint64_t kSmallestPart = 8;

}  // namespace

bool OutputSplitter::should_close(Bytes key, std::uint64_t bytes) {
  const std::size_t below_before = below_at_;
  while (below_at_ < below_.size() && ends_at_or_before(below_[below_at_].end, key)) below_met_ += below_[below_at_++].bytes;
  past_end_below_ = below_at_ != below_before;
  if (past_end_below_ && bytes != 0) ++below_ends_;
  const std::size_t before = partition_;
  while (partition_ < partitions_.size() && Bytes(partitions_[partition_]) <= key) ++partition_;
  crossed_ = partition_ != before;
  if (has_its_size(bytes) || (crossed_ && bytes >= limits_.least_bytes)) return true;
  return limits_.below_bytes != 0 && below_met_ >= limits_.below_bytes && bytes >= limits_.file_bytes / kSmallestPart;
}

// n files of the run below have ended within this file, so the next one is expected to end after 1/n more of the file's bytes.
// The present end is the nearest to the size F if F - bytes <= bytes (1 + 1/n) - F.
bool OutputSplitter::has_its_size(std::uint64_t bytes) const {
  if (!limits_.aligned) return bytes >= limits_.file_bytes;
  if (past_end_below_ && bytes != 0 && bytes * (2 * below_ends_ + 1) >= limits_.file_bytes * 2 * below_ends_) return true;
  const bool another_end = below_at_ < below_.size() && !below_[below_at_].end.empty();
  return bytes >= limits_.file_bytes + (another_end ? limits_.file_bytes / 2 : 0);
}

std::vector<RangeTombstone> OutputSplitter::close_before(Bytes key, Millis birth) {
  below_met_ = below_ends_ = 0;
  const Bytes next = key;
  // Cuts open tombstones at the start of the partition that has `key`, or at the end of a file of the run below. If they were cut
  // at `key`, the next output's first key, this file would reach into that partition, or overlap another file of the run below.
  if (crossed_) {
    key = partitions_[partition_ - 1];
  } else if (limits_.aligned && past_end_below_) {
    key = below_[below_at_ - 1].end;
  }
  std::optional<Millis> pending;
  if (key == next) pending = birth;
  std::vector<RangeTombstone> closed, open;
  const auto cut = [&](RangeTombstone tombstone) {
    if (!ends_at_or_before(tombstone.end, key)) {
      if (!pending) pending = names_ == nullptr ? 0 : names_->birth_at(key);
      keep_oldest(&tombstone.birth, *pending);
      open.push_back({key, tombstone.end, tombstone.seq, tombstone.birth});
      tombstone.end = open.back().start;
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
