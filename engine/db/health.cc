// Read-only, and the way back.
//
// A failure of a flush, of the manifest or of the log makes the database read-only: readers go on, writes are refused. heal() tries every
// two seconds to make it writable again: a new manifest, then tables of all that the log has durably. If the log failed, tables of
// everything, and a new log segment. A corruption is not healed.
#include <algorithm>

#include "db/db_impl.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kHealNs = 2'000'000'000;  // well inside the promised 5 s

}  // namespace

Status DbImpl::read_only_status() {
  if (!read_only_.load(std::memory_order_relaxed)) return Status::ok();
  MutexLock lock(state_mutex_);
  return background_error_.is_ok() ? Status::ok() : Status::read_only(background_error_.to_string());
}

// Deadlines that are missed soon after are counted as missed because of the disk.
void DbImpl::note_refusal(const Status& status) {
  const bool by_disk = status.code() == Code::kNoSpace || status.code() == Code::kIoError;
  if (by_disk) disk_refused_at_.store(time_.now(), std::memory_order_relaxed);
}

void DbImpl::background_failed(const Status& status, const char* what) {
  note_refusal(status);
  // The reserve gives room back, or has when the disk was found full. With that, the next tick may heal the database at once.
  const bool soon = status.code() == Code::kNoSpace && disk_.give_up_reserve();
  {
    MutexLock lock(state_mutex_);
    if (soon) last_heal_ns_ = 0;  // a flush may have set it: the log failed meanwhile
    if (!background_error_.is_ok()) return;
    background_error_ = status.with_context(what);
    last_heal_ns_ = status.code() == Code::kNoSpace ? 0 : clock_.mono_ns();
    read_only_ = true;
    progress_.notify_all();
  }
  writes_.wake();
  say(Severity::kError, std::string("read-only: ") + what + ": " + status.to_string());
}

void DbImpl::heal() {
  Status error;
  {
    MutexLock lock(state_mutex_);
    error = background_error_;
    if (error.is_ok() || error.code() == Code::kCorruption || closing_) return;
    if (last_heal_ns_ != 0 && clock_.mono_ns() - last_heal_ns_ < kHealNs) return;
    last_heal_ns_ = clock_.mono_ns();
  }
  submit(Priority::kHigh, [this] {
    std::vector<TreePtr> trees;
    {
      MutexLock flushing(flush_mutex_);
      {
        MutexLock lock(state_mutex_);
        if (closing_ || background_error_.is_ok()) return;  // an earlier try took long, and succeeded
      }
      if (const Status status = try_to_heal(&trees); !status.is_ok()) {
        still_failed(status);
        return;
      }
    }
    {
      MutexLock lock(state_mutex_);
      background_error_ = Status::ok();
      heal_error_ = Code::kOk;
      read_only_ = false;
      progress_.notify_all();
    }
    writes_.wake();
    say(Severity::kInfo, "writes are accepted again");
    update_pressure();
    obsolete_files_.remove_queued();
    for (const TreePtr& tree : trees) {
      flush_scheduler_.schedule(tree);
      scheduler_.schedule(tree);
    }
  });
}

// Logs only an error of another kind than the last: each attempt has other files to name.
void DbImpl::still_failed(const Status& status) {
  note_refusal(status);
  {
    MutexLock lock(state_mutex_);
    if (status.code() == heal_error_ || status.code() == Code::kAborted) return;
    heal_error_ = status.code();
  }
  say(Severity::kWarning, "still read-only: " + status.to_string());
}

// A new manifest first: it settles whether the last edit took effect.
Status DbImpl::try_to_heal(std::vector<TreePtr>* trees) {
  {
    MutexLock manifest(manifest_mutex_);
    TRY(roll_manifest());
    obsolete_files_.queue_disowned();
  }
  obsolete_files_.remove_queued();  // files of the last attempt take the room of this one
  const bool log_failed = log_->failed();
  if (log_failed) log_->salvage();
  SeqNum last_seq = 0;
  {
    // Nothing is committed from here on: read_only_ was set before.
    MutexLock lock(commit_mutex_);
    for (const auto& [id, tree] : trees_) trees->push_back(tree);
    if (log_failed) {
      for (const TreePtr& tree : *trees) freeze(*tree);
    }
    last_seq = pipeline_.last_seq();
  }
  // The edit covers all batches that have a seq. Some may not be visible yet.
  if (log_failed) published_.await(last_seq);
  TRY(flush_durable(*trees));
  if (!log_failed) return Status::ok();
  TRY(flush_memtables(*trees, kAllMemTables, true));
  log_->restart_after_failure(last_seq);
  MutexLock manifest(manifest_mutex_);
  remove_old_segments();
  return Status::ok();
}

}  // namespace ebbtide
