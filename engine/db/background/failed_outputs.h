// Handles files that jobs have written for a tree and that the manifest does not name.
//
// Tables whose edit was never written are unlinked at once. Tables whose edit failed may be named by the manifest's torn end, so
// they are unlinked after the manifest's next roll. Until the files are removed they hold copies of the tree's entries. So the
// purge ledger lists them, with the birth of the tree's oldest pending delete.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "db/background/obsolete_files.h"
#include "db/purge/purge_ledger.h"
#include "db/trees/tree.h"
#include "version/file_meta.h"

namespace ebbtide {

/// Removes outputs of failed jobs. Thread-safe.
class FailedOutputs {
 public:
  struct Env {
    PurgeLedger* ledger = nullptr;
    RemovalsFileSystem* fs = nullptr;
    ObsoleteFileRemover* obsolete_files = nullptr;
    /// Returns an engine time before which no pending delete of the tree was born.
    std::function<Millis(const TreePtr&)> floor;
  };

  explicit FailedOutputs(Env env) : env_(std::move(env)) {}

  /// Unlinks files that no edit names. `redescribed`: tables that page drops gave new metadata files; their data files stay.
  void unlink(const TreePtr& tree, const std::vector<FileMeta>& tables, const std::vector<FileMeta>& redescribed = {});
  /// Like unlink(), but unlinks the files after the next roll of the manifest.
  void disown(const TreePtr& tree, const std::vector<FileMeta>& tables, const std::vector<FileMeta>& redescribed = {});
  /// Lists the outputs of a failed job in the purge ledger. The job has unlinked them already, but these unlinks are not durable,
  /// and some may have failed.
  void note_failure(const TreePtr& tree);

 private:
  std::vector<ObsoleteFiles> leave(const TreePtr& tree, const std::vector<FileMeta>& tables,
                                   const std::vector<FileMeta>& redescribed);

  const Env env_;
};

}  // namespace ebbtide
