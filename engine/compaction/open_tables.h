// The open tables that a job reads.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/invariant.h"
#include "compaction/executor.h"
#include "compaction/merge_group.h"

namespace ebbtide {

/// Immutable after open(); then thread-safe.
class OpenTables {
 public:
  /// Opens the inputs of the groups.
  Status open(std::span<const MergeGroup> groups, const CompactionEnv& env) {
    for (const MergeGroup& group : groups) {
      for (const InputFile& file : group.files.files) {
        TRY_ASSIGN(table, env.open_table(*file.meta));
        tables_.emplace_back(file.meta->data_file, std::move(table));
      }
    }
    std::sort(tables_.begin(), tables_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return Status::ok();
  }
  /// Returns the table of a file, which must be among the opened files.
  [[nodiscard]] const TableReader& of(const FileMeta& file) const {
    const auto at =
        std::lower_bound(tables_.begin(), tables_.end(), file.data_file, [](const auto& t, FileNum f) { return t.first < f; });
    ASSERT(at != tables_.end() && at->first == file.data_file);
    return *at->second;
  }

 private:
  std::vector<std::pair<FileNum, std::shared_ptr<TableReader>>> tables_;  // ordered by data file
};

}  // namespace ebbtide
