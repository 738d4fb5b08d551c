#include "db/background/maintenance.h"

#include <algorithm>

namespace ebbtide {
namespace {

constexpr std::uint64_t kDeadlineFiles = 2;  // disk space kept free for a merge for a deadline, in files of the target size

}  // namespace

void Maintenance::tick() {
  if (!mutex_.try_lock()) return;
  advance_time();
  env_.begin();
  const Loads loads = env_.loads();
  look_at_disk(loads);
  for (const auto& step : env_.steps) step(loads);
  look_at_files();
  mutex_.unlock();
}

void Maintenance::advance_time() {
  const Millis mark = env_.advance_clock();
  if (const bool refused = env_.step_refused(); refused != step_refused_) {
    step_refused_ = refused;
    env_.log(refused ? Severity::kError : Severity::kInfo,
             refused ? "the wall clock went forward by more than a day and is not followed: expiries and deadlines use the time "
                       "without this step; if the clock is right, restart the server"
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
    const std::string failure = status.is_ok() ? "" : status.to_string();
    if (!failure.empty() && failure != reserve_failure_) {
      env_.log(Severity::kWarning, "cannot reserve space for a full disk: " + failure);
    }
    reserve_failure_ = failure;
    reserve_queued_ = false;
  });
}

void Maintenance::look_at_files() {
  if (!env_.open_files->newly_crowded()) return;
  const OpenFiles::Counts files = env_.open_files->counts();
  env_.log(Severity::kWarning,
           "tables have " + std::to_string(files.files) + " files, of which at most " + std::to_string(files.limit) +
               " are kept open: reads of the other files open them again, which costs time. Raise the limit of open files, "
               "storage.max_open_files or tree.file_size");
}

}  // namespace ebbtide
