// Writes entries to tables; the splitter decides where one table ends and the next begins.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compaction/executor.h"
#include "compaction/output_splitter.h"
#include "table/table_builder.h"

namespace ebbtide {

struct OutputOptions {
  const CompactionEnv* env = nullptr;
  const TreeSettings* settings = nullptr;
  Compression compression = Compression::kLz4;
  SeqNum applied_seq = 0;
  std::vector<double> filter_slices;    ///< bits per key of each slice; empty = no filter
  std::uint32_t points_at = kNoPoints;  ///< see TableBuilderOptions
};

/// Not thread-safe. If a writer is destroyed before finish(), its files stay on disk and the caller unlinks outputs().
class OutputWriter {
 public:
  OutputWriter(OutputOptions options, OutputSplitter splitter) : options_(options), splitter_(std::move(splitter)) {}

  /// Adds all versions of one key, newest first. Keys ascend from call to call. May close a file first. No record with a seq up
  /// to `applied_seq` may cover any of these versions.
  Status add(std::span<const Entry> versions, SeqNum applied_seq);
  /// Closes the last file, which may have only range tombstones. Very many range tombstones are divided among several files.
  Status finish();

  /// Returns the files that were closed so far.
  [[nodiscard]] const std::vector<FileMeta>& outputs() const { return outputs_; }
  [[nodiscard]] std::uint64_t bytes_written() const;

 private:
  void open();
  Status close(std::vector<RangeTombstone> tombstones);
  Status ask_for_room(std::uint64_t at_least);

  const OutputOptions options_;
  OutputSplitter splitter_;
  std::unique_ptr<TableBuilder> builder_;
  std::string last_key_;  // last key in the current file
  std::vector<FileMeta> outputs_;
  std::uint64_t closed_bytes_ = 0, asked_at_bytes_ = 0;
};

/// Removes the two files of each output. Errors are ignored: the next open removes leftovers.
void unlink_outputs(const CompactionEnv& env, const std::vector<FileMeta>& outputs);

}  // namespace ebbtide
