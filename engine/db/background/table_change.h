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
  /// Makes the edit from `trees`, the trees in the manifest. Called while no other edit is made. An edit without trees changes
  /// nothing.
  std::function<VersionEdit(const Versions& trees)> make;
  std::map<FileNum, std::shared_ptr<TableReader>> opened{};  ///< by metadata file: tables that replace the currently open tables
  std::function<void()> installed{};                         ///< called when readers have the new tables; may be null
};

}  // namespace ebbtide
