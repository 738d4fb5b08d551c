// The tables of one tree at one moment. Immutable, shared by readers, replaced as a whole by each VersionEdit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <engine/options.h>
#include "version/file_meta.h"

namespace ebbtide {

/// No tree comes near it; it bounds what a damaged or hostile manifest can make others allocate.
inline constexpr int kMaxLevel = 1000;

struct Run {
  RunId id = 0;
  int level = 0;
  std::vector<FileMetaPtr> files;  ///< disjoint, in key order; may be empty (a placeholder)
};

struct Version {
  TreeId tree = kNoTree;
  StampMode stamp = StampMode::kWriteTime;
  std::vector<Run> runs;             ///< newest first
  SeqNum flushed_seq = 0;            ///< every operation of this tree up to it is in tables
  std::vector<std::string> cursors;  ///< by level, for round robin
  std::uint64_t flushes = 0;
  int levels = 0;
  RunId next_run = 1;

  /// `busy` says for a data file whether a running job has it.
  template <typename Busy>
  [[nodiscard]] TreeShape shape(std::uint64_t memtable_bytes, std::uint64_t file_bytes, Millis deadline, Millis now,
                                Busy busy) const {
    TreeShape out;
    out.memtable_bytes = memtable_bytes;
    out.file_bytes = file_bytes;
    out.cursors = cursors;
    out.flushes = flushes;
    out.levels = levels;
    for (const Run& run : runs) {
      RunShape shape{run.id, run.level, {}};
      for (const FileMetaPtr& file : run.files) {
        shape.files.push_back(file->shape(deadline, now));
        shape.files.back().busy = busy(file->data_file);
      }
      out.runs.push_back(std::move(shape));
    }
    return out;
  }
};

using VersionPtr = std::shared_ptr<const Version>;

/// Why `version` breaks an invariant, or "": checked after each edit (order and disjointness of files, run and level order,
/// unique ids; every entry of a newer run is newer than any version of its key in an older one, as far as the seqs of files can
/// tell: for neighbouring runs of level 0).
std::string check(const Version& version);

}  // namespace ebbtide
