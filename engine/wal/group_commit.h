// Commits append to the write-ahead log here: batches are queued in seq order, written in groups, and synced as FsyncMode says.
//
// Groups: the batches that are queued between two writes become one record and one system call. The record's payload is a sequence of
// (length u32, WriteBatch payload). No record is longer than kMaxGroupBytes unless a single batch is.
//
// Threads: under `everysec` and `no`, an event loop that ends its pass writes the queue. If another thread is writing, that
// thread writes these batches, too. The log thread syncs, switches segments and writes large batches, so that no loop blocks in a
// long write. Under `always` the log thread writes and syncs, group after group, with a delay between them where that makes
// groups larger (commit_delay.h). Without a log thread (tests), write() does all this work, including a sync once a second of the
// simulated clock.
//
// Segments: a segment is synced before the next one gets its first record, so that a power loss leaves a prefix of the log.
//
// Large batches: write_pieces() writes their payload ahead of the commit, on its caller's thread, in records of at most piece_bytes between
// those of others (log_pieces.h). It never has more than most_ahead_bytes unsynced, so that no sync takes long. Only a small
// commit record is queued then. Until the commit, pieces pin their segments. If they are given up, the batch is queued as a
// whole. After the commit, segments with pieces are needed as long as the batch's operations are.
//
// Failure: after a failed write or sync the log is bad. Batches that were queued or not synced have an unknown outcome. The log
// accepts no batches until restart_after_failure(), which requires that tables have all operations before it. After a failed
// write, as on a full disk, salvage() still syncs the records before it.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <engine/options.h>
#include <engine/write_batch.h>
#include "base/checksum.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "wal/commit_delay.h"
#include "wal/log_pieces.h"
#include "wal/log_segment.h"
#include "wal/log_writer.h"

namespace ebbtide {

struct GroupCommitOptions {
  FileSystem* fs = nullptr;
  std::string dir;
  const Clock* clock = nullptr;
  FsyncMode fsync = FsyncMode::kEverySecond;
  std::uint64_t segment_bytes = std::uint64_t{64} << 20;
  std::function<FileNum()> new_file;
  bool own_thread = true;
  std::function<void()> on_tick;  ///< called by the own thread ten times a second, without locks
  std::uint64_t longest_delay_ns = CommitDelay::kLongestNs;
  std::size_t piece_bytes = std::size_t{128} << 10;     ///< of one piece of a batch; writing it takes 0.1 ms
  std::size_t most_ahead_bytes = std::size_t{4} << 20;  ///< of unsynced pieces: some 10 ms of a slow device
};

/// Thread-safe, but the caller serialises enqueue() by a lock of its own (the commit lock).
class GroupCommit {
  // The payload of one record.
  struct Group {
    std::string bytes;
    struct Splice {
      std::size_t offset;
      SharedValue value;
    };
    std::vector<Splice> splices;  // shared values are not copied
    std::size_t splice_bytes = 0;
    SeqNum last_seq = 0;
    Millis since = 0;  // time of its first batch
    LogNotes notes;
    [[nodiscard]] bool empty() const { return bytes.empty(); }
    void clear();
    void append_pieces(std::vector<Bytes>* pieces) const;
  };
  // A batch that is written in pieces. The log's mutex_ guards everything but `log`.
  struct Pieces {
    explicit Pieces(GroupCommit* owner) : log(owner) {}
    ~Pieces();
    Pieces(const Pieces&) = delete;
    Pieces& operator=(const Pieces&) = delete;
    std::atomic<GroupCommit*> log;  // null: the log no longer refers to these pieces
    PieceId id;                     // without a file until the first piece is written
    std::vector<PieceNote> notes;
    std::vector<std::pair<FileNum, std::uint64_t>> ends;  // by piece: its segment, and its end in the segment
    std::uint64_t bytes = 0;
    std::unique_ptr<BlockChecksummer> checksum;  // of their bytes
    bool given_up = false;
  };

 public:
  explicit GroupCommit(GroupCommitOptions options);
  ~GroupCommit();
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  /// Begins a new segment. `recovered`: older segments that are still needed. `last_seq`: the last operation before the new
  /// segment.
  Status start(std::vector<LogSegment> recovered, SeqNum last_seq);
  /// Writes and syncs the queue, and stops the thread.
  Status close();

  // --- queueing
  /// Copies the payload and references shared values. `notes`: one for each tree that the batch writes to. The caller holds the
  /// commit lock.
  void enqueue(const WriteBatch& batch, std::span<const LogNote> notes);
  /// The payload of a large batch, copied or written before its enqueue(), so that enqueue() is short for any size.
  class Prepared {
   public:
    [[nodiscard]] bool empty() const { return group_.empty() && pieces_ == nullptr; }

