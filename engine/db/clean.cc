// What is no table keeps deadlines, too: log segments end and go, the manifest is rolled, removals are synced, views are taken
// back. And what missed its deadline is counted.
//
//   a quarter of the time from the oldest birth in question
//   to its deadline:                            a log segment is retired: the trees whose memtables keep it are flushed, so that
//                                               the log goes on without it
//   a quarter of the deadline after an edit took files out of
//   a tree, or three quarters of the time that what it owes
//   to has; or so many trees were dropped:      the manifest is rolled
//   seven eighths of that time:                 a leased view that still holds such files is revoked
//   at once, no more than once a second:        the directory is synced if something was unlinked
//
// PURGE.NOW makes all of it due. The work that waits for the device is not done here but handed to the flush thread.
#include <algorithm>
#include <limits>
#include <set>

#include "base/oldest.h"
#include "db/db_impl.h"
#include "io/file_names.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kCleanNs = 1'000'000'000;
// Trees, most of them gone, whose names are in old edits. Every look at what deletes owe meets each of them, once a second.
constexpr std::size_t kMaxSuperseded = 2000;
constexpr unsigned kLogEighths = 2, kManifestEighths = 6, kLeaseEighths = 7;

}  // namespace

std::shared_ptr<Lease> DbImpl::make_lease(std::shared_ptr<const TreeView> view, SeqNum seq) {
  auto lease = std::make_shared<Lease>(std::move(view), seq, time_.now(), leases_);
  MutexLock lock(lease_mutex_);
  if (leased_.size() >= 2 * leases_.load(std::memory_order_relaxed) + 16) {
    std::erase_if(leased_, [](const std::weak_ptr<Lease>& held) { return held.expired(); });
  }
  leased_.push_back(lease);
  return lease;
}

Millis DbImpl::oldest_lease() {
  Millis oldest = 0;
  MutexLock lock(lease_mutex_);
  for (const std::weak_ptr<Lease>& held : leased_) {
    if (const auto lease = held.lock(); lease != nullptr) keep_oldest(&oldest, lease->taken());
  }
  return oldest;
}

// Only tables that went out of the tree while it was open make a view a hindrance.
void DbImpl::revoke_leases(const PurgeSurvey& survey) {
  const bool due = std::any_of(survey.holders.begin(), survey.holders.end(), [&](const PurgeHolder& holder) {
    return holder.place == PurgePlace::kLeaving && survey.is_due(holder.tree, holder.floor, kLeaseEighths);
  });
  if (!due) return;
  std::vector<std::shared_ptr<Lease>> leases;
  {
    MutexLock lock(lease_mutex_);
    for (const std::weak_ptr<Lease>& held : leased_) {
      if (auto lease = held.lock(); lease != nullptr && !lease->revoked()) leases.push_back(std::move(lease));
    }
  }
  for (const std::shared_ptr<Lease>& lease : leases) {
    const TreeView& view = *lease->view();
    const auto hinders = [&](const OpenTablePtr& table) {
      return table->obsolete.load(std::memory_order_acquire) &&
             survey.is_due(view.tree, table->floor.load(std::memory_order_relaxed), kLeaseEighths);
    };
    for (const RunView& run : view.tables->runs) {
      if (std::none_of(run.tables().begin(), run.tables().end(), hinders)) continue;
      lease->revoke();
      leases_revoked_ += 1;
      break;
    }
  }
}

std::shared_ptr<LogPin> DbImpl::pin_log(FileNum oldest, FileNum newest) {
  auto pin = std::make_shared<LogPin>(oldest, newest);
  MutexLock lock(lease_mutex_);
  log_pins_.push_back(pin);
  return pin;
}

void DbImpl::unpin_log(const std::shared_ptr<LogPin>& pin) {
  MutexLock manifest(manifest_mutex_);
  {
    MutexLock lock(lease_mutex_);
    std::erase(log_pins_, pin);
  }
  remove_old_segments();
}

FileNum DbImpl::oldest_pinned() {
  FileNum oldest = std::numeric_limits<FileNum>::max();
  MutexLock lock(lease_mutex_);
  for (const auto& pin : log_pins_) oldest = std::min(oldest, pin->oldest());
  return oldest;
}

// A pin hinders only where the log has dropped the segment.
void DbImpl::revoke_log_pins(const PurgeSurvey& survey) {
  MutexLock lock(lease_mutex_);
  if (log_pins_.empty()) return;
  const FileNum begins = log_begins_;
  for (const PurgeHolder& holder : survey.holders) {
    if (holder.place != PurgePlace::kLog || holder.file >= begins) continue;
    if (!survey.is_due(holder.tree, holder.floor, kLeaseEighths)) continue;
    for (const auto& pin : log_pins_) {
      if (pin->oldest() <= holder.file && holder.file <= pin->newest()) pin->revoke();
    }
  }
}

// The segment takes no more, and no memtable keeps it: those that do are flushed, though they be small.
void DbImpl::retire_segment(FileNum file) {
  log_->end_segment(file);
  log_->give_up_pieces(file);
  SeqNum last = 0;
  for (const LogQueue::Segment& segment : log_->segments()) {
    if (segment.file <= file) last = std::max(last, segment.needed_seq());
  }
  MutexLock lock(commit_mutex_);
  for (const auto& [id, tree] : trees_) {
    if (tree->active_first_seq != 0 && tree->active_first_seq <= last) freeze(*tree);
    bool keeps = false;
    {
      MutexLock state(state_mutex_);
      keeps = !tree->frozen.empty() && tree->frozen.front().first_seq <= last;
    }
    if (keeps) hurry_flush(*tree);
  }
}

// What was in the skipped part is unknown: its segment goes as if a deadline demanded it.
void DbImpl::retire_skipped() {
  if (skipped_in_ == kNoFile) return;
  retire_segment(skipped_in_);
  if (!clean_queued_.exchange(true)) {
    submit(Priority::kHigh, [this] { clean_now(false); });
  }
}

void DbImpl::keep_clean() {
  const std::uint64_t now_ns = clock_.mono_ns();
  // Taken back before looking: who asks while this looks is not lost.
  if (!purge_asked_.exchange(false) && last_clean_ns_ != 0 && now_ns - last_clean_ns_ < clean_every_ns_) return;
  last_clean_ns_ = now_ns;
  const std::shared_ptr<const PurgeSurvey> survey = purges_.look();
  // A sixteenth of the shortest deadline is often enough for what is due an eighth before it.
  std::uint64_t often_enough = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [tree, terms] : survey->trees) {
    const Millis shortest = terms.deadlines.shortest();
    if (shortest != 0) often_enough = std::min<std::uint64_t>(often_enough, shortest * (1'000'000 / 16));
  }
  count_late(*survey);
  revoke_leases(*survey);
  revoke_log_pins(*survey);

  bool waits = false;              // somebody asked, and something is left
  std::set<TreeId> not_in_tables;  // of what somebody asked for, these have nothing left in memtables and tables
  for (const auto& [tree, terms] : survey->trees) not_in_tables.insert(tree);
  FileNum last_due = kNoFile;
  for (const PurgeHolder& holder : survey->holders) {
    const bool due = survey->is_due(holder.tree, holder.floor, kLogEighths);
    const bool wanted = holder.floor <= survey->trees.at(holder.tree).purge_before && !holder.damage;
    waits |= wanted;
    if (wanted && (holder.place == PurgePlace::kTable || holder.place == PurgePlace::kMemTable)) not_in_tables.erase(holder.tree);
    if (due && holder.place == PurgePlace::kLog) last_due = std::max(last_due, holder.file);
    if (due && holder.place == PurgePlace::kMemTable) {
      MutexLock lock(commit_mutex_);
      const auto at = trees_.find(holder.tree);
      if (at == trees_.end()) continue;
      if (holder.active) freeze(*at->second);
      hurry_flush(*at->second);
    }
  }
  if (last_due != kNoFile) retire_segment(last_due);
  if (waits) purge_asked_ = true;  // the next tick looks again

  const std::map<TreeId, PurgeLedger::Superseded> superseded = ledger_.superseded();
  bool roll = superseded.size() > kMaxSuperseded;
  for (const auto& [tree, what] : superseded) {
    const auto at = survey->trees.find(tree);
    if (at == survey->trees.end()) continue;
    const PurgeSurvey::Terms& terms = at->second;
    roll |= what.floor <= terms.purge_before && not_in_tables.count(tree) != 0;
    roll |= terms.promised(what.floor) && (survey->looked_at >= what.since + terms.deadlines.shortest() / 4 ||
                                           terms.is_over(what.floor, kManifestEighths, survey->looked_at));
  }
  if ((roll || last_due != kNoFile || ledger_.wants_sync()) && !clean_queued_.exchange(true)) {
    submit(Priority::kHigh, [this, roll] { clean_now(roll); });
  }
  // However much there is to look at, it takes a twentieth of the time at most, since all else that goes by time waits for it; but
  // it is never so rare that a deadline passes meanwhile.
  const std::uint64_t rarely = std::min(20 * (clock_.mono_ns() - now_ns), std::max(kCleanNs, often_enough));
  clean_every_ns_ = std::max(std::min(kCleanNs, often_enough), rarely);
}

