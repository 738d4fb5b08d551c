// One get: newest to oldest, memtables then runs; the first version found decides, unless something newer covers it.
//
// The version found is then asked for its records, which may be in any memtable or in the version, newer or older than where it
// lay. If one covers it the key is absent: older versions are never looked at. A large value that lies in a table is only located
// by that; its bytes are read by who needs them, all or a part.
//
// Sources are in age order: for any one key, everything in a newer source has a larger seq than anything in an older one. So once
// a range tombstone that covers the key was met, no older source can have a version that survives it, and the search ends.
//
// A span of keys is looked up in stages before that (prefetch): 0 the memtables' buckets, 1 their nodes, and the filters' rows of
// every run, 2 filters asked, then fences, 3 tile, 4 the cache's bucket, 5 the page's head, 6 its entry. From stage 2 on a key
// goes on in the newest table alone whose filter does not deny it; where the filter was wrong get() searches the older runs by
// itself. What stages find is kept in the key's LookupState, so that each search is done once. Tables never change, so what was
// found in them holds for every view with the same tables (their filters do, but whatever one has said is right); memtables do, and
// are asked again.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include <engine/charged_value.h>

#include "base/hash.h"
#include "base/invariant.h"
#include "db/db_impl.h"

namespace ebbtide {
namespace {

using Cover = FragmentedRangeTombstones::Cover;

// Of ReadView::prefetch: the first that needs what an earlier one found, and the one after which the tile is known.
constexpr int kFilterStage = 2, kTileStage = 3;
static_assert(ReadView::kPrefetchStages == TableLookup::kPrefetchStages + 1, "before them comes the memtables' bucket");

void count_hit(ThreadCounters& counters, bool hit) {
  ThreadCounters::add(counters.gets, 1);
  if (hit) ThreadCounters::add(counters.get_hits, 1);
}

// Of a lookup that was answered; one that has to be tried again is counted when it is. Bits ascend with runs, runs with levels.
void count_runs(const std::vector<RunView>& runs, const RunsAsked& asked, TreeLookups::Slot& mine) {
  const auto level_of = [&](std::size_t r) -> TreeLookups::Level& { return mine.levels[lookup_level(runs[r].level())]; };
  for (std::uint64_t left = asked.denied; left != 0; left &= left - 1)
    ThreadCounters::add(level_of(static_cast<std::size_t>(std::countr_zero(left))).denied, 1);
  for (std::uint64_t left = asked.in_vain; left != 0; left &= left - 1)
    ThreadCounters::add(level_of(static_cast<std::size_t>(std::countr_zero(left))).in_vain, 1);
  if (asked.found >= 0) ThreadCounters::add(level_of(static_cast<std::size_t>(asked.found)).found, 1);
}

Status no_room(const MemoryAccount& account, const MissSet& misses) { return refused_charge(account, misses.refused_bytes); }

LargeValueRef reference(const Found& found) {
  return {found.large.table, found.large.offset, found.large.stored_bytes, found.length};
}

// What an earlier fetch has brought of a large value, if it has all of [offset, offset + length).
const MissSet::LargeValue* find_fetched(const MissSet& misses, const LargePlace& place, std::uint64_t offset,
                                        std::uint64_t length) {
  for (const MissSet::LargeValue& have : misses.large) {
    if (have.table != place.table || have.offset != place.offset || have.part_offset > offset) continue;
    if (offset - have.part_offset + length <= have.value->size()) return &have;
  }
  return nullptr;
}

}  // namespace

Status DbImpl::finish_lookup(const ReadView& view, const Entry& entry, const Cover* cover, Found* found,
                             std::shared_ptr<const void> pin) {
  found->seq = entry.seq;
  if (entry.is_tombstone() || entry.expired(view.now()) || (cover != nullptr && cover->seq > entry.seq))
    return Status::not_found();
  if (view.tree_->deleted_by_record(entry, view.seq_)) [[unlikely]] {
    return Status::not_found();
  }
  found->kind = entry.kind;
  found->expiry = entry.expiry;
  found->stamp = entry.delete_key;
  found->length = entry.value_length();
  if (entry.is_large()) {
    found->value = {};
    found->large = {entry.large.table, entry.large.offset, entry.large.stored_bytes};
    return Status::ok();
  }
  found->value = entry.value;
  found->large = {};
  found->pin = entry.shared != nullptr ? std::shared_ptr<const void>(*entry.shared) : std::move(pin);
  return Status::ok();
}

bool DbImpl::get_from_memtables(const ReadView& view, const LookupKey& key, Found* found, Status* status) {
  Entry entry;
  Cover cover{};
  for (const std::shared_ptr<MemTable>& memtable : view.tree_->memtables) {
    const bool covered = memtable->newest_cover(key.key, view.seq_, &cover);
    if (memtable->get(key, view.seq_, &entry)) {
      *status = finish_lookup(view, entry, covered ? &cover : nullptr, found, nullptr);
      return true;
    }
    if (covered) {
      *status = Status::not_found();
      return true;
    }
  }
  return false;
}

Status DbImpl::find(const ReadView& view, const LookupKey& key, Found* found, ReadCounters* reads) {
  Status status;
  RunsAsked asked;
  return get_from_memtables(view, key, found, &status) ? status : get_from_tables(view, key, found, reads, &asked);
}

Status DbImpl::locate(const ReadView& view, const LookupKey& key, Found* found) {
  if (view.tree_ == nullptr) return Status::not_found();
  if (view.lease_ != nullptr && view.lease_->revoked()) return revoked_view();
  ThreadCounters& counters = counters_.mine();
  Status status;
  if (get_from_memtables(view, key, found, &status)) {
    count_hit(counters, status.is_ok());
    return status;
  }
  ReadCounters reads;
  RunsAsked asked;
  status = get_from_tables(view, key, found, &reads, &asked);
  counters.add(reads);
  if (status.is_ok() || status.is_not_found()) {
    count_hit(counters, status.is_ok());
    counters.add_probes(reads.runs_probed);
    TreeLookups::Slot& lookups = view.tree_->lookups->mine();
    count_runs(view.tree_->tables->runs, asked, lookups);
    if (reads.pages_in_vain != 0) ThreadCounters::add(lookups.pages_in_vain, reads.pages_in_vain);
  }
  return status;
}

Status DbImpl::get_from_tables(const ReadView& view, const LookupKey& key, Found* found, ReadCounters* reads, RunsAsked* asked) {
  const TablesView& tables = *view.tree_->tables;
  MissSet* const misses = view.mode_ == ReadMode::kResident ? view.misses_ : nullptr;
  const LookupState* state = key.state;
  if (state != nullptr && (state->tables != &tables || view.lease_ != nullptr)) state = nullptr;
  Entry entry;
  std::shared_ptr<const void> pin;
  Status status;
  for (std::size_t r = 0; r < tables.runs.size(); ++r) {
    const RunView& run = tables.runs[r];
    const std::uint64_t bit = r < 64 ? std::uint64_t{1} << r : 0;
    const bool known = state != nullptr && r < LookupState::kRuns;
    if (known && (state->outside >> r & 1) != 0) continue;
    const int i = known ? state->files[r] : run.find(key.key);
    if (i < 0) continue;
    ++reads->runs_probed;
    const auto at = static_cast<std::size_t>(i);
    const TableLookup& table = run.reader(at);
    const Cover* covered = nullptr;
    if (run.is_special(at)) [[unlikely]] {
      if (run.is_unreadable(at)) return table.unreadable();  // it may have the key, or a delete of it
      covered = table.range_tombstones()->newest_cover(key.key, view.seq_);
    }
    if (known && (state->denied >> r & 1) != 0) {
      ++reads->filter_negatives;
      asked->denied |= bit;
    } else {
      const std::uint64_t in_vain = reads->pages_in_vain;
      const LookupState* const found_before = known && state->table == &table && state->stage > kTileStage ? state : nullptr;
      switch (table.get(key, view.seq_, misses, &entry, &pin, reads, &status, found_before)) {
        case Lookup::kFound:
          asked->found = static_cast<int>(r);
          return finish_lookup(view, entry, covered, found, std::move(pin));
        case Lookup::kNotResident:
          return view.misses_->refused ? no_room(*view.impl_->memory_, *view.misses_) : Status::not_resident();
        case Lookup::kError:
          return status;
        case Lookup::kAbsent:
          (reads->pages_in_vain == in_vain ? asked->denied : asked->in_vain) |= bit;
          break;
      }
    }
    if (covered != nullptr) break;
  }
  return Status::not_found();
}

// --- large values: they lie beside the pages

Status ReadView::get(const LookupKey& key, Found* found) const {
  TRY(locate(key, found));
  return found->large.table == nullptr ? Status::ok() : read(found);
}

Status ReadView::locate(const LookupKey& key, Found* found) const {
  if (tree_ == nullptr) return Status::not_found();
  if (lease_ == nullptr) return impl_->locate(*this, key, found);
  EpochGuard guard(impl_->epoch_);
  TRY(impl_->locate(*this, key, found));
  if (found->pin == nullptr && found->large.table == nullptr) {
    // The guard is about to be left: what lies in a cached page has to come along.
    auto copy = std::make_shared<const std::string>(found->value);
    found->value = *copy;
    found->pin = std::move(copy);
  }
  return Status::ok();
}

Status ReadView::read(Found* found) const {
  if (found->large.table == nullptr) return Status::ok();
  ValuePart whole;
  TRY(read_part(*found, 0, found->length, &whole));
  found->value = whole.bytes;
  found->pin = std::move(whole.pin);
  found->large = {};
  return Status::ok();
}

Status ReadView::read_part(const Found& found, std::uint64_t offset, std::uint64_t length, ValuePart* part) const {
  ASSERT_MSG(offset <= found.length && length <= found.length - offset, "the part of a value lies within it");
  if (found.large.table == nullptr) {
    *part = {found.value.substr(offset, length), found.pin};
    return Status::ok();
  }
  if (lease_ != nullptr && lease_->revoked()) return revoked_view();
  if (misses_ != nullptr) {
    if (const auto* have = find_fetched(*misses_, found.large, offset, length); have != nullptr) {
      *part = {Bytes(*have->value).substr(offset - have->part_offset, length), have->value};
      return Status::ok();
    }
  }
  const auto* table = static_cast<const TableLookup*>(found.large.table);
  if (mode_ == ReadMode::kResident && misses_ != nullptr) {
    if (misses_->refused) return no_room(*impl_->memory_, *misses_);
    PageMiss miss{table, 0, found.large.offset, found.large.stored_bytes, found.length};
    miss.part_offset = offset;
    miss.part_bytes = length;
    misses_->pages.push_back(miss);
    misses_->keep_alive.push_back(table->shared_from_this());
    return Status::not_resident();
  }
  TRY_ASSIGN(read, impl_->large_values_->read_part(*table, reference(found), offset, length));
  *part = {Bytes(*read.value).substr(offset - read.offset, length), read.value};
  return Status::ok();
}

Status ReadView::copy_part(const Found& found, std::uint64_t offset, std::span<char> to) const {
  if (to.empty()) return Status::ok();
  if (found.large.table == nullptr || mode_ == ReadMode::kResident) {
    ValuePart part;
    TRY(read_part(found, offset, to.size(), &part));
    std::memcpy(to.data(), part.bytes.data(), to.size());
    return Status::ok();
  }
  ASSERT_MSG(offset <= found.length && to.size() <= found.length - offset, "the part of a value lies within it");
  if (lease_ != nullptr && lease_->revoked()) return revoked_view();
  return static_cast<const TableLookup*>(found.large.table)->copy_large(reference(found), offset, to);
}

// --- prefetching

namespace {

// Which file of each run can hold the key; loads of their filters' rows. Without a state only the latter.
void start_filters(const TablesView& tables, const LookupKey& key) {
  LookupState* const state = key.state;
  for (std::size_t r = 0; r < tables.runs.size(); ++r) {
    const RunView& run = tables.runs[r];
    const int i = run.find(key.key);
    if (i >= 0) (void)run.reader(static_cast<std::size_t>(i)).prefetch(key, 0, nullptr);
    if (state == nullptr || r >= LookupState::kRuns) continue;
    if (i < 0) state->outside |= static_cast<std::uint16_t>(1u << r);
    if (i > std::numeric_limits<std::uint16_t>::max()) [[unlikely]] {
      state->tables = nullptr;  // more files than it can name
    }
    state->files[r] = static_cast<std::uint16_t>(i);
  }
}

// Memtables' nodes; for a key that has none, the filters.
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

// Asks the filters, newest run first, until one does not deny the key.
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

// One stage of one key.
inline void step(const TreeView& tree, const LookupKey& key, int stage) {
  if (stage == 0) {
    if (key.state != nullptr) key.state->tables = nullptr;
    for (const auto& memtable : tree.memtables) memtable->prefetch(key, 0);
    return;
  }
  if (stage < kFilterStage) return start_search(tree, key);
  LookupState* const state = key.state;
  // A state that missed a stage, or is of other tables, stays as it is.
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

void ReadView::add_expected_miss(const LookupKey& key, MissSet* misses) const {
  const LookupState* const state = key.state;
  if (tree_ == nullptr || state == nullptr || state->tables != tree_->tables.get() || state->table == nullptr) return;
  if (state->stage != kPrefetchStages || state->block != nullptr || state->page == LookupState::kNoPage) return;
  const auto* const table = static_cast<const TableLookup*>(state->table);
  PageMiss miss{table, state->page};
  miss.ahead = true;
  misses->pages.push_back(miss);
  misses->keep_alive.push_back(table->shared_from_this());
}

}  // namespace ebbtide
