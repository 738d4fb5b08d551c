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

/// No tree comes near it; it bounds what a damaged or hostile manifest can make others allocate.
inline constexpr int kMaxLevel = 1000;

struct Run {
  RunId id = 0;
  int level = 0;
  std::vector<FileMetaPtr> files;  ///< disjoint, in key order; may be empty (a placeholder)
};

/// Every entry that is found is asked for the records: beyond so many, the work that retires the oldest of them comes first.
inline constexpr std::size_t kManyRecords = 1024;

struct Version {
  TreeId tree = kNoTree;
  StampMode stamp = StampMode::kWriteTime;
  std::vector<Run> runs;                 ///< newest first
  SeqNum flushed_seq = 0;                ///< every operation of this tree up to it is in tables and records
  SharedRecords records = no_records();  ///< secondary range deletes that may still cover something in the tables
  std::vector<std::string> cursors;      ///< by level, for round robin: the smallest key of a file of it, or ""
  std::uint64_t flushes = 0;
  int levels = 0;
  std::uint32_t flush_share = 0;  ///< of memtable_size that a full memtable flushes to (FlushShare); 0 = not measured yet
  std::optional<DeadlineRule> deadlines{};  ///< none: nobody wrote it down yet
  /// What all keys begin with that partitions of a global range were made for (compaction/partitions.h); none: there were none.
  /// It only becomes shorter. It may be part of a key's name, so it goes with the last file that has it in its bounds.
  std::optional<std::string> key_space{};
  RunId next_run = 1;

  /// What was born by then is overdue for the sake of the number of records; 0 = nothing is. For TreeShape::purge_before.
  [[nodiscard]] Millis overdue_before() const {
    return records->size() <= kManyRecords ? 0 : records->records()[records->size() - kManyRecords - 1].birth;
  }

  /// `busy` says for a data file whether a running job has it. The shape's memtable_bytes are what a memtable of
  /// `memtable_size` flushes to.
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
  /// The bare shape: no sizes to aim at, no deadlines, nothing busy.
  [[nodiscard]] TreeShape shape() const {
    return shape(0, 0, 0, 0, [](FileNum) { return false; });
  }
};

using VersionPtr = std::shared_ptr<const Version>;

/// Which records the version can do without, and what the rest may be merged into: `removed` and `added` are as in TreeEdit. A
/// record retires when no file may have an entry that it covers: inputs of running jobs are in the version, and what memtables
/// have is younger than every record here. One that a newer record subsumes passes its birth on: whoever reads this version reads
/// it at a seq above all of its records.
struct RecordChanges {
  std::vector<SeqNum> removed;
  std::vector<Record> added;
};
RecordChanges tidy_records(const Version& version);

/// Why `version` breaks an invariant, or "": checked after each edit (order and disjointness of files, run and level order,
/// unique ids). That a newer run has the newer versions of a key cannot be seen from files: slices take parts of runs down, so
/// that files of neighbouring runs meet each other's past.
std::string check(const Version& version);

}  // namespace ebbtide
