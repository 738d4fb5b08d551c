#include "db/write/memory_budget.h"

#include <algorithm>

namespace ebbtide {
namespace {

constexpr std::size_t kFewTrees = 64;  // with up to this many trees, each may keep a memtable of 1 / 512 of the budget
// Ten ticks: within this time, values of a flushed memtable are freed unless a long read holds them.
constexpr std::uint64_t kMemTableGoesNs = 1'000'000'000;
constexpr std::uint64_t kMeasureNs = 50'000'000;  // smallest time between two measurements of the overhead
/// Commands leave 1 / kSparedPart of the budget free, since connection buffers are charged without a check, and the budget may be
/// reduced. Clients are closed only when this part is used up, too.
constexpr std::uint64_t kSparedPart = 16;
// Overhead up to 1 / kFreeOverheadPart of the budget does not count. For budgets below 256 MiB, kFreeOverheadBytes do not count,
// but at most 1 / kMostFreeOverheadPart of the budget.
constexpr std::uint64_t kFreeOverheadPart = 64, kMostFreeOverheadPart = 16, kFreeOverheadBytes = 4 << 20;
constexpr std::uint64_t kCachePart = 8;  // the cache gets at least 1 / kCachePart of the bytes left for indexes and cache

/// Returns the bytes that the cache, and each kind of charge, may have even when memory is short.
std::uint64_t memory_floor(std::uint64_t budget) { return std::min<std::uint64_t>(budget / 16, 8 << 20); }

std::uint64_t free_overhead(std::uint64_t budget) {
  return std::max(budget / kFreeOverheadPart, std::min(budget / kMostFreeOverheadPart, kFreeOverheadBytes));
}

std::uint64_t above(std::uint64_t a, std::uint64_t b) { return a - std::min(a, b); }

}  // namespace

std::uint64_t small_memtable_bytes(std::uint64_t budget, std::uint64_t empty_memtable_bytes, std::size_t trees) {
  return std::max(2 * empty_memtable_bytes, budget / (8 * std::max(trees, kFewTrees)));
}

MemoryRelief plan_relief(std::span<const TreeMemory> trees, std::uint64_t ceiling, std::uint64_t small) {
  MemoryRelief relief;
  std::uint64_t all = 0, active = 0;
  for (const TreeMemory& tree : trees) {
    active += tree.active_bytes;
    all += tree.active_bytes + tree.frozen_bytes;
  }
  if (all <= ceiling) return relief;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    if (trees[i].frozen_rests) relief.flush_frozen.push_back(i);
  }
  if (active <= ceiling / 2) return relief;
  std::vector<std::size_t> large;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    if (!trees[i].active_is_empty && trees[i].active_bytes > small) large.push_back(i);
  }
  std::sort(large.begin(), large.end(),
            [&](std::size_t a, std::size_t b) { return trees[a].active_bytes > trees[b].active_bytes; });
  for (const std::size_t i : large) {
    if (active <= ceiling / 4) break;
    active -= trees[i].active_bytes;
    relief.freeze_active.push_back(i);
  }
  return relief;
}

void MemoryBudget::set_resident_source(std::function<std::uint64_t()> resident) {
  MutexLock lock(overhead_mutex_);
  resident_ = std::move(resident);
}

// Measures the overhead: resident bytes minus all counted bytes. Pinned pages are charged, and most of them are also blocks of
// the cache: they must not be counted twice.
void MemoryBudget::measure_overhead(const MemoryUse& use) {
  MutexLock lock(overhead_mutex_);
  const std::uint64_t now = env_.clock->mono_ns();
  if (!resident_ || (measured_ns_ != 0 && now - measured_ns_ < kMeasureNs)) return;
  measured_ns_ = now;
  const MemoryAccount& account = *env_.account;
  const std::uint64_t pinned = account.charged(MemoryAccount::Kind::kPages);
  const std::uint64_t blocks = std::max(env_.cache_bytes ? env_.cache_bytes() : 0, pinned);
  const std::uint64_t counted = use.uncharged + use.tables + use.indexes + above(account.charged(), pinned) + blocks;
  std::copy_backward(measured_.begin(), measured_.end() - 1, measured_.end());
  measured_.front() = above(resident_(), counted);
  std::array<std::uint64_t, kMeasurements> sorted = measured_;
  std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end());
  overhead_.store(above(sorted[1], free_overhead(bytes())), std::memory_order_relaxed);
}

