// The memory budget: how it is divided, what may be charged to it, and which memtables are flushed to make room.
//
// One budget: memtables, without the charged values in them, open tables, what is charged to the account, and what is left for the
// cache. When it is short, memtables are flushed early (relieve_memory), the cache shrinks to its floor, the account takes no more,
// writes wait for flushes, and last they are refused (write_stall.cc). A charge that does not fit now may fit once memtables have been
// flushed (memory_room): who asked waits for that without holding any other memory.
#include <algorithm>

#include "db/db_impl.h"

namespace ebbtide {
namespace {

constexpr std::size_t kFewTrees = 64;  // up to so many, each may keep a memtable of 1/512 of the budget

// What the cache keeps, and what each kind of charge may have, however short memory is.
std::uint64_t memory_floor(std::uint64_t budget) { return std::min<std::uint64_t>(budget / 16, 8 << 20); }

constexpr std::uint64_t kMemTableGoesNs = 1'000'000'000;  // ten ticks

}  // namespace

// A smaller one is not flushed for its memory.
std::uint64_t DbImpl::small_memtable(std::size_t trees) const {
  const std::uint64_t budget = memory_budget_.load(std::memory_order_relaxed);
  return std::max(2 * empty_memtable_bytes_, budget / (8 * std::max(trees, kFewTrees)));
}

void DbImpl::divide_memory(const MemTableBytes& memtables, std::uint64_t tables) {
  const std::uint64_t budget = memory_budget_.load(std::memory_order_relaxed);
  const std::uint64_t fixed = memtables.uncharged + tables, floor = memory_floor(budget);
  const std::uint64_t charged = memory_->charged(MemoryAccount::Kind::kMemTables);
  const std::uint64_t to_readers = charged - std::min(charged, memtables.all - memtables.uncharged);
  if (to_readers > charged_to_readers_.load(std::memory_order_relaxed)) left_memtables_ns_ = clock_.mono_ns();
  charged_to_readers_.store(to_readers, std::memory_order_relaxed);
  flushable_memory_.store(memtables.uncharged - std::min(memtables.uncharged, memtables.kept), std::memory_order_relaxed);
  fixed_memory_.store(fixed, std::memory_order_relaxed);
  table_memory_.store(tables, std::memory_order_relaxed);
  memory_->set_limit(budget > fixed + floor ? budget - fixed - floor : 0, floor);
  memory_->set_budget(budget, budget > tables + floor ? budget - tables - floor : 0);
  fit_cache();
}

void DbImpl::fit_cache() {
  const std::uint64_t budget = memory_budget_.load(std::memory_order_relaxed), floor = memory_floor(budget);
  const std::uint64_t charged = memory_->charged();
  const std::uint64_t used = fixed_memory_.load(std::memory_order_relaxed) + charged;
  const std::uint64_t left = budget > used + floor ? budget - used : floor;
  account_fitted_.store(charged, std::memory_order_relaxed);
  cache_->set_capacity(settings_.block_cache != 0 ? std::min(settings_.block_cache, left) : left);
}

// Large values come faster than ticks: the cache makes room as soon as a thirty-second of the budget went to them.
bool DbImpl::try_charge(MemoryAccount::Kind kind, std::uint64_t bytes) {
  if (!memory_->try_charge(kind, bytes)) return false;
  memory_charged();
  return true;
}

// By what the latest measurement says of memtables, and by what is charged now: values that were committed since then count.
BudgetRoom DbImpl::memory_room(std::uint64_t bytes) {
  const std::uint64_t charged = memory_->charged();
  if (bytes <= memory_->room()) return BudgetRoom::kNow;
  if (read_only_.load(std::memory_order_relaxed)) return BudgetRoom::kNone;  // flushes fail
  const std::uint64_t in_memtables = memory_->charged(MemoryAccount::Kind::kMemTables);
  // A memtable that was just flushed goes once no pass of a loop sees it: the next ticks find that out.
  const bool may_go = clock_.mono_ns() - left_memtables_ns_.load(std::memory_order_relaxed) < kMemTableGoesNs;
  const std::uint64_t stay = may_go ? 0 : std::min(in_memtables, charged_to_readers_.load(std::memory_order_relaxed));
  const std::uint64_t flushed = flushable_memory_.load(std::memory_order_relaxed) + in_memtables - stay;
  const std::uint64_t used = fixed_memory_.load(std::memory_order_relaxed) + charged, left = used - std::min(used, flushed);
  const std::uint64_t budget = memory_budget_.load(std::memory_order_relaxed);
  if (left + bytes + memory_floor(budget) > budget) return BudgetRoom::kNone;
  memory_->note_refused(bytes);
  return BudgetRoom::kAfterFlush;
}

void DbImpl::memory_charged() {
  const std::uint64_t budget = memory_budget_.load(std::memory_order_relaxed);
  if (memory_->charged() > account_fitted_.load(std::memory_order_relaxed) + budget / 32) fit_cache();
}

// Many trees with a memtable each may spend the budget though none of them is full, or others may need what they have. Above half
// of the budget, or above what the others leave, the largest are flushed early (together: run_flush), until the active ones are at
// a quarter of that. A small one stays: freezing it gives nothing back, and its table would be merged again and again. All that stay
// together have an eighth of the budget at most.
void DbImpl::relieve_memory() {
  const std::uint64_t budget = memory_budget_.load(std::memory_order_relaxed);
  const std::uint64_t charged = memory_->charged(), own = memory_->charged(MemoryAccount::Kind::kMemTables);
  const std::uint64_t others = table_memory_.load(std::memory_order_relaxed) + charged - std::min(charged, own);
  const std::uint64_t left = budget > others ? budget - others : 0;
  // What was refused meanwhile is asked for again, if it can have room at all.
  const std::uint64_t refused = memory_->take_refused(), floor = memory_floor(budget);
  const bool fits = refused == 0 || refused + floor <= left;
  const std::uint64_t wanted = refused == 0 || !fits ? 0 : std::min(refused + 2 * floor, left);
  const std::uint64_t ceiling = std::min(budget / 2, left - wanted);
  MutexLock lock(commit_mutex_);
  const std::uint64_t small = small_memtable(trees_.size());
  std::uint64_t all = 0, active = 0;
  std::vector<std::pair<std::uint64_t, Tree*>> large;
  for (const auto& [id, tree] : trees_) {
    const std::uint64_t bytes = tree->active->memory_bytes();
    active += bytes;
    if (tree->active_first_seq != 0 && bytes > small) large.emplace_back(bytes, tree.get());
    MutexLock state(state_mutex_);
    if (tree->view_owner == nullptr) continue;
    for (const auto& memtable : tree->view_owner->memtables) all += memtable->memory_bytes();
  }
  if (all <= ceiling) return;
  for (const auto& [id, tree] : trees_) {
    bool rest = false;
    {
      MutexLock state(state_mutex_);
      rest = tree->frozen_rest;
    }
    if (rest) hurry_flush(*tree);
  }
  if (active <= ceiling / 2) return;
  std::sort(large.begin(), large.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [bytes, tree] : large) {
    if (active <= ceiling / 4) return;
    active -= std::min(active, bytes);
    freeze(*tree);
    hurry_flush(*tree);
  }
}

}  // namespace ebbtide
