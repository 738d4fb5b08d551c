#include "compaction/subranges.h"

#include <algorithm>
#include <utility>

namespace ebbtide {
namespace {

// Number of samples for each part: a cut is then at most an eighth of a part away from the even division.
constexpr std::size_t kSamplesPerPart = 8;

/// Keys at which the range may be cut, ascending; each with the bytes since the key before.
using Cuts = std::vector<std::pair<std::string, double>>;

/// Cuts the range into `parts` ranges of about equal bytes. The i-th cut is the first key of `cuts` that has at least i / `parts`
/// of the bytes before it.
std::vector<KeyRange> cut_where_due(const KeyRange& range, const Cuts& cuts, double total, std::size_t parts) {
  std::vector<KeyRange> out;
  KeyRange rest = range;
  double before = 0;
  for (const auto& [key, bytes] : cuts) {
    before += bytes;
    const double due = total * static_cast<double>(out.size() + 1) / static_cast<double>(parts);
    if (out.size() + 1 == parts || before < due || key <= rest.start || ends_at_or_before(rest.end, key)) continue;
    out.push_back({rest.start, key});
    rest.start = key;
  }
  out.push_back(std::move(rest));
  return out;
}

}  // namespace

std::vector<FileGroup> overlapping_groups(std::vector<InputFile> files) {
  std::sort(files.begin(), files.end(), [](const InputFile& a, const InputFile& b) {
    return a.range.start != b.range.start ? a.range.start < b.range.start : a.run < b.run;
  });
  std::vector<FileGroup> groups;
  for (InputFile& file : files) {
    if (groups.empty() || ends_at_or_before(groups.back().range.end, file.range.start)) {
      groups.push_back({file.range, {}, 0});
    } else if (end_before(groups.back().range.end, file.range.end)) {
      groups.back().range.end = file.range.end;
    }
    groups.back().bytes += file.meta->data_bytes;
    groups.back().files.push_back(std::move(file));
  }
  return groups;
}

std::vector<KeyRange> cut_evenly(const FileGroup& group, std::size_t parts, const SplitPoints& split_points) {
  Cuts samples;  // for each part of a file, its middle and its bytes
  const std::size_t wanted = parts * kSamplesPerPart;
  double total = 0;
  for (const InputFile& file : group.files) {
    const auto bytes = static_cast<double>(file.meta->data_bytes);
    // At least one sample per file: a large merge has more files than wanted samples.
    const auto count =
        std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(wanted) * bytes /
                                                          static_cast<double>(std::max<std::uint64_t>(group.bytes, 1))));
    if (parts < 2) continue;
    const std::vector<std::string> keys = split_points(*file.meta, group.range, count);
    for (const std::string& key : keys) samples.emplace_back(key, bytes / static_cast<double>(keys.size()));
    total += bytes;
  }
  std::sort(samples.begin(), samples.end());
  return cut_where_due(group.range, samples, total, parts);
}

std::vector<KeyRange> cut_at_partitions(const KeyRange& range, const std::vector<Partition>& partitions, std::size_t parts) {
  Cuts cuts;
  double total = 0;
  double last_middle = 0;  // bytes up to the middle of the previous partition: cut_where_due() then chooses the nearest cut
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    const double middle = total + partitions[i].bytes / 2;
    total += partitions[i].bytes;
    if (i > 0) cuts.emplace_back(partitions[i].start, middle - std::exchange(last_middle, middle));
  }
  return cut_where_due(range, cuts, total, std::max<std::size_t>(parts, 1));
}

}  // namespace ebbtide
