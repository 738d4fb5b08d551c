// The tables of one tree at one moment. Immutable, shared by readers, replaced as a whole by each VersionEdit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <engine/options.h>
#include "deletes/deadline.h"
#include "deletes/record.h"
#include "version/file_meta.h"
#include "version/flush_size.h"

namespace ebbtide {

/// Far above any tree; bounds the memory that a damaged or hostile manifest can make the engine allocate.
inline constexpr int kMaxLevel = 1000;

struct Run {
  RunId id = 0;
  int level = 0;
  std::vector<FileMetaPtr> files;  ///< disjoint, in key order; may be empty (a placeholder)
};

/// Each lookup checks the records. Above this number, the work that retires the oldest of them comes first.
inline constexpr std::size_t kManyRecords = 1024;

struct Version {
  TreeId tree = kNoTree;
  StampMode stamp = StampMode::kWriteTime;
  std::vector<Run> runs;                 ///< newest first
  SeqNum flushed_seq = 0;                ///< every operation of this tree up to it is in tables and records
  SharedRecords records = no_records();  ///< secondary range tombstones that may still cover entries in the tables
  std::vector<std::string> cursors;      ///< by level, for round robin: the smallest key of a file of it, or ""
  std::uint64_t flushes = 0;
  int levels = 0;
  std::uint32_t flush_share = 0;  ///< bytes of a full memtable's flush / memtable_size (FlushShare); 0 = not measured yet
  std::optional<DeadlineRule> deadlines{};  ///< none: not stored yet
  /// The common prefix of all keys that were partitioned by global range (compaction/partitions.h); none: no merge was. It only
  /// becomes shorter. It may be part of a key, so it is removed with the last file that has it in its bounds.
  std::optional<std::string> key_space{};
  RunId next_run = 1;

  /// Deletes born by then are treated as overdue, to reduce the number of records; 0 = none. For TreeShape::purge_before.
  [[nodiscard]] Millis overdue_before() const {
    return records->size() <= kManyRecords ? 0 : records->records()[records->size() - kManyRecords - 1].birth;
  }

  /// `busy` returns whether a running job uses a data file. The shape's memtable_bytes is the size to which a memtable of
  /// `memtable_size` flushes.
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
      RunShape shape{run.id, run.level, {}};
      for (const FileMetaPtr& file : run.files) {
        shape.files.push_back(file->shape(deadline, now, *records));
        shape.files.back().busy = busy(file->data_file);
      }
      out.runs.push_back(std::move(shape));
    }
    return out;
  }
  /// The plain shape: no target sizes, no deadlines, no busy files.
  [[nodiscard]] TreeShape shape() const {
    return shape(0, 0, 0, 0, [](FileNum) { return false; });
  }
};

using VersionPtr = std::shared_ptr<const Version>;

/// Records that the version no longer needs, and records to merge: `removed` and `added` are as in TreeEdit. A record retires
/// when no file may have an entry that it covers. Inputs of running jobs are in the version, and entries in memtables are newer
/// than every record here. A record subsumed by a newer one is merged into it, with its birth: every reader of this version has a
/// seq above all of its records.
struct RecordChanges {
  std::vector<SeqNum> removed;
  std::vector<Record> added;
};
RecordChanges tidy_records(const Version& version);

/// Returns "", or the invariant that `version` breaks: order and disjointness of files, run and level order, unique ids. Checked
/// after each edit. Files do not show whether a newer run has the newer versions of a key: slices move parts of runs down, so seq
/// ranges of neighbouring runs may overlap.
std::string check(const Version& version);

}  // namespace ebbtide
