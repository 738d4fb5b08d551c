// A change of the set of tables. The manifest logs it, and apply() carries it out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "version/version.h"

namespace ebbtide {

/// The greatest length of FileMeta::damage.
inline constexpr std::size_t kMaxDamageText = 1024;

/// The reading of the boot clock at which engine time reaches its persisted mark. After a restart of the process in the same boot
/// of the machine, engine time continues from this reading.
struct BootMark {
  std::uint64_t boot = 0;  ///< identifies a boot of the machine; 0 = unknown
  Millis at = 0;           ///< reading of that boot's clock at which engine time reaches the mark
  bool operator==(const BootMark&) const = default;
};

/// The changes to one tree.
struct TreeEdit {
  TreeId tree = kNoTree;
  bool create = false;  ///< creates the tree, with the stamp mode `stamp`
  bool drop = false;
  StampMode stamp = StampMode::kWriteTime;
  struct AddedRun {
    RunId id = 0;
    int level = 0;
    /// The new run is placed just before (newer than) the run `before`; 0 = the new run is the oldest of all. If the run `before`
    /// was removed since the edit was made, the new run becomes the newest of its level.
    RunId before = 0;
    bool newest = false;  ///< the new run becomes the newest of its level, whatever `before` is: for flushes
    bool operator==(const AddedRun&) const = default;
  };
  std::vector<AddedRun> added_runs;  ///< applied before everything else, in order
  std::vector<std::pair<RunId, FileNum>> removed_files;
  std::vector<std::pair<RunId, FileMeta>> added_files;
  std::vector<std::pair<FileNum, std::uint64_t>> punched;  ///< pairs: a data file, and how many of its dead bytes are punched
  /// Pairs: a data file, and its FileMeta::damage from now on; "" ends the quarantine.
  std::vector<std::pair<FileNum, std::string>> quarantined;
  std::vector<RunId> removed_runs;               ///< runs that are empty after the other changes; applied last
  std::vector<std::pair<RunId, int>> relabeled;  ///< pairs: a run, and its new level
  std::vector<SeqNum> removed_records;           ///< seqs of the removed records
  std::vector<Record> added_records;             ///< applied after removed_records, so that an edit can replace a record
  std::optional<SeqNum> flushed_seq;
  std::vector<std::pair<int, std::string>> cursors;
  std::optional<std::uint64_t> flushes;
  std::optional<int> levels;
  std::optional<std::uint32_t> flush_share;
  std::optional<DeadlineRule> deadlines;  ///< the new deadline, and earlier deadlines that still apply to pending deletes
  /// Changes Version::key_space, after files were added and removed, to the common prefix of its old value and this value.
  std::optional<std::string> key_space;
  std::optional<RunId> next_run;
  bool operator==(const TreeEdit&) const = default;
};

/// One atomic change. Every field is optional; a field that is not set changes nothing.
struct VersionEdit {
  std::vector<TreeEdit> trees;
  std::vector<std::pair<DatabaseId, TreeId>> databases;  ///< pairs: a database, and its new tree (kNoTree: none)
  std::optional<SeqNum> databases_seq;  ///< the manifest has every create, flush and swap of databases up to this seq
  /// Every operation up to this seq, on any tree or on the mapping of databases, is in tables or in the manifest.
  std::optional<SeqNum> complete_seq;
  std::optional<FileNum> next_file;
  std::optional<TreeId> next_tree;
  std::optional<FileNum> oldest_log;  ///< the log begins with this segment, which is durable; earlier segments are not needed
  std::optional<FileNum> newest_log;  ///< the log has this segment, which is durable; it may have no record yet
  std::optional<SeqNum> last_seq;     ///< the log must be synced up to this seq before the edit is logged
  std::optional<Millis> time_mark;    ///< the persisted mark of engine time
  std::optional<BootMark> boot_mark;  ///< belongs to `time_mark`, which the edit must have, too
  /// The version of the program that wrote the manifest; only its snapshot has it. For people and tools; readers ignore it.
  std::optional<std::string> writer;

  /// Appends the edit to `out` in the format of manifest records (engine/docs/formats.md).
  void encode(std::string* out) const;
  /// Returns kCorruption, with the byte, if the edit is malformed; kUnsupported if it has a field of a newer version that may not
  /// be skipped.
  static Result<VersionEdit> decode(Bytes in);
  [[nodiscard]] std::string to_text() const;  ///< one line per change, for inspect and tests
  bool operator==(const VersionEdit&) const = default;
};

/// Returns the tree after the edit, or kCorruption with the mismatch. Pure. Ignores the fields `create` and `drop`, which
/// StateBuilder handles.
Result<VersionPtr> apply(const Version& base, const TreeEdit& edit);

/// Like apply(), but changes `version` itself: for many edits in a row. Afterwards `version` may break invariants, so call
/// check(). Do not use `version` after an error.
Status change_in_place(Version* version, const TreeEdit& edit);

/// Computes the sums of all changed chunks of files. Call it before other threads get the version.
void seal(Version* version);

/// Gives the added runs of `edit` new ids if other runs of `base` have these ids by now: two jobs that end at the same time may
/// choose the same ids. An edit is made from a version. In the edit, an id at or above that version's next_run always means a run
/// that the edit adds.
void renumber_added_runs(const Version& base, TreeEdit* edit);

}  // namespace ebbtide
