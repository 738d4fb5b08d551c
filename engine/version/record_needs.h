// Finds the records (secondary range tombstones) of a tree that are no longer needed, and those that can be merged.
//
// A file needs a record if the file may have an entry that the record covers. That is so if their ranges of delete keys overlap,
// and the record is newer than the file's smallest seq and its applied_seq. The version's files include the inputs of running
// jobs, and entries of memtables are newer than every record of the version. So a record that no file needs is removed.
//
// RecordNeeds has the files of a tree as intervals in a tree like the records' own (deletes/record_tree.h). A search through
// records skips a subtree if one file needs all of its records. So the time depends on the edit, not on the number of records:
// only records that a removed file needed, and records that the edit adds, are examined.
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

  /// Sets `out` to the file as an interval: its delete keys, the seq that a record must exceed, and, in the field `birth`, its
  /// number. Returns false if the file has no delete key, and so needs no record.
  static bool interval_of(const FileMeta& file, Record* out);
  /// Returns a copy without the files `removed` and with the files `added`, both as intervals. The removed files must be in this
  /// object.
  [[nodiscard]] RecordNeeds changed(std::vector<Record> removed, std::vector<Record> added) const;

  [[nodiscard]] bool needs(const Record& record) const { return needs_over(record.lo, record.hi, record.seq); }
  /// Returns true if one file needs every record of the part. False does not mean that some record is not needed.
  [[nodiscard]] bool needs_all(const RecordPart& part) const { return needs_over(part.max_lo, part.min_hi, part.min_seq); }

 private:
  [[nodiscard]] bool needs_over(DeleteKey lo, DeleteKey hi, SeqNum seq) const;
  RecordTree<ByRange> files_;
};

/// Records that a version no longer needs, and records to merge; `removed` and `added` are as in TreeEdit. A record subsumed by a
/// newer record is merged into it, with its birth. This is safe since every reader of this version has a seq above all of its
/// records.
struct RecordChanges {
  std::vector<SeqNum> removed;
  std::vector<Record> added;
};

/// The records that an edit may have made unnecessary.
struct RecordSuspects {
  bool all_needs = false;         ///< true: any record may be unnecessary; false: only those that `freed` needed, and `arrived`
  std::vector<Record> freed{};    ///< removed or changed files, as intervals
  bool all_merge = false;         ///< true: any two records may be merged; false: only into those in `arrived`
  std::vector<Record> arrived{};  ///< records that may subsume others
};
/// Examines `suspects` among `records`, which include `suspects.arrived`.
RecordChanges tidy_records(const RecordSet& records, const RecordNeeds& needs, const RecordSuspects& suspects);
/// Examines all records of a version.
RecordChanges tidy_records(const Version& version);

/// Keeps the needs of all trees up to date, so that each edit also removes the records that it makes unnecessary.
class RecordKeeper {
 public:
  /// Appends to `edits` the removals and merges of records that these edits make possible. `before`, `after`: the trees without
  /// and with the edits. If several edits change one tree, the last one gets the changes. This object takes them into account
  /// once note_committed() is called. Returns true if it has changed `edits`.
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
