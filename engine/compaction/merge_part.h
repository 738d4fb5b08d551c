// One part of a merge or flush, on one thread: reads sources and writes survivors, within one range of keys.
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

/// The runs below a flush. Queries come with ascending keys.
class KeysBelow {
 public:
  virtual ~KeysBelow() = default;
  /// Starts the loads that absent(key) needs.
  virtual void announce(Bytes key) = 0;
  /// True if no run has the key, by its filters.
  virtual bool absent(Bytes key) = 0;
};

/// The input of one part. The iterators' sources must outlive it.
struct MergePart {
  KeyRange range;                                          ///< exact: no entry outside is merged
  std::optional<KeyRange> tombstone_range{};               ///< range tombstones are clipped to this; none: to `range`
  std::vector<std::unique_ptr<InternalIterator>> sources;  ///< newest first
  std::vector<SharedTombstones> tombstones;                ///< of all sources, in any order, clipped or not
  std::size_t shared_prefix = 0;                           ///< bytes that all keys in the range begin with
  KeysBelow* keys_below = nullptr;                         ///< of flushes; outlives the part
  bool mark_first = false;                                 ///< flushes: flag the oldest version of keys that no run has
  OutputSplitter::Limits limits;
  std::vector<BelowFile> below;         ///< for the splitter
  std::vector<std::string> partitions;  ///< for the splitter: keys that partitions begin with, ascending
  /// The oldest pending births of the keys at which range tombstones are clipped; none: see MergeShared::names.
  std::optional<Millis> pending_at_start{}, pending_at_end{};
  Compression compression = Compression::kLz4;
  std::vector<double> filter_slices;  ///< of the output: bits per key
  SeqNum applied_seq = 0;             ///< every record up to it is in MergeShared::records, or covers no entry here
};

/// Data shared by all parts of a job.
struct MergeShared {
  const CompactionEnv* env = nullptr;
  const TreeSettings* settings = nullptr;
  const Judgement* judgement = nullptr;
  const Finality* finality = nullptr;
  const RecordSet* records = nullptr;   ///< may be null
  std::atomic<bool>* failed = nullptr;  ///< set by the first part that fails: the others give up
  const NameDebts* names = nullptr;     ///< may be null
};

struct MergePartResult {
  std::vector<FileMeta> outputs;  ///< in key order; those written before an error too: the caller unlinks them
  std::uint64_t entries_in = 0, entries_out = 0, bytes_written = 0;
  Millis pending_at_start = 0, pending_at_end = 0;  ///< oldest pending births of the first and the last key written
  Status status;
};

/// kAborted if env.abort was set; errors of the sources and of the writer as they are.
MergePartResult run_merge_part(MergePart part, const MergeShared& shared);

}  // namespace ebbtide
