#include "db/log_queue.h"

#include <pthread.h>

#include <algorithm>
#include <unordered_map>

#include "base/coding.h"
#include "base/invariant.h"
#include "base/oldest.h"
#include "base/planted_bug.h"

namespace ebbtide {
namespace {
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr unsigned kTickMs = 100;
constexpr std::size_t kLargeBytes = std::size_t{4} << 20;  // of a batch that no event loop writes: some ms
}  // namespace

void add_note(LogNotes* notes, const LogNote& note) {
  auto at = std::find_if(notes->rbegin(), notes->rend(), [&](const LogNote& have) { return have.tree == note.tree; });
  if (at == notes->rend()) {
    notes->push_back(note);
    return;
  }
  keep_oldest(&at->oldest_delete, note.oldest_delete);
  keep_oldest(&at->min_expiry, note.min_expiry);
}

std::vector<std::vector<Millis>> log_debts(const std::vector<LogQueue::Segment>& segments, Millis now) {
  std::vector<std::vector<Millis>> debts(segments.size());
  std::unordered_map<TreeId, Millis>
      oldest;  // of the segments from here on; there may be as many trees as databases were emptied
  for (std::size_t at = segments.size(); at-- > 0;) {
    for (const LogNote& note : segments[at].notes) {
      Millis& debt = oldest[note.tree];
      keep_oldest(&debt, note.oldest_delete);
      if (note.min_expiry <= now) keep_oldest(&debt, note.min_expiry);
      debts[at].push_back(debt);
    }
  }
  return debts;
}

void LogQueue::Group::clear() {
  bytes.clear();
  if (bytes.capacity() > (std::size_t{4} << 20)) bytes.shrink_to_fit();
  splices.clear();
  splice_bytes = 0;
  notes.clear();
  since = 0;
}

void LogQueue::Group::append_pieces(std::vector<Bytes>* pieces) const {
  std::size_t at = 0;
  for (const Splice& s : splices) {
    pieces->push_back(Bytes(bytes).substr(at, s.offset - at));
    pieces->push_back(*s.value);
    at = s.offset;
  }
  if (at < bytes.size()) pieces->push_back(Bytes(bytes).substr(at));
}

LogQueue::LogQueue(LogQueueOptions options)
    : options_(std::move(options)), fsync_(options_.fsync), gather_(options_.longest_gather_ns) {}

LogQueue::~LogQueue() {
  (void)close();
  MutexLock lock(mutex_);
  give_up_all_pieces();
}

Status LogQueue::start(std::vector<Segment> recovered, SeqNum last_seq) {
  TRY_ASSIGN(writer, LogWriter::create(*options_.fs, options_.dir, options_.new_file(), last_seq + 1));
  MutexLock lock(mutex_);
  writer_ = std::move(writer);
  for (Segment& s : recovered) segments_.push_back(s);
  segments_.push_back({writer_->file(), last_seq, writer_->size(), {}, writer_});
  queued_seq_ = logged_seq_ = synced_seq_ = last_seq;
  last_sync_ns_ = options_.clock->mono_ns();
  if (options_.own_thread) thread_ = std::thread([this] { run(); });
  return Status::ok();
}

Status LogQueue::close() {
  {
    MutexLock lock(mutex_);
    if (stop_ || writer_ == nullptr) return bad_;
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  MutexLock lock(mutex_);
  become_writer();
  if (bad_.is_ok()) (void)write_groups();
  if (bad_.is_ok()) sync_as_writer();
  if (bad_.is_ok()) (void)writer_->close();
  done_writing();
  return bad_;
}

void LogQueue::enqueue(const WriteBatch& batch, std::span<const LogNote> notes) {
  if (batch.payload_bytes() >= kLargeBytes) return enqueue(batch, prepare(batch), notes);
  static thread_local std::vector<Bytes> pieces;
  pieces.clear();
  batch.append_payload(&pieces);
  MutexLock lock(mutex_);
  if (!bad_.is_ok()) return;  // commit has refused, or its reply will: nothing may follow a hole
  if (!pending_.empty() && pending_.bytes.size() + pending_.splice_bytes + batch.payload_bytes() > kMaxGroupBytes) {
    full_groups_.push_back(std::move(pending_));
    pending_ = {};
  }
  append_batch(&pending_, batch, pieces);
  queued_seq_.store(batch.last_seq(), std::memory_order_relaxed);
  for (const LogNote& note : notes) add_note(&pending_.notes, note);
  has_pending_.store(true, std::memory_order_relaxed);
}

LogQueue::Prepared LogQueue::prepare(const WriteBatch& batch) {
  std::vector<Bytes> pieces;
  batch.append_payload(&pieces);
  Prepared prepared;
  prepared.group_.bytes.reserve(sizeof(std::uint32_t) + batch.payload_bytes() - batch.shared_bytes());
  append_batch(&prepared.group_, batch, pieces);
  return prepared;
}

void LogQueue::enqueue(const WriteBatch& batch, Prepared prepared, std::span<const LogNote> notes) {
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
  if (!bad_.is_ok()) return;  // as above
  if (!pending_.empty()) {
    full_groups_.push_back(std::move(pending_));
    pending_ = {};
  }
  full_groups_.push_back(std::move(group));
  queued_seq_.store(batch.last_seq(), std::memory_order_relaxed);
  has_pending_.store(true, std::memory_order_relaxed);
  large_queued_ = true;
  wake_.notify_one();
}

// Shared values are not copied: the group notes where they belong.
void LogQueue::append_batch(Group* group, const WriteBatch& batch, const std::vector<Bytes>& pieces) {
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

void LogQueue::become_writer() {
  while (writing_) moved_.wait(mutex_);
  writing_ = true;
}

// A sync lets the mutex go, and whoever ended a pass meanwhile has left its batches to the writer: nobody else would write them.
void LogQueue::done_writing(bool large_too) {
  if (bad_.is_ok()) (void)write_groups(large_too);
  writing_ = false;
  moved_.notify_all();
}

void LogQueue::fail(const Status& status) {
  if (bad_.is_ok()) bad_ = status.with_context("write-ahead log");
  failed_.store(true, std::memory_order_release);
  moved_.notify_all();
}

void LogQueue::notify_listener() {
  if (listening_.load(std::memory_order_acquire)) listener_();
}

void LogQueue::set_listener(std::function<void()> listener) {
  ASSERT_MSG(!listening_, "the listener is set once");
  if (!listener) return;
  listener_ = std::move(listener);
  listening_.store(true, std::memory_order_release);
}

// Under `always` what was only written so far has to be synced, and waits for nobody's next write.
void LogQueue::set_fsync(FsyncMode mode) {
  {
    MutexLock lock(mutex_);
    fsync_.store(mode, std::memory_order_relaxed);
  }
  wake_.notify_one();
}

Status LogQueue::write_groups(bool large_too) {
  while (bad_.is_ok() && !queue_empty() && (large_too || !large_queued_)) {
    if (full_groups_.empty()) {
      std::swap(pending_, in_flight_);
    } else {
      in_flight_ = std::move(full_groups_.front());
      full_groups_.pop_front();
    }
    has_pending_.store(false, std::memory_order_relaxed);
    // Before the write: what fails may be on disk all the same.
    for (const LogNote& note : in_flight_.notes) add_note(&segments_.back().notes, note);
    if (segments_.back().since == 0) segments_.back().since = in_flight_.since;
    LogRecord record;
    in_flight_.append_pieces(&record);
    const std::uint64_t bytes = in_flight_.bytes.size() + in_flight_.splice_bytes;
    mutex_.unlock();
    const Status status = writer_->append(std::span<const LogRecord>(&record, 1));
    mutex_.lock();
    if (!status.is_ok()) {
      fail(status);
    } else {
      segments_.back().last_seq = in_flight_.last_seq;
      segments_.back().bytes = writer_->size();
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

// Appends wait meanwhile; used where a sync and a switch must not be torn apart, and under `always`.
void LogQueue::sync_as_writer() {
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

// Of pieces no seq tells whether they are synced: their commit record may come in the next segment.
void LogQueue::switch_segment() {
  const bool unsynced = writer_->synced_bytes() < writer_->size() && !planted(PlantedBug::kSyncBySeq);
  if (synced_seq() < logged_seq() || unsynced) sync_as_writer();
  if (!bad_.is_ok()) return;
  const SeqNum first_seq = logged_seq() + 1;
  mutex_.unlock();
  (void)writer_->close();
  auto fresh = LogWriter::create(*options_.fs, options_.dir, options_.new_file(), first_seq);
  mutex_.lock();
  if (!fresh.is_ok()) {
    fail(fresh.status());
    return;
  }
  writer_ = std::move(fresh).value();
  segments_.push_back({writer_->file(), logged_seq(), writer_->size(), {}, writer_});
}

bool LogQueue::wants_group_sync() const {
  if (!bad_.is_ok()) return false;  // waiters see that
  const bool something = synced_seq() < logged_seq() || !queue_empty();
  return something && (sync_wanted_ > synced_seq() || fsync() == FsyncMode::kAlways);
}

bool LogQueue::wants_timed_sync() const {
  return fsync() == FsyncMode::kEverySecond && synced_seq() < logged_seq() &&
         options_.clock->mono_ns() - last_sync_ns_ >= kSecond;
}

bool LogQueue::write() {
  const bool some = has_pending_.load(std::memory_order_relaxed);
  if (options_.own_thread) {
    if (!some) return false;
    if (fsync() == FsyncMode::kAlways) {
      if (queued_seq_.load(std::memory_order_relaxed) >= gathering_until_.load(std::memory_order_relaxed)) wake_.notify_one();
      return true;
    }
  }
  {
    MutexLock lock(mutex_);
    if (writing_) return some;  // whoever is writing looks at the queue again before it stops
    const bool large_too = !options_.own_thread;
    if (large_queued_ && !large_too) return some;  // the log thread is on its way
    writing_ = true;
    if (bad_.is_ok()) (void)write_groups(large_too);
    if (!options_.own_thread && bad_.is_ok()) {
      const bool always = fsync() == FsyncMode::kAlways;
      if ((always && synced_seq() < logged_seq()) || wants_timed_sync()) sync_as_writer();
      if (bad_.is_ok() && segment_full()) switch_segment();
    }
    if (options_.own_thread && (segment_full() || large_queued_)) wake_.notify_one();
    done_writing(large_too);
  }
  notify_listener();
  return some;
}

void LogQueue::run() {
  pthread_setname_np(pthread_self(), "ebbtide-log");
  std::uint64_t last_tick = 0;
  mutex_.lock();
  while (!stop_) {
    bool moved = work();
    const std::uint64_t now = options_.clock->mono_ns();
    const bool tick = now - last_tick >= kTickMs * 1'000'000ull;
    if (tick && !writing_ && bad_.is_ok() && !queue_empty()) {  // nobody ended a pass after these
      writing_ = moved = true;
      done_writing();
    }
    if (tick || moved) {
      mutex_.unlock();
      if (moved) notify_listener();
      if (tick) {
        last_tick = now;
        if (options_.on_tick) options_.on_tick();
      }
      mutex_.lock();
    }
    if (!stop_ && !moved && !wants_group_sync() && !(large_queued_ && bad_.is_ok()))
      wake_.wait_for(mutex_, std::chrono::milliseconds(kTickMs));
  }
  mutex_.unlock();
}

bool LogQueue::work() {
  if (!bad_.is_ok()) return false;
  if (wants_group_sync()) {
    write_and_sync();
  } else if (large_queued_) {
    become_writer();
    done_writing();
  } else if (segment_full() || wants_timed_sync() || (pacing_ != 0 && far_ahead())) {
    sync_beside_appends();
  } else {
    return false;
  }
  return true;
}

// Both atomics change under the mutex: who queues something either finds what is gathered for, or is found.
void LogQueue::gather_group() {
  const std::uint64_t wanted = fsync() == FsyncMode::kAlways ? gather_.wanted() : 0;
  const auto queued = [this] { return queued_seq_.load(std::memory_order_relaxed) - synced_seq(); };
  const std::uint64_t before = queued();
  if (before >= wanted) return;
  const std::uint64_t until = system_clock()->mono_ns() + gather_.limit_ns();  // real time, whatever options_.clock says
  gathering_until_.store(synced_seq() + wanted, std::memory_order_relaxed);
  while (!stop_ && queued() < wanted) {
    const std::uint64_t now = system_clock()->mono_ns();
    if (now >= until) break;
    wake_.wait_for(mutex_, std::chrono::nanoseconds(until - now));
  }
  gathering_until_.store(0, std::memory_order_relaxed);
  gather_.gathered(before, queued());
}

// Somebody waits for the sync: what is queued goes along. A full segment ends here too, or under `always` it never would.
void LogQueue::write_and_sync() {
  gather_group();
  const SeqNum synced_before = synced_seq();
  const std::uint64_t begun = options_.clock->mono_ns();
  become_writer();
  (void)write_groups();
  if (bad_.is_ok() && synced_seq() < logged_seq()) sync_as_writer();
  gather_.synced(synced_seq() - synced_before, queued_seq_.load(std::memory_order_relaxed) - synced_seq(),
                 options_.clock->mono_ns() - begun);
  if (bad_.is_ok() && segment_full()) switch_segment();
  done_writing();
}

// Nobody waits for it. The long part of the sync goes on beside appends; only a switch shuts them out, for the little that came
// since.
void LogQueue::sync_beside_appends() {
  const std::shared_ptr<LogWriter> writer = writer_;
  const SeqNum covered = logged_seq();
  syncing_beside_ = true;
  mutex_.unlock();
  const Status status = writer->sync();
  mutex_.lock();
  syncing_beside_ = false;
  moved_.notify_all();
  last_sync_ns_ = options_.clock->mono_ns();
  if (writer != writer_) return;  // it failed otherwise, and the log has begun anew
  if (!status.is_ok()) {
    fail(status);
    return;
  }
  syncs_.fetch_add(1, std::memory_order_relaxed);
  if (covered > synced_seq()) synced_seq_.store(covered, std::memory_order_release);
  moved_.notify_all();
  if (!segment_full()) return;
  become_writer();
  if (bad_.is_ok() && segment_full()) switch_segment();
  done_writing();
}

Status LogQueue::wait_durable(SeqNum seq) {
  if (fsync() == FsyncMode::kAlways) return wait_synced(seq);
  if (logged_seq() >= seq) return Status::ok();
  write();
  MutexLock lock(mutex_);
  while (bad_.is_ok() && logged_seq() < seq) moved_.wait(mutex_);
  return logged_seq() >= seq ? Status::ok() : Status::unknown_outcome(std::string(bad_.message()));
}

Status LogQueue::wait_synced(SeqNum seq) {
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
      ASSERT_MSG(!short_of, "waiting for a seq that nobody has queued");
    }
  }
  return synced_seq() >= seq ? Status::ok() : Status::unknown_outcome(std::string(bad_.message()));
}

Status LogQueue::status() const {
  if (!failed()) return Status::ok();
  MutexLock lock(mutex_);
  return bad_;
}

void LogQueue::salvage() {
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

Result<FileNum> LogQueue::prepare_restart() {
  {
    MutexLock lock(mutex_);
    if (prepared_ != nullptr) return prepared_->file();
  }
  TRY_ASSIGN(fresh, LogWriter::create(*options_.fs, options_.dir, options_.new_file()));
  MutexLock lock(mutex_);
  prepared_ = std::move(fresh);
  return prepared_->file();
}

void LogQueue::restart_after_failure(SeqNum last_seq) {
  {
    MutexLock lock(mutex_);
    become_writer();
    ASSERT_MSG(prepared_ != nullptr, "the segment to go on in has been prepared");
    writer_ = std::move(prepared_);
    pending_.clear();
    full_groups_.clear();
    large_queued_ = false;
    has_pending_.store(false, std::memory_order_relaxed);
    sync_wanted_ = 0;
    segments_.push_back({writer_->file(), last_seq, writer_->size(), {}, writer_});
    queued_seq_.store(last_seq, std::memory_order_relaxed);
    logged_seq_.store(last_seq, std::memory_order_release);
    synced_seq_.store(last_seq, std::memory_order_release);
    give_up_all_pieces();  // the log begins behind them now
    bad_ = Status::ok();
    failed_.store(false, std::memory_order_release);
    done_writing();
  }
  notify_listener();
}

void LogQueue::end_segment(FileNum file) {
  {
    MutexLock lock(mutex_);
    if (!bad_.is_ok() || segments_.back().file != file || (segments_.back().notes.empty() && queue_empty())) return;
    to_end_ = file;
  }
  wake_.notify_one();
}

std::vector<LogQueue::Segment> LogQueue::segments() const {
  MutexLock lock(mutex_);
  std::vector<Segment> segments(segments_.begin(), segments_.end());
  const auto take_along = [&](const Group& group) {
    for (const LogNote& note : group.notes) add_note(&segments.back().notes, note);
  };
  for (const Group& group : full_groups_) take_along(group);
  take_along(pending_);
  return segments;
}

std::vector<LogQueue::Segment> LogQueue::segments_below(FileNum oldest) const {
  MutexLock lock(mutex_);
  std::vector<Segment> segments;
  for (const Segment& s : segments_) {
    if (s.file < oldest && &s != &segments_.back()) segments.push_back(s);
  }
  return segments;
}

std::vector<FileNum> LogQueue::take_segments_below(FileNum oldest) {
  MutexLock lock(mutex_);
  std::vector<FileNum> files;
  while (segments_.size() > 1 && segments_.front().file < oldest) {
    files.push_back(segments_.front().file);
    segments_.pop_front();
  }
  return files;
}

FileNum LogQueue::oldest_needed(SeqNum seq) const {
  MutexLock lock(mutex_);
  for (const Segment& s : segments_) {
    if (s.needed_seq() >= seq || is_pinned(s.file) || &s == &segments_.back()) return s.file;
  }
  return kNoFile;
}

std::uint64_t LogQueue::live_bytes() const {
  MutexLock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const Segment& s : segments_) bytes += s.bytes;
  return bytes;
}

Millis LogQueue::oldest_record() const {
  MutexLock lock(mutex_);
  const auto first = std::find_if(segments_.begin(), segments_.end(), [](const Segment& s) { return s.since != 0; });
  return first == segments_.end() ? 0 : first->since;
}

}  // namespace ebbtide
