// Where the files of a merge's output end, if not just where they are full: Mao's thesis, chapter 5.
//
//   size          a file ends when it has its size, or where a file of the next older run ends near to that. Files of different runs
//                 end at different keys for the most part, each meets some of another run, those some more: a chain through the
//                 whole key space, which nothing can be left out of (figure 5.1).
//   local_range   the range of the keys that are merged is halved, and each half again, until none has more than a file's bytes.
//   global_range  the same, beginning with the range of all keys of the tree. So halves are always the same ones, and files of
//                 different runs end at the same keys: they meet within a half, or not at all. Overlaps make small groups, which
//                 are merged side by side, and files that meet nothing move.
//
// A partition is where a file may end, not a file: neighbours that have too little share one (compaction/output_splitter.h).
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

/// Both ends belong to it.
struct PositionRange {
  KeyPosition first = 0, last = 0;
  bool operator==(const PositionRange&) const = default;
};
/// Estimated bytes within a range.
using BytesWithin = std::function<double(const PositionRange& range)>;

/// Halves the range, and the halves, until none has more than `most_bytes` or is more than one position; those that have anything,
/// in order. The thesis' Algorithm 5.5 (BINARYSPLIT).
std::vector<PositionRange> halve(const PositionRange& range, double most_bytes, const BytesWithin& bytes);

/// The smallest range that halving the whole line comes to and that has all of `range`: what the ends' leading bits have in
/// common, then zeros to ones. Halving that gives what halving the line would give there. Algorithm 5.7.
PositionRange smallest_node(const PositionRange& range);

/// From its first key to the next one's.
struct Partition {
  std::string start;
  double bytes = 0;  ///< estimated
};

/// Of what is to be written.
struct PartitionRequest {
  Partitioning partitioning = Partitioning::kSize;
  std::uint64_t file_bytes = 0;
  KeyRange keys;       ///< that there are
  std::string prefix;  ///< of global_range: what all keys of the tree begin with
};

/// How many bins estimate that many bytes well enough: sixteen for each file, from 128 to 65536.
[[nodiscard]] std::size_t bins_for(double bytes, std::uint64_t file_bytes);

/// The space that the request's partitions are made in: of global_range the tree's, of local_range that of the keys' own prefix.
[[nodiscard]] KeySpace key_space_of(const PartitionRequest& request);

/// In key order; the first one begins with keys.start. One if partitioning is `size`, or if there is no more than a file's bytes.
/// `bytes`: where they lie in key_space_of(request), and `last` the last position where there are any.
std::vector<Partition> partitions_of(const PartitionRequest& request, const BytesWithin& bytes, KeyPosition last);
std::vector<Partition> partitions_of(const PartitionRequest& request, StreamingHistogram* bytes);

/// How an output's files are limited under the settings; `below_bytes` as OutputSplitter::Limits.
[[nodiscard]] OutputSplitter::Limits limits_of(const TreeSettings& settings, std::uint64_t below_bytes);

/// Has the edit say what the tree's keys begin with, if that is another thing than before. It does not unless a file that it adds
/// has it in its bounds: what no file has might be a name that is to be forgotten (Version::key_space).
void note_key_space(const std::string& prefix, const Version& version, TreeEdit* edit);

/// What the tree's keys begin with, if it was `before` (none: nothing is known) and has keys from `smallest` to `largest` now.
[[nodiscard]] std::string shared_prefix_with(const std::optional<std::string>& before, Bytes smallest, Bytes largest);

}  // namespace ebbtide
