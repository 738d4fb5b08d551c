// The current Version of every tree, the mapping from databases to trees, and the manifest that makes both durable.
//
// Files: `MANIFEST-NNNNNN` is a log of edits that begins with a snapshot (manifest.h); `CURRENT` has its name and is replaced
// atomically. After a failed manifest write every commit() fails until a roll() has begun a new manifest; meanwhile the caller is
// read-only.
//
// A process writes only to manifests that it created: after open() the first commit begins a new manifest. So no record is ever
// appended after a torn end. A manifest that has outgrown its snapshot is also replaced, before a commit.
//
// The edit of a failed commit may still be on disk. So the files that its edit added must not be unlinked until a roll() has
// succeeded: the roll makes sure that the edit has no effect.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "io/file_system.h"
#include "version/version_edit.h"
#include "version/version_state.h"

namespace ebbtide {

/// Only new_file() and new_tree() are thread-safe; the owner serialises all other calls. commit() does I/O, so the caller holds
/// no lock that readers need.
class VersionSet {
 public:
  /// Creates the first manifest in a directory without one, and overwrites leftovers of a crashed create. Returns kExists if
  /// there is a CURRENT.
  static Result<std::unique_ptr<VersionSet>> create(FileSystem& fs, const std::string& dir);
  /// Reads CURRENT and its manifest, and syncs both, since an earlier process may have been killed before its sync. Writes
  /// nothing. new_file() will return none of the numbers of files in `dir`. Returns kNotFound if there is no CURRENT; kCorruption
  /// with file and offset; kUnsupported, with both versions, if the format is newer.
  static Result<std::unique_ptr<VersionSet>> open(FileSystem& fs, const std::string& dir);
  ~VersionSet();

  /// Appends the edit to the manifest, syncs, then applies the edit to the state in memory. Before that, sets next_file and
  /// next_tree, renumbers added runs whose ids other edits have used (renumber_added_runs), and adds changes of records
  /// (tidy_records) to the trees that the edit changes. After an I/O error the state in memory is unchanged, and every commit()
  /// fails until a roll() succeeds. If the edit cannot be applied, returns kCorruption: nothing was written, and the next
  /// commit() works.
  Status commit(VersionEdit edit);
  /// Begins a new manifest with a snapshot of the state, makes CURRENT name it, and unlinks the old manifests. After an error
  /// every commit() fails until a roll() succeeds.
  Status roll();

  /// Returns the whole state as the first record of a manifest, for ManifestWriter::create().
  [[nodiscard]] std::string snapshot_record();

  [[nodiscard]] const std::map<TreeId, VersionPtr>& trees() const;
  [[nodiscard]] VersionPtr tree(TreeId id) const;  ///< returns null if there is no tree with this id
  [[nodiscard]] const std::map<DatabaseId, TreeId>& databases() const;
  [[nodiscard]] SeqNum databases_seq() const;
  [[nodiscard]] const VersionState& state() const;
  [[nodiscard]] FileNum oldest_log() const;
  [[nodiscard]] FileNum newest_log() const;
  [[nodiscard]] SeqNum last_seq() const;
  [[nodiscard]] Millis time_mark() const;
  [[nodiscard]] const BootMark& boot_mark() const;
  [[nodiscard]] FileNum manifest_file() const;
  [[nodiscard]] std::uint64_t manifest_bytes() const;
  /// The error of the last manifest write, if it failed and no roll() has succeeded since; otherwise ok.
  [[nodiscard]] const Status& status() const;
  /// The message about the torn end that open() found after the last complete record of the manifest; "" if there was none.
  [[nodiscard]] const std::string& torn_tail() const;
  /// new_file() and new_tree() return unused numbers. Both are thread-safe. The numbers become durable with the next commit.
  FileNum new_file();
  TreeId new_tree();
  /// A number greater than the id of every tree so far. Thread-safe.
  [[nodiscard]] TreeId tree_limit() const;
  /// For recovery: from now on new_file(), or new_tree(), returns only larger numbers than this.
  void mark_file_used(FileNum file);
  void mark_tree_used(TreeId tree);

 private:
  struct Impl;
  explicit VersionSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide
