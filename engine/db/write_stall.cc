// When writes wait, and when they are refused.
//
// Pressure is measured when the shape changes and on each tick, never on the write path, which reads a few flags:
//   memtables   waiting to be flushed: half of their share of memory begins the slowdown, all of it stops writes; so does the end of
//               the budget, from seven eighths of it on: what no flush would make room for is refused
//   runs        of the youngest level, against the policy's two limits
//   pending     bytes that compactions owe, from half of the data on, but no less than 64 memtables and what merges were measured to
//               do in kDebtMs; this alone never stops writes. Levels that a burst has swollen cost less to merge than if writes had
//               been held back for each merge on the way, and such a debt is gone soon after
//   deadline    the rate that the delete deadlines need comes near what merges were measured to do (deadline_keeper.cc); nor does
//               this stop them
// The slowdown is gradual: at pressure p a byte costs p * kSlowNsPerByte, and from kSteep on ever more, up to kSteepest times
// that, so that writes get as slow as any compaction before they would have to stop; a thread sleeps whenever it has saved up a
// millisecond. Counted as stalled is the time that a byte costs, or that writes are stopped, not the sum over those who wait.
// Refusals are about data that is added: deletes, range deletes and FLUSHDB go on when disk or memory is full, and a FLUSHDB is
// never held back. A stop that cannot end, because the compactions that should end it fail, refuses instead of waiting.
//
// tick() is what goes by the clock. It runs on the log thread: it must never wait for the log to be synced, nor for somebody who
// does, so it takes manifest_mutex_ by try_lock only.
#include <algorithm>

#include "db/db_impl.h"
#include "tree/frozen.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kSlowNsPerByte = 200;  // 5 MB/s
constexpr std::uint32_t kDeadlineSlows = 700;  // permille of the measured rate that the deadlines need
constexpr std::uint32_t kSteep = 800;          // permille of pressure
constexpr std::uint64_t kSteepest = 40;        // 125 kB/s
constexpr double kDebtMs = 10'000;
constexpr std::uint64_t kSleepNs = 1'000'000;
constexpr std::uint64_t kLongestSleepMs = 100;  // of one batch
constexpr std::uint64_t kStopPollMs = 10;       // when a batch that may not sleep is to ask again
// An emptied database leaves its tree behind, with a memtable, until the manifest was synced: no more than a few at a time.
constexpr std::uint64_t kMaxPendingDrops = 64;
constexpr std::uint32_t kMaxFlushes = 256;        // in one batch, if there are not more databases than that
constexpr std::uint64_t kDeadlineFiles = 2;       // of the target size: room that is kept for a merge for a deadline
constexpr std::uint64_t kHealNs = 2'000'000'000;  // well inside the promised 5 s

bool adds_data(const WriteBatch& batch) {
  std::size_t cursor = 0;
  WriteBatch::Op op;
  while (batch.next_op(&cursor, &op)) {
    if (op.kind == OpKind::kPut || op.kind == OpKind::kHeader) return true;
  }
  return false;
}

// What a batch costs under a slowdown.
std::uint64_t price_ns(const WriteBatch& batch, std::uint32_t pressure) {
  const std::uint64_t price = batch.payload_bytes() * kSlowNsPerByte * pressure / 1000;
  if (pressure <= kSteep) return price;
  const std::uint64_t steep = pressure - kSteep, all = 1000 - kSteep;
  return price + price * (kSteepest - 1) * steep * steep / (all * all);
}

bool empties_database(const WriteBatch& batch) { return batch.flushes() != 0; }

}  // namespace

