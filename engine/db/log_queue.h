// The write-ahead log as the commit pipeline uses it: batches are queued in seq order, written in groups, synced by policy.
//
// What is queued between two writes is one record and one system call. Under `everysec` and `no`, a loop that ends its pass writes the
// queue, unless another thread is writing already and takes it along; the log thread only syncs and switches segments, and writes
// large batches, so that no event loop blocks in a write of hundreds of megabytes. Under
// `always` the log thread writes and syncs, group after group, and waits a little between them where that makes groups larger
// (sync_gather.h). The record's payload is a sequence of (length u32, WriteBatch payload).
//
// Segments: before a new one gets its first record the old one is synced, so that what survives a power loss is a prefix.
// Groups: what is queued becomes one record, but no record is longer than kMaxGroupBytes unless a single batch is.
// Large batches: write_pieces() writes their payload ahead of the commit, on its caller's thread, in records of at most piece_bytes
// between those of others (wal/log_pieces.h). It waits for the device before it is far ahead of it, so that no sync of
// others takes long. What is enqueued is a small commit record. Until then the pieces pin their segments, unless they are given up:
// then the batch is enqueued whole. Afterwards they are needed as long as the batch's operations are.
// Failure: after a failed write or sync the log is bad. What was queued or unsynced has an unknown outcome; nothing more is
// accepted until restart_after_failure(), which needs everything up to then to be safe in tables. Of what was written before a
// write that failed, as on a full disk, salvage() still makes sure.
//
// Deletes: each segment knows, by tree, since when it has had something to hide: the birth of the first delete in it, the
// smallest expiry. A delete may concern a value in any segment before its own, so what a segment owes is found there and in all
// later ones (log_debts). No segment is ever used again for another.
//
// Without a thread (tests), write() does all of it inline, a sync once a second of the simulated clock included.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <engine/options.h>
#include <engine/write_batch.h>
#include "base/checksum.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/oldest.h"
#include "db/sync_gather.h"
#include "wal/log_pieces.h"
#include "wal/log_writer.h"

namespace ebbtide {

/// What a part of the log has of one tree, as far as deletes are concerned. Times of the engine; 0 = none.
struct LogNote {
  TreeId tree = kNoTree;
  Millis oldest_delete = 0;  ///< birth of its first delete
  Millis min_expiry = 0;     ///< smallest expiry of its values
};
/// Few trees each: a vector is searched faster than a map.
using LogNotes = std::vector<LogNote>;
/// Takes `note` into `notes`.
void add_note(LogNotes* notes, const LogNote& note);

struct LogQueueOptions {
  FileSystem* fs = nullptr;
  std::string dir;
  const Clock* clock = nullptr;
  FsyncMode fsync = FsyncMode::kEverySecond;
  std::uint64_t segment_bytes = std::uint64_t{64} << 20;
  std::function<FileNum()> new_file;
  bool own_thread = true;
  std::function<void()> on_tick;  ///< called by the own thread several times a second, no locks held
  std::uint64_t longest_gather_ns = SyncGather::kLongestNs;
  std::size_t piece_bytes = std::size_t{128} << 10;     ///< of a batch that is written in pieces; writing one takes 0.1 ms
  std::size_t most_ahead_bytes = std::size_t{4} << 20;  ///< of pieces that wait for their sync: some 10 ms of a slow device
};

/// Thread-safe, but enqueue() calls must be serialised by the caller (the commit lock).
class LogQueue {
  // What is written by one append.
  struct Group {
    std::string bytes;
    struct Splice {
      std::size_t offset;
      SharedValue value;
    };
    std::vector<Splice> splices;
    std::size_t splice_bytes = 0;
    SeqNum last_seq = 0;
    Millis since = 0;  // time of its first batch
    LogNotes notes;
    [[nodiscard]] bool empty() const { return bytes.empty(); }
    void clear();
    void append_pieces(std::vector<Bytes>* pieces) const;
  };
  // A batch that is written in pieces; all but the queue guarded by its mutex_.
  struct Pieces {
    explicit Pieces(LogQueue* owner) : queue(owner) {}
    ~Pieces();
    Pieces(const Pieces&) = delete;
    Pieces& operator=(const Pieces&) = delete;
    std::atomic<LogQueue*> queue;  // null: the queue does not know them any more
    PieceId id;                    // no file: nothing is written yet
    std::vector<PieceNote> notes;
    std::vector<std::pair<FileNum, std::uint64_t>> ends;  // of each piece: segment, and where it ends there
    std::uint64_t bytes = 0;
    std::unique_ptr<BlockChecksummer> checksum;  // of their bytes
    bool given_up = false;
  };

 public:
  /// A segment that is no longer written to, or the one that is.
  struct Segment {
    FileNum file = kNoFile;
    SeqNum last_seq = 0;                  ///< of its last operation, as far as written
    std::uint64_t bytes = 0;              ///< header included
    LogNotes notes = {};                  ///< a note for every tree that has an operation in it
    std::weak_ptr<const void> open = {};  ///< its writer: a sync may last after it was removed
    Millis since = 0;                     ///< time of its first batch; 0 = it has none
    SeqNum pieces_seq = 0;                ///< the last operation of committed batches that have pieces in it; 0 = none
    [[nodiscard]] SeqNum needed_seq() const { return std::max(last_seq, pieces_seq); }
  };

  explicit LogQueue(LogQueueOptions options);
  ~LogQueue();
  LogQueue(const LogQueue&) = delete;
  LogQueue& operator=(const LogQueue&) = delete;

  /// Begins a new segment. `recovered`: older segments that are still needed. `last_seq`: of everything before.
  Status start(std::vector<Segment> recovered, SeqNum last_seq);
  /// Writes and syncs what is queued, stops the thread.
  Status close();

  /// Copies the payload in (shared values are referenced). `notes`: of each tree that the batch has an operation for. Caller's
  /// lock held.
  void enqueue(const WriteBatch& batch, std::span<const LogNote> notes);
  /// The payload of a large batch, copied or written ahead of its enqueue(), which then takes no time in the batch's size.
  class Prepared {
   public:
    [[nodiscard]] bool empty() const { return group_.empty() && pieces_ == nullptr; }

   private:
    friend class LogQueue;
    Group group_;
    std::shared_ptr<Pieces> pieces_;
  };
  /// `batch` may change its header afterwards, nothing else.
  static Prepared prepare(const WriteBatch& batch);
  /// Writes the payload in pieces, and syncs them as they go, beside the writes of others. `notes`: of each tree that the batch
  /// has an operation for. May take long; not with a lock of the caller's held. Returns nothing prepared if the pieces were given
  /// up or the log failed. kAborted: `stop`, if given, became true; there is no other error.
  Result<Prepared> write_pieces(const WriteBatch& batch, std::span<const LogNote> notes, const std::atomic<bool>* stop);
  /// As the other enqueue(). With an own thread, that thread writes what was copied: no event loop waits for so many bytes. Where
  /// the pieces were given up, the payload is copied here.
  void enqueue(const WriteBatch& batch, Prepared prepared, std::span<const LogNote> notes);
  /// Pieces in the segment `last` or older no longer pin segments, unless their batch was enqueued.
  void give_up_pieces(FileNum last);
  /// The same of pieces that alone keep segments: those before the oldest with an operation of `seq` or later.
  void give_up_pieces_before(SeqNum seq);
  /// Bytes of pieces whose batch has not been enqueued yet.
  [[nodiscard]] std::uint64_t pending_piece_bytes() const;
  /// See Db::write_log.
  bool write();

  [[nodiscard]] SeqNum logged_seq() const { return logged_seq_.load(std::memory_order_acquire); }
  [[nodiscard]] SeqNum synced_seq() const { return synced_seq_.load(std::memory_order_acquire); }
  [[nodiscard]] SeqNum durable_seq() const {
    return fsync_.load(std::memory_order_relaxed) == FsyncMode::kAlways ? synced_seq() : logged_seq();
  }
  Status wait_durable(SeqNum seq);
  Status wait_synced(SeqNum seq);
  void set_fsync(FsyncMode mode);
  [[nodiscard]] FsyncMode fsync() const { return fsync_.load(std::memory_order_relaxed); }
  /// Called without locks whenever durable_seq() moved or the log failed. Set once; calls may be under way by then.
  void set_listener(std::function<void()> listener);

  /// One load.
  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// Ok, or why the log is bad.
  [[nodiscard]] Status status() const;
  /// Of a failed log: what was written before the failure is synced, if no sync has failed; synced_seq() tells.
  void salvage();
  /// Begins the segment in which a failed log will go on, unless that was done before, and names it: so that an edit can say,
  /// before the log goes on, that nothing older than this segment is needed.
  Result<FileNum> prepare_restart();
  /// Everything up to last_seq is safe without the log: forget what is queued and go on in the prepared segment.
  void restart_after_failure(SeqNum last_seq);

