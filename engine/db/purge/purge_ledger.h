// Lists everything outside trees that may have deleted bytes: files that are being removed, and keys of such files in the
// manifest.
//
// An entry has a floor for each tree whose deleted bytes it may have: every delete with bytes there was born at the floor or
// later. The floor is the birth of the tree's oldest pending delete just before the file was replaced. This is a valid bound:
// deletes that were purged before that moment had left every table of the tree, including the replaced file. Later entries have
// later floors, so a delete that was purged is not found again.
//
// A file is removed when its name does not exist, the directory was synced after that, and no reader has the file open. A caller
// must add a file to the ledger before it takes the file out of its tree. A survey visits the trees first and the ledger second,
// and so finds every file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <engine/types.h>
#include "base/mutex.h"
#include "io/removals_fs.h"

namespace ebbtide {

/// Lists files that are being removed, and superseded keys in the manifest. Thread-safe. Holds no lock while it checks whether
/// files exist.
class PurgeLedger {
 public:
  using Floors = std::map<TreeId, Millis>;

  struct Leaving {
    std::string name;  ///< file name without the directory
    std::uint64_t bytes = 0;
    Floors floors;
    /// Shared by the file's writer and by the readers that have the file open. Empty if there is no writer and no reader.
    std::weak_ptr<const void> open{};
  };

  PurgeLedger(RemovalsFileSystem& fs, std::string dir) : fs_(fs), dir_(std::move(dir)) {}

  /// Adds a file that has been, or is about to be, unlinked.
  void leave(Leaving file);
  /// Checks which files are removed, and erases their entries.
  void look();
  /// Returns the files that were not removed at the last look().
  [[nodiscard]] std::vector<Leaving> leaving() const;
  /// True if the directory must be synced, since an unlinked file could reappear after a power loss.
  [[nodiscard]] bool wants_sync() const;

  // --- superseded keys: the manifest's old edits name keys (bounds of files) even after the files are removed
  struct Superseded {
    Millis floor = 0;
    Millis since = 0;  ///< engine time of the first edit in this manifest that removed files of the tree, or the tree itself
  };
  /// Adds keys to the manifest's superseded keys: an edit has removed files from the tree, or the tree from the manifest.
  void supersede(TreeId tree, Millis floor, Millis now);
  /// After a new manifest has replaced the manifest `old_name`: notes that superseded keys are now only in the old file.
  /// Exception: edits in the new manifest have superseded the keys `again`.
  void rolled(const std::string& old_name, std::uint64_t bytes, const std::map<TreeId, Superseded>& again);
  [[nodiscard]] std::map<TreeId, Superseded> superseded() const;

 private:
  struct Entry {
    Leaving file;
    bool unlinked = false;
    std::uint64_t removal = 0;  // RemovalsFileSystem's number of the file's removal, or of a later removal
  };
  RemovalsFileSystem& fs_;
  const std::string dir_;
  mutable Mutex mutex_;
  std::vector<Entry> entries_ GUARDED_BY(mutex_);
  std::map<TreeId, Superseded> superseded_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
