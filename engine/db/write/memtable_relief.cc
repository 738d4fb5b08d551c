#include "db/write/memtable_relief.h"

#include <algorithm>
#include <vector>

namespace ebbtide {

void MemTableRelief::relieve_log() {
  const std::uint64_t bytes = env_.log_bytes();
  const std::uint64_t most = env_.most_log_bytes();
  if (bytes <= most) return;
  // Pieces of a staged batch that waits for its commit must not keep the oldest segment, either.
  if (bytes - std::min(bytes, env_.pending_piece_bytes()) > most) env_.give_up_pieces_before(env_.trees->oldest_needed({}, {}));
  MutexLock lock(env_.trees->commit_mutex);
  TreePtr oldest, waits;
  // The oldest seq in a frozen memtable. Until that memtable is flushed, flushing newer memtables frees no segment.
  SeqNum waiting = kMaxSeqNum;
  for (const auto& [id, tree] : env_.trees->live()) {
    if (tree->active_first_seq != 0 && (oldest == nullptr || tree->active_first_seq < oldest->active_first_seq)) oldest = tree;
    MutexLock state(env_.trees->state_mutex);
    if (!tree->frozen.empty() && tree->frozen.front().first_seq < waiting) {
      waiting = tree->frozen.front().first_seq;
      waits = tree;
    }
  }
  if (oldest == nullptr || oldest->active_first_seq >= waiting) {
    if (waits != nullptr) env_.hurry(waits);
    return;
  }
  // Flushes all memtables that need the oldest segment at once: one memtable per tick would take minutes for a thousand trees.
  const FileNum segment = env_.oldest_needed(oldest->active_first_seq);
  for (const auto& [id, tree] : env_.trees->live()) {
    if (tree->active_first_seq == 0 || env_.oldest_needed(tree->active_first_seq) != segment) continue;
    env_.trees->freeze(*tree);
    env_.hurry(tree);
  }
}

void MemTableRelief::relieve_memory() {
  MutexLock lock(env_.trees->commit_mutex);
  std::vector<TreePtr> trees;
  std::vector<TreeMemory> memory;
  for (const auto& [id, tree] : env_.trees->live()) {
    TreeMemory of{.active_bytes = tree->active->memory_bytes(), .active_is_empty = tree->active_first_seq == 0};
    MutexLock state(env_.trees->state_mutex);
    of.frozen_rests = tree->frozen_rest;
    if (const auto& view = tree->view_owner; view != nullptr) {
      for (std::size_t i = 1; i < view->memtables.size(); ++i) of.frozen_bytes += view->memtables[i]->memory_bytes();
    }
    trees.push_back(tree);
    memory.push_back(of);
  }
  const MemoryRelief relief = env_.budget->relief(memory, env_.empty_memtable_bytes());
  for (const std::size_t i : relief.flush_frozen) env_.hurry(trees[i]);
  for (const std::size_t i : relief.freeze_active) {
    env_.trees->freeze(*trees[i]);
    env_.hurry(trees[i]);
  }
}

}  // namespace ebbtide
