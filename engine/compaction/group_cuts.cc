#include "compaction/group_cuts.h"

#include <algorithm>

#include "compaction/key_space.h"

namespace ebbtide {
namespace {

// Number of samples of an input table for its histogram: four for each bin.
constexpr std::size_t kByteSamples = 512;

/// Returns the common prefix of the tree's keys and of the inputs' keys.
std::optional<std::string> key_space_with(const Version& version, std::span<const InputFile> files) {
  std::optional<std::string> prefix = version.key_space;
  for (const InputFile& file : files) {
    const TableStats& stats = file.meta->stats;
    prefix = shared_prefix_with(prefix, stats.smallest, stats.unbounded ? stats.smallest : stats.largest);
  }
  return prefix;
}

}  // namespace

GroupCuts::GroupCuts(const Version& version, const CompactionContext& context, const CompactionEnv& env, const PlanInputs& inputs,
                     const OpenTables& tables)
    : context_(context), env_(env), inputs_(inputs), tables_(tables) {
  if (context.settings.partitioning == Partitioning::kGlobalRange) key_space_ = key_space_with(version, inputs.files);
}

void GroupCuts::divide(MergeGroup* group) const {
  const Partitioning partitioning = context_.settings.partitioning;
  PartitionRequest request{partitioning, context_.settings.file_size, group->files.range, key_space_.value_or("")};
  if (partitioning == Partitioning::kSize) {
    group->partitions = {{request.keys.start, static_cast<double>(group->files.bytes)}};
    return;
  }
  KeyRange whole = group->files.files.front().range;
  for (const InputFile& file : group->files.files) whole = hull(whole, file.range);
  request.keys = intersection(whole, group->files.range);
  StreamingHistogram bytes = bytes_of(*group, key_space_of(request));
  group->partitions = partitions_of(request, &bytes);
}

/// Returns the distribution of the group's bytes over the keys: the sum of histograms that are made from the tables' fences.
StreamingHistogram GroupCuts::bytes_of(const MergeGroup& group, const KeySpace& space) const {
  StreamingHistogram sum(bins_for(static_cast<double>(group.files.bytes), context_.settings.file_size));
  for (const InputFile& file : group.files.files) {
    StreamingHistogram one;
    for (const auto& [key, bytes] : tables_.of(*file.meta).byte_samples(group.files.range, kByteSamples)) {
      one.add(space.position(key), static_cast<double>(bytes));
    }
    sum.merge(one);
  }
  return sum;
}

std::vector<KeyRange> GroupCuts::parts_of(const MergeGroup& group) const {
  const bool by_size = context_.settings.partitioning == Partitioning::kSize;
  std::vector<KeyRange> ranges;
  // If all output fits into one file, the output is not cut.
  const bool is_one_file = !by_size && group.partitions.front().bytes <= static_cast<double>(context_.settings.file_size);
  if (group.hole) {
    ranges = {group.files.range};
  } else if (group.partitions.size() > 1 || is_one_file) {
    ranges = cut_at_partitions(group.files.range, group.partitions, count_of_parts(group));
  } else {
    ranges =
        cut_evenly(group.files, count_of_parts(group), [this](const FileMeta& file, const KeyRange& range, std::size_t count) {
          return tables_.of(file).split_points(range, count);
        });
  }
  return group.has_below && by_size ? aligned(std::move(ranges)) : ranges;
}

/// Returns the greatest number of parts: two for each thread, each of at least sub_merge_bytes.
std::size_t GroupCuts::count_of_parts(const MergeGroup& group) const {
  const std::uint64_t by_size = group.files.bytes / std::max<std::uint64_t>(env_.sub_merge_bytes, 1);
  return env_.pool == nullptr || by_size < 2 ? 1 : std::min<std::uint64_t>(by_size, 2 * env_.pool->width());
}

/// Moves the cuts between parts to the ends of files of the next older run, since an output file ends at each cut
/// (OutputSplitter).
std::vector<KeyRange> GroupCuts::aligned(std::vector<KeyRange> ranges) const {
  const auto ends_before = [](const FileMetaPtr& file, const std::string& key) {
    return end_before(range_of(file->stats).end, key);
  };
  std::vector<KeyRange> out{ranges.front()};
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    const std::string& cut = ranges[i].start;
    const auto file = std::lower_bound(inputs_.below.begin(), inputs_.below.end(), cut, ends_before);
    std::string end = file == inputs_.below.end() ? cut : range_of((*file)->stats).end;
    const bool leaves_something = end_before(end, ranges[i].end);
    if (!leaves_something) end = cut;
    out.back().end = end;
    out.push_back({std::move(end), ranges[i].end});
  }
  return out;
}

}  // namespace ebbtide
