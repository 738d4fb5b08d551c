// Merges one part of a job or flush on one thread: reads sources and writes survivors, within one range of keys.
//
//   while (more()) merge_key();   finish
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "compaction/executor.h"
#include "compaction/key_ranges.h"
#include "compaction/name_debts.h"
#include "compaction/output_splitter.h"
#include "compaction/survivors.h"

namespace ebbtide {

/// Checks whether runs below a flush have a key. Keys ascend from call to call.
class KeysBelow {
 public:
  virtual ~KeysBelow() = default;
  /// Starts the loads that absent(key) needs.
  virtual void announce(Bytes key) = 0;
  /// Returns true if no run has the key, according to bounds and filters.
  virtual bool absent(Bytes key) = 0;
};

/// The input of one part. The data that the iterators in `sources` read must outlive the part.
struct MergePart {
  KeyRange range;                                          ///< entries outside the range are not merged
  std::optional<KeyRange> tombstone_range{};               ///< range to which range tombstones are clipped; not set: `range`
  std::vector<std::unique_ptr<InternalIterator>> sources;  ///< newest first
  std::vector<SharedTombstones> tombstones;                ///< range tombstones of all sources, in any order, not yet clipped
  std::size_t shared_prefix = 0;    ///< number of bytes that all keys in the range have in common at their beginning
  KeysBelow* keys_below = nullptr;  ///< set for flushes only; must outlive the part
  bool mark_first = false;          ///< true for flushes: if no run has a key, the key's oldest version is flagged as `first`
  OutputSplitter::Limits limits;
  std::vector<BelowFile> below;         ///< for the splitter: files of the next older run
  std::vector<std::string> partitions;  ///< for the splitter: the keys at which partitions begin, ascending
  /// The oldest pending births of the keys at which range tombstones are clipped. Not set: MergeShared::names finds them.
  std::optional<Millis> pending_at_start{}, pending_at_end{};
  Compression compression = Compression::kLz4;
  std::vector<double> filter_slices;    ///< bits per key of the output's filter slices
  std::uint32_t points_at = kNoPoints;  ///< of the output: TableBuilderOptions::points_at
  SeqNum applied_seq = 0;  ///< each record up to this seq is in MergeShared::records, or covers no entry of the input
};

/// Data shared by all parts of a job.
struct MergeShared {
  const CompactionEnv* env = nullptr;
  const TreeSettings* settings = nullptr;
  const Judgement* judgement = nullptr;
  const Finality* finality = nullptr;
  const RecordSet* records = nullptr;   ///< records that may cover entries of the input; null: none
  std::atomic<bool>* failed = nullptr;  ///< set by the first part that fails; all other parts then stop
  const NameDebts* names = nullptr;     ///< finds pending deletes of keys at which tombstones are cut; null: there are none
};

struct MergePartResult {
  std::vector<FileMeta> outputs;  ///< the written files, in key order; after an error the caller unlinks them
  std::uint64_t entries_in = 0, entries_out = 0, bytes_written = 0;
  Millis pending_at_start = 0, pending_at_end = 0;  ///< oldest pending births of the first and last key written
  Status status;
};

/// Merges the part. The result's status is kAborted if env.abort was set or another part failed, or an error of a source or the
/// writer.
MergePartResult run_merge_part(MergePart part, const MergeShared& shared);

}  // namespace ebbtide
