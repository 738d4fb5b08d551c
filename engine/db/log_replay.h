// Replays the log when the database opens.
//
// Opening fails if the log lacks operations that tables and manifest lack, too (wal/log_sequence.h). A damaged part whose
// operations are in tables and manifest is skipped with a warning, and its segment is retired at once. The values and deletes in
// the part are unknown, so their deadlines cannot be kept in another way. Nothing is truncated or removed before all of the log
// is read.
//
// Memory: memtables are flushed once they use three quarters of memory_budget. A long record (kLongRecordBytes) stays in the
// file, and its values are read from the file one by one. So a replay uses at most 7/8 of the budget, one value, the tables'
// metadata, and about 32 MiB of buffers, for any length of the log. There are two exceptions. Trees that were created in the last
// moments of the log are not in the manifest yet, so they are not flushed. After a failed flush, for example on a full disk, the
// replay continues in memory.
//
// The edit of a flush during the replay is correct whatever the unread rest of the log contains. The edit names operations that
// were read and are durable, and leaves the log unchanged. If opening fails later, the next open finds these operations in tables
// and skips them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <engine/result.h>
#include <engine/write_batch.h>
#include "base/mutex.h"
#include "db/trees/tree_registry.h"
#include "db/write/publication.h"
#include "io/file_system.h"
#include "version/version_set.h"
#include "wal/group_reader.h"
#include "wal/log_pieces.h"
#include "wal/log_segment.h"
#include "wal/log_sequence.h"

namespace ebbtide {

/// One replay. No other code uses the database during a replay, except jobs that build tables, which take the commit mutex.
class LogReplay {
 public:
  struct Env {
    FileSystem* fs = nullptr;
    std::string dir;
    TreeRegistry* trees = nullptr;
    VersionSet* versions = nullptr;
    Publication* published = nullptr;
    std::uint64_t memory_budget = 0;
    std::uint64_t empty_memtable_bytes = 0;
    std::function<void(Millis)> advance_time;                        ///< makes all births from now on at least this time
    std::function<Status(const std::vector<TreePtr>& trees)> flush;  ///< writes all frozen memtables of the trees as tables
    std::function<void()> collect;                                   ///< frees old views
    std::function<void(std::uint64_t done, std::uint64_t total)> progressed;  ///< called with bytes of the log
    std::function<void(const std::string&)> warn;
  };
  struct Replayed {
    std::vector<LogSegment> segments;  ///< the segments that still exist
    SeqNum last_seq = 0;               ///< seq of the last operation in the log; 0 = the log has none
    FileNum skipped_in = kNoFile;      ///< the last segment that has a skipped part; kNoFile = nothing was skipped
    /// Names of files to remove once the database is open. Some are segments before the log's begin: a crash may have undone
    /// their removal. The others have the name of a segment, but are not segments.
    std::vector<std::string> unneeded;
    /// Ok, or the error with which the disk refused to truncate a torn end. No record may then be written to a later segment: the
    /// log must continue as after a failure, by GroupCommit::restart_after_failure().
    Status uncut;
  };

  explicit LogReplay(Env env);

  /// Applies to the trees all logged operations that are in neither tables nor manifest. Truncates torn ends of segments.
  Result<Replayed> run() REQUIRES(trees_.commit_mutex);

 private:
  Result<std::vector<FileNum>> find_segments();
  Status read_segments(const std::vector<FileNum>& files) REQUIRES(trees_.commit_mutex);
  [[nodiscard]] Status name_exchanged(const Status& error, const std::vector<FileNum>& files) const;
  Status read_segment(FileNum file) REQUIRES(trees_.commit_mutex);
  Status cut_torn_end(FileNum file, std::uint64_t valid_bytes);
  void note_skipped(const SkippedLog& part) REQUIRES(trees_.commit_mutex);
  void report(std::uint64_t bytes);
  Status apply_record(Bytes group, std::uint64_t offset) REQUIRES(trees_.commit_mutex);
  Status apply_long_record(const LogPayload& payload, std::uint64_t offset) REQUIRES(trees_.commit_mutex);
  Status begin_batch(const GroupReader::Batch& batch, std::uint64_t offset);
  Status apply(const WriteBatch::Op& op, SeqNum seq, Millis time) REQUIRES(trees_.commit_mutex);
  Status apply_mapping(const WriteBatch::Op& op, SeqNum seq, Millis time) REQUIRES(trees_.commit_mutex);
  void map(DatabaseId database, TreePtr tree) REQUIRES(trees_.commit_mutex);
  void flush(SeqNum seq) REQUIRES(trees_.commit_mutex);

  const Env env_;
  TreeRegistry& trees_;
  VersionSet& versions_;
  Replayed out_;
  LogPieces pieces_;
  LogSequence sequence_;
  std::uint64_t total_ = 0, done_ = 0;
  std::vector<std::pair<FileNum, std::uint64_t>> torn_;  // segments with a torn end, and the number of their whole bytes
  std::uint64_t unmeasured_ = 0;                         // bytes of operations since memtables were last measured
  bool flushes_fail_ = false;
  // --- state of the segment that is being read
  FileNum file_ = kNoFile;
  LogNotes notes_;
  Millis since_ = 0;
};

}  // namespace ebbtide
