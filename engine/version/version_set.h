// Every tree's current Version, the databases' names for them, and the manifest that makes them durable.
//
// Files: `MANIFEST-NNNNNN` (a log of edits, the first a whole snapshot; manifest.h), `CURRENT` (its name, replaced atomically).
// A failed manifest write makes the set bad: the caller goes read-only; a new manifest is begun by roll().
//
// A manifest is written by the process that created it alone: after open() the first commit begins a new one. So nothing is ever
// appended behind a torn tail. It is also rolled, before a commit, when it has outgrown its snapshot.
//
// A commit that failed may be on disk all the same. So the files that its edit added must not be unlinked until a roll() has
// succeeded, which makes it certain that the edit never happened.
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

/// Not thread-safe but for new_file() and new_tree(): the owner serialises. (commit() does I/O: hold no lock that readers need.)
class VersionSet {
 public:
  /// Creates the first manifest in a directory without one (what a crashed create left is no hindrance). kExists: there is a
  /// CURRENT.
  static Result<std::unique_ptr<VersionSet>> create(FileSystem& fs, const std::string& dir);
  /// Reads CURRENT and its manifest, and syncs both, since an earlier process may have been killed before it did; writes nothing.
  /// Numbers of all files in `dir` count as taken. kNotFound: no CURRENT.
  /// kCorruption: file and offset named. kUnsupported: newer format, both versions named.
  static Result<std::unique_ptr<VersionSet>> open(FileSystem& fs, const std::string& dir);
  ~VersionSet();

  /// Logs the edit, syncs, then makes it current. Fills in next_file and next_tree, renumbers added runs whose ids were taken
  /// since (renumber_added_runs), and takes along what becomes of the records of the trees that it changes (tidy_records). After
  /// an I/O error nothing has changed in memory and the set is bad: only roll() helps. An edit that does not fit is kCorruption;
  /// nothing was written and the set is as good as before.
  Status commit(VersionEdit edit);
  /// Starts a new manifest with a snapshot of the state, switches CURRENT to it, unlinks the old ones. After an error the set is
  /// bad.
  Status roll();

  /// The whole state as the first record of a manifest: what ManifestWriter::create takes.
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
  /// What open() found behind the last whole record of the manifest, "" if nothing.
  [[nodiscard]] const std::string& torn_tail() const;
  /// A file or tree number never given out before. Both are thread-safe. They become durable with the next commit.
  FileNum new_file();
  TreeId new_tree();
  /// Every tree that ever was has a smaller number. Thread-safe.
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
