#include "db/background/reaper.h"

#include <algorithm>
#include <iterator>

#include "base/planted_bug.h"
#include "db/read/dead_headers.h"

namespace ebbtide {
namespace {

constexpr Millis kShortestPause = 100, kLongestPause = 60'000;
constexpr Millis kPausesPerDeadline = 64;
constexpr Millis kRetryPause = 1000;
// Limits of one batch of tombstones, so that it is not much larger than an ordinary commit.
constexpr std::uint32_t kMostTombstones = 256;
constexpr std::size_t kMostBatchBytes = 64 << 10;

Millis pause_of(Millis shortest_deadline) {
  if (shortest_deadline == 0) return kLongestPause;
  return std::clamp(shortest_deadline / kPausesPerDeadline, kShortestPause, kLongestPause);
}

/// Writes tombstones in batches.
class Tombstones {
 public:
  Tombstones(const Reaper::Env& env, DatabaseId database, TreeId tree) : env_(env), database_(database), tree_(tree) {}

  Status add(const DeadHeader& header) {
    const KeyRange elements = element_range(header.key, header.generation);
    batch_.delete_range(database_, elements.start, elements.end, header.died);
    const bool full = batch_.count() >= kMostTombstones || batch_.payload_bytes() >= kMostBatchBytes;
    return full ? commit() : Status::ok();
  }
  Status commit() {
    if (batch_.empty()) return Status::ok();
    batch_.rely_on_tree(tree_);
    if (!planted(PlantedBug::kSkipReaper)) TRY(env_.commit(batch_));
    last_seq_ = batch_.last_seq();
    batch_.clear();
    return Status::ok();
  }
  [[nodiscard]] SeqNum last_seq() const { return last_seq_; }

 private:
  const Reaper::Env& env_;
  const DatabaseId database_;
  const TreeId tree_;
  WriteBatch batch_;
  SeqNum last_seq_ = 0;
};

}  // namespace

void Reaper::tick(const std::vector<TreeLoad>& loads) {
  if (!env_.writable()) return;
  const Millis now = env_.now();
  std::vector<const TreeLoad*> due;
  {
    MutexLock lock(mutex_);
    for (const TreeLoad& load : loads) {
      if (!load.view->may_have_headers()) continue;
      State& state = states_[load.tree->id];
      if (state.running || now < state.next) continue;
      state.running = true;
      due.push_back(&load);
    }
    if (states_.size() > loads.size()) {  // some trees were dropped
      std::erase_if(states_, [&](const auto& state) {
        return !state.second.running &&
               std::none_of(loads.begin(), loads.end(), [&](const TreeLoad& load) { return load.tree->id == state.first; });
      });
    }
  }
  for (const TreeLoad* load : due) {
    env_.submit([this, tree = load->tree, pause = pause_of(load->shortest_deadline)] { search(tree, pause); });
  }
}

void Reaper::hurry() {
  MutexLock lock(mutex_);
  for (auto& [tree, state] : states_) state.next = 0;
}

void Reaper::search(const TreePtr& tree, Millis pause) {
  const Status status = reap(tree);
  // Not failures: the database has another tree by now, the view was revoked, or the database closes. The next search begins
  // again.
  const bool moved = status.code() == Code::kRetry || status.code() == Code::kRevoked || status.code() == Code::kAborted;
  const std::string failure = status.is_ok() || moved ? "" : status.to_string();
  bool is_news = false;
  {
    MutexLock lock(mutex_);
    State& state = states_[tree->id];
    state.running = false;
    state.next = env_.now() + (status.is_ok() ? pause : moved ? kShortestPause : kRetryPause);
    is_news = failure != state.failure;
    state.failure = failure;
  }
  if (is_news && !failure.empty())
    env_.log(Severity::kWarning,
             "cannot delete the elements of collections that have expired or were deleted by stamp: " + failure);
}

std::optional<DatabaseId> Reaper::database_of(const TreePtr& tree) {
  MutexLock lock(env_.trees->commit_mutex);
  for (DatabaseId database = 0; database < env_.trees->databases(); ++database) {
    if (env_.trees->mapped(database) == tree) return database;
  }
  return std::nullopt;
}

Status Reaper::reap(const TreePtr& tree) {
  const Millis now = env_.fence();
  const std::optional<DatabaseId> database = database_of(tree);
  if (!database) return Status::ok();  // the tree was dropped, or is an index tree: it has no elements
  const ReadView view = env_.lease(tree, *database, now);
  if (!view.has_tree()) return Status::ok();
  Tombstones tombstones(env_, *database, tree->id);
  bool any = false;
  TRY(visit_dead_headers(
      view, tree->reaped(),
      [&](const DeadHeader& header) { return env_.writable() ? tombstones.add(header) : Status::aborted("closing"); }, &any));
  TRY(tombstones.commit());
  if (any && !planted(PlantedBug::kReapBeforeSync)) TRY(env_.wait_synced(std::max(view.seq(), tombstones.last_seq())));
  tree->reaped_expiry.store(now, std::memory_order_release);
  tree->reaped_record.store(view.seq(), std::memory_order_release);
  if (any) env_.progressed(tree);
  return Status::ok();
}

}  // namespace ebbtide
