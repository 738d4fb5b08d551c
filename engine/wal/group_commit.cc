#include "wal/group_commit.h"

#include <algorithm>

#include "base/coding.h"
#include "base/invariant.h"
#include "base/planted_bug.h"

namespace ebbtide {
namespace {
// Writing more than this takes some milliseconds, so the log thread writes larger batches.
constexpr std::size_t kLargeBytes = std::size_t{4} << 20;
}  // namespace

void GroupCommit::Group::clear() {
  bytes.clear();
  if (bytes.capacity() > (std::size_t{4} << 20)) bytes.shrink_to_fit();
  splices.clear();
  splice_bytes = 0;
  notes.clear();
  since = 0;
}

void GroupCommit::Group::append_pieces(std::vector<Bytes>* pieces) const {
  std::size_t at = 0;
  for (const Splice& s : splices) {
    pieces->push_back(Bytes(bytes).substr(at, s.offset - at));
    pieces->push_back(*s.value);
    at = s.offset;
  }
  if (at < bytes.size()) pieces->push_back(Bytes(bytes).substr(at));
}

GroupCommit::GroupCommit(GroupCommitOptions options)
    : options_(std::move(options)), fsync_(options_.fsync), delay_(options_.longest_delay_ns) {}

GroupCommit::~GroupCommit() {
  (void)close();
  MutexLock lock(mutex_);
  give_up_all_pieces();
}

Status GroupCommit::start(std::vector<LogSegment> recovered, SeqNum last_seq, const Status& uncut) {
  Result<std::unique_ptr<LogWriter>> fresh =
      uncut.is_ok() ? LogWriter::create(*options_.fs, options_.dir, options_.new_file(), last_seq + 1) : uncut;
  const Code code = fresh.status().code();
  const bool refused = (code == Code::kNoSpace || code == Code::kIoError) && !recovered.empty();
  if (!fresh.is_ok() && !refused) return fresh.status();
  MutexLock lock(mutex_);
  started_ = true;
  for (LogSegment& s : recovered) segments_.add(std::move(s));
  if (refused) {
    fail(fresh.status());
  } else {
    writer_ = std::move(fresh).value();
    segments_.add({writer_->file(), last_seq, writer_->size(), {}, writer_});
  }
  queued_seq_ = logged_seq_ = synced_seq_ = last_seq;
  last_sync_ns_ = options_.clock->mono_ns();
  if (options_.own_thread) thread_ = std::thread([this] { run(); });
  return bad_;
}

Status GroupCommit::close() {
  {
    MutexLock lock(mutex_);
    if (stop_ || !started_) return bad_;
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  MutexLock lock(mutex_);
  become_writer();
  do {
    if (bad_.is_ok()) (void)write_groups();
    if (bad_.is_ok()) sync_as_writer();
  } while (bad_.is_ok() && !queue_empty());  // a sync releases the mutex, so further batches may have been queued
  if (bad_.is_ok()) (void)writer_->close();
  done_writing();
  return bad_;
}

void GroupCommit::enqueue(const WriteBatch& batch, std::span<const LogNote> notes) {
  if (batch.payload_bytes() >= kLargeBytes) return enqueue(batch, prepare(batch), notes);
  static thread_local std::vector<Bytes> pieces;
  pieces.clear();
  batch.append_payload(&pieces);
  MutexLock lock(mutex_);
  if (!bad_.is_ok()) return;  // no record may follow lost records; the client gets an error when it waits for the batch
  if (!pending_.empty() && pending_.bytes.size() + pending_.splice_bytes + batch.payload_bytes() > kMaxGroupBytes) {
    full_groups_.push_back(std::exchange(pending_, {}));
  }
  append_batch(&pending_, batch, pieces);
  queued_seq_.store(batch.last_seq(), std::memory_order_relaxed);
  for (const LogNote& note : notes) add_note(&pending_.notes, note);
  has_pending_.store(true, std::memory_order_relaxed);
}

GroupCommit::Prepared GroupCommit::prepare(const WriteBatch& batch) {
  std::vector<Bytes> pieces;
  batch.append_payload(&pieces);
  Prepared prepared;
  prepared.group_.bytes.reserve(sizeof(std::uint32_t) + batch.payload_bytes() - batch.shared_bytes());
  append_batch(&prepared.group_, batch, pieces);
  return prepared;
}

void GroupCommit::enqueue(const WriteBatch& batch, Prepared prepared, std::span<const LogNote> notes) {
  if (prepared.pieces_ != nullptr) {
    if (enqueue_commit(batch, prepared.pieces_.get(), notes)) return;
    prepared = prepare(batch);
  }
  Group& group = prepared.group_;
  static thread_local std::vector<Bytes> pieces;
  pieces.clear();
  batch.append_payload(&pieces);
  pieces.front().copy(group.bytes.data() + sizeof(std::uint32_t), WriteBatch::kHeaderBytes);
  group.last_seq = batch.last_seq();
  group.since = batch.time();
  group.notes.assign(notes.begin(), notes.end());
  MutexLock lock(mutex_);
  if (!bad_.is_ok()) return;  // no record may follow lost records, as in the other enqueue()
  queue_group(std::move(group));
  large_queued_ = true;
  wake_.notify_one();
}

void GroupCommit::queue_group(Group group) {
  if (!pending_.empty()) full_groups_.push_back(std::exchange(pending_, {}));
  queued_seq_.store(group.last_seq, std::memory_order_relaxed);
  full_groups_.push_back(std::move(group));
  has_pending_.store(true, std::memory_order_relaxed);
}

// Appends a batch to the group. Shared values are not copied: the group has a reference to each, and its offset.
void GroupCommit::append_batch(Group* group, const WriteBatch& batch, const std::vector<Bytes>& pieces) {
  put_u32(&group->bytes, static_cast<std::uint32_t>(batch.payload_bytes()));
  group->last_seq = batch.last_seq();
  if (group->since == 0) group->since = batch.time();
  if (pieces.size() == 1) {
    group->bytes.append(pieces[0]);
    return;
  }
  std::size_t cursor = 0;
  WriteBatch::Op op;
  std::vector<const SharedValue*> shared;
  while (batch.next_op(&cursor, &op)) {
    if (op.shared != nullptr) shared.push_back(op.shared);
  }
  for (std::size_t i = 0, next = 0; i < pieces.size(); ++i) {
    if (next < shared.size() && pieces[i].data() == (*shared[next])->data()) {
      group->splices.push_back({group->bytes.size(), *shared[next]});
      group->splice_bytes += pieces[i].size();
      ++next;
    } else {
      group->bytes.append(pieces[i]);
    }
  }
}

void GroupCommit::become_writer() {
  while (writing_) moved_.wait(mutex_);
  writing_ = true;
}

// Ends the role of the writer. During a sync, which releases the mutex, an event loop may have ended its pass without writing its
// batches, since there was a writer. So this writer first writes the queue again.
void GroupCommit::done_writing(bool large_too) {
  if (bad_.is_ok()) (void)write_groups(large_too);
  writing_ = false;
  moved_.notify_all();
}

void GroupCommit::fail(const Status& status) {
  if (bad_.is_ok()) bad_ = status.with_context("write-ahead log");
  failed_.store(true, std::memory_order_release);
  moved_.notify_all();
}

void GroupCommit::notify_listener() {
  if (listening_.load(std::memory_order_acquire)) listener_();
}

void GroupCommit::set_listener(std::function<void()> listener) {
  ASSERT_MSG(!listening_, "the listener is set once");
  if (!listener) return;
  listener_ = std::move(listener);
  listening_.store(true, std::memory_order_release);
}

// Sets the mode. After a change to `always`, the log thread must sync all operations that are written but not synced.
void GroupCommit::set_fsync(FsyncMode mode) {
  {
    MutexLock lock(mutex_);
    fsync_.store(mode, std::memory_order_relaxed);
  }
  wake_.notify_one();
}

Status GroupCommit::write_groups(bool large_too) {
  while (bad_.is_ok() && !queue_empty() && (large_too || !large_queued_)) {
    if (full_groups_.empty()) {
      std::swap(pending_, in_flight_);
    } else {
      in_flight_ = std::move(full_groups_.front());
      full_groups_.pop_front();
    }
    has_pending_.store(false, std::memory_order_relaxed);
    // The segment gets the notes before the write, since a record may be on disk even if its write fails.
    for (const LogNote& note : in_flight_.notes) add_note(&segments_.current().notes, note);
    if (segments_.current().since == 0) segments_.current().since = in_flight_.since;
    LogRecord record;
    in_flight_.append_pieces(&record);
    const std::uint64_t bytes = in_flight_.bytes.size() + in_flight_.splice_bytes;
    mutex_.unlock();
    const Status status = writer_->append(std::span<const LogRecord>(&record, 1));
    mutex_.lock();
    if (!status.is_ok()) {
      fail(status);
    } else {
      segments_.current().last_seq = in_flight_.last_seq;
      segments_.current().bytes = writer_->size();
      logged_seq_.store(in_flight_.last_seq, std::memory_order_release);
      writes_.fetch_add(1, std::memory_order_relaxed);
      bytes_written_.fetch_add(bytes, std::memory_order_relaxed);
      moved_.notify_all();
    }
    in_flight_.clear();
    if (full_groups_.empty()) large_queued_ = false;
  }
  return bad_;
}

// Appends wait during this sync. It is used with fsync `always`, and before a switch of segments, since no append may come
// between the sync and the switch.
void GroupCommit::sync_as_writer() {
  const SeqNum covered = logged_seq();
  if (planted(PlantedBug::kAcknowledgeBeforeSync)) synced_seq_.store(covered, std::memory_order_release);
  mutex_.unlock();
  const Status status = writer_->sync();
  mutex_.lock();
  last_sync_ns_ = options_.clock->mono_ns();
  if (!status.is_ok()) {
    fail(status);
    return;
  }
  syncs_.fetch_add(1, std::memory_order_relaxed);
  synced_seq_.store(covered, std::memory_order_release);
  moved_.notify_all();
}

// A segment may have unsynced pieces even if all seqs are synced: pieces have no seq, and their commit record may be in the
// next segment. So the segment's bytes, too, decide whether a sync is needed.
void GroupCommit::switch_segment() {
  const bool unsynced = writer_->synced_bytes() < writer_->size() && !planted(PlantedBug::kSyncBySeq);
  if (synced_seq() < logged_seq() || unsynced) sync_as_writer();
  if (!bad_.is_ok()) return;
  const SeqNum first_seq = logged_seq() + 1;
  mutex_.unlock();
  auto fresh = LogWriter::create(*options_.fs, options_.dir, options_.new_file(), first_seq);
  const Status ended = fresh.is_ok() ? writer_->end((*fresh)->file()) : fresh.status();
  mutex_.lock();
  if (fresh.is_ok()) {
    // Adds the next segment even if the write of the end mark failed. The mark may be on disk nevertheless, and the segment that
    // it names must stay as long as this one.
    std::shared_ptr<LogWriter> next = std::move(fresh).value();
    segments_.current().bytes = writer_->size();
    segments_.add({next->file(), logged_seq(), next->size(), {}, next});
    if (ended.is_ok()) ended_ = std::exchange(writer_, std::move(next));
  }
  if (!ended.is_ok()) fail(ended);
}

// Syncs the end mark of the previous segment. With fsync `always` the calling thread also does the next sync of the log. So no
// batch of the next segment is acknowledged before the end mark is synced.
void GroupCommit::sync_ended() {
  const std::shared_ptr<LogWriter> ended = std::exchange(ended_, nullptr);
  if (ended == nullptr) return;
  const bool sync = fsync() != FsyncMode::kNo && !planted(PlantedBug::kSyncBySeq);
  mutex_.unlock();
  const Status status = sync ? ended->sync() : Status::ok();
  (void)ended->close();
  mutex_.lock();
  if (!status.is_ok()) fail(status);
}

bool GroupCommit::write() {
  const bool some = has_pending_.load(std::memory_order_relaxed);
  if (options_.own_thread) {
    if (!some) return false;
    if (fsync() == FsyncMode::kAlways) {
      if (queued_seq_.load(std::memory_order_relaxed) >= delayed_until_.load(std::memory_order_relaxed)) wake_.notify_one();
      return true;
    }
  }
  {
    MutexLock lock(mutex_);
    if (writing_) return some;  // that writer checks the queue again before it ends
    const bool large_too = !options_.own_thread;
    if (large_queued_ && !large_too) return some;  // the log thread writes the queue, since it has a large payload
    writing_ = true;
    if (bad_.is_ok()) (void)write_groups(large_too);
    if (!options_.own_thread && bad_.is_ok()) {
      const bool always = fsync() == FsyncMode::kAlways;
      if ((always && synced_seq() < logged_seq()) || wants_timed_sync()) sync_as_writer();
      if (bad_.is_ok() && segment_full()) switch_segment();
    }
    if (options_.own_thread && (segment_full() || large_queued_)) wake_.notify_one();
    done_writing(large_too);
    if (!options_.own_thread) sync_ended();
  }
  notify_listener();
  return some;
}

Status GroupCommit::wait_durable(SeqNum seq) {
  if (fsync() == FsyncMode::kAlways) return wait_synced(seq);
  if (logged_seq() >= seq) return Status::ok();
  write();
  MutexLock lock(mutex_);
  while (bad_.is_ok() && logged_seq() < seq) moved_.wait(mutex_);
  return logged_seq() >= seq ? Status::ok() : Status::unknown_outcome(std::string(bad_.message()));
}

Status GroupCommit::wait_synced(SeqNum seq) {
  if (synced_seq() >= seq) return Status::ok();
  MutexLock lock(mutex_);
  while (bad_.is_ok() && synced_seq() < seq) {
    if (options_.own_thread && !stop_) {
      sync_wanted_ = std::max(sync_wanted_, seq);
      wake_.notify_one();
      moved_.wait(mutex_);
    } else {
      become_writer();
      if (bad_.is_ok()) (void)write_groups();
      if (bad_.is_ok() && synced_seq() < logged_seq()) sync_as_writer();
      const bool short_of = bad_.is_ok() && synced_seq() < seq;
      done_writing();
      ASSERT_MSG(!short_of, "a thread waits for a seq that was not queued");
    }
  }
  return synced_seq() >= seq ? Status::ok() : Status::unknown_outcome(std::string(bad_.message()));
}

Status GroupCommit::status() const {
  if (!failed()) return Status::ok();
  MutexLock lock(mutex_);
  return bad_;
}

void GroupCommit::lose_segment(FileNum file, const Status& why) {
  {
    MutexLock lock(mutex_);
    const std::vector<LogSegment> all = segments_.all();
    if (std::none_of(all.begin(), all.end(), [file](const LogSegment& segment) { return segment.file == file; })) return;
    fail(why);
  }
  notify_listener();
}

void GroupCommit::salvage() {
  {
    MutexLock lock(mutex_);
    become_writer();
    while (syncing_beside_) moved_.wait(mutex_);
    if (const SeqNum logged = logged_seq(); !bad_.is_ok() && synced_seq() < logged) {
      mutex_.unlock();
      const Status status = writer_->salvage();
      mutex_.lock();
      if (status.is_ok()) synced_seq_.store(logged, std::memory_order_release);
    }
    done_writing();
  }
  notify_listener();
}

Result<FileNum> GroupCommit::prepare_restart() {
  {
    MutexLock lock(mutex_);
    if (prepared_ != nullptr) return prepared_->file();
  }
  TRY_ASSIGN(fresh, LogWriter::create(*options_.fs, options_.dir, options_.new_file()));
  MutexLock lock(mutex_);
  prepared_ = std::move(fresh);
  return prepared_->file();
}

void GroupCommit::restart_after_failure(SeqNum last_seq) {
  {
    MutexLock lock(mutex_);
    become_writer();
    ASSERT_MSG(prepared_ != nullptr, "prepare_restart() must be called before restart_after_failure()");
    writer_ = std::move(prepared_);
    pending_.clear();
    full_groups_.clear();
    large_queued_ = false;
    has_pending_.store(false, std::memory_order_relaxed);
    sync_wanted_ = 0;
    segments_.add({writer_->file(), last_seq, writer_->size(), {}, writer_});
    queued_seq_.store(last_seq, std::memory_order_relaxed);
    logged_seq_.store(last_seq, std::memory_order_release);
    synced_seq_.store(last_seq, std::memory_order_release);
    give_up_all_pieces();  // the log now begins after the segments that have pieces
    bad_ = Status::ok();
    failed_.store(false, std::memory_order_release);
    done_writing();
  }
  notify_listener();
}

void GroupCommit::end_segment(FileNum file) {
  {
    MutexLock lock(mutex_);
    if (!bad_.is_ok() || segments_.current().file != file || (segments_.current().notes.empty() && queue_empty())) return;
    to_end_ = file;
  }
  wake_.notify_one();
}

std::vector<LogSegment> GroupCommit::segments() const {
  MutexLock lock(mutex_);
  std::vector<LogSegment> segments = segments_.all();
  const auto add_notes = [&](const Group& group) {
    for (const LogNote& note : group.notes) add_note(&segments.back().notes, note);
  };
  for (const Group& group : full_groups_) add_notes(group);
  add_notes(pending_);
  return segments;
}

FileNum GroupCommit::newest_segment() const {
  MutexLock lock(mutex_);
  return segments_.current().file;
}

std::vector<LogSegment> GroupCommit::segments_below(FileNum oldest) const {
  MutexLock lock(mutex_);
  return segments_.below(oldest);
}

std::vector<FileNum> GroupCommit::take_segments_below(FileNum oldest) {
  MutexLock lock(mutex_);
  return segments_.take_below(oldest);
}

FileNum GroupCommit::oldest_needed(SeqNum seq) const {
  MutexLock lock(mutex_);
  return segments_.oldest_needed(seq, [this](FileNum file) NO_THREAD_SAFETY_ANALYSIS { return is_pinned(file); });
}

std::uint64_t GroupCommit::live_bytes() const {
  MutexLock lock(mutex_);
  return segments_.bytes();
}

Millis GroupCommit::oldest_record() const {
  MutexLock lock(mutex_);
  return segments_.oldest_batch();
}

}  // namespace ebbtide
