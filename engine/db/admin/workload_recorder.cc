#include "db/admin/workload_recorder.h"

#include <algorithm>

#include "io/file_names.h"

namespace ebbtide {
namespace {

/// Limit for reading the file WORKLOAD, far above its largest size: kMostWindows windows with nine varints each.
constexpr std::uint64_t kMostFileBytes = std::uint64_t{16} << 20;

}  // namespace

void WorkloadRecorder::open() {
  MutexLock lock(mutex_);
  start_ = saved_at_ = env_.now();
  counted_.resize(env_.counters->databases());
  for (DatabaseId database = 0; database < counted_.size(); ++database) counted_[database] = env_.counters->operations(database);
  if (!env_.keep) return;
  const std::string path = join_path(env_.dir, kWorkloadFileName);
  const auto text = read_file(*env_.fs, path, kMostFileBytes);
  if (text.status().is_not_found()) return;
  auto read = text.is_ok() ? WorkloadHistory::decode(*text) : Result<WorkloadHistory>(text.status());
  if (!read.is_ok()) {
    env_.warn(read.status().with_context(path).to_string() + ": the history of the workload starts empty");
    return;
  }
  history_ = std::move(read).value();
  history_.age(start_);
}

void WorkloadRecorder::tick() {
  bool saves = false;
  {
    MutexLock lock(mutex_);
    const Millis now = env_.now(), end = now / WorkloadHistory::kWindow * WorkloadHistory::kWindow;
    if (start_ == 0 || end <= start_) return;
    end_window(end);
    saves = env_.keep && changed_ && now - saved_at_ >= kSaveEvery && env_.writable() && !saving_.exchange(true);
    if (saves) saved_at_ = now;
  }
  if (!saves) return;
  env_.submit([this] {
    save();
    saving_ = false;
  });
}

void WorkloadRecorder::close() {
  {
    MutexLock lock(mutex_);
    if (start_ == 0) return;
    end_window(std::max(env_.now(), start_ + 1));
    start_ = 0;
    if (!env_.keep) return;
  }
  save();
}

std::vector<WorkloadWindow> WorkloadRecorder::windows(DatabaseId database) const {
  MutexLock lock(mutex_);
  std::vector<WorkloadWindow> out = history_.windows(database);
  if (start_ == 0 || database >= counted_.size()) return out;
  const OperationCounts counts = counts_since(env_.counters->operations(database), counted_[database]);
  if (counts != OperationCounts())
    out.push_back({start_, std::max<Millis>(env_.now() - std::min(env_.now(), start_), 1), counts});
  return out;
}

void WorkloadRecorder::end_window(Millis end) {
  for (DatabaseId database = 0; database < counted_.size(); ++database) {
    const OperationCounts now = env_.counters->operations(database);
    const OperationCounts counts = counts_since(now, counted_[database]);
    if (counts == OperationCounts()) continue;
    history_.add(database, {start_, end - start_, counts});
    counted_[database] = now;
    changed_ = true;
  }
  start_ = end;
  history_.age(end);
}

void WorkloadRecorder::save() {
  std::string content;
  {
    MutexLock lock(mutex_);
    if (!changed_) return;  // close() has written the history before this queued task ran
    content = history_.encode();
    changed_ = false;
  }
  const Status status = write_file_atomically(*env_.fs, env_.dir, std::string(kWorkloadFileName), content);
  if (!status.is_ok()) {
    MutexLock lock(mutex_);
    changed_ = true;
  }
  const std::string failure = status.is_ok() ? "" : status.to_string();
  if (!failure.empty() && failure != failure_) env_.warn("the history of the workload cannot be written: " + failure);
  failure_ = failure;
}

}  // namespace ebbtide
