// Chooses keys at which output files may end before they are full (Mao's thesis, chapter 5).
//
//   size          A file ends when it is full, or at a nearby end of a file of the next older run. Files of different runs
//                 mostly end at different keys. So each file overlaps files of another run, which overlap further files: a chain
//                 through the whole key space, in which no file can be moved without a merge (figure 5.1).
//   local_range   The range of the merged keys is halved, and each half again, until no part has more than a file's bytes.
//   global_range  Like local_range, but halving begins with the range of all keys of the tree. So all merges get the same parts,
//                 and files of different runs end at the same keys. Overlapping files make small groups, which are merged in
//                 parallel, and files without overlap are moved.
//
// A file may end at the end of a partition, but small adjacent partitions share a file (compaction/output_splitter.h).
// Keys are represented by positions here (compaction/key_space.h), and bytes are estimated (compaction/histogram.h). Pure.
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

/// A range of positions; both ends are part of the range.
struct PositionRange {
  KeyPosition first = 0, last = 0;
  bool operator==(const PositionRange&) const = default;
};
/// Returns the estimated bytes within a range.
using BytesWithin = std::function<double(const PositionRange& range)>;

/// Halves the range, and the halves, until each part has at most `most_bytes` or is one position. Returns the parts that have
/// bytes, in order. The thesis' Algorithm 5.5 (BINARYSPLIT).
std::vector<PositionRange> halve(const PositionRange& range, double most_bytes, const BytesWithin& bytes);

/// Returns the smallest range that contains `range` and results from halving the whole line. The ends of the result are the
/// common leading bits of the ends of `range`, followed by zeros or by ones. Halving the result gives the same parts as halving
/// the line. The thesis' Algorithm 5.7.
PositionRange smallest_node(const PositionRange& range);

/// The keys from `start` to the start of the next partition.
struct Partition {
  std::string start;
  double bytes = 0;  ///< estimated bytes of the partition's entries
};

/// The output that is divided into partitions.
struct PartitionRequest {
  Partitioning partitioning = Partitioning::kSize;
  std::uint64_t file_bytes = 0;
  KeyRange keys;       ///< range of the output's keys
  std::string prefix;  ///< for global_range: the common prefix of all keys of the tree
};

/// Returns the number of bins of the histogram that estimates how bytes are distributed over keys: sixteen for each file, from 128
/// to 65536.
[[nodiscard]] std::size_t bins_for(double bytes, std::uint64_t file_bytes);

/// Returns the key space of the request's partitions. Its prefix is that of the tree for global_range, and the common prefix of
/// `keys` for local_range.
[[nodiscard]] KeySpace key_space_of(const PartitionRequest& request);

/// Returns the partitions in key order; the first begins with keys.start. There is one partition if partitioning is `size`, or if
/// all bytes fit into a file. `bytes` is the distribution of bytes in key_space_of(request); `last` is the last position with
/// bytes.
std::vector<Partition> partitions_of(const PartitionRequest& request, const BytesWithin& bytes, KeyPosition last);
std::vector<Partition> partitions_of(const PartitionRequest& request, StreamingHistogram* bytes);

/// Returns the limits of output files under the settings. `below_bytes`: OutputSplitter::Limits::below_bytes.
[[nodiscard]] OutputSplitter::Limits limits_of(const TreeSettings& settings, std::uint64_t below_bytes);

/// Stores a changed common prefix of the tree's keys in the edit, if an added file has the prefix in its bounds. Otherwise the
/// prefix might be a key that must be purged (Version::key_space).
void note_key_space(const std::string& prefix, const Version& version, TreeEdit* edit);

/// Returns the new common prefix of the tree's keys, from the old common prefix (no value: unknown) and keys from `smallest` to
/// `largest`.
[[nodiscard]] std::string shared_prefix_with(const std::optional<std::string>& before, Bytes smallest, Bytes largest);

}  // namespace ebbtide
