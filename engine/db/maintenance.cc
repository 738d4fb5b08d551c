// What is done by the clock.
//
// tick() runs on the log thread, ten times a second. It must never wait for a sync of the log, nor for a thread that does. So it takes
// manifest_mutex_ by try_lock only, and submits work that waits for the device.
#include <algorithm>

#include "db/db_impl.h"
#include "tree/frozen.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kDeadlineFiles = 2;  // of the target size: room that is kept for a merge for a deadline

}  // namespace

void DbImpl::tick() {
  if (!tick_mutex_.try_lock()) return;
  advance_time_mark();
  if (log_->failed()) health_.failed(log_->status(), "log");
  health_.tick();
  const std::vector<TreeLoad> loads = tree_loads();
  look_at_disk(loads);
  relieve_log();
  relieve_memory();
  keep_deadlines(loads);
  for (const TreeLoad& load : loads) {
    flush_scheduler_.schedule(load.tree);
    scheduler_.make_way(load.tree);
    scheduler_.schedule(load.tree);
    hole_puncher_.schedule(load.tree->id);
  }
  update_pressure();
  obsolete_files_.tick();
  schedule_deadlines();
  retention_.tick();
  quarantine_.tick();
  scrub(loads);
  tick_mutex_.unlock();
}

void DbImpl::advance_time_mark() {
  const Millis mark = time_.tick();
  if (const bool refused = time_.step_refused(); refused != step_refused_) {
    step_refused_ = refused;
    say(refused ? Severity::kError : Severity::kInfo,
        refused
            ? "the wall clock went forward by more than a day and is not followed: expiries and deadlines go by the time since "
              "then; if the clock is right, restart"
            : "the wall clock is followed again");
  }
  if (mark == 0 || !manifest_mutex_.try_lock()) return;
  VersionEdit edit;
  edit.time_mark = mark;
  const Status status = closing_ ? Status::aborted("") : commit_edit(std::move(edit));
  manifest_mutex_.unlock();
  if (status.is_ok()) {
    time_.set_mark(mark);
  } else if (!closing_) {
    health_.failed(status, "engine time");
  }
}

void DbImpl::look_at_disk(const std::vector<TreeLoad>& loads) {
  DiskWatch::Use use{.logged_bytes = log_->bytes_written(), .file_bytes = log_->live_bytes(), .unflushed_bytes = 0};
  for (const TreeLoad& load : loads) {
    use.file_bytes += load.view->tables->file_bytes;
    use.unflushed_bytes += load.memtable_bytes();
    if (load.has_deadlines) use.deadline_bytes = std::max(use.deadline_bytes, kDeadlineFiles * load.file_size);
  }
  disk_.look(use);
  const bool full = disk_.full(0);
  if (full != disk_full_told_.exchange(full)) {
    say(full ? Severity::kError : Severity::kInfo,
        full ? "the disk is full: writes that add data are refused" : "the disk has room again");
  }
  if (!disk_.wants_reserve() || reserve_queued_.exchange(true)) return;
  submit(Priority::kLow, [this] {
    const Status status = disk_.set_aside_reserve();
    if (!status.is_ok()) say(Severity::kWarning, "cannot set space aside for a full disk: " + status.to_string());
    reserve_queued_ = false;
  });
}

// A tree that is rarely written to does not keep the whole log.
void DbImpl::relieve_log() {
  const std::uint64_t live = log_->live_bytes(),
                      most = std::max<std::uint64_t>(4 * settings_.wal_segment_size, 4 * settings_.memtable_size);
  if (live <= most) return;
  // Nor does a staged batch whose commit does not come.
  if (live - std::min(live, log_->pending_piece_bytes()) > most) log_->give_up_pieces_before(trees_.oldest_needed({}, {}));
  MutexLock lock(trees_.commit_mutex);
  TreePtr oldest, waits;
  SeqNum waiting = kMaxSeqNum;  // the oldest in a frozen memtable: until that is flushed, freezing others frees no segment
  for (const auto& [id, tree] : trees_.live()) {
    if (tree->active_first_seq != 0 && (oldest == nullptr || tree->active_first_seq < oldest->active_first_seq)) oldest = tree;
    MutexLock state(trees_.state_mutex);
    if (!tree->frozen.empty() && tree->frozen.front().first_seq < waiting) {
      waiting = tree->frozen.front().first_seq;
      waits = tree;
    }
  }
  if (oldest == nullptr || oldest->active_first_seq >= waiting) {
    if (waits != nullptr) flush_scheduler_.hurry(waits);
    return;
  }
  // All memtables that keep the oldest segment at once: one in each tick would take minutes for a thousand trees.
  const FileNum segment = log_->oldest_needed(oldest->active_first_seq);
  for (const auto& [id, tree] : trees_.live()) {
    if (tree->active_first_seq == 0 || log_->oldest_needed(tree->active_first_seq) != segment) continue;
    trees_.freeze(*tree);
    flush_scheduler_.hurry(tree);
  }
}