void DbImpl::clean_now(bool roll) {
  Status status;
  {
    MutexLock manifest(manifest_mutex_);
    if (!closing_) status = advance_log();
    bool healthy = false;
    {
      MutexLock lock(state_mutex_);
      healthy = background_error_.is_ok();
    }
    if (!closing_ && healthy && roll && status.is_ok()) status = roll_manifest();
  }
  // A sync that fails is tried again: until one has worked, nothing counts as gone.
  if (!closing_ && status.is_ok()) {
    ledger_.look();
    if (ledger_.wants_sync()) (void)fs_.sync_dir(settings_.dir);
  }
  clean_queued_ = false;
  if (!status.is_ok()) background_failed(status, "cleaning up");
}

// What no flush said because there was nothing to flush: that older segments are needed no more.
Status DbImpl::advance_log() {
  {
    MutexLock lock(state_mutex_);
    if (!background_error_.is_ok()) return Status::ok();
  }
  VersionEdit edit;
  note_log_needs(nullptr, {}, &edit);
  if (*edit.oldest_log == kNoFile || *edit.oldest_log <= versions_->oldest_log()) return Status::ok();
  TRY(commit_edit(std::move(edit)));
  remove_old_segments();
  return Status::ok();
}

Status DbImpl::roll_manifest() {
  const std::string old = manifest_file_name(versions_->manifest_file());
  const std::uint64_t bytes = versions_->manifest_bytes();
  Status status = versions_->roll();
  if (!status.is_ok()) return status.with_context("manifest");
  ledger_.rolled(old, bytes, {});
  return Status::ok();
}

// Segments that are about to go, for the ledger.
void DbImpl::leave_segments(FileNum oldest) {
  if (log_->segments_below(oldest).empty()) return;
  SeqNum up_to = 0;
  const Millis now = fence(&up_to);
  const std::vector<LogQueue::Segment> all = log_->segments();
  const auto debts = log_debts(all, now);
  for (std::size_t i = 0; i < all.size() && all[i].file < oldest; ++i) {
    PurgeLedger::Leaving file{log_file_name(all[i].file), all[i].bytes, {}, all[i].open};
    for (std::size_t n = 0; n < debts[i].size(); ++n) file.floors[all[i].notes[n].tree] = debts[i][n] == 0 ? now : debts[i][n];
    if (!file.floors.empty()) ledger_.leave(std::move(file));
  }
}

// Each birth whose deadline passed is counted once for each tree, and once more if damage keeps it. Only `load` is a fault of ours.
// `down`, `clock` and `disk`: the server was stopped, the clock moved, or the disk refused what had to be written, until less than
// half of the time was left. `damage`: a quarantined file holds it.
void DbImpl::count_late(const PurgeSurvey& survey) {
  const auto count = [&](TreeId tree, Millis floor, bool damage, std::map<TreeId, Millis>* known) {
    const Millis deadline = survey.trees.at(tree).deadlines.due(floor);
    Millis& counted = (*known)[tree];
    if (deadline > survey.looked_at || floor <= counted || floor == kUnknownBirth) return;
    counted = floor;
    // What damage made late is late for that reason until the last of it is gone.
    if (const auto held = missed_by_damage_.find(tree); !damage && held != missed_by_damage_.end() && floor <= held->second)
      return;
    const Millis half = (deadline - floor) / 2, stepped = time_.last_step();
    const Millis refused = disk_refused_at_.load(std::memory_order_relaxed);
    const char* reason = "load";
    if (damage) {
      misses_damage_ += 1;
      reason = "damage";
    } else if (floor < opened_at_ && deadline < opened_at_ + half) {
      misses_down_ += 1;
      reason = "down";
    } else if (floor < stepped && deadline < stepped + half) {
      misses_clock_ += 1;
      reason = "clock";
    } else if (floor < refused && deadline < refused + half) {
      misses_disk_ += 1;
      reason = "disk";
    } else {
      misses_load_ += 1;
    }
    say(Severity::kError, "tree " + std::to_string(tree) + ": deletes missed their deadline by " +
                              std::to_string(survey.looked_at - deadline) + " ms so far (reason: " + reason + ")");
  };
  for (const auto& [tree, floor] : survey.floors(false)) count(tree, floor, false, &missed_);
  for (const auto& [tree, floor] : survey.floors(true)) count(tree, floor, true, &missed_by_damage_);
  for (auto* known : {&missed_, &missed_by_damage_}) {
    std::erase_if(*known, [&](const auto& entry) { return survey.trees.count(entry.first) == 0; });
  }
}

}  // namespace ebbtide
