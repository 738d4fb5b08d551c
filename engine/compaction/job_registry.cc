#include "compaction/job_registry.h"

#include <algorithm>

#include "compaction/plan_inputs.h"
#include "tree/apply.h"

namespace ebbtide {
namespace {

/// Returns true if a job with this plan can be aborted for an urgent job. A job for a deadline cannot: it may become late while
/// it runs, and a restart would take even longer.
bool makes_way(const Plan& plan) { return !plan.urgent && plan.reason != Reason::kDeadline; }

}  // namespace

std::optional<JobRegistry::Held> JobRegistry::hold(const Plan& plan, const Version& version) {
  Held held;
  held.plan = plan;
  if (plan.empty()) return std::nullopt;
  const Result<PlanInputs> inputs = resolve_inputs(plan, version);
  if (!inputs.is_ok()) return std::nullopt;
  if (!inputs->new_run) held.target = inputs->target;
  for (const InputFile& file : inputs->files) {
    held.files.push_back(file.meta->data_file);
    held.bytes += file.meta->data_bytes - file.meta->punched_bytes;
  }
  std::sort(held.files.begin(), held.files.end());
  if (const auto* slice = std::get_if<Slice>(&plan.action)) {
    held.ranges.push_back(slice->range);
  } else {
    for (const FileGroup& group : overlapping_groups(inputs->files)) held.ranges.push_back(group.range);
  }
  held.abort = std::make_shared<std::atomic<bool>>(false);
  return held;
}

bool JobRegistry::collide(const Held& a, const Held& b) {
  const auto shares = [&](FileNum file) { return std::binary_search(b.files.begin(), b.files.end(), file); };
  if (std::any_of(a.files.begin(), a.files.end(), shares)) return true;
  if (a.target == 0 || a.target != b.target) return false;
  const Finality others(b.ranges);
  return !std::all_of(a.ranges.begin(), a.ranges.end(), [&](const KeyRange& range) { return others.is_final(range); });
}

std::optional<RunningJob> JobRegistry::start(const Plan& plan, const Version& version) {
  std::optional<Held> held = hold(plan, version);
  if (!held) return std::nullopt;
  MutexLock lock(mutex_);
  bool free = true;
  for (auto& [id, job] : jobs_) {
    if (!collide(*held, job)) continue;
    free = false;
    if (plan.urgent && makes_way(job.plan)) job.abort->store(true, std::memory_order_relaxed);
  }
  if (!free) return std::nullopt;
  busy_.insert(held->files.begin(), held->files.end());
  RunningJob job{++last_, plan, held->abort, held->bytes};
  jobs_.emplace(last_, std::move(*held));
  return job;
}

void JobRegistry::finish(JobId id) {
  MutexLock lock(mutex_);
  const auto job = jobs_.find(id);
  if (job == jobs_.end()) return;
  for (FileNum file : job->second.files) busy_.erase(file);
  jobs_.erase(job);
}

void JobRegistry::mark_running(TreeShape* shape, bool for_late) const {
  MutexLock lock(mutex_);
  for (const auto& [id, job] : jobs_) {
    if (!for_late || !makes_way(job.plan)) mark_busy(shape, job.plan, true);
  }
}

Plan JobRegistry::next(const Policy& policy, const PolicyContext& context, TreeShape shape, const Plan& reserved,
                       std::string* broken) const {
  mark_running(&shape, false);
  mark_busy(&shape, reserved, true);
  Plan plan = policy.next(shape, context);
  if (plan.empty() && broken != nullptr) *broken = check_at_rest(policy, shape);
  return plan;
}

Plan JobRegistry::next_urgent(const Policy& policy, FadeContext context, const TreeShape& shape) const {
  TreeShape marked = shape;
  mark_running(&marked, false);
  if (Plan plan = urgent(marked, policy, context); !plan.empty()) return plan;
  marked = shape;
  mark_running(&marked, true);
  context.late_only = true;
  return urgent(marked, policy, context);
}

bool JobRegistry::is_busy(FileNum data_file) const {
  MutexLock lock(mutex_);
  return busy_.count(data_file) != 0;
}

JobRegistry::Running JobRegistry::now() const {
  MutexLock lock(mutex_);
  Running out;
  out.files = busy_;
  for (const auto& [id, job] : jobs_) out.plans.push_back(job.plan);
  return out;
}

std::size_t JobRegistry::running() const {
  MutexLock lock(mutex_);
  return jobs_.size();
}

void JobRegistry::abort_all() {
  MutexLock lock(mutex_);
  for (auto& [id, job] : jobs_) job.abort->store(true, std::memory_order_relaxed);
}

void JobRegistry::abort_others() {
  MutexLock lock(mutex_);
  for (auto& [id, job] : jobs_) {
    if (makes_way(job.plan)) job.abort->store(true, std::memory_order_relaxed);
  }
}

}  // namespace ebbtide
