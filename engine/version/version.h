// The tables of one tree at one moment. A version is immutable and shared by readers; each VersionEdit replaces it by a new
// version.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <engine/options.h>
#include "deletes/deadline.h"
#include "deletes/record.h"
#include "version/file_list.h"
#include "version/flush_size.h"

namespace ebbtide {

/// The greatest level number. It is far above the levels of any tree, and limits the memory that a damaged or hostile manifest
/// can make the engine allocate.
inline constexpr int kMaxLevel = 1000;

struct Run {
  RunId id = 0;
  int level = 0;
  FileList files;  ///< disjoint, in key order; may be empty (the run is then a placeholder)
};

/// Each lookup checks the records. Above this number of records, compactions that make the oldest of them unnecessary come first.
inline constexpr std::size_t kManyRecords = 1024;

struct Version {
  TreeId tree = kNoTree;
  StampMode stamp = StampMode::kWriteTime;
  std::vector<Run> runs;                 ///< newest first
  NumberedFiles by_number;               ///< the files of all runs, for find(); may be unset before the first edit
  SeqNum flushed_seq = 0;                ///< every operation of this tree up to this seq is in tables or records
  SharedRecords records = no_records();  ///< secondary range tombstones that may still cover entries in the tables
  std::vector<std::string> cursors;  ///< for each level: the smallest key of one of its files, where round robin continues, or ""
  /// Persisted count of flushes (TreeShape::flushes).
  std::uint64_t flushes = 0;
  /// Persisted number of levels (TreeShape::levels).
  int levels = 0;
  /// Bytes of a full memtable's flush as a share of memtable_size (FlushShare); 0 = not measured yet.
  std::uint32_t flush_share = 0;
  std::optional<DeadlineRule> deadlines{};  ///< not set: the manifest has no deadlines yet
  /// The common prefix of all keys that merges have partitioned by global range (compaction/partitions.h); no value: there was no
  /// such merge. The prefix only becomes shorter. Since it may be a part of a purged key, it is removed with the last file whose
  /// bounds begin with it.
  std::optional<std::string> key_space{};
  RunId next_run = 1;

  /// Returns the value for TreeShape::purge_before: deletes born by this time are treated as overdue, so that compactions reduce
  /// the number of records to kManyRecords. 0: no delete is overdue.
  [[nodiscard]] Millis overdue_before() const {
    return records->size() <= kManyRecords ? 0 : records->at(records->size() - kManyRecords - 1).birth;
  }

  /// Returns the file with this number; null if there is none.
  [[nodiscard]] FileMetaPtr find(FileNum data_file) const;
  /// Like the other find(), but searches one run.
  [[nodiscard]] FileMetaPtr find(const Run& run, FileNum data_file) const;
  /// Returns true if by_number has the files of `runs`.
  [[nodiscard]] bool is_numbered() const;
  [[nodiscard]] bool has_quarantined() const;
  [[nodiscard]] FileSums sums() const;  ///< sums over all files

  /// Returns the tree as policies see it, with the deadlines of `rule`, or without deadlines if `rule` is null. No file is marked
  /// as busy. The result shares most of its memory with the shapes of earlier versions. `memtable_size`: as in shape().
  [[nodiscard]] TreeShape shape_at(std::uint64_t memtable_size, std::uint64_t file_bytes, Millis now,
                                   const DeadlineRule* rule = nullptr) const;

  /// Like shape_at(), with one `deadline` in ms for all deletes; 0 = none. `busy` returns whether a running job uses a data file.
  /// The shape's memtable_bytes is the size on disk of a flushed memtable of `memtable_size`.
  template <typename Busy>
  [[nodiscard]] TreeShape shape(std::uint64_t memtable_size, std::uint64_t file_bytes, Millis deadline, Millis now,
                                Busy busy) const {
    TreeShape out;
    out.memtable_bytes = FlushShare::bytes(flush_share, memtable_size);
    out.file_bytes = file_bytes;
    out.cursors = cursors;
    out.flushes = flushes;
    out.levels = levels;
    for (const Run& run : runs) {
      std::vector<FileShape> files;
      for (const FileMetaPtr& file : run.files) {
        files.push_back(file->shape(deadline, now, *records));
        files.back().busy = busy(file->data_file);
      }
      out.runs.push_back({run.id, run.level, std::move(files)});
    }
    return out;
  }
  /// The shape at time 0, before any expiry, without target sizes, deadlines and busy files.
  [[nodiscard]] TreeShape shape() const { return shape_at(0, 0, 0); }
};

using VersionPtr = std::shared_ptr<const Version>;

/// Returns "", or the invariant that `version` breaks: order and disjointness of files, run and level order, unique ids. Called
/// after each edit. Cannot check that a newer run has the newer versions of a key: merge slices move parts of runs down, so seq
/// ranges of adjacent runs may overlap.
std::string check(const Version& version);
/// Like check(), for a version that broke no invariant before an edit added these files to these runs. Takes time in proportion
/// to the edit.
std::string check_added(const Version& version, std::span<const std::pair<RunId, FileMeta>> added);

}  // namespace ebbtide
