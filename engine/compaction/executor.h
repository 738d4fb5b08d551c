// Carries out any plan: reads inputs, writes survivors to outputs, and returns the edit to commit.
//
// The executor does not know the database: CompactionEnv has everything that the executor needs. The caller marks the inputs as
// busy before the call, and commits the edit afterwards.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <engine/options.h>
#include "base/background_pool.h"
#include "deletes/reaped.h"
#include "io/file_system.h"
#include "table/table_reader.h"
#include "tree/plan.h"
#include "version/version.h"
#include "version/version_edit.h"

namespace ebbtide {

struct CompactionEnv {
  FileSystem* fs = nullptr;
  std::string dir;
  BackgroundPool* pool = nullptr;     ///< runs sub-merges; null: the calling thread runs all of them
  std::function<FileNum()> new_file;  ///< returns an unused file number; thread-safe
  /// Opens a table, with its index in memory as long as the result lives. Thread-safe.
  std::function<Result<std::shared_ptr<TableReader>>(const FileMeta&)> open_table;
  /// Like open_table, without I/O: returns null if the index is not in memory. May be null: then open_table is called.
  /// Thread-safe.
  std::function<std::shared_ptr<TableReader>(const FileMeta&)> find_table{};
  /// Takes over an open table that was just written, so that the table need not be read again. May be null. Thread-safe.
  std::function<void(const FileMeta&, std::shared_ptr<TableReader>)> keep_table{};
  /// Asks for room on the disk before `bytes` bytes are written; an error ends the job. May be null.
  std::function<Status(std::uint64_t bytes)> may_write;
  const std::atomic<bool>* abort = nullptr;  ///< if true, the job soon ends with kAborted
  /// A merge of at least twice this size is cut into parts of at least this size.
  std::uint64_t sub_merge_bytes = std::uint64_t{16} << 20;
  /// Readahead in bytes of one part, for all inputs of the part together.
  std::size_t readahead_bytes = kReadaheadBudget;
};

/// The state at the start of a merge.
struct CompactionContext {
  Millis now = 0;
  TreeSettings settings;
  StampMode stamp = StampMode::kWriteTime;
  Reaped reaped{};         ///< the reaper's progress in the tree
  SeqNum visible_seq = 0;  ///< every later reader has this seq or a greater one
  SeqNum last_seq = 0;     ///< flushes only: seq of the last operation in the memtables
  /// For each target run, the bits per key of the outputs' filter slices (table/table_builder.h). A run that is not listed gets
  /// one slice with the settings' bits.
  std::map<RunId, std::vector<double>> filters;

  [[nodiscard]] std::vector<double> filter_slices(RunId run) const;
};

struct CompactionResult {
  TreeEdit edit;
  std::uint64_t bytes_read = 0, bytes_written = 0, entries_in = 0, entries_out = 0;
  std::uint64_t files_moved = 0, sub_merges = 0;
  std::vector<FileMeta> outputs;
  // --- results of a Drop
  std::vector<FileNum> dropped;  ///< numbers of data files that were dropped as a whole
  /// Tables that lost some of their pages; each keeps its data file and has a new metadata file.
  std::vector<FileMeta> redescribed;
  std::vector<FileNum> parts_done;  ///< metadata files, old or new, of tables in which all requested partial drops were done
  std::uint64_t pages_whole = 0, pages_in_part = 0;
};

/// Carries out a plan. After an error, unlinks the files that it has written: outputs, and the new metadata files (not the data
/// files) of redescribed tables.
Result<CompactionResult> execute(const Plan& plan, const Version& version, const CompactionContext& context,
                                 const CompactionEnv& env);

/// One frozen memtable: its entries, range tombstones and records.
struct FlushInput {
  InternalIterator* entries = nullptr;
  SharedTombstones range_tombstones;
  SharedRecords records = no_records();
};
/// Writes the entries of frozen memtables as files of one new run of level 0, newer than every other run. `inputs`: the
/// memtables, newest first. Survivors and tables are made as in merges. The edit adds the records to the version.
Result<CompactionResult> flush_to_run(const std::vector<FlushInput>& inputs, const Version& version,
                                      const CompactionContext& context, const CompactionEnv& env);

}  // namespace ebbtide
