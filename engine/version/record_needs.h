// Finds the records (secondary range tombstones) of a tree that are no longer needed, and records that can be merged.
//
// A file needs a record if the record may cover an entry of the file: the delete keys of file and record overlap, and the
// record's seq is above the file's smallest seq and its applied_seq. The version's files include the inputs of running jobs, and
// entries of memtables are newer than every record of the version. So a record that no file needs is removed.
//
// RecordNeeds stores the files of a tree as intervals in a search tree (deletes/record_tree.h), as RecordSet stores records. A
// search through the records skips a subtree if one file needs all of the subtree's records. Only records that a removed file
// needed, and records that the edit adds, are examined. So the time depends on the edit, not on the number of records.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "deletes/record.h"
#include "deletes/record_tree.h"
#include "version/version_edit.h"

namespace ebbtide {

/// Immutable; a copy shares its content.
class RecordNeeds {
 public:
  RecordNeeds() = default;
  explicit RecordNeeds(const Version& version);

  /// Sets `out` to the file as an interval: the file's delete keys, the seq that a record must exceed, and, in the field `birth`,
  /// the file's number. Returns false if the file has no delete key, and so needs no record.
  static bool interval_of(const FileMeta& file, Record* out);
  /// Returns a copy without the files `removed` and with the files `added`, both as intervals. The removed files must be in this
  /// object.
  [[nodiscard]] RecordNeeds changed(std::vector<Record> removed, std::vector<Record> added) const;

  [[nodiscard]] bool needs(const Record& record) const { return needs_over(record.lo, record.hi, record.seq); }
  /// Returns true if one file needs every record of the part. If false, different files may still need all of them.
  [[nodiscard]] bool needs_all(const RecordPart& part) const { return needs_over(part.max_lo, part.min_hi, part.min_seq); }

 private:
  [[nodiscard]] bool needs_over(DeleteKey lo, DeleteKey hi, SeqNum seq) const;
  RecordTree<ByRange> files_;
};

/// Changes of a version's records. Records that no file needs are removed. A record that a newer one subsumes is merged into it:
/// the newer one takes over its birth. Merging is safe since every reader of this version has a seq above all of the version's
/// records. `removed` and `added` are as in TreeEdit.
struct RecordChanges {
  std::vector<SeqNum> removed;
  std::vector<Record> added;
};

/// The records that an edit may have made unnecessary.
struct RecordSuspects {
  bool all_needs = false;         ///< true: any record may be unneeded; false: only those that `freed` needed and new ones
  std::vector<Record> freed{};    ///< removed or changed files, as intervals
  bool all_merge = false;         ///< true: any record may subsume others; false: only records in `arrived` may
  std::vector<Record> arrived{};  ///< new records, which may subsume others
};
/// Examines `suspects` among `records`, which include `suspects.arrived`.
RecordChanges tidy_records(const RecordSet& records, const RecordNeeds& needs, const RecordSuspects& suspects);
/// Examines all records of a version.
RecordChanges tidy_records(const Version& version);

/// Keeps the needs of all trees up to date, so that each edit also removes the records that it makes unnecessary.
class RecordKeeper {
 public:
  /// Adds to `edits` the removals and merges of records (secondary range tombstones) that `edits` make possible. `before`,
  /// `after`: the trees without and with the edits. If several edits change one tree, the last edit gets the changes. Returns
  /// true if `edits` has changed. needs_ changes only in note_committed().
  bool plan(const std::map<TreeId, VersionPtr>& before, const std::map<TreeId, VersionPtr>& after, std::vector<TreeEdit>* edits);
  /// Call after the edits of the last plan() call were committed.
  void note_committed();

 private:
  std::map<TreeId, RecordNeeds> needs_;  // needs of trees that have, or had, records
  struct Planned {
    TreeId tree;
    bool dropped;
    RecordNeeds needs;
  };
  std::vector<Planned> planned_;
};

}  // namespace ebbtide
