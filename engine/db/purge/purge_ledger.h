// Holders of deleted bytes that no tree names: files that are being removed, and keys of such files in the manifest.
//
// An entry has a floor for each tree whose bytes it may have: every such delete was born then or later. The floor is the tree's oldest
// obligation just before the file was replaced. Deletes purged earlier had left every table of the tree, this one included. So a delete
// born before all floors has no bytes here. Later entries have later floors, so that stays true.
//
// A file is removed when its name does not exist, the directory was synced since, and no reader has it open. The caller notes a file
// here before it takes it out of its tree. A survey looks at the trees first and here second, and so misses no file on the way.
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

/// Thread-safe. Does its I/O (looking whether names exist) without a lock.
class PurgeLedger {
 public:
  using Floors = std::map<TreeId, Millis>;

  struct Leaving {
    std::string name;  ///< of the file, without its directory
    std::uint64_t bytes = 0;
    Floors floors;
    std::weak_ptr<const void> open{};  ///< shared by readers that have it open and by its writer; empty: there is none
  };

  PurgeLedger(RemovalsFileSystem& fs, std::string dir) : fs_(fs), dir_(std::move(dir)) {}

  /// Adds a file that is, or is about to be, unlinked.
  void leave(Leaving file);
  /// Checks which files are removed, and erases their entries.
  void look();
  /// The files that were not gone at the last look().
  [[nodiscard]] std::vector<Leaving> leaving() const;
  /// True if an unlinked file may return after a power loss: sync the directory.
  [[nodiscard]] bool wants_sync() const;

  // --- the manifest: its edits name keys (bounds of files), even after the files are removed
  struct Superseded {
    Millis floor = 0;
    Millis since = 0;  ///< engine time of the edit
  };
  /// Notes that an edit removed files from the tree, or the tree from the manifest.
  void supersede(TreeId tree, Millis floor, Millis now);
  /// Notes that a new manifest has replaced the one named `old_name`. Only the old file has the keys superseded until now, except for
  /// `again`: edits appended to the new one since.
  void rolled(const std::string& old_name, std::uint64_t bytes, const std::map<TreeId, Superseded>& again);
  [[nodiscard]] std::map<TreeId, Superseded> superseded() const;

 private:
  struct Entry {
    Leaving file;
    bool unlinked = false;
    std::uint64_t removal = 0;  // its number, or a later one's
  };
  RemovalsFileSystem& fs_;
  const std::string dir_;
  mutable Mutex mutex_;
  std::vector<Entry> entries_ GUARDED_BY(mutex_);
  std::map<TreeId, Superseded> superseded_ GUARDED_BY(mutex_);
};

}  // namespace ebbtide
