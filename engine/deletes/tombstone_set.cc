#include "deletes/tombstone_set.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ebbtide {
namespace {

using Cover = FragmentedRangeTombstones::Cover;

// A scan of the log compares each slot twice, and takes about as long as a binary search in a run of a few hundred.
constexpr std::size_t kLogSlots = 16;
constexpr std::size_t kFanIn = 4;  // number of runs of one size class that become one run
// Runs of size class c have at most 16 * 4^c tombstones, 16,384 in the largest class. Making a run of the largest class blocks
// the event loop for about 30 ms. A memtable is full before it has ten runs of that class.
constexpr int kLargestClass = 5;
// The most bytes of bounds in a run. Making a run compares each bound O(log n) times, so long bounds make it slow, too.
constexpr std::size_t kMostKeyBytes = std::size_t{4} << 20;

std::size_t key_bytes(const RangeTombstone& t) { return t.start.shared_bytes() + t.end.shared_bytes(); }

}  // namespace

struct TombstoneSet::Run {
  std::vector<const RangeTombstone*> members;
  FragmentedRangeTombstones fragmented;
  SeqNum min_seq = kMaxSeqNum;
  SeqNum max_seq = 0;
  std::size_t key_bytes = 0;
  int size_class = 0;
};

struct TombstoneSet::State {
  std::vector<std::shared_ptr<const Run>> runs;  // the oldest and largest first
  std::array<std::atomic<const RangeTombstone*>, kLogSlots> log{};
  std::atomic<std::size_t> logged{0};
  std::size_t log_key_bytes = 0;  // bytes of the bounds in the log; only writers use it
};

TombstoneSet::TombstoneSet() = default;
TombstoneSet::~TombstoneSet() = default;

void TombstoneSet::insert(RangeTombstone tombstone) {
  if (!tombstone.end.empty() && tombstone.start >= tombstone.end) return;
  MutexLock lock(mutex_);
  const std::size_t bytes = key_bytes(tombstone);
  memory_bytes_.fetch_add(sizeof(tombstone) + bytes, std::memory_order_relaxed);
  const RangeTombstone* kept = &all_.emplace_back(std::move(tombstone));
  if (states_.empty()) {
    states_.push_back(std::make_unique<State>());
    memory_bytes_.fetch_add(sizeof(State), std::memory_order_relaxed);
  } else if (const State& last = *states_.back();
             last.logged.load(std::memory_order_relaxed) == kLogSlots || last.log_key_bytes + bytes > kMostKeyBytes) {
    roll_log(last);
  }
  State& state = *states_.back();
  const std::size_t slot = state.logged.load(std::memory_order_relaxed);
  state.log[slot].store(kept, std::memory_order_relaxed);
  state.log_key_bytes += bytes;
  state.logged.store(slot + 1, std::memory_order_release);
  state_.store(&state, std::memory_order_release);
  size_.fetch_add(1, std::memory_order_relaxed);
}

void TombstoneSet::roll_log(const State& full) {
  auto next = std::make_unique<State>();
  next->runs = full.runs;
  std::vector<const RangeTombstone*> members;
  const std::size_t logged = full.logged.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < logged; i++) members.push_back(full.log[i].load(std::memory_order_relaxed));
  std::size_t bytes = full.log_key_bytes;
  // kFanIn runs of one size class become one run of the next, like a carry of digits.
  int size_class = 0;
  for (; size_class < kLargestClass && next->runs.size() >= kFanIn - 1; ++size_class) {
    const auto first = next->runs.end() - (kFanIn - 1);
    std::size_t merged_bytes = bytes;
    bool same_class = true;
    for (auto run = first; run != next->runs.end(); ++run) {
      same_class = same_class && (*run)->size_class == size_class;
      merged_bytes += (*run)->key_bytes;
    }
    if (!same_class || merged_bytes > kMostKeyBytes) break;
    bytes = merged_bytes;
    for (auto run = first; run != next->runs.end(); ++run) {
      members.insert(members.end(), (*run)->members.begin(), (*run)->members.end());
    }
    next->runs.erase(first, next->runs.end());
  }
  next->runs.push_back(make_run(std::move(members), size_class));
  memory_bytes_.fetch_add(sizeof(State) + next->runs.capacity() * sizeof(next->runs[0]), std::memory_order_relaxed);
  states_.push_back(std::move(next));
}

