// Decides where one output file ends and the next begins. Pure.
//
//   * A file is closed when it reaches the size of a full file. With `aligned`, it is closed where a file of the run below (the
//     next older run) ends. Of these ends, the one that is probably nearest to the full size is taken; at 1.5 times that size the
//     file is closed anyway. If an output reached a little into another file below, the output's next merge would rewrite all of
//     that file.
//   * A file is also closed when it would overlap too many bytes of the run below, which would make its next merge too large, and
//     where a partition begins (compaction/partitions.h). A partition with few bytes shares a file with the next partition.
//   * A file is never closed between versions of one key: files of a run are disjoint, and a lookup reads one of them.
//   * Range tombstones are cut at the key at which the file is closed, or at the beginning of the partition that has this key.
//     The left part goes to the closed file, the right part to later files. So files' bounds, range tombstones included, stay
//     disjoint, and each tombstone is in every file whose keys it covers. Both parts take over the oldest birth of the key's
//     pending deletes (compaction/name_debts.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/entry.h"
#include "compaction/name_debts.h"

namespace ebbtide {

/// A file of the run below the output, that is, of the next older run.
struct BelowFile {
  std::string end;  ///< exclusive; "" = no upper bound
  std::uint64_t bytes = 0;
};

class OutputSplitter {
 public:
  struct Limits {
    std::uint64_t file_bytes = 0;
    std::uint64_t below_bytes = 0;  ///< 0 = no limit
    std::uint64_t least_bytes = 0;  ///< a file with fewer bytes is not closed where a partition begins
    bool aligned = false;           ///< true: files end where a nearby file of the run below ends
  };

  /// `tombstones` are sorted by start and clipped to the range of the merge. `below` is in key order. `partitions`: the keys at
  /// which partitions begin, ascending. `names`: the pending deletes for this merge; must outlive this object; may be null.
  OutputSplitter(Limits limits, std::vector<RangeTombstone> tombstones, std::vector<BelowFile> below,
                 std::vector<std::string> partitions = {}, const NameDebts* names = nullptr)
      : limits_(limits),
        tombstones_(std::move(tombstones)),
        below_(std::move(below)),
        partitions_(std::move(partitions)),
        names_(names) {}

  /// Returns true if the file should be closed before `key`. The file has `bytes` so far, and no version of `key`. Call this once
  /// for each key, in ascending order, also for a file's first key (with 0 bytes; ignore the result).
  bool should_close(Bytes key, std::uint64_t bytes);
  /// Closes the file before `key`, the key of the last should_close() call, if there was one. Returns the file's range
  /// tombstones, sorted by start. `birth` is the birth of the key's delete; 0 = the key is not deleted.
  std::vector<RangeTombstone> close_before(Bytes key, Millis birth = 0);
  /// Returns the range tombstones of the last file.
  std::vector<RangeTombstone> close_last();

 private:
  [[nodiscard]] bool has_its_size(std::uint64_t bytes) const;

  const Limits limits_;
  std::vector<RangeTombstone> tombstones_;  // from index next_ on: tombstones that begin past the current file
  std::size_t next_ = 0;
  std::vector<RangeTombstone> open_;  // right parts of tombstones that were cut
  std::vector<BelowFile> below_;
  std::size_t below_at_ = 0;
  std::uint64_t below_met_ = 0;   // bytes of the files of the run below whose ends the current file has passed
  std::uint64_t below_ends_ = 0;  // number of these files
  bool past_end_below_ = false;   // true if file below_at_ - 1 ends between the keys of the last two should_close() calls
  std::vector<std::string> partitions_;
  std::size_t partition_ = 0;  // the first partition that begins past the key of the last should_close() call
  bool crossed_ = false;       // true if partition partition_ - 1 begins between the keys of the last two calls
  const NameDebts* names_;
};

}  // namespace ebbtide