   private:
    friend class GroupCommit;
    Group group_;
    std::shared_ptr<Pieces> pieces_;
  };
  /// Copies the payload. Afterwards only the header of `batch` may change.
  static Prepared prepare(const WriteBatch& batch);
  /// Writes and syncs the payload in pieces, between the writes of other batches. `notes`: one for each tree that the batch
  /// writes to. May take long; the caller holds no lock. Returns an empty result if the pieces were given up or the log failed.
  /// Its only error is kAborted: `stop` became true. `stop` may be null.
  Result<Prepared> write_pieces(const WriteBatch& batch, std::span<const LogNote> notes, const std::atomic<bool>* stop);
  /// Like the other enqueue(). The log thread, if there is one, writes a copied payload, so that no event loop does such a long
  /// write. If the pieces were given up, this call copies the payload.
  void enqueue(const WriteBatch& batch, Prepared prepared, std::span<const LogNote> notes);
  /// Pieces in the segment `last` or older no longer pin segments, unless their batch was enqueued.
  void give_up_pieces(FileNum last);
  /// The same for pieces in segments that only pieces keep: all segments before the oldest with an operation of `seq` or later.
  void give_up_pieces_before(SeqNum seq);
  /// Bytes of pieces whose batch is not enqueued yet.
  [[nodiscard]] std::uint64_t pending_piece_bytes() const;
  /// See Db::write_log.
  bool write();

  // --- durability
  [[nodiscard]] SeqNum logged_seq() const { return logged_seq_.load(std::memory_order_acquire); }
  [[nodiscard]] SeqNum synced_seq() const { return synced_seq_.load(std::memory_order_acquire); }
  [[nodiscard]] SeqNum durable_seq() const {
    return fsync_.load(std::memory_order_relaxed) == FsyncMode::kAlways ? synced_seq() : logged_seq();
  }
  Status wait_durable(SeqNum seq);
  Status wait_synced(SeqNum seq);
  void set_fsync(FsyncMode mode);
  [[nodiscard]] FsyncMode fsync() const { return fsync_.load(std::memory_order_relaxed); }
  /// Called without locks whenever durable_seq() moved or the log failed. Set once; calls may begin before this returns.
  void set_listener(std::function<void()> listener);

  // --- failure
  /// One load.
  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// Ok, or why the log is bad.
  [[nodiscard]] Status status() const;
  /// Of a failed log: syncs the records before the failure, if no sync has failed. synced_seq() is the result.
  void salvage();
  /// Creates the segment in which a failed log will continue, once, and returns its number. An edit can then state that no older
  /// segment is needed, before restart_after_failure().
  Result<FileNum> prepare_restart();
  /// Drops the queue and continues in the prepared segment. Requires that tables have every operation up to last_seq.
  void restart_after_failure(SeqNum last_seq);

  // --- segments
  /// Asks to end the segment `file`. No effect unless it is the current one, has a record or a queued one, and the log is good.
  /// The log thread ends it soon; without that thread, the next write() does.
  void end_segment(FileNum file);
  /// All segments, oldest first. The last is the current one; its notes include those of queued batches.
  [[nodiscard]] std::vector<LogSegment> segments() const;
  /// Segments older than `oldest`, without the current one.
  [[nodiscard]] std::vector<LogSegment> segments_below(FileNum oldest) const;
  /// Removes these segments from the log's list and returns them.
  std::vector<FileNum> take_segments_below(FileNum oldest);
  /// The oldest segment that has an operation of `seq` or later, a piece of such a batch, or a piece of a batch that is not enqueued yet.
  [[nodiscard]] FileNum oldest_needed(SeqNum seq) const;
  [[nodiscard]] std::uint64_t live_bytes() const;
  /// Engine time of the oldest batch in the segments; 0 = they have none.
  [[nodiscard]] Millis oldest_record() const;