std::shared_ptr<const TombstoneSet::Run> TombstoneSet::make_run(std::vector<const RangeTombstone*> members, int size_class) {
  auto run = std::make_shared<Run>();
  run->size_class = size_class;
  std::vector<RangeTombstone> copies;
  copies.reserve(members.size());
  for (const RangeTombstone* t : members) {
    copies.push_back(*t);
    run->key_bytes += key_bytes(*t);
    run->min_seq = std::min(run->min_seq, t->seq);
    run->max_seq = std::max(run->max_seq, t->seq);
  }
  run->members = std::move(members);
  run->fragmented = FragmentedRangeTombstones(copies);
  fragmented_.fetch_add(copies.size(), std::memory_order_relaxed);
  memory_bytes_.fetch_add(sizeof(Run) + run->members.capacity() * sizeof(void*) + run->fragmented.memory_bytes(),
                          std::memory_order_relaxed);
  return run;
}

bool TombstoneSet::newest_cover(Bytes key, SeqNum view_seq, Cover* out) const {
  const State* state = state_.load(std::memory_order_acquire);
  if (state == nullptr) return false;
  Cover best{0, 0};
  bool found = false;
  const std::size_t logged = state->logged.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < logged; i++) {
    const RangeTombstone* t = state->log[i].load(std::memory_order_relaxed);
    if (t->seq <= view_seq && (!found || t->seq > best.seq) && t->covers(key)) {
      best = {t->seq, t->birth};
      found = true;
    }
  }
  for (auto it = state->runs.rbegin(); it != state->runs.rend(); ++it) {
    const Run& run = **it;
    if (run.min_seq > view_seq || (found && run.max_seq < best.seq)) continue;
    const Cover* cover = run.fragmented.newest_cover(key, view_seq);
    if (cover != nullptr && (!found || cover->seq > best.seq)) {
      best = *cover;
      found = true;
    }
  }
  if (found) *out = best;
  return found;
}

std::vector<SharedTombstones> TombstoneSet::runs() const {
  std::vector<SharedTombstones> out;
  const State* state = state_.load(std::memory_order_acquire);
  if (state == nullptr) return out;
  const std::size_t logged = state->logged.load(std::memory_order_acquire);
  out.reserve(state->runs.size() + 1);
  if (logged != 0) {
    std::vector<RangeTombstone> copies;
    for (std::size_t i = 0; i < logged; i++) copies.push_back(*state->log[i].load(std::memory_order_relaxed));
    fragmented_.fetch_add(logged, std::memory_order_relaxed);
    out.push_back(std::make_shared<const FragmentedRangeTombstones>(copies));
  }
  for (auto it = state->runs.rbegin(); it != state->runs.rend(); ++it) out.emplace_back(*it, &(*it)->fragmented);
  return out;
}

SharedTombstones TombstoneSet::fragment_all() const {
  const State* state = state_.load(std::memory_order_acquire);
  if (state == nullptr) return std::make_shared<const FragmentedRangeTombstones>();
  const std::size_t logged = state->logged.load(std::memory_order_acquire);
  std::vector<RangeTombstone> copies;
  std::size_t total = logged;
  for (const auto& run : state->runs) total += run->members.size();
  copies.reserve(total);
  for (const auto& run : state->runs) {
    for (const RangeTombstone* t : run->members) copies.push_back(*t);
  }
  for (std::size_t i = 0; i < logged; i++) copies.push_back(*state->log[i].load(std::memory_order_relaxed));
  fragmented_.fetch_add(total, std::memory_order_relaxed);
  return std::make_shared<const FragmentedRangeTombstones>(copies);
}

}  // namespace ebbtide
