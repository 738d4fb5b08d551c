// Files that jobs have written for a tree and that the manifest does not name.
//
// Tables whose edit was not tried are unlinked at once. Tables whose edit failed may be named by the manifest's torn end: they are unlinked
// after the next roll. Until they are removed they hold copies of the tree's entries. So the ledger says that the same deletes
// are pending in them as in the tree.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "db/background/obsolete_files.h"
#include "db/purge/purge_ledger.h"
#include "db/trees/tree.h"
#include "version/file_meta.h"

namespace ebbtide {

/// Thread-safe.
class FailedOutputs {
 public:
  struct Env {
    PurgeLedger* ledger = nullptr;
    RemovalsFileSystem* fs = nullptr;
    ObsoleteFileRemover* obsolete_files = nullptr;
    std::function<Millis(const TreePtr&)> floor;  ///< engine time; no delete that is pending in the tree was born before
  };

  explicit FailedOutputs(Env env) : env_(std::move(env)) {}

  /// No edit names the files: they are unlinked. `redescribed` has new metadata files of page drops, whose data files stay.
  void unlink(const TreePtr& tree, const std::vector<FileMeta>& tables, const std::vector<FileMeta>& redescribed = {});
  /// As unlink(), after the next roll of the manifest.
  void disown(const TreePtr& tree, const std::vector<FileMeta>& tables, const std::vector<FileMeta>& redescribed = {});
  /// A job of the tree failed and has unlinked its files. That is not durable, and some unlinks may have failed.
  void note_failure(const TreePtr& tree);

 private:
  std::vector<ObsoleteFiles> leave(const TreePtr& tree, const std::vector<FileMeta>& tables,
                                   const std::vector<FileMeta>& redescribed);

  const Env env_;
};

}  // namespace ebbtide