// What is refused whatever the pressure, and what a stop that cannot end refuses.
Status DbImpl::refuse(const WriteBatch& batch) {
  TRY(batch.check_length());
  if (batch.longest_key() > kMaxKeyBytes) {  // the log could not be read back
    return Status::invalid_argument("a key of " + std::to_string(batch.longest_key()) + " bytes; at most " +
                                    std::to_string(kMaxKeyBytes) + " are allowed");
  }
  if (batch.flushes() > std::max(kMaxFlushes, settings_.databases)) {
    return Status::invalid_argument("a batch that empties databases " + std::to_string(batch.flushes()) + " times; at most " +
                                    std::to_string(std::max(kMaxFlushes, settings_.databases)) + " can be done at once");
  }
  if (log_->failed()) return Status::read_only(log_->status().to_string());
  if (read_only_.load(std::memory_order_relaxed)) {
    MutexLock lock(state_mutex_);
    if (!background_error_.is_ok()) return Status::read_only(background_error_.to_string());
  }
  const bool disk_full = disk_.full(log_->bytes_written());
  if ((disk_full || out_of_memory_.load(std::memory_order_relaxed)) && adds_data(batch)) {
    if (disk_full) return Status::no_space("the disk, or storage.max_disk_bytes, is full");
    return Status::out_of_memory("storage.memory_budget is spent");
  }
  if (stuck_.load(std::memory_order_relaxed) && slowdown_permille_.load(std::memory_order_relaxed) >= 1000 && adds_data(batch)) {
    return Status::no_space("too many sorted runs, and compactions fail; the log says why");
  }
  return Status::ok();
}

Status DbImpl::admit(const WriteBatch& batch) {
  TRY(refuse(batch));
  if (empties_database(batch)) return await_drops();
  const std::uint32_t pressure = slowdown_permille_.load(std::memory_order_relaxed);
  if (pressure == 0) return Status::ok();
  return stall(batch, pressure);
}

void DbImpl::count_stall(std::uint64_t nanos) {
  const auto reason = static_cast<std::size_t>(stall_reason_.load(std::memory_order_relaxed));
  stall_nanos_[reason].fetch_add(nanos, std::memory_order_relaxed);
}

Status DbImpl::await_drops() {
  MutexLock lock(state_mutex_);
  while (pending_drops_ > kMaxPendingDrops && background_error_.is_ok() && !closing_) {
    if (threads_) {
      progress_.wait_for(state_mutex_, std::chrono::milliseconds(10));
      continue;
    }
    state_mutex_.unlock();
    const bool ran = pool_->run_one();
    state_mutex_.lock();
    if (!ran) break;
  }
  return background_error_.is_ok() ? Status::ok() : Status::read_only(background_error_.to_string());
}

// For those who do not sleep here. Under a slowdown each batch gets the next free slot of a line that moves at the slowed rate,
// so that however many clients wait, all together write no faster; the line is never longer than the longest wait.
std::uint32_t DbImpl::wait_asked(const WriteBatch& batch, bool waited) {
  if (empties_database(batch)) return pending_drops_ > kMaxPendingDrops ? kStopPollMs : 0;
  const std::uint32_t pressure = slowdown_permille_.load(std::memory_order_relaxed);
  if (pressure == 0) return 0;
  std::uint64_t ms = 0;
  if (pressure >= 1000) {
    if (stuck_.load(std::memory_order_relaxed)) return 0;  // what adds data was refused
    ms = kStopPollMs;
  } else if (!waited) {
    const std::uint64_t now = clock_.mono_ns();
    const std::uint64_t price = price_ns(batch, pressure), latest = now + kLongestSleepMs * kSleepNs;
    std::uint64_t slot = next_slot_ns_.load(std::memory_order_relaxed), begin = 0, end = 0;
    do {
      begin = std::min(std::max(slot, now), latest);
      end = std::min(begin + price, latest);
    } while (!next_slot_ns_.compare_exchange_weak(slot, end, std::memory_order_relaxed));
    ms = (end - now) / kSleepNs;
    count_stall(end - begin);
  }
  return static_cast<std::uint32_t>(ms);
}

