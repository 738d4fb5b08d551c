// The log thread: it syncs, switches segments, writes large batches, and calls on_tick.
#include <pthread.h>

#include <algorithm>

#include "wal/group_commit.h"

namespace ebbtide {
namespace {
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr unsigned kTickMs = 100;
}  // namespace

void GroupCommit::run() {
  pthread_setname_np(pthread_self(), "ebbtide-log");
  std::uint64_t last_tick = 0;
  mutex_.lock();
  while (!stop_) {
    bool moved = work();
    const std::uint64_t now = options_.clock->mono_ns();
    const bool tick = now - last_tick >= kTickMs * 1'000'000ull;
    if (tick && !writing_ && bad_.is_ok() && !queue_empty()) {  // writes batches of event loops that are still in their pass
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

bool GroupCommit::wants_group_sync() const {
  if (!bad_.is_ok()) return false;  // a failed log is not synced; threads that wait for a sync return bad_
  const bool something = synced_seq() < logged_seq() || !queue_empty();
  return something && (sync_wanted_ > synced_seq() || fsync() == FsyncMode::kAlways);
}

bool GroupCommit::wants_timed_sync() const {
  return fsync() == FsyncMode::kEverySecond && synced_seq() < logged_seq() &&
         options_.clock->mono_ns() - last_sync_ns_ >= kSecond;
}

bool GroupCommit::work() {
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

// queued_seq_ and delayed_until_ change under the mutex. So either the caller of enqueue() sees delayed_until_ and wakes this
// thread, or this thread sees the batch.
void GroupCommit::delay_sync() {
  const std::uint64_t wanted = fsync() == FsyncMode::kAlways ? delay_.wanted() : 0;
  const auto queued = [this] { return queued_seq_.load(std::memory_order_relaxed) - synced_seq(); };
  const std::uint64_t before = queued();
  if (before >= wanted) return;
  // The delay is in real time, even if options_.clock is simulated.
  const std::uint64_t until = system_clock()->mono_ns() + delay_.limit_ns();
  delayed_until_.store(synced_seq() + wanted, std::memory_order_relaxed);
  while (!stop_ && queued() < wanted) {
    const std::uint64_t now = system_clock()->mono_ns();
    if (now >= until) break;
    wake_.wait_for(mutex_, std::chrono::nanoseconds(until - now));
  }
  delayed_until_.store(0, std::memory_order_relaxed);
  delay_.waited(before, queued());
}

// Writes the queue and syncs the log for threads that wait for a sync. Also ends a full segment, since with fsync `always` no
// other code ends segments.
void GroupCommit::write_and_sync() {
  delay_sync();
  const SeqNum synced_before = synced_seq();
  const std::uint64_t begun = options_.clock->mono_ns();
  become_writer();
  (void)write_groups();
  if (bad_.is_ok() && synced_seq() < logged_seq()) sync_as_writer();
  delay_.synced(synced_seq() - synced_before, queued_seq_.load(std::memory_order_relaxed) - synced_seq(),
                options_.clock->mono_ns() - begun);
  if (bad_.is_ok() && segment_full()) switch_segment();
  done_writing();
  sync_ended();
}

// Does a sync for which no thread waits. Appends continue during the sync. Only the switch of segments, which may follow,
// excludes appends; it also syncs the few records that were appended during this sync.
void GroupCommit::sync_beside_appends() {
  const std::shared_ptr<LogWriter> writer = writer_;
  const SeqNum covered = logged_seq();
  syncing_beside_ = true;
  mutex_.unlock();
  const Status status = writer->sync();
  mutex_.lock();
  syncing_beside_ = false;
  moved_.notify_all();
  last_sync_ns_ = options_.clock->mono_ns();
  if (writer != writer_) return;  // a write has failed during the sync, and the log was restarted
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
  sync_ended();
}

}  // namespace ebbtide