void MemoryBudget::divide(const MemoryUse& use) {
  measure_overhead(use);
  const std::uint64_t budget = bytes(), floor = memory_floor(budget), fixed = use.uncharged + use.tables + overhead();
  MemoryAccount& account = *env_.account;
  const std::uint64_t to_readers = above(account.charged(MemoryAccount::Kind::kMemTables), use.memtables - use.uncharged);
  if (to_readers > charged_to_readers_.load(std::memory_order_relaxed)) left_memtables_ns_ = env_.clock->mono_ns();
  charged_to_readers_.store(to_readers, std::memory_order_relaxed);
  flushable_.store(above(use.uncharged, use.kept), std::memory_order_relaxed);
  fixed_.store(fixed, std::memory_order_relaxed);
  tables_.store(use.tables, std::memory_order_relaxed);
  account.set_limit(above(budget, fixed + floor), floor);
  account.set_budget(budget, above(budget, use.tables + floor));
  fit_cache();
}

void MemoryBudget::fit_cache() {
  const std::uint64_t budget = bytes(), floor = memory_floor(budget), charged = env_.account->charged();
  const std::uint64_t used = fixed_.load(std::memory_order_relaxed) + charged;
  std::uint64_t left = budget > used + floor ? budget - used : floor;
  fitted_.store(charged, std::memory_order_relaxed);
  if (env_.set_index_capacity) {
    // The cache keeps at least its floor, since it must hold a page. Indexes get at least a quarter of the floor, so that the
    // index of one search fits.
    const std::uint64_t indexes = std::max(floor / 4, left - std::max(left / kCachePart, floor));
    env_.set_index_capacity(indexes);
    left = std::max(floor, above(left, std::min(indexes, index_bytes())));
  }
  env_.set_cache_capacity(env_.block_cache != 0 ? std::min(env_.block_cache, left) : left);
}

bool MemoryBudget::try_charge(MemoryAccount::Kind kind, std::uint64_t bytes) {
  MemoryAccount& account = *env_.account;
  const bool in_floor = account.charged(kind) + bytes <= memory_floor(this->bytes());
  if (kind == MemoryAccount::Kind::kCommands && !in_floor && bytes + this->bytes() / kSparedPart > account.room()) {
    account.note_refused(bytes);
    return false;
  }
  if (!account.try_charge(kind, bytes)) return false;
  note_charged();
  return true;
}

void MemoryBudget::note_charged() {
  if (env_.account->charged() > fitted_.load(std::memory_order_relaxed) + bytes() / 32) fit_cache();
}

BudgetRoom MemoryBudget::room(std::uint64_t bytes) {
  MemoryAccount& account = *env_.account;
  const std::uint64_t charged = account.charged();
  const std::uint64_t spared = this->bytes() / kSparedPart;
  if (bytes + spared <= account.room()) return BudgetRoom::kNow;
  if (env_.flushes_fail()) return BudgetRoom::kNone;
  const std::uint64_t in_memtables = account.charged(MemoryAccount::Kind::kMemTables);
  // Values of a memtable that was just flushed may be freed within the next ticks.
  const bool may_go = env_.clock->mono_ns() - left_memtables_ns_.load(std::memory_order_relaxed) < kMemTableGoesNs;
  const std::uint64_t stay = may_go ? 0 : std::min(in_memtables, charged_to_readers_.load(std::memory_order_relaxed));
  const std::uint64_t flushed = flushable_.load(std::memory_order_relaxed) + in_memtables - stay;
  const std::uint64_t left = above(fixed_.load(std::memory_order_relaxed) + charged, flushed);
  const std::uint64_t budget = this->bytes();
  if (left + bytes + spared + memory_floor(budget) > budget) return BudgetRoom::kNone;
  account.note_refused(bytes + spared);
  return BudgetRoom::kAfterFlush;
}

// Memtables may use half of the budget, or the bytes that tables, overhead and charges leave if these are fewer.
MemoryRelief MemoryBudget::relief(std::span<const TreeMemory> trees, std::uint64_t empty_memtable_bytes) {
  const std::uint64_t budget = bytes(), floor = memory_floor(budget);
  const std::uint64_t charged = env_.account->charged(), own = env_.account->charged(MemoryAccount::Kind::kMemTables);
  const std::uint64_t others = tables_.load(std::memory_order_relaxed) + overhead() + above(charged, own);
  const std::uint64_t left = above(budget, others);
  // A command whose charge was refused tries again. Flushes make room for the charge if it can ever fit.
  const std::uint64_t refused = env_.account->take_refused();
  const bool fits = refused == 0 || refused + floor <= left;
  const std::uint64_t wanted = refused == 0 || !fits ? 0 : std::min(refused + 2 * floor, left);
  return plan_relief(trees, std::min(budget / 2, left - wanted),
                     small_memtable_bytes(budget, empty_memtable_bytes, trees.size()));
}

}  // namespace ebbtide