  /// Ends the segment `file`, if it is the current one, has something, and the log is good: soon, by the log thread; without one,
  /// by the next write().
  void end_segment(FileNum file);
  /// Oldest first; the last one is being written to, and has what waits to be written.
  [[nodiscard]] std::vector<Segment> segments() const;
  /// The segments with smaller numbers than `oldest`, without the current one.
  [[nodiscard]] std::vector<Segment> segments_below(FileNum oldest) const;
  /// Forgets and returns them.
  std::vector<FileNum> take_segments_below(FileNum oldest);
  /// The file of the oldest segment that holds an operation of `seq` or later, a piece of such a batch, or a piece of one that is
  /// not enqueued yet.
  [[nodiscard]] FileNum oldest_needed(SeqNum seq) const;
  [[nodiscard]] std::uint64_t live_bytes() const;
  /// Engine time of the oldest batch in the segments; 0 = they have none.
  [[nodiscard]] Millis oldest_record() const;
  /// A sync is being held back for company (sync_gather.h). For tests.
  [[nodiscard]] bool gathering() const { return gathering_until_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] std::uint64_t writes() const { return writes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t syncs() const { return syncs_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t bytes_written() const { return bytes_written_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kMaxGroupBytes = std::size_t{256} << 20;

  void run();
  bool work() REQUIRES(mutex_);  // the log thread's share; true if there was some
  void gather_group() REQUIRES(mutex_);
  void write_and_sync() REQUIRES(mutex_);
  void sync_beside_appends() REQUIRES(mutex_);
  bool wants_group_sync() const REQUIRES(mutex_);
  bool wants_timed_sync() const REQUIRES(mutex_);
  bool far_ahead() const REQUIRES(mutex_);
  bool write_piece(Pieces* pieces, const LogRecord& payload);
  void append_piece(Pieces* pieces, const LogRecord& payload) REQUIRES(mutex_);  // as the writer
  void pace(const Pieces& pieces) REQUIRES(mutex_);
  bool enqueue_commit(const WriteBatch& batch, Pieces* pieces, std::span<const LogNote> notes);
  void end_pieces(Pieces* pieces) REQUIRES(mutex_);
  void give_up_all_pieces() REQUIRES(mutex_);
  bool is_pinned(FileNum file) const REQUIRES(mutex_);
  bool segment_full() const REQUIRES(mutex_) {
    return segments_.back().bytes >= options_.segment_bytes || segments_.back().file == to_end_;
  }
  bool queue_empty() const REQUIRES(mutex_) { return pending_.empty() && full_groups_.empty(); }
  /// As the writer: until the queue is empty, or, unless `large_too`, begins with what was prepared.
  Status write_groups(bool large_too = true) REQUIRES(mutex_);
  void sync_as_writer() REQUIRES(mutex_);  // as the writer: then synced_seq == logged_seq
  void switch_segment() REQUIRES(mutex_);  // as the writer
  void become_writer() REQUIRES(mutex_);
  void done_writing(bool large_too = true) REQUIRES(mutex_);
  static void append_batch(Group* group, const WriteBatch& batch, const std::vector<Bytes>& pieces);
  void fail(const Status& status) REQUIRES(mutex_);
  void notify_listener();

  LogQueueOptions options_;
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
  bool large_queued_ GUARDED_BY(mutex_) = false;      // full_groups_ has what was prepared
  bool writing_ GUARDED_BY(mutex_) = false;           // somebody uses writer_ and in_flight_
  bool syncing_beside_ GUARDED_BY(mutex_) = false;    // the log thread, beside whoever writes
  SeqNum sync_wanted_ GUARDED_BY(mutex_) = 0;         // somebody waits until the log is synced past it
  bool stop_ GUARDED_BY(mutex_) = false;
  Status bad_ GUARDED_BY(mutex_);
  std::shared_ptr<LogWriter> prepared_ GUARDED_BY(mutex_);
  std::deque<Segment> segments_ GUARDED_BY(mutex_);  // the last one is being written
  std::vector<Pieces*> pieces_ GUARDED_BY(mutex_);   // whose batches are not enqueued and that are not given up
  std::uint32_t pieces_begun_ GUARDED_BY(mutex_) = 0;
  int pacing_ GUARDED_BY(mutex_) = 0;            // threads that wait until the device has caught up with their pieces
  FileNum to_end_ GUARDED_BY(mutex_) = kNoFile;  // a segment that is to take no more
  std::uint64_t last_sync_ns_ GUARDED_BY(mutex_) = 0;
  std::atomic<bool> has_pending_{false};
  std::atomic<SeqNum> queued_seq_{0};       // of the last batch that was queued
  std::atomic<SeqNum> gathering_until_{0};  // the log thread need not be woken before queued_seq_ is there; 0 = at once
  SyncGather gather_ GUARDED_BY(mutex_);

  // The writer's, whoever that is at the moment. A sync beside appends holds the segment that it began with.
  std::shared_ptr<LogWriter> writer_;
  Group in_flight_;
  std::thread thread_;
};

/// What segments owe to deletes: for each note of each segment, in their order, the oldest birth up to `now` of a delete of that
/// tree in the segment or in a later one, or of an expiry that has passed. 0 = none.
std::vector<std::vector<Millis>> log_debts(const std::vector<LogQueue::Segment>& segments, Millis now);

}  // namespace ebbtide
