// Commits append to the write-ahead log here: batches are queued in seq order, written in groups, and synced as FsyncMode says.
//
// Groups: the batches that are queued between two writes become one record and one system call. The record's payload is a
// sequence of (length u32, WriteBatch payload). A record is longer than kMaxGroupBytes only if it has a single batch.
//
// Threads: with fsync `everysec` and `no`, an event loop that ends its pass writes the queue. If another thread is writing,
// that thread writes these batches, too. The log thread syncs, switches segments and writes large batches, so that no event
// loop blocks in a long write. With `always` the log thread writes and syncs, group after group. It delays a sync where that
// makes groups larger (commit_delay.h). Without a log thread (in tests), write() does all this work, and syncs once per second
// of the simulated clock.
//
// Segments: a segment is synced before the next one gets its first record, so that a power loss leaves a prefix of the log. A
// segment ends with an end mark, which names the next segment. With `always` the end mark is durable before the first batch of
// the next segment is acknowledged. In other modes it is written before that batch, and becomes durable soon after.
//
// Large batches: before the commit, write_pieces() writes the payload on its caller's thread, in records (pieces) of at most
// piece_bytes, between the records of other batches (log_pieces.h). At most most_ahead_bytes of pieces are unsynced, so that no
// sync takes long. The commit then queues only a small commit record. Until the commit, pieces keep their segments from being
// removed. If the log gives up the pieces, the commit queues the whole batch instead. After the commit, segments with pieces
// stay until tables have the batch's operations.
//
// Failure: if a write or a sync fails, the log counts as failed. Batches that were queued or not synced then have an unknown
// outcome. The log accepts no batches until restart_after_failure(), which requires that tables have all operations before it.
// After a failed write, for example on a full disk, salvage() still syncs the records before that write.
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
  std::function<FileNum()> new_file;  ///< returns the number of the next segment
  bool own_thread = true;             ///< false: there is no log thread; write() does its work (tests)
  std::function<void()> on_tick;      ///< called by the log thread ten times a second, while it holds no lock
  std::uint64_t longest_delay_ns = CommitDelay::kLongestNs;
  std::size_t piece_bytes = std::size_t{128} << 10;  ///< bytes of one piece of a large batch; writing a piece takes 0.1 ms
  /// Most bytes of pieces that are not synced: what a slow device writes in about 10 ms.
  std::size_t most_ahead_bytes = std::size_t{4} << 20;
};

/// Thread-safe, except that callers of enqueue() must hold a common lock (the commit lock).
class GroupCommit {
  // The payload of one record.
  struct Group {
    std::string bytes;
    struct Splice {
      std::size_t offset;
      SharedValue value;
    };
    std::vector<Splice> splices;  // shared values, which are not copied into `bytes`, and the offset of each in `bytes`
    std::size_t splice_bytes = 0;
    SeqNum last_seq = 0;
    Millis since = 0;  // time of the group's first batch
    LogNotes notes;
    [[nodiscard]] bool empty() const { return bytes.empty(); }
    void clear();
    void append_pieces(std::vector<Bytes>* pieces) const;
  };
  // A batch that is written in pieces. All fields but `log` are guarded by the log's mutex_.
  struct Pieces {
    explicit Pieces(GroupCommit* owner) : log(owner) {}
    ~Pieces();
    Pieces(const Pieces&) = delete;
    Pieces& operator=(const Pieces&) = delete;
    std::atomic<GroupCommit*> log;  // null once GroupCommit::pieces_ no longer has this object
    PieceId id;                     // id.file is kNoFile until the first piece is written
    std::vector<PieceNote> notes;
    std::vector<std::pair<FileNum, std::uint64_t>> ends;  // for each piece: its segment, and the offset of its end in the segment
    std::uint64_t bytes = 0;
    std::unique_ptr<BlockChecksummer> checksum;  // over the bytes of all pieces
    bool given_up = false;
  };

 public:
  explicit GroupCommit(GroupCommitOptions options);
  ~GroupCommit();
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  /// Starts the log with a new segment. `recovered`: older segments that are still needed. `last_seq`: the seq of the last
  /// operation before the new segment. If the segment cannot be created (kNoSpace, kIoError) and there are older segments, the
  /// log starts as failed() and continues by restart_after_failure(). After any other error the log is not started. `uncut`:
  /// the result of truncating the last segment's torn end (cut_log). If `uncut` is an error, no segment is created, and the log
  /// starts as after a failed creation: the torn end would look like damage once a later segment has records.
  Status start(std::vector<LogSegment> recovered, SeqNum last_seq, const Status& uncut = Status::ok());
  /// Writes and syncs the queue, and stops the log thread. Batches that are queued during the call are written and synced, too,
  /// and threads that wait in wait_durable() or wait_synced() return.
  Status close();