Status DbImpl::stall(const WriteBatch& batch, std::uint32_t pressure) {
  if (pressure < 1000) {
    const std::uint64_t owed = price_ns(batch, pressure);
    if (delay_debt_ns_.fetch_add(owed, std::memory_order_relaxed) + owed < kSleepNs) return Status::ok();
    const std::uint64_t ms = std::min(delay_debt_ns_.exchange(0, std::memory_order_relaxed) / kSleepNs, kLongestSleepMs);
    count_stall(ms * kSleepNs);
    MutexLock lock(state_mutex_);
    if (threads_ && ms != 0 && background_error_.is_ok()) progress_.wait_for(state_mutex_, std::chrono::milliseconds(ms));
    return Status::ok();
  }
  MutexLock lock(state_mutex_);
  while (slowdown_permille_.load(std::memory_order_relaxed) >= 1000 && background_error_.is_ok() && !closing_ && !stuck_) {
    if (threads_) {
      progress_.wait_for(state_mutex_, std::chrono::milliseconds(10));
      continue;
    }
    state_mutex_.unlock();
    const bool ran = pool_->run_one();
    if (!ran) update_pressure();
    state_mutex_.lock();
    if (!ran) break;
  }
  if (!background_error_.is_ok()) return Status::read_only(background_error_.to_string());
  if (stuck_ && slowdown_permille_.load(std::memory_order_relaxed) >= 1000 && adds_data(batch)) {
    return Status::no_space("too many sorted runs, and compactions fail; the log says why");
  }
  return Status::ok();
}

std::vector<TreeLoad> DbImpl::tree_loads() {
  std::vector<TreeLoad> loads;
  const std::vector<TreePtr> trees = live_trees();
  MutexLock lock(state_mutex_);
  for (const TreePtr& tree : trees) {
    if (tree->view_owner == nullptr) continue;
    tree->inherited_runs =
        std::clamp(tree->view_owner->tables->newest_level_runs - tree->policy->slowdown_runs(), 0, tree->inherited_runs);
    loads.push_back({tree, tree->view_owner, tree->policy, tree->settings.file_size, tree->settings.delete_io_budget,
                     tree->merges.failed(), tree->inherited_runs, !tree->deadlines.never()});
  }
  return loads;
}

// Ten times a second, of each tree: nearly always there is nothing to compute.
const Tree::Debt& DbImpl::debt_of(const TreeLoad& load) {
  Tree::Debt& debt = load.tree->debt;
  const VersionPtr& version = load.view->tables->version;
  if (debt.version == version && debt.policy == load.policy && debt.file_size == load.file_size) return debt;
  TreeShape shape = version->shape(settings_.memtable_size, load.file_size, 0, 0, [](FileNum) { return false; });
  leave_out_frozen(&shape);
  debt = {version, load.policy, load.file_size, load.policy->debt_bytes(shape), shape.bytes()};
  return debt;
}

