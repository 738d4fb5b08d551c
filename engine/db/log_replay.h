// Open reads the log.
//
// The log must continue without a gap that matters (wal/log_sequence.h). Where it does not, opening says so instead of going on. A damaged
// part that nothing needs is skipped, with a warning, and its segment is retired at once. Its values and deletes are unknown, so no
// deadline can be kept for them in another way. Nothing is cut or removed before all of the log is read.
//
// Memory: memtables are flushed once they have three quarters of memory_budget. A long record (kLongRecordBytes) stays in the file, and its
// values are read from there one by one. So a replay takes no more than 7/8 of the budget, one value, the tables' metadata, and about 32 MiB
// of buffers, however long the log is. There are two exceptions: trees that the manifest does not have yet, since they were created in the
// last moments of the log; and a flush that fails, as on a full disk, after which opening goes on in memory.
//
// The edit of such a flush is true whatever the rest of the log holds: it names operations that were read and are durable, and leaves the
// log as it is. If opening fails later, the next one finds these operations in tables and skips them.
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

/// One replay. Nothing else uses the database meanwhile, but jobs that build tables take the commit mutex.
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
    std::function<void(Millis)> advance_time;                                 ///< later births are this time or later
    std::function<Status(const std::vector<TreePtr>& trees)> flush;           ///< makes tables of all their frozen memtables
    std::function<void()> collect;                                            ///< frees old views
    std::function<void(std::uint64_t done, std::uint64_t total)> progressed;  ///< bytes of the log
    std::function<void(const std::string&)> warn;
  };
  struct Replayed {
    std::vector<LogSegment> segments;  ///< those that are still there
    SeqNum last_seq = 0;               ///< the last operation of the log; 0 = it has none
    FileNum skipped_in = kNoFile;      ///< the last segment of which a part was skipped
  };

  explicit LogReplay(Env env);

  /// Applies all operations that tables and manifest lack to the trees. Cuts torn ends, and removes segments before the log's begin.
  Result<Replayed> run() REQUIRES(trees_.commit_mutex);

 private:
  Result<std::vector<FileNum>> find_segments();
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
  std::vector<std::pair<FileNum, std::uint64_t>> torn_;  // segments, and how much of them is whole
  std::uint64_t unmeasured_ = 0;                         // bytes of operations since memtables were measured
  bool flushes_fail_ = false;
  // of the current segment
  FileNum file_ = kNoFile;
  LogNotes notes_;
  Millis since_ = 0;
};

}  // namespace ebbtide