  // --- queueing
  /// Queues a batch. Copies the payload and references shared values. `notes` has one note for each tree that the batch writes
  /// to. The caller holds the commit lock.
  void enqueue(const WriteBatch& batch, std::span<const LogNote> notes);
  /// The payload of a large batch. prepare() copies it, or write_pieces() writes it to the log, before enqueue() is called. So
  /// enqueue() is short for a batch of any size.
  class Prepared {
   public:
    [[nodiscard]] bool empty() const { return group_.empty() && pieces_ == nullptr; }

   private:
    friend class GroupCommit;
    Group group_;
    std::shared_ptr<Pieces> pieces_;
  };
  /// Copies the payload of `batch`. Afterwards only the header of `batch` may change.
  static Prepared prepare(const WriteBatch& batch);
  /// Writes and syncs the payload in pieces, between the writes of other batches. `notes` has one note for each tree that the
  /// batch writes to. The call may take long, so the caller must hold no lock. Returns an empty result if the pieces were given
  /// up or the log failed. Returns kAborted, the only error, if `stop` has become true; `stop` may be null.
  Result<Prepared> write_pieces(const WriteBatch& batch, std::span<const LogNote> notes, const std::atomic<bool>* stop);
  /// Queues a prepared batch, like the other enqueue(). If there is a log thread, it writes payloads that prepare() has copied,
  /// so that no event loop does such a long write. If the pieces were given up, this call copies the payload.
  void enqueue(const WriteBatch& batch, Prepared prepared, std::span<const LogNote> notes);
  /// Gives up the pieces of each batch that is not enqueued yet and has a piece in the segment `last` or in an older segment.
  /// These pieces no longer keep segments from being removed.
  void give_up_pieces(FileNum last);
  /// Like give_up_pieces(), for pieces in segments before the oldest segment with an operation of `seq` or later: only pieces
  /// keep these segments from being removed.
  void give_up_pieces_before(SeqNum seq);
  /// Bytes of pieces whose batch is not enqueued yet.
  [[nodiscard]] std::uint64_t pending_piece_bytes() const;
  /// Writes the queue, as Db::write_log() says.
  bool write();

  // --- durability
  [[nodiscard]] SeqNum logged_seq() const { return logged_seq_.load(std::memory_order_acquire); }
  [[nodiscard]] SeqNum synced_seq() const { return synced_seq_.load(std::memory_order_acquire); }
  [[nodiscard]] SeqNum durable_seq() const {
    return fsync_.load(std::memory_order_relaxed) == FsyncMode::kAlways ? synced_seq() : logged_seq();
  }
  Status wait_durable(SeqNum seq);  ///< waits until durable_seq() >= seq, as Db::wait_durable()
  Status wait_synced(SeqNum seq);   ///< waits until the log is synced up to `seq`; returns the log's error if it fails
  void set_fsync(FsyncMode mode);
  [[nodiscard]] FsyncMode fsync() const { return fsync_.load(std::memory_order_relaxed); }
  /// Sets the function that the log calls, with no lock held, whenever durable_seq() has moved or the log has failed. Call
  /// set_listener() once. The log may call the function before set_listener() returns.
  void set_listener(std::function<void()> listener);

  // --- failure
  /// Returns true if a write or sync has failed and the log was not restarted since. Costs one atomic load.
  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// Returns ok, or the error with which the log failed.
  [[nodiscard]] Status status() const;
  /// Makes the log fail with `why`. Called when another program has damaged the segment `file`. Has no effect if the log no
  /// longer has that segment.
  void lose_segment(FileNum file, const Status& why);
  /// After a failure: syncs the records written before the failure, unless a sync has failed. Then all operations up to
  /// synced_seq() are durable.
  void salvage();
  /// Creates the segment in which a failed log will continue, and returns its number; further calls return the same segment. So
  /// an edit of the manifest can state that no older segment is needed, before restart_after_failure() is called.
  Result<FileNum> prepare_restart();
  /// Drops the queue and continues the log in the segment of prepare_restart(). Requires that tables have every operation up to
  /// last_seq.
  void restart_after_failure(SeqNum last_seq);

  // --- segments
  /// Asks the log to end the segment `file`. Has no effect unless `file` is the current segment and has a written or queued
  /// record, and the log has not failed. The log thread ends the segment soon; without that thread, the next write() does.
  void end_segment(FileNum file);
  /// All segments, oldest first. The last segment is the current segment; its notes include the notes of queued batches.
  [[nodiscard]] std::vector<LogSegment> segments() const;
  /// The current segment. Its name and header are durable.
  [[nodiscard]] FileNum newest_segment() const;
  /// All segments older than `oldest`, except the current one.
  [[nodiscard]] std::vector<LogSegment> segments_below(FileNum oldest) const;
  /// Removes the segments older than `oldest` from the log's list and returns their numbers. The caller unlinks their files.
  std::vector<FileNum> take_segments_below(FileNum oldest);
  /// The oldest segment that is still needed. It has an operation of `seq` or later, a piece of a batch with such an operation,
  /// or a piece of a batch that is not enqueued yet.
  [[nodiscard]] FileNum oldest_needed(SeqNum seq) const;
  [[nodiscard]] std::uint64_t live_bytes() const;
  /// Engine time of the oldest batch in the segments; 0 = the segments have no batch.
  [[nodiscard]] Millis oldest_record() const;

