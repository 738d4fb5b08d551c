// Cuts a merge into parts that can run independently.
//
// A merge is cut first by overlap. Input files are visited in key order. A file that starts past the upper bounds of all files of
// the present group begins a new group: a long file may overlap several short ones. A group of one file needs no merge (the
// thesis' Algorithms 5.2 and 5.3). Then a large group is cut by size: at keys that split its bytes evenly, or at partitions, so
// that its parts can run in parallel.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compaction/key_ranges.h"
#include "compaction/partitions.h"
#include "version/version.h"

namespace ebbtide {

struct InputFile {
  std::size_t run = 0;  ///< index of the file's run in the version: a smaller index is newer
  RunId run_id = 0;
  FileMetaPtr meta;
  KeyRange range;
};

struct FileGroup {
  KeyRange range;                ///< the smallest range that contains all files' ranges
  std::vector<InputFile> files;  ///< ordered by start
  std::uint64_t bytes = 0;
};

/// Returns the groups of overlapping files, in key order.
std::vector<FileGroup> overlapping_groups(std::vector<InputFile> files);

/// Returns about `count` keys of a file within a range, evenly spaced by bytes (TableInspector::split_points).
using SplitPoints = std::function<std::vector<std::string>(const FileMeta& file, const KeyRange& range, std::size_t count)>;

/// Returns ranges in key order that together are the group's range: at most `parts`, of about the same number of bytes.
std::vector<KeyRange> cut_evenly(const FileGroup& group, std::size_t parts, const SplitPoints& split_points);

/// Like cut_evenly(), but each range consists of whole partitions. `partitions` is not empty; its first element begins with the
/// start of `range`.
std::vector<KeyRange> cut_at_partitions(const KeyRange& range, const std::vector<Partition>& partitions, std::size_t parts);

}  // namespace ebbtide