void DbImpl::update_pressure() {
  MutexLock measuring(pressure_mutex_);
  bool stuck = false;
  std::uint64_t memtable_bytes = 0, uncharged_bytes = 0, frozen_bytes = 0, table_memory = 0, kept_bytes = 0;
  double worst = 0;
  StallReason reason = StallReason::kNone;
  const auto raise = [&](double pressure, StallReason why) {
    if (pressure > worst) {
      worst = pressure;
      reason = why;
    }
  };
  const std::vector<TreeLoad> loads = tree_loads();
  const std::uint64_t small = small_memtable(loads.size());
  for (const TreeLoad& load : loads) {
    const std::uint64_t active_bytes = load.view->memtables.front()->memory_bytes();
    kept_bytes += active_bytes > small ? empty_memtable_bytes_ : active_bytes;
    memtable_bytes += load.memtable_bytes();
    uncharged_bytes += load.uncharged_bytes();
    frozen_bytes += load.frozen_bytes();
    table_memory += load.view->tables->memory_bytes;
    if (compactions_paused_ != 0) continue;
    const int runs = load.view->tables->newest_level_runs;
    const int slow = load.policy->slowdown_runs(), stop = load.policy->stop_runs();
    // A change of the policy stops no write: what the one before has left does not count, and until that is merged, which may take
    // the whole tree, what arrives slows down at most.
    if (const int own = runs - load.inherited_runs; own > slow) {
      const double most = load.inherited_runs > 0 ? 0.95 : 1;
      raise(std::min(most, static_cast<double>(own - slow) / std::max(1, stop - slow)), StallReason::kRuns);
      stuck |= own >= stop && load.compactions_fail;
    }
    const Tree::Debt& owed = debt_of(load);
    const auto debt = static_cast<double>(owed.debt_bytes);
    const double soft = std::max({64.0 * static_cast<double>(settings_.memtable_size), 0.5 * static_cast<double>(owed.data_bytes),
                                  kDebtMs * deadlines_.merge_bytes_per_ms()});
    if (debt > soft) raise(std::min(0.95, (debt - soft) / (3 * soft)), StallReason::kPendingBytes);
  }
  if (const std::uint32_t needed = deadlines_.needed_permille(); needed > kDeadlineSlows) {
    raise(std::min(0.95, static_cast<double>(needed - kDeadlineSlows) / (1000 - kDeadlineSlows)), StallReason::kDeadline);
  }
  const std::uint64_t budget = memory_budget_.load(std::memory_order_relaxed);
  const std::uint64_t share = std::max(2 * settings_.memtable_size, std::min(budget / 3, 8 * settings_.memtable_size));
  if (frozen_bytes > share / 2) {
    raise(static_cast<double>(frozen_bytes - share / 2) / (static_cast<double>(share) / 2), StallReason::kMemTable);
  }
  const std::uint64_t used = uncharged_bytes + table_memory + memory_->charged();
  if (const std::uint64_t eighth = budget / 8; frozen_bytes != 0 && used > 7 * eighth) {
    raise(static_cast<double>(used - 7 * eighth) / static_cast<double>(eighth), StallReason::kMemTable);
  }
  // Nothing waits to be flushed, nor will at the next tick (relieve_memory).
  const bool flushed = frozen_bytes == 0 && memtable_bytes <= budget / 2;
  out_of_memory_.store(used > budget + budget / 10 && flushed, std::memory_order_relaxed);
  const std::uint64_t now = clock_.mono_ns();
  if (slowdown_permille_.load(std::memory_order_relaxed) >= 1000) count_stall(now - pressure_measured_ns_);
  pressure_measured_ns_ = now;
  stuck_.store(stuck, std::memory_order_relaxed);
  stall_reason_.store(reason, std::memory_order_relaxed);
  slowdown_permille_.store(static_cast<std::uint32_t>(std::min(1.0, worst) * 1000), std::memory_order_relaxed);
  divide_memory({memtable_bytes, uncharged_bytes, kept_bytes}, table_memory);
}

// For the reason that a missed deadline is counted under.
void DbImpl::note_refusal(const Status& status) {
  const bool by_disk = status.code() == Code::kNoSpace || status.code() == Code::kIoError;
  if (by_disk) disk_refused_at_.store(time_.now(), std::memory_order_relaxed);
}

void DbImpl::background_failed(const Status& status, const char* what) {
  note_refusal(status);
  // With what the reserve gives back, or gave when the disk was found full, the next tick may heal it at once.
  const bool soon = status.code() == Code::kNoSpace && disk_.give_up_reserve();
  {
    MutexLock lock(state_mutex_);
    if (soon) last_heal_ns_ = 0;  // a flush that the log failed under may have been here before
    if (!background_error_.is_ok()) return;
    background_error_ = status.with_context(what);
    last_heal_ns_ = status.code() == Code::kNoSpace ? 0 : clock_.mono_ns();
    read_only_ = true;
    progress_.notify_all();
  }
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
    say(Severity::kInfo, "writes are accepted again");
    update_pressure();
    purge_obsolete();
    for (const TreePtr& tree : trees) {
      schedule_flush(tree);
      schedule_compactions(tree);
    }
  });
}

// Said again only when it is an error of another kind: it is tried every two seconds, each time with other files.
void DbImpl::still_failed(const Status& status) {
  note_refusal(status);
  {
    MutexLock lock(state_mutex_);
    if (status.code() == heal_error_ || status.code() == Code::kAborted) return;
    heal_error_ = status.code();
  }
  say(Severity::kWarning, "still read-only: " + status.to_string());
}

