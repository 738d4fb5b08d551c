// Chooses keys at which output files may end before they are full: Mao's thesis, chapter 5.
//
//   size          A file ends when it has its size, or at a nearby end of a file of the next older run. Files of different runs
//                 mostly end at different keys, so each overlaps some of another run, and these overlap others: a chain through
//                 the whole key space, of which no part can be left out (figure 5.1).
//   local_range   The range of the merged keys is halved, and each half again, until none has more than a file's bytes.
//   global_range  The same, beginning with the range of all keys of the tree. So halves are always the same, and files of
//                 different runs end at the same keys. Overlapping files make small groups, which are merged in parallel, and
//                 files without overlap move.
//
// A file may end at the end of a partition, but small adjacent partitions share a file (compaction/output_splitter.h).
// Keys are positions here (compaction/key_space.h), bytes are estimated (compaction/histogram.h). Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <engine/options.h>
#include "compaction/histogram.h"
#include "compaction/output_splitter.h"
#include "version/version_edit.h"

namespace ebbtide {

/// Both ends are part of the range.
struct PositionRange {
  KeyPosition first = 0, last = 0;
  bool operator==(const PositionRange&) const = default;
};
/// Estimated bytes within a range.
using BytesWithin = std::function<double(const PositionRange& range)>;

/// Halves the range, and the halves, until each has at most `most_bytes` or is one position. Returns those with bytes, in order.
/// The thesis' Algorithm 5.5 (BINARYSPLIT).
std::vector<PositionRange> halve(const PositionRange& range, double most_bytes, const BytesWithin& bytes);

/// The smallest range that contains `range` and results from halving the whole line: the common leading bits of both ends, then
/// zeros to ones. Halving it gives the same parts as halving the line. Algorithm 5.7.
PositionRange smallest_node(const PositionRange& range);

/// The keys from `start` to the start of the next partition.
struct Partition {
  std::string start;
  double bytes = 0;  ///< estimated
};

/// The output that is divided into partitions.
struct PartitionRequest {
  Partitioning partitioning = Partitioning::kSize;
  std::uint64_t file_bytes = 0;
  KeyRange keys;       ///< range of its keys
  std::string prefix;  ///< for global_range: the common prefix of all keys of the tree
};

/// Number of bins for a good estimate: sixteen per file, from 128 to 65536.
[[nodiscard]] std::size_t bins_for(double bytes, std::uint64_t file_bytes);

/// The key space of the request's partitions: for global_range the tree's, for local_range that of the keys' own prefix.
[[nodiscard]] KeySpace key_space_of(const PartitionRequest& request);

/// The partitions in key order; the first one begins with keys.start. One partition if partitioning is `size`, or if all bytes
/// fit into a file. `bytes`: their distribution in key_space_of(request); `last`: the last position with bytes.
std::vector<Partition> partitions_of(const PartitionRequest& request, const BytesWithin& bytes, KeyPosition last);
std::vector<Partition> partitions_of(const PartitionRequest& request, StreamingHistogram* bytes);

/// The limits of output files under the settings; `below_bytes` as in OutputSplitter::Limits.
[[nodiscard]] OutputSplitter::Limits limits_of(const TreeSettings& settings, std::uint64_t below_bytes);

/// Stores a changed common prefix of the tree's keys in the edit. Only if an added file has the prefix in its bounds: else it
/// might be a key that must be purged (Version::key_space).
void note_key_space(const std::string& prefix, const Version& version, TreeEdit* edit);

/// The new common prefix of the tree's keys, from the old one (none: unknown) and keys from `smallest` to `largest`.
[[nodiscard]] std::string shared_prefix_with(const std::optional<std::string>& before, Bytes smallest, Bytes largest);

}  // namespace ebbtide