void DbImpl::relieve_memory() {
  MutexLock lock(trees_.commit_mutex);
  std::vector<TreePtr> trees;
  std::vector<TreeMemory> memory;
  for (const auto& [id, tree] : trees_.live()) {
    TreeMemory of{.active_bytes = tree->active->memory_bytes(), .active_is_empty = tree->active_first_seq == 0};
    MutexLock state(trees_.state_mutex);
    of.frozen_rests = tree->frozen_rest;
    if (const auto& view = tree->view_owner; view != nullptr) {
      for (std::size_t i = 1; i < view->memtables.size(); ++i) of.frozen_bytes += view->memtables[i]->memory_bytes();
    }
    trees.push_back(tree);
    memory.push_back(of);
  }
  const MemoryRelief relief = budget_.relief(memory, empty_memtable_bytes_);
  for (const std::size_t i : relief.flush_frozen) flush_scheduler_.hurry(trees[i]);
  for (const std::size_t i : relief.freeze_active) {
    trees_.freeze(*trees[i]);
    flush_scheduler_.hurry(trees[i]);
  }
}

std::vector<TreeLoad> DbImpl::tree_loads() {
  return trees_.loads([this](TreeId id) { return planner_memory_.merges_fail(id); });
}

// Computed only if the tree has changed: ten times a second is too often for each tree.
const Tree::Debt& DbImpl::debt_of(const TreeLoad& load) {
  Tree::Debt& debt = load.tree->debt;
  const VersionPtr& version = load.view->tables->version;
  if (debt.version == version && debt.policy == load.policy && debt.file_size == load.file_size) return debt;
  TreeShape shape = version->shape(settings_.memtable_size, load.file_size, 0, 0, [](FileNum) { return false; });
  leave_out_frozen(&shape);
  debt = {version, load.policy, load.file_size, load.policy->debt_bytes(shape), shape.bytes()};
  return debt;
}

WriteLoad DbImpl::write_load() {
  const std::vector<TreeLoad> loads = tree_loads();
  WriteLoad out{.trees = {},
                .merge_bytes_per_ms = deadlines_.merge_bytes_per_ms(),
                .deadline_permille = deadlines_.needed_permille(),
                .memtable_size = settings_.memtable_size,
                .memory_budget = budget_.bytes(),
                .charged_bytes = memory_->charged(),
                .memory = {}};
  const std::uint64_t small = small_memtable_bytes(out.memory_budget, empty_memtable_bytes_, loads.size());
  for (const TreeLoad& load : loads) {
    const std::uint64_t active_bytes = load.view->memtables.front()->memory_bytes();
    out.memory.kept += active_bytes > small ? empty_memtable_bytes_ : active_bytes;
    out.memory.memtables += load.memtable_bytes();
    out.memory.uncharged += load.uncharged_bytes();
    out.memory.frozen += load.frozen_bytes();
    out.memory.tables += load.view->tables->memory_bytes;
    if (scheduler_.paused()) continue;
    const Tree::Debt& debt = debt_of(load);
    out.trees.push_back({.runs = load.view->tables->newest_level_runs,
                         .inherited_runs = load.inherited_runs,
                         .slowdown_runs = load.policy->slowdown_runs(),
                         .stop_runs = load.policy->stop_runs(),
                         .compactions_fail = load.compactions_fail,
                         .pending_bytes = debt.debt_bytes,
                         .data_bytes = debt.data_bytes});
  }
  return out;
}

void DbImpl::update_pressure() { writes_.measure(); }

void DbImpl::say(Severity severity, const std::string& text) {
  if (events_ != nullptr) events_->on_message(severity, text);
}

}  // namespace ebbtide
