#include "db/background/compaction_scheduler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tree/frozen.h"

namespace ebbtide {
namespace {

/// kReadBytes: bytes of metadata that planners may read in one planning. kReadingWaits: ms between two plannings with reads.
/// kReadingRests: ms of rest after the last part of the tables.
constexpr std::uint64_t kReadBytes = std::uint64_t{64} << 20;
constexpr Millis kReadingWaits = 1000, kReadingRests = 60'000;

std::uint64_t parts_to_read(const Version& version) {
  std::uint64_t bytes = 0;
  for (const Run& run : version.runs) {
    for (const FileMetaPtr& file : run.files) bytes += file->metadata_bytes;
  }
  return 1 + bytes / kReadBytes;
}

}  // namespace

TreeShape shape_with_deadlines(const Tree& tree, const Version& version, std::uint64_t memtable_size, std::uint64_t file_size,
                               const DeadlineRule& rule, Millis now) {
  TreeShape shape = version.shape_at(memtable_size, file_size, now, rule.never() ? nullptr : &rule);
  shape.purge_before = std::max(tree.purge_before.load(std::memory_order_relaxed), version.overdue_before());
  if (rule.never()) return shape;
  if (rule.shortest() != 0) shape.deadline_bytes = tree.flush_rate.within(rule.shortest(), now);
  return shape;
}

void CompactionScheduler::schedule(const TreePtr& tree) { schedule(tree, {}); }

void CompactionScheduler::schedule(const TreePtr& tree, const PlannerReads& reads) {
  while (std::optional<RunningJob> job = next_job(tree, reads)) {
    env_.submit([this, tree, job = std::move(*job)] { run(tree, job); });
  }
}

// Planners run on the log thread, too, which must not wait for the device. So if a planner needs to read, the planners run again
// in the background. Each time they may read one part of the tables, with about kReadBytes of metadata. After the last part they
// rest.
void CompactionScheduler::schedule_reading(const TreePtr& tree, VersionPtr version) {
  const Millis now = env_.now();
  {
    MutexLock lock(reading_mutex_);
    Reading& reading = reading_[tree->id];
    if (reading.queued || now < reading.next) return;
    reading.queued = true;
  }
  env_.submit([this, tree, version = std::move(version), now] {
    const std::uint64_t parts = parts_to_read(*version);
    PlannerReads reads{0, parts};
    {
      MutexLock lock(reading_mutex_);
      Reading& reading = reading_[tree->id];
      reading.queued = false;
      reads.part = reading.part % parts;
      reading.part = (reads.part + 1) % parts;
      reading.next = now + (parts > 1 && reading.part == 0 ? kReadingRests : kReadingWaits);
      if (tree->dropped) reading_.erase(tree->id);
    }
    schedule(tree, reads);
  });
}

// The caller holds the state mutex.
bool CompactionScheduler::may_start(const Tree& tree) const {
  if (env_.closing() || tree.dropped || tree.view_owner == nullptr) return false;
  return env_.may_start() && tree.jobs.running() < env_.threads();
}

// Planners run without a lock, on an immutable set of tables. A plan can start only while the tree still has these tables.
std::optional<RunningJob> CompactionScheduler::next_job(const TreePtr& tree, const PlannerReads& reads) {
  for (;;) {
    const Millis now = env_.now();  // the same clock as the job's, so that plan and job agree on what has expired
    PlannerInput input;
    {
      MutexLock lock(*env_.state_mutex);
      if (!may_start(*tree) || tree->view_owner->tables->runs.empty()) return std::nullopt;
      input = begin_input(*tree, now);
    }
    input.reads = reads;
    env_.memory->recall(tree->id, &input);
    if (input.paused && input.deadlines_rest) return std::nullopt;
    complete_input(*tree, &input);
    PlannerNotes notes;
    std::optional<RunningJob> job;
    (void)start_first(planners(), &input, &notes, [&](const Plan& plan) { return try_start(*tree, input, plan, &job); });
    if (notes.wants_to_read) schedule_reading(tree, input.tables->version);
    if (env_.memory->note_planned(tree->id, input, notes)) {
      // The policy has a bug, but no data is lost: the engine continues.
      bounds_broken_ += 1;
      env_.report_error("a tree exceeds the bounds of its merge policy, " + input.policy->name() + ": " + *notes.broken_bounds);
    }
    if (job) return job;
    MutexLock lock(*env_.state_mutex);
    if (tree->view_owner == nullptr || tree->view_owner->tables == input.tables) return std::nullopt;
  }
}

// The caller holds the state mutex.
PlannerInput CompactionScheduler::begin_input(const Tree& tree, Millis now) const {
  PlannerInput input;
  input.tables = tree.view_owner->tables;
  input.policy = tree.policy;
  input.jobs = &tree.jobs;
  input.now = now;
  input.file_size = tree.settings.file_size;
  input.memtable_size = tree.settings.memtable_size;
  input.file_choice = tree.settings.file_choice;
  input.paused = paused();
  input.deadlines = tree.deadlines;
  input.delete_deadline = tree.settings.delete_deadline;
  input.purge_before = std::max(tree.purge_before.load(std::memory_order_relaxed), input.tables->version->overdue_before());
  return input;
}

void CompactionScheduler::complete_input(Tree& tree, PlannerInput* input) const {
  const TablesView& tables = *input->tables;
  input->shape =
      shape_with_deadlines(tree, *tables.version, input->memtable_size, input->file_size, input->deadlines, input->now);
  if (input->file_choice == FileChoice::kMostTombstones) env_.estimate_invalidated(tables, &input->shape);
  if (!tables.quarantined.empty()) {
    input->whole = input->shape;
    tree.jobs.mark_running(&input->whole);
    leave_out_frozen(&input->shape);
  }
  input->visible_seq = env_.visible_seq();
  input->margin = tree.margin.load(std::memory_order_relaxed);
  input->over_budget = tree.budget.is_spent();
  input->room = env_.room();
  input->room_claimed = env_.claimed() != 0;
  input->can_punch = env_.puncher->can_punch();
  input->not_punched = env_.puncher->not_punched(*tables.version);
}

Attempt CompactionScheduler::try_start(Tree& tree, const PlannerInput& input, const Plan& plan, std::optional<RunningJob>* job) {
  MutexLock lock(*env_.state_mutex);
  if (!may_start(tree) || tree.view_owner->tables != input.tables) return Attempt::kOutdated;
  *job = tree.jobs.start(plan, *input.tables->version);
  if (!*job) return Attempt::kInTheWay;
  if (plan.reason == Reason::kDeadline) {
    tree.budget.spend((*job)->bytes);
    env_.claim((*job)->bytes);
  }
  return Attempt::kStarted;
}

void CompactionScheduler::run(const TreePtr& tree, const RunningJob& job) {
  running_ += 1;
  const Status status = env_.closing() || tree->dropped ? Status::aborted("") : env_.run(tree, job);
  running_ -= 1;
  finish(tree, job);
  const bool for_deadline = job.plan.reason == Reason::kDeadline;
  if (for_deadline) {
    env_.release(job.bytes);
    env_.deadline_job_ended(status);
  }
  env_.memory->note_ended(tree->id, for_deadline, status);
  env_.progressed();
  env_.puncher->schedule(tree->id);
  const bool gave_way = status.code() == Code::kAborted && !env_.closing() && !tree->dropped;
  if (status.is_ok() || gave_way) return schedule(tree);
  if (status.code() == Code::kAborted) return;
  env_.report_error("compaction failed: " + status.to_string());
  if (status.code() != Code::kCorruption) return;
  // If an input is damaged, only that file is affected: it is quarantined. The extent of any other damage is unknown, so the
  // database becomes read-only.
  const Status taken = env_.take_damage();
  if (taken.is_ok() && !takes_quarantined(*tree, job.plan)) env_.failed(status);
}

void CompactionScheduler::finish(const TreePtr& tree, const RunningJob& job) {
  tree->jobs.finish(job.id);
  bool waits = false;
  {
    MutexLock lock(*env_.state_mutex);
    waits = std::exchange(tree->flush_waits, false);
  }
  if (waits) env_.flush_waits(tree);
}

// True if an input of the plan is quarantined now, or if the tree was dropped.
bool CompactionScheduler::takes_quarantined(const Tree& tree, const Plan& plan) const {
  std::set<FileNum> quarantined;
  {
    MutexLock lock(*env_.state_mutex);
    if (tree.view_owner == nullptr) return true;
    for (const FileMetaPtr& file : tree.view_owner->tables->quarantined) quarantined.insert(file->data_file);
  }
  for (const PlanInput& input : inputs_of(plan)) {
    for (const FileNum file : input.files) {
      if (quarantined.count(file) != 0) return true;
    }
  }
  return false;
}

void CompactionScheduler::make_way(const TreePtr& tree) {
  if (!env_.is_late(*tree)) return;
  const Millis now = env_.now();  // the same clock as in next_job(): jobs are aborted only for a plan that can start
  PlannerInput input;
  {
    MutexLock lock(*env_.state_mutex);
    if (tree->view_owner == nullptr || tree->jobs.running() < env_.threads()) return;
    input = begin_input(*tree, now);
  }
  if (input.deadlines.never()) return;
  env_.memory->recall(tree->id, &input);
  complete_input(*tree, &input);
  PlannerNotes notes;
  if (planner::urgent(input, &notes).urgent) tree->jobs.abort_others();
}

}  // namespace ebbtide
