// A change of the set of tables: the manifest logs it, apply() carries it out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "version/version.h"

namespace ebbtide {

/// Change to one tree.
inline constexpr std::size_t kMaxDamageText = 1024;

struct TreeEdit {
  TreeId tree = kNoTree;
  bool create = false;  ///< with `stamp`
  bool drop = false;
  StampMode stamp = StampMode::kWriteTime;
  struct AddedRun {
    RunId id = 0;
    int level = 0;
    RunId before = 0;     ///< placed just before (newer than) this run; 0 = oldest of all. If that run was removed since the
                          ///< edit was made: as the newest of its level.
    bool newest = false;  ///< placed as the newest of its level, whatever `before` is: for flushes
    bool operator==(const AddedRun&) const = default;
  };
  std::vector<AddedRun> added_runs;  ///< applied in order, first of all
  std::vector<std::pair<RunId, FileNum>> removed_files;
  std::vector<std::pair<RunId, FileMeta>> added_files;
  std::vector<std::pair<FileNum, std::uint64_t>> punched;    ///< data file, and the number of its dead bytes that are punched
  std::vector<std::pair<FileNum, std::string>> quarantined;  ///< data file, and FileMeta::damage from now on; "" ends it
  std::vector<RunId> removed_runs;                           ///< must be empty by then; applied last
  std::vector<std::pair<RunId, int>> relabeled;              ///< run, and its new level
  std::vector<SeqNum> removed_records;                       ///< by seq
  std::vector<Record> added_records;                         ///< applied after the removals: a record may change its birth
  std::optional<SeqNum> flushed_seq;
  std::vector<std::pair<int, std::string>> cursors;
  std::optional<std::uint64_t> flushes;
  std::optional<int> levels;
  std::optional<std::uint32_t> flush_share;
  std::optional<DeadlineRule> deadlines;  ///< the new deadline, and earlier ones that still apply to pending deletes
  std::optional<std::string> key_space;   ///< as in Version; applied after the files: the result is the common prefix of both
  std::optional<RunId> next_run;
  bool operator==(const TreeEdit&) const = default;
};

/// One atomic change. Everything is optional; omitted values do not change.
struct VersionEdit {
  std::vector<TreeEdit> trees;
  std::vector<std::pair<DatabaseId, TreeId>> databases;  ///< database now maps to tree (kNoTree: to none)
  std::optional<SeqNum> databases_seq;  ///< every create, flush and swap of databases up to this seq is in the manifest
  std::optional<SeqNum> complete_seq;
  std::optional<FileNum> next_file;
  std::optional<TreeId> next_tree;
  std::optional<FileNum> oldest_log;  ///< the log begins with this segment, which is durable; those before it are not needed
  std::optional<SeqNum> last_seq;     ///< sync the log up to this seq before the edit is logged
  std::optional<Millis> time_mark;    ///< high-water mark of engine time

  /// engine/docs/formats.md has the grammar.
  void encode(std::string* out) const;
  /// kCorruption: names the byte. kUnsupported: a field of a newer version that may not be skipped.
  static Result<VersionEdit> decode(Bytes in);
  [[nodiscard]] std::string to_text() const;  ///< one line a change, for inspect and tests
  bool operator==(const VersionEdit&) const = default;
};

/// Returns the tree after the edit, or kCorruption with the mismatch. Pure. The version set handles `create` and `drop`.
Result<VersionPtr> apply(const Version& base, const TreeEdit& edit);

/// The same in place, for many edits in a row. `version` may break invariants afterwards: call check(). After an error do not use
/// `version`.
Status change_in_place(Version* version, const TreeEdit& edit);

/// Gives the added runs of `edit` new ids if `base` has given theirs to other runs since the edit was made (two jobs that end at
/// the same time). In an edit, an id at or past the next_run it was made from always means its own new run.
void renumber_added_runs(const Version& base, TreeEdit* edit);

}  // namespace ebbtide
