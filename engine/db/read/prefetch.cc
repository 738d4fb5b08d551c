// Starts the memory loads of lookups of a span of keys, stage by stage, so that the cache misses of all keys overlap.
//
//   stage 0   loads the memtables' buckets
//   stage 1   loads the memtables' nodes; for a key without a node, the filters' rows of every run
//   stage 2   tests the filters, newest run first, up to the first filter that does not deny the key; loads the table's fences
//   stage 3   finds the tile
//   stage 4   loads the cache's bucket
//   stage 5   loads the page's head
//   stage 6   loads the page's entry
//
// From stage 2 on, the stages follow a key in one table only: if that table's filter gave a false positive, get() searches the
// older runs itself. Results are stored in the key's LookupState, so that get() does not repeat a search. Tables never change, so
// a result is valid for every view with the same tables. Filter slices may be loaded or dropped, but an answer of a filter stays
// true. Memtables change, so get() searches them again.
#include <algorithm>
#include <limits>
#include <utility>

#include <engine/read_view.h>
#include "db/trees/tree_view.h"

namespace ebbtide {
namespace {

// The first stage that needs results of an earlier stage.
constexpr int kFilterStage = 2;
static_assert(ReadView::kPrefetchStages == TableLookup::kPrefetchStages + 1,
              "stage 0 loads the memtables' buckets, before the stages of a table");

// Finds the file of each run that may have the key, and starts the loads of its filter rows. Without a LookupState, only starts
// the loads.
void start_filters(const TablesView& tables, const LookupKey& key) {
  LookupState* const state = key.state;
  for (std::size_t r = 0; r < tables.runs.size(); ++r) {
    const RunView& run = tables.runs[r];
    const int i = run.find(key.key);
    if (i >= 0) (void)run.reader(static_cast<std::size_t>(i)).prefetch(key, 0, nullptr);
    if (state == nullptr || r >= LookupState::kRuns) continue;
    if (i < 0) state->outside |= static_cast<std::uint16_t>(1u << r);
    if (i > std::numeric_limits<std::uint16_t>::max()) [[unlikely]] {
      state->tables = nullptr;  // the index of the file does not fit into an element of `files`: get() searches without results
    }
    state->files[r] = static_cast<std::uint16_t>(i);
  }
}

// Starts the loads of memtable nodes or, for a key without a node, of the filters.
void start_search(const TreeView& tree, const LookupKey& key) {
  LookupState* const state = key.state;
  bool in_memory = false;
  for (const auto& memtable : tree.memtables) in_memory |= memtable->prefetch(key, 1);
  if (state != nullptr) {
    state->tables = in_memory ? nullptr : tree.tables.get();
    state->table = nullptr;
    state->outside = state->denied = 0;
    state->stage = kFilterStage;
  }
  if (!in_memory) start_filters(*tree.tables, key);
}

// Tests the filters, newest run first, until one does not deny the key.
void ask_filters(const TablesView& tables, const LookupKey& key) {
  LookupState& state = *key.state;
  state.stage = ReadView::kPrefetchStages;
  const std::size_t runs = std::min<std::size_t>(tables.runs.size(), LookupState::kRuns);
  for (std::size_t r = 0; r < runs; ++r) {
    if ((state.outside >> r & 1) != 0) continue;
    const TableLookup& table = tables.runs[r].reader(state.files[r]);
    if (table.prefetch(key, kFilterStage - 1, &state)) {
      state.table = &table;
      state.stage = kFilterStage + 1;
      return;
    }
    state.denied |= static_cast<std::uint16_t>(1u << r);
  }
}

// Carries out one stage for one key.
inline void step(const TreeView& tree, const LookupKey& key, int stage) {
  if (stage == 0) {
    if (key.state != nullptr) key.state->tables = nullptr;
    for (const auto& memtable : tree.memtables) memtable->prefetch(key, 0);
    return;
  }
  if (stage < kFilterStage) return start_search(tree, key);
  LookupState* const state = key.state;
  // Skips a state that has missed a stage, or that belongs to other tables.
  if (state == nullptr || state->stage != stage || state->tables != tree.tables.get()) return;
  if (stage == kFilterStage) return ask_filters(*tree.tables, key);
  (void)static_cast<const TableLookup*>(state->table)->prefetch(key, stage - 1, state);
  state->stage = static_cast<std::uint8_t>(stage + 1);
}

}  // namespace

void ReadView::prefetch(const LookupKey& key, int stage) const {
  if (tree_ != nullptr) step(*tree_, key, stage);
}

void ReadView::prefetch(std::span<const LookupKey* const> keys) const {
  if (tree_ == nullptr) return;
  for (int stage = 0; stage < kPrefetchStages; ++stage) {
    for (const LookupKey* key : keys) step(*tree_, *key, stage);
  }
}

void ReadView::prefetch_collections(std::span<const LookupKey* const> keys) const {
  if (tree_ == nullptr) return;
  for (const LookupKey* key : keys) step(*tree_, *key, 0);
  if (!tree_->tables->collections) return;
  for (const LookupKey* key : keys) {
    for (const RunView& run : tree_->tables->runs) {
      if (const TableLookup* table = run.with_collections(key->key); table != nullptr) table->prefetch_collection(*key);
    }
  }
}

void ReadView::add_expected_miss(const LookupKey& key, MissSet* misses) const {
  const LookupState* const state = key.state;
  if (tree_ == nullptr || state == nullptr || state->tables != tree_->tables.get() || state->table == nullptr) return;
  if (state->stage != kPrefetchStages || state->block != nullptr || state->page == LookupState::kNoPage) return;
  const auto* const table = static_cast<const TableLookup*>(state->table);
  auto pin = table->is_crowded() ? nullptr : table->pin_index_if_loaded();
  if (pin == nullptr) return;
  PageMiss miss{table, state->page};
  miss.ahead = true;
  misses->pages.push_back(miss);
  misses->keep_alive.push_back(std::move(pin));
}

}  // namespace ebbtide
