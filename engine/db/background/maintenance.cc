#include "db/background/maintenance.h"

#include <algorithm>

namespace ebbtide {
namespace {

constexpr std::uint64_t kDeadlineFiles = 2;  // of the target size: room that is kept for a merge for a deadline

}  // namespace

void Maintenance::tick() {
  if (!mutex_.try_lock()) return;
  advance_time();
  env_.begin();
  const Loads loads = env_.loads();
  look_at_disk(loads);
  for (const auto& step : env_.steps) step(loads);
  mutex_.unlock();
}

void Maintenance::advance_time() {
  const Millis mark = env_.advance_clock();
  if (const bool refused = env_.step_refused(); refused != step_refused_) {
    step_refused_ = refused;
    env_.log(refused ? Severity::kError : Severity::kInfo,
             refused
                 ? "the wall clock went forward by more than a day and is not followed: expiries and deadlines go by the time "
                   "since then; if the clock is right, restart"
                 : "the wall clock is followed again");
  }
  if (mark != 0) env_.write_mark(mark);
}

void Maintenance::look_at_disk(const Loads& loads) {
  DiskWatch::Use use{.logged_bytes = env_.logged_bytes(), .file_bytes = env_.log_bytes(), .unflushed_bytes = 0};
  for (const TreeLoad& load : loads) {
    use.file_bytes += load.view->tables->file_bytes;
    use.unflushed_bytes += load.memtable_bytes();
    if (load.has_deadlines) use.deadline_bytes = std::max(use.deadline_bytes, kDeadlineFiles * load.file_size);
  }
  env_.disk->look(use);
  if (const bool full = env_.disk->full(0); full != disk_full_) {
    disk_full_ = full;
    env_.log(full ? Severity::kError : Severity::kInfo,
             full ? "the disk is full: writes that add data are refused" : "the disk has room again");
  }
  if (!env_.disk->wants_reserve() || reserve_queued_.exchange(true)) return;
  env_.submit([this] {
    const Status status = env_.disk->set_aside_reserve();
    if (!status.is_ok()) env_.log(Severity::kWarning, "cannot reserve space for a full disk: " + status.to_string());
    reserve_queued_ = false;
  });
}

}  // namespace ebbtide
