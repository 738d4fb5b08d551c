// The files of a run, as a list of immutable chunks. Lists of different versions share chunks that have not changed. Chunks keep
// sums and shapes, which planners and edits need often.
//
// A version of a tree differs from the next one in a few chunks of a few runs. Data computed from a chunk is kept with the chunk:
// sums, and the shapes of its files for policies. So an edit costs time in proportion to its changes, and the next plan uses the
// shapes of all unchanged chunks again.
#pragma once

#include <memory>
#include <span>

#include "base/shared_list.h"
#include "deletes/deadline.h"
#include "deletes/record.h"
#include "version/file_meta.h"

namespace ebbtide {

class ShapeCache;

/// The sums of a chunk of files.
struct FileSums {
  std::uint64_t entries = 0;
  std::uint64_t file_bytes = 0;       ///< bytes of data and metadata files on disk, without punched bytes
  std::uint64_t live_bytes = 0;       ///< sum of FileMeta::live_bytes
  std::uint64_t tombstones = 0;       ///< point and range tombstones
  std::uint64_t not_punched = 0;      ///< dead bytes that are not punched
  std::uint64_t files_with_dead = 0;  ///< files that have dead bytes
  std::uint64_t quarantined = 0;      ///< number of quarantined files
  std::uint64_t ranged = 0;           ///< number of files with range tombstones
  std::uint64_t collections = 0;      ///< upper bound of the number of compact entries and headers
  std::uint64_t headers = 0;          ///< upper bound of the number of headers of large collections
  Millis oldest_obligation = 0;       ///< the oldest FileMeta::oldest_obligation; 0 = none
  Millis lingering_birth = 0;         ///< the oldest FileMeta::lingering_birth; 0 = none
  Millis min_expiry = 0;              ///< the smallest expiry in any file; 0 = none
  std::shared_ptr<ShapeCache> shapes{};

  static FileSums of(std::span<const FileMetaPtr> files);
  void add(const FileSums& other);
};

using FileList = SharedList<FileMetaPtr, FileSums>;

/// Returns FileMeta::shape() of a chunk's files, with the deadlines of `rule` (null: none). A sealed chunk keeps the last result,
/// and returns it again for the same arguments, or for a later `now` before the next expiry. Thread-safe.
[[nodiscard]] FileShapes::ChunkPtr shapes_of(const FileList::Chunk& chunk, Millis now, const SharedRecords& records,
                                             const DeadlineRule* rule);

/// A file by its number, for searches; the list is ordered by number.
struct NumberedFile {
  FileNum num = kNoFile;
  FileMetaPtr file{};
};
using NumberedFiles = SharedList<NumberedFile>;

}  // namespace ebbtide
