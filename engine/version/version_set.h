// Every tree's current Version, the mapping from databases to trees, and the manifest that makes them durable.
//
// Files: `MANIFEST-NNNNNN` (a log of edits, the first a whole snapshot; manifest.h), `CURRENT` (its name, replaced atomically).
// A failed manifest write makes the set bad, and the caller becomes read-only. roll() begins a new manifest.
//
// Only the process that created a manifest writes to it: after open() the first commit begins a new one. So no record is ever
// appended after a torn tail. The manifest is also rolled, before a commit, when it has outgrown its snapshot.
//
// A failed commit may still be on disk. So the files that its edit added must not be unlinked until a roll() has succeeded, which
// makes sure that the edit has no effect.
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

/// Only new_file() and new_tree() are thread-safe; the owner serialises the others. commit() does I/O: hold no lock that readers
/// need.
class VersionSet {
 public:
  /// Creates the first manifest in a directory without one; it overwrites leftovers of a crashed create. kExists: there is a
  /// CURRENT.
  static Result<std::unique_ptr<VersionSet>> create(FileSystem& fs, const std::string& dir);
  /// Reads CURRENT and its manifest, and syncs both, since an earlier process may have been killed before it did; writes nothing.
  /// Numbers of all files in `dir` count as taken. kNotFound: no CURRENT.
  /// kCorruption: file and offset named. kUnsupported: newer format, both versions named.
  static Result<std::unique_ptr<VersionSet>> open(FileSystem& fs, const std::string& dir);
  ~VersionSet();

  /// Logs the edit, syncs, then makes it current. Fills in next_file and next_tree, renumbers added runs whose ids were taken
  /// since (renumber_added_runs), and adds the changes to records of the trees that it changes (tidy_records). After an I/O error
  /// the state in memory is unchanged and the set is bad until a roll(). An edit that does not apply is kCorruption: nothing was
  /// written, and the set stays usable.
  Status commit(VersionEdit edit);
  /// Starts a new manifest with a snapshot of the state, switches CURRENT to it, unlinks the old ones. After an error the set is
  /// bad.
  Status roll();

  /// The whole state as the first record of a manifest, for ManifestWriter::create.
  [[nodiscard]] std::string snapshot_record();

  [[nodiscard]] const std::map<TreeId, VersionPtr>& trees() const;
  [[nodiscard]] VersionPtr tree(TreeId id) const;  ///< null if there is none
  [[nodiscard]] const std::map<DatabaseId, TreeId>& databases() const;
  [[nodiscard]] SeqNum databases_seq() const;
  [[nodiscard]] const VersionState& state() const;
  [[nodiscard]] FileNum oldest_log() const;
  [[nodiscard]] SeqNum last_seq() const;
  [[nodiscard]] Millis time_mark() const;
  [[nodiscard]] FileNum manifest_file() const;
  [[nodiscard]] std::uint64_t manifest_bytes() const;
  /// Ok, or the error that made the set bad.
  [[nodiscard]] const Status& status() const;
  /// The torn end that open() found after the last complete record of the manifest; "" if none.
  [[nodiscard]] const std::string& torn_tail() const;
  /// Returns an unused file or tree number. Both are thread-safe. The numbers become durable with the next commit.
  FileNum new_file();
  TreeId new_tree();
  /// All trees so far have smaller numbers. Thread-safe.
  [[nodiscard]] TreeId tree_limit() const;
  /// For recovery: numbers up to and including these are taken.
  void mark_file_used(FileNum file);
  void mark_tree_used(TreeId tree);

 private:
  struct Impl;
  explicit VersionSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide
