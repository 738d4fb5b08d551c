// Holders of deleted bytes that no tree names any more: files on their way out, and keys of such files in the manifest.
//
// An entry has a floor for each tree that it concerns: every delete whose bytes the entry may hold was born then or later. The floor is
// the oldest obligation of the tree just before the file stopped being needed: obligations met earlier had left every table of the
// tree, this one included. So a delete born before all floors has no bytes here. Later entries have later floors, so that stays true.
//
// A file is gone when its name does not exist, the directory was synced since, and no reader has it open. The caller notes a file here
// before it takes it out of its tree. A survey looks at the trees first and here second, and so misses no file on the way.
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

  /// The file is, or is about to be, unlinked.
  void leave(Leaving file);
  /// Looks which files are gone by now.
  void look();
  /// What remains, as of the last look.
  [[nodiscard]] std::vector<Leaving> leaving() const;
  /// Whether a file was unlinked, but may be back after a power loss.
  [[nodiscard]] bool wants_sync() const;

  // --- the manifest: an edit names keys (bounds of files), and goes on naming them when the files have gone
  struct Superseded {
    Millis floor = 0;
    Millis since = 0;  ///< engine time of the edit
  };
  /// An edit took files out of the tree, or the tree out of the manifest.
  void supersede(TreeId tree, Millis floor, Millis now);
  /// A new manifest has taken the place of the one with this name. What was superseded until now is in that file alone, but for
  /// `again`: edits that were appended to the new one since.
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
