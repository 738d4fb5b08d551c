// A change of trees' tables other than flush and compaction: a file is quarantined or restored, or its dead bytes were punched.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "table/table_reader.h"
#include "version/version.h"
#include "version/version_edit.h"

namespace ebbtide {

struct TableChange {
  using Versions = std::map<TreeId, VersionPtr>;
  /// Returns the edit for `trees`, the trees in the manifest, or an edit without trees if nothing is to change. Called while no
  /// other edit is made.
  std::function<VersionEdit(const Versions& trees)> make;
  std::map<FileNum, std::shared_ptr<TableReader>> opened{};  ///< by metadata file number: readers that replace the present ones
  std::function<void()> installed{};                         ///< called when readers have the new tables; may be null
};

}  // namespace ebbtide