  // --- statistics
  /// True while a sync is delayed to wait for more commits (commit_delay.h). For tests.
  [[nodiscard]] bool delays_sync() const { return delayed_until_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] std::uint64_t writes() const { return writes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t syncs() const { return syncs_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t bytes_written() const { return bytes_written_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kMaxGroupBytes = std::size_t{256} << 20;

  // --- defined in group_commit.cc
  static void append_batch(Group* group, const WriteBatch& batch, const std::vector<Bytes>& pieces);
  void queue_group(Group group) REQUIRES(mutex_);
  void become_writer() REQUIRES(mutex_);
  void done_writing(bool large_too = true) REQUIRES(mutex_);
  /// Only for the writer. Writes groups until the queue is empty. If `large_too` is false, stops before a payload that prepare()
  /// has copied.
  Status write_groups(bool large_too = true) REQUIRES(mutex_);
  void sync_as_writer() REQUIRES(mutex_);  // only for the writer; afterwards synced_seq equals logged_seq
  void switch_segment() REQUIRES(mutex_);  // only for the writer, which must call sync_ended() when it is no longer the writer
  void sync_ended() REQUIRES(mutex_);      // syncs the end mark; the caller is not the writer, so that no append waits
  void fail(const Status& status) REQUIRES(mutex_);
  void notify_listener();
  bool segment_full() const REQUIRES(mutex_) {
    return segments_.current().bytes >= options_.segment_bytes || segments_.current().file == to_end_;
  }
  bool queue_empty() const REQUIRES(mutex_) { return pending_.empty() && full_groups_.empty(); }

  // --- defined in log_thread.cc
  void run();
  bool work() REQUIRES(mutex_);  // returns false if there was nothing to do
  void delay_sync() REQUIRES(mutex_);
  void write_and_sync() REQUIRES(mutex_);
  void sync_beside_appends() REQUIRES(mutex_);
  bool wants_group_sync() const REQUIRES(mutex_);
  bool wants_timed_sync() const REQUIRES(mutex_);

  // --- defined in group_pieces.cc
  bool write_piece(Pieces* pieces, const LogRecord& payload);
  void append_piece(Pieces* pieces, const LogRecord& payload) REQUIRES(mutex_);  // called by the writer
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
  CondVar wake_;   // the log thread waits for work with this
  CondVar moved_;  // notified when logged_seq, synced_seq, writing_, syncing_beside_ or bad_ has changed
  Group pending_ GUARDED_BY(mutex_);
  std::deque<Group> full_groups_ GUARDED_BY(mutex_);  // groups in front of pending_ in the queue; mostly empty
  bool large_queued_ GUARDED_BY(mutex_) = false;      // true if full_groups_ has a payload that prepare() has copied
  bool writing_ GUARDED_BY(mutex_) = false;           // true if a thread is the writer, which alone uses writer_ and in_flight_
  bool syncing_beside_ GUARDED_BY(mutex_) = false;    // true while the log thread syncs beside the writer
  SeqNum sync_wanted_ GUARDED_BY(mutex_) = 0;         // a thread waits until synced_seq reaches this seq
  bool started_ GUARDED_BY(mutex_) = false, stop_ GUARDED_BY(mutex_) = false;
  Status bad_ GUARDED_BY(mutex_);
  std::shared_ptr<LogWriter> prepared_ GUARDED_BY(mutex_);
  LogSegments segments_ GUARDED_BY(mutex_);
  std::vector<Pieces*> pieces_ GUARDED_BY(mutex_);  // pieces that were not given up and whose batches are not enqueued
  std::uint32_t pieces_begun_ GUARDED_BY(mutex_) = 0;
  int pacing_ GUARDED_BY(mutex_) = 0;            // number of threads that wait until the device has caught up with their pieces
  FileNum to_end_ GUARDED_BY(mutex_) = kNoFile;  // the segment that end_segment() asked to end; kNoFile = none
  std::uint64_t last_sync_ns_ GUARDED_BY(mutex_) = 0;
  CommitDelay delay_ GUARDED_BY(mutex_);
  std::atomic<bool> has_pending_{false};
  std::atomic<SeqNum> queued_seq_{0};     // last seq of the last batch that was queued
  std::atomic<SeqNum> delayed_until_{0};  // the log thread is not woken until queued_seq_ reaches this; 0 = wake at once

  // Only the current writer thread uses the next two members. A sync beside appends keeps a reference to the LogWriter with which
  // it began. writer_ is null if the log has failed since its start.
  std::shared_ptr<LogWriter> writer_;
  Group in_flight_;
  // Only the thread that switches segments uses ended_.
  std::shared_ptr<LogWriter> ended_;  // the segment whose end mark is not synced yet; null = none
  std::thread thread_;
};

}  // namespace ebbtide
