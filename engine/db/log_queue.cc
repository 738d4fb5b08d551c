#include "db/log_queue.h"

#include <pthread.h>

#include "base/coding.h"
#include "base/invariant.h"

namespace ebbtide {
namespace {
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr unsigned kTickMs = 100;
}  // namespace

void LogQueue::Group::clear() {
  bytes.clear();
  if (bytes.capacity() > (std::size_t{4} << 20)) bytes.shrink_to_fit();
  splices.clear();
  splice_bytes = 0;
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

LogQueue::LogQueue(LogQueueOptions options) : options_(std::move(options)), fsync_(options_.fsync) {}

LogQueue::~LogQueue() { (void)close(); }

Status LogQueue::start(std::vector<Segment> recovered, SeqNum last_seq) {
  TRY_ASSIGN(writer, LogWriter::create(*options_.fs, options_.dir, options_.new_file()));
  MutexLock lock(mutex_);
  writer_ = std::move(writer);
  for (Segment& s : recovered) segments_.push_back(s);
  segments_.push_back({writer_->file(), last_seq, 0});
  logged_seq_ = last_seq;
  synced_seq_ = last_seq;
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

void LogQueue::enqueue(const WriteBatch& batch) {
  static thread_local std::vector<Bytes> pieces;
  pieces.clear();
  batch.append_payload(&pieces);
  MutexLock lock(mutex_);
  if (!bad_.is_ok()) return;  // commit has refused, or its reply will: nothing may follow a hole
  put_u32(&pending_.bytes, static_cast<std::uint32_t>(batch.payload_bytes()));
  if (pieces.size() == 1) {
    pending_.bytes.append(pieces[0]);
  } else {
    std::size_t cursor = 0;
    WriteBatch::Op op;
    std::vector<const SharedValue*> shared;
    while (batch.next_op(&cursor, &op)) {
      if (op.shared != nullptr) shared.push_back(op.shared);
    }
    for (std::size_t i = 0, next = 0; i < pieces.size(); ++i) {
      if (next < shared.size() && pieces[i].data() == (*shared[next])->data()) {
        pending_.splices.push_back({pending_.bytes.size(), *shared[next]});
        pending_.splice_bytes += pieces[i].size();
        ++next;
      } else {
        pending_.bytes.append(pieces[i]);
      }
    }
  }
  pending_.last_seq = batch.last_seq();
  has_pending_.store(true, std::memory_order_relaxed);
}

void LogQueue::become_writer() {
  while (writing_) moved_.wait(mutex_);
  writing_ = true;
}

// A sync lets the mutex go, and whoever ended a pass meanwhile has left its batches to the writer: nobody else would write them.
void LogQueue::done_writing() {
  if (bad_.is_ok()) (void)write_groups();
  writing_ = false;
  moved_.notify_all();
}

void LogQueue::fail(const Status& status) {
  if (bad_.is_ok()) bad_ = status.with_context("write-ahead log");
  moved_.notify_all();
}

void LogQueue::notify_listener() {
  if (listener_) listener_();
}

void LogQueue::set_listener(std::function<void()> listener) { listener_ = std::move(listener); }

Status LogQueue::write_groups() {
  while (bad_.is_ok() && !pending_.empty()) {
    std::swap(pending_, in_flight_);
    has_pending_.store(false, std::memory_order_relaxed);
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
  }
  return bad_;
}

// Appends wait meanwhile; used where a sync and a switch must not be torn apart, and under `always`.
void LogQueue::sync_as_writer() {
  const SeqNum covered = logged_seq();
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

void LogQueue::switch_segment() {
  sync_as_writer();
  if (!bad_.is_ok()) return;
  mutex_.unlock();
  (void)writer_->close();
  auto fresh = LogWriter::create(*options_.fs, options_.dir, options_.new_file());
  mutex_.lock();
  if (!fresh.is_ok()) {
    fail(fresh.status());
    return;
  }
  writer_ = std::move(fresh).value();
  segments_.push_back({writer_->file(), logged_seq(), 0});
}

bool LogQueue::sync_due() const { return options_.clock->mono_ns() - last_sync_ns_ >= kSecond; }

void LogQueue::write() {
  if (options_.own_thread) {
    if (!has_pending_.load(std::memory_order_relaxed)) return;
    if (fsync() == FsyncMode::kAlways) {
      wake_.notify_one();
      return;
    }
  }
  {
    MutexLock lock(mutex_);
    if (writing_) return;  // whoever is writing looks at the queue again before it stops
    writing_ = true;
    if (bad_.is_ok()) (void)write_groups();
    if (!options_.own_thread && bad_.is_ok()) {
      const bool always = fsync() == FsyncMode::kAlways;
      if (always || (fsync() == FsyncMode::kEverySecond && sync_due())) {
        if (synced_seq() < logged_seq()) sync_as_writer();
      }
      if (bad_.is_ok() && segments_.back().bytes >= options_.segment_bytes) switch_segment();
    }
    if (options_.own_thread && segments_.back().bytes >= options_.segment_bytes) wake_.notify_one();
    done_writing();
  }
  notify_listener();
}

void LogQueue::run() {
  pthread_setname_np(pthread_self(), "ebbtide-log");
  std::uint64_t last_tick = 0;
  mutex_.lock();
  while (!stop_) {
    const bool always = fsync() == FsyncMode::kAlways;
    bool moved = false;
    if (!bad_.is_ok()) sync_wanted_ = false;  // waiters see bad_
    if (bad_.is_ok()) {
      const bool full = segments_.back().bytes >= options_.segment_bytes;
      const bool unsynced = synced_seq() < logged_seq();
      if (sync_wanted_ || (always && (unsynced || !pending_.empty()))) {
        become_writer();
        sync_wanted_ = false;
        (void)write_groups();
        if (bad_.is_ok() && synced_seq() < logged_seq()) sync_as_writer();
        done_writing();
        moved = true;
      } else if (full || (fsync() == FsyncMode::kEverySecond && unsynced && sync_due())) {
        // The long part of the sync goes on beside appends; only a switch shuts them out, for the little that came since.
        const SeqNum covered = logged_seq();
        mutex_.unlock();
        const Status status = writer_->sync();
        mutex_.lock();
        last_sync_ns_ = options_.clock->mono_ns();
        if (!status.is_ok()) {
          fail(status);
        } else {
          syncs_.fetch_add(1, std::memory_order_relaxed);
          if (covered > synced_seq()) synced_seq_.store(covered, std::memory_order_release);
          moved_.notify_all();
          if (full) {
            become_writer();
            if (bad_.is_ok()) switch_segment();
            if (bad_.is_ok()) (void)write_groups();
            done_writing();
          }
        }
        moved = true;
      }
    }
    const std::uint64_t now = options_.clock->mono_ns();
    const bool tick = options_.on_tick && now - last_tick >= kTickMs * 1'000'000ull;
    if (tick || moved) {
      mutex_.unlock();
      if (moved) notify_listener();
      if (tick) {
        last_tick = now;
        options_.on_tick();
      }
      mutex_.lock();
      if (moved) continue;
    }
    const bool more = always && bad_.is_ok() && (!pending_.empty() || synced_seq() < logged_seq());
    if (!stop_ && !sync_wanted_ && !more) wake_.wait_for_ms(mutex_, kTickMs);
  }
  mutex_.unlock();
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
      sync_wanted_ = true;
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
  MutexLock lock(mutex_);
  return bad_;
}

Status LogQueue::restart_after_failure(SeqNum last_seq) {
  auto fresh = LogWriter::create(*options_.fs, options_.dir, options_.new_file());
  if (!fresh.is_ok()) return fresh.status();
  {
    MutexLock lock(mutex_);
    become_writer();
    writer_ = std::move(fresh).value();
    pending_.clear();
    segments_.push_back({writer_->file(), last_seq, 0});
    logged_seq_.store(last_seq, std::memory_order_release);
    synced_seq_.store(last_seq, std::memory_order_release);
    bad_ = Status::ok();
    done_writing();
  }
  notify_listener();
  return Status::ok();
}

std::vector<FileNum> LogQueue::take_segments_before(SeqNum seq) {
  MutexLock lock(mutex_);
  std::vector<FileNum> files;
  while (segments_.size() > 1 && segments_.front().last_seq < seq) {
    files.push_back(segments_.front().file);
    segments_.pop_front();
  }
  return files;
}

FileNum LogQueue::oldest_needed(SeqNum seq) const {
  MutexLock lock(mutex_);
  for (const Segment& s : segments_) {
    if (s.last_seq >= seq || &s == &segments_.back()) return s.file;
  }
  return kNoFile;
}

std::uint64_t LogQueue::live_bytes() const {
  MutexLock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const Segment& s : segments_) bytes += s.bytes;
  return bytes;
}

}  // namespace ebbtide