  // --- statistics
  /// A sync is being delayed for more commits (commit_delay.h). For tests.
  [[nodiscard]] bool delays_sync() const { return delayed_until_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] std::uint64_t writes() const { return writes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t syncs() const { return syncs_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t bytes_written() const { return bytes_written_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kMaxGroupBytes = std::size_t{256} << 20;

  // group_commit.cc
  static void append_batch(Group* group, const WriteBatch& batch, const std::vector<Bytes>& pieces);
  void queue_group(Group group) REQUIRES(mutex_);
  void become_writer() REQUIRES(mutex_);
  void done_writing(bool large_too = true) REQUIRES(mutex_);
  /// As the writer: until the queue is empty, or, unless `large_too`, begins with a copied payload.
  Status write_groups(bool large_too = true) REQUIRES(mutex_);
  void sync_as_writer() REQUIRES(mutex_);  // as the writer: as the writer; afterwards synced_seq == logged_seq
  void switch_segment() REQUIRES(mutex_);  // as the writer
  void fail(const Status& status) REQUIRES(mutex_);
  void notify_listener();
  bool segment_full() const REQUIRES(mutex_) {
    return segments_.current().bytes >= options_.segment_bytes || segments_.current().file == to_end_;
  }
  bool queue_empty() const REQUIRES(mutex_) { return pending_.empty() && full_groups_.empty(); }

  // log_thread.cc
  void run();
  bool work() REQUIRES(mutex_);  // true if it did anything
  void delay_sync() REQUIRES(mutex_);
  void write_and_sync() REQUIRES(mutex_);
  void sync_beside_appends() REQUIRES(mutex_);
  bool wants_group_sync() const REQUIRES(mutex_);
  bool wants_timed_sync() const REQUIRES(mutex_);

  // group_pieces.cc
  bool write_piece(Pieces* pieces, const LogRecord& payload);
  void append_piece(Pieces* pieces, const LogRecord& payload) REQUIRES(mutex_);  // as the writer
  void pace(const Pieces& pieces) REQUIRES(mutex_);
  bool far_ahead() const REQUIRES(mutex_);
  bool enqueue_commit(const WriteBatch& batch, Pieces* pieces, std::span<const LogNote> notes);
  void end_pieces(Pieces* pieces) REQUIRES(mutex_);
  void give_up_all_pieces() REQUIRES(mutex_);
  bool is_pinned(FileNum file) const REQUIRES(mutex_);

  GroupCommitOptions options_;
  std::atomic<FsyncMode> fsync_;
  std::atomic<SeqNum> logged_seq_{0}, synced_seq_{0};
  std::atomic<std::uint64_t> writes_{0}, syncs_{0}, bytes_written_{0};
  std::function<void()> listener_;  // constant once listening_ is set
  std::atomic<bool> listening_{false}, failed_{false};

  mutable Mutex mutex_;
  CondVar wake_;   // the log thread
  CondVar moved_;  // logged_seq, synced_seq, writing_, syncing_beside_ or bad_ changed
  Group pending_ GUARDED_BY(mutex_);
  std::deque<Group> full_groups_ GUARDED_BY(mutex_);  // older than pending_; rarely any
  bool large_queued_ GUARDED_BY(mutex_) = false;      // full_groups_ has a copied payload
  bool writing_ GUARDED_BY(mutex_) = false;           // a thread is the writer: it uses writer_ and in_flight_
  bool syncing_beside_ GUARDED_BY(mutex_) = false;    // the log thread syncs beside the writer
  SeqNum sync_wanted_ GUARDED_BY(mutex_) = 0;         // a thread waits until the log is synced past it
  bool stop_ GUARDED_BY(mutex_) = false;
  Status bad_ GUARDED_BY(mutex_);
  std::shared_ptr<LogWriter> prepared_ GUARDED_BY(mutex_);
  LogSegments segments_ GUARDED_BY(mutex_);
  std::vector<Pieces*> pieces_ GUARDED_BY(mutex_);  // whose batches are not enqueued and that are not given up
  std::uint32_t pieces_begun_ GUARDED_BY(mutex_) = 0;
  int pacing_ GUARDED_BY(mutex_) = 0;            // threads that wait until the device has caught up with their pieces
  FileNum to_end_ GUARDED_BY(mutex_) = kNoFile;  // this segment takes no more records; kNoFile = none
  std::uint64_t last_sync_ns_ GUARDED_BY(mutex_) = 0;
  CommitDelay delay_ GUARDED_BY(mutex_);
  std::atomic<bool> has_pending_{false};
  std::atomic<SeqNum> queued_seq_{0};     // of the last batch that was queued
  std::atomic<SeqNum> delayed_until_{0};  // do not wake the log thread until queued_seq_ reaches it; 0 = wake it at once

  // Used by the current writer thread only. A sync beside appends keeps a reference to the segment with which it began.
  std::shared_ptr<LogWriter> writer_;
  Group in_flight_;
  std::thread thread_;
};

}  // namespace ebbtide
