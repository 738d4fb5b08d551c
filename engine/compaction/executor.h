// Carries out any plan: reads inputs, writes survivors to outputs, returns the edit to commit.
//
// It is independent of the database: CompactionEnv has everything it needs. The caller marks inputs busy before and commits the
// edit after.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <engine/options.h>
#include "base/background_pool.h"
#include "io/file_system.h"
#include "table/table_reader.h"
#include "tree/plan.h"
#include "version/version.h"
#include "version/version_edit.h"

namespace ebbtide {

struct CompactionEnv {
  FileSystem* fs = nullptr;
  std::string dir;
  BackgroundPool* pool = nullptr;     ///< sub-merges; may be null: all on the calling thread
  std::function<FileNum()> new_file;  ///< thread-safe
  std::function<Result<std::shared_ptr<TableReader>>(const FileMeta&)> open_table;  ///< thread-safe
  /// May be null. Receives an open table that was just written, so that it need not be read again. Thread-safe.
  std::function<void(const FileMeta&, std::shared_ptr<TableReader>)> keep_table{};
  std::function<Status(std::uint64_t bytes)>
      may_write;                             ///< may be null; called before so many bytes are written; an error ends the job
  const std::atomic<bool>* abort = nullptr;  ///< if true, the job soon ends with kAborted
  std::uint64_t sub_merge_bytes = std::uint64_t{16}
                                  << 20;  ///< a merge of at least twice this size is cut into parts of at least this size
};

/// The state at the start of a merge.
struct CompactionContext {
  Millis now = 0;
  TreeSettings settings;
  StampMode stamp = StampMode::kWriteTime;
  SeqNum visible_seq = 0;
  SeqNum last_seq = 0;  ///< flushes only: seq of the last operation in the memtables
  /// Bits per key of the outputs' filter slices (table/table_builder.h), by target run; for a run not listed, one slice with the
  /// settings' bits.
  std::map<RunId, std::vector<double>> filters;

  [[nodiscard]] std::vector<double> filter_slices(RunId run) const;
};

struct CompactionResult {
  TreeEdit edit;
  std::uint64_t bytes_read = 0, bytes_written = 0, entries_in = 0, entries_out = 0;
  std::uint64_t files_moved = 0, sub_merges = 0;
  std::vector<FileMeta> outputs;
  // Of a Drop:
  std::vector<FileNum> dropped;       ///< data files that were dropped as a whole
  std::vector<FileMeta> redescribed;  ///< tables that lost pages and have entries left: the same data files with new metadata
                                      ///< files
  std::vector<FileNum> parts_done;    ///< metadata files, old or new, of tables whose pages were dropped in part as asked
  std::uint64_t pages_whole = 0, pages_in_part = 0;
};

/// If it fails, it unlinks the files it wrote: outputs, and the new metadata files (only those) of redescribed tables.
Result<CompactionResult> execute(const Plan& plan, const Version& version, const CompactionContext& context,
                                 const CompactionEnv& env);

/// Writes the entries of frozen memtables (newest first; one iterator, its range tombstones and its records each) as files of one
/// new run of level 0 in front of every other run. Survivors and tables are made as in merges. The edit takes over the records.
struct FlushInput {
  InternalIterator* entries = nullptr;
  SharedTombstones range_tombstones;
  SharedRecords records = no_records();
};
Result<CompactionResult> flush_to_run(const std::vector<FlushInput>& inputs, const Version& version,
                                      const CompactionContext& context, const CompactionEnv& env);

}  // namespace ebbtide