// A new manifest, which says for sure what the state is; then what the log has durably becomes tables; then, if it was the log that
// failed, all the rest, and a new log.
Status DbImpl::try_to_heal(std::vector<TreePtr>* trees) {
  {
    MutexLock manifest(manifest_mutex_);
    TRY(roll_manifest());
    MutexLock lock(obsolete_mutex_);
    obsolete_.insert(obsolete_.end(), disowned_.begin(), disowned_.end());
    disowned_.clear();
  }
  purge_obsolete();  // what the last try left takes the room of this one
  const bool log_failed = log_->failed();
  if (log_failed) log_->salvage();
  SeqNum last_seq = 0;
  {
    // From here on nothing is committed: read_only_ was set before.
    MutexLock lock(commit_mutex_);
    for (const auto& [id, tree] : trees_) trees->push_back(tree);
    if (log_failed) {
      for (const TreePtr& tree : *trees) freeze(*tree);
    }
    last_seq = next_seq_ - 1;
  }
  // The edit is to have all that was given a seq: a batch may still be on its way to being visible.
  if (log_failed) await_visible(last_seq);
  TRY(flush_durable(*trees));
  if (!log_failed) return Status::ok();
  TRY(flush_memtables(*trees, kAllMemTables, true));
  log_->restart_after_failure(last_seq);
  MutexLock manifest(manifest_mutex_);
  remove_old_segments();
  return Status::ok();
}

void DbImpl::tick() {
  if (!tick_mutex_.try_lock()) return;
  advance_time_mark();
  if (log_->failed()) background_failed(log_->status(), "log");
  heal();
  const std::vector<TreeLoad> loads = tree_loads();
  look_at_disk(loads);
  relieve_log();
  relieve_memory();
  keep_deadlines(loads);
  for (const TreeLoad& load : loads) {
    schedule_flush(load.tree);
    make_way(load.tree);
    schedule_compactions(load.tree);
    schedule_punching(load.tree);
  }
  update_pressure();
  // A lease that ended may have been the last to hold some tables.
  epoch_.collect();
  bool obsolete = false;
  {
    MutexLock lock(obsolete_mutex_);
    obsolete = !obsolete_.empty();
  }
  if (obsolete) submit(Priority::kHigh, [this] { purge_obsolete(); });
  remove_unremoved();
  schedule_deadlines();
  retention_.tick();
  schedule_damage_work();
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
    background_failed(status, "engine time");
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

// Trees that are rarely written to must not keep the whole log.
void DbImpl::relieve_log() {
  const std::uint64_t live = log_->live_bytes(),
                      most = std::max<std::uint64_t>(4 * settings_.wal_segment_size, 4 * settings_.memtable_size);
  if (live <= most) return;
  // A staged batch whose commit does not come must not keep the log of all others.
  if (live - std::min(live, log_->pending_piece_bytes()) > most) log_->give_up_pieces_before(oldest_needed(nullptr, {}));
  MutexLock lock(commit_mutex_);
  Tree *oldest = nullptr, *waits = nullptr;
  SeqNum waiting = kMaxSeqNum;  // the oldest that is on its way to a table already: freezing more would free nothing before it
  for (const auto& [id, tree] : trees_) {
    if (tree->active_first_seq != 0 && (oldest == nullptr || tree->active_first_seq < oldest->active_first_seq))
      oldest = tree.get();
    MutexLock state(state_mutex_);
    if (!tree->frozen.empty() && tree->frozen.front().first_seq < waiting) {
      waiting = tree->frozen.front().first_seq;
      waits = tree.get();
    }
  }
  if (oldest == nullptr || oldest->active_first_seq >= waiting) {
    if (waits != nullptr) hurry_flush(*waits);
    return;
  }
  // All that the oldest segment is kept for: a thousand small memtables, one in each tick, would take minutes.
  const FileNum segment = log_->oldest_needed(oldest->active_first_seq);
  for (const auto& [id, tree] : trees_) {
    if (tree->active_first_seq == 0 || log_->oldest_needed(tree->active_first_seq) != segment) continue;
    freeze(*tree);
    hurry_flush(*tree);
  }
}

void DbImpl::say(Severity severity, const std::string& text) {
  if (events_ != nullptr) events_->on_message(severity, text);
}

}  // namespace ebbtide
