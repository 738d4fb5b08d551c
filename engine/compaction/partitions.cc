#include "compaction/partitions.h"

#include <algorithm>

#include "base/coding.h"

namespace ebbtide {
namespace {

constexpr std::size_t kBinsPerFile = 16, kFewestBins = 128, kMostBins = 65536;

// A partition with less than 1 / kSmallestShare of a file's bytes shares a file with the next partition.
constexpr std::uint64_t kSmallestShare = 8;

void halve(const PositionRange& range, double most_bytes, const BytesWithin& bytes, std::vector<PositionRange>* out) {
  const double here = bytes(range);
  if (here < 0.5) return;  // less than half a byte is only a rounding error
  if (here <= most_bytes || range.first == range.last) {
    out->push_back(range);
    return;
  }
  const KeyPosition middle = range.first + (range.last - range.first) / 2;
  halve({range.first, middle}, most_bytes, bytes, out);
  halve({middle + 1, range.last}, most_bytes, bytes, out);
}

}  // namespace

std::vector<PositionRange> halve(const PositionRange& range, double most_bytes, const BytesWithin& bytes) {
  std::vector<PositionRange> out;
  halve(range, most_bytes, bytes, &out);
  return out;
}

PositionRange smallest_node(const PositionRange& range) {
  KeyPosition within = 0;  // ones from the highest bit in which the two ends differ
  for (KeyPosition differ = range.first ^ range.last; differ != 0; differ >>= 1) within = within << 1 | 1;
  return {range.first & ~within, range.last | within};
}

std::size_t bins_for(double bytes, std::uint64_t file_bytes) {
  const double files = bytes / static_cast<double>(std::max<std::uint64_t>(file_bytes, 1)) + 1;
  if (files >= static_cast<double>(kMostBins / kBinsPerFile)) return kMostBins;
  return std::max(kFewestBins, kBinsPerFile * static_cast<std::size_t>(files));
}

KeySpace key_space_of(const PartitionRequest& request) {
  if (request.partitioning == Partitioning::kGlobalRange) return KeySpace(request.prefix);
  return KeySpace(request.keys.start.substr(0, common_bytes(request.keys.start, request.keys.end)));
}

std::vector<Partition> partitions_of(const PartitionRequest& request, const BytesWithin& bytes, KeyPosition last) {
  std::vector<Partition> out = {{request.keys.start, 0}};
  if (request.partitioning == Partitioning::kSize) return out;
  const KeySpace space = key_space_of(request);
  const std::string& end = request.keys.end;
  PositionRange whole{space.position(request.keys.start), end.empty() ? last : space.position(end)};
  if (whole.first > whole.last) return out;  // the histogram is empty
  if (request.partitioning == Partitioning::kGlobalRange) whole = smallest_node(whole);
  for (const PositionRange& range : halve(whole, static_cast<double>(request.file_bytes), bytes)) {
    std::optional<std::string> start = space.first_key_at(range.first);
    // The first range begins before the first key. Another range may contain no possible key, or only keys past the end: then its
    // bytes are added to the partition before it.
    if (start && *start > out.back().start && (end.empty() || *start < end)) out.push_back({std::move(*start), 0});
    out.back().bytes += bytes(range);
  }
  return out;
}

std::vector<Partition> partitions_of(const PartitionRequest& request, StreamingHistogram* bytes) {
  const auto within = [bytes](const PositionRange& range) {
    return bytes->sum(range.last) - (range.first == 0 ? 0 : bytes->sum(range.first - 1));
  };
  return partitions_of(request, within, bytes->largest());
}

OutputSplitter::Limits limits_of(const TreeSettings& settings, std::uint64_t below_bytes) {
  const std::uint64_t bytes = settings.file_size;
  if (settings.partitioning == Partitioning::kSize) return {bytes, below_bytes, 0, true};
  // The sizes of partitions are estimates. A partition whose file becomes half as large again as a full file is cut by size.
  return {bytes + bytes / 2, below_bytes, bytes / kSmallestShare, false};
}

void note_key_space(const std::string& prefix, const Version& version, TreeEdit* edit) {
  if (version.key_space == prefix) return;
  const bool vouched = std::any_of(edit->added_files.begin(), edit->added_files.end(),
                                   [&](const auto& added) { return added.second.has_in_bounds(prefix); });
  if (vouched) edit->key_space = prefix;
}

std::string shared_prefix_with(const std::optional<std::string>& before, Bytes smallest, Bytes largest) {
  Bytes prefix = smallest.substr(0, common_bytes(smallest, largest));
  if (before) prefix = prefix.substr(0, common_bytes(prefix, *before));
  return std::string(prefix);
}

}  // namespace ebbtide
