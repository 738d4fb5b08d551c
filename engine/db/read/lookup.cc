// Looks up one key: first in the memtables, then in the runs, from newest to oldest. The first version found decides, unless a
// newer delete covers it.
//
// The found version is then checked against the records of stamp deletes. These may be in any memtable or in the tree's version,
// in a newer or an older source than the entry. If a record covers the entry, the key is absent: no older version is examined. A
// lookup only locates a large value in a table; ReadView::read() and read_part() read its bytes.
//
// Sources are in age order: for one key, every seq in a newer source is larger than every seq in an older source. So the search
// ends at a range tombstone that covers the key: it also covers all versions in older sources.
//
// If prefetch.cc has stored results in the key's LookupState, a lookup uses them.
#include <bit>
#include <cstring>

#include <engine/charged_value.h>
#include "base/invariant.h"
#include "base/oldest.h"
#include "db/read/lookup.h"
#include "db/read/view_parts.h"

namespace ebbtide {
namespace {

using Cover = FragmentedRangeTombstones::Cover;

// The stage of a prefetch after which the tile is known.
constexpr int kTileStage = 3;

void count_get(const ReadView& view, ThreadCounters& counters, bool hit) {
  ThreadCounters::add(counters.gets, 1);
  if (hit) ThreadCounters::add(counters.get_hits, 1);
  DatabaseCounters& database = ViewParts::env(view).counters.of(counters, view.database());
  ThreadCounters::add(hit ? database.reads : database.empty_reads, 1);
}

// Counts a completed lookup by level. A lookup that is tried again is counted only once. Bit r of a mask in `asked` stands for
// runs[r].
void count_runs(const std::vector<RunView>& runs, const RunsAsked& asked, TreeLookups::Slot& mine) {
  const auto level_of = [&](std::size_t r) -> TreeLookups::Level& { return mine.levels[lookup_level(runs[r].level())]; };
  for (std::uint64_t left = asked.denied; left != 0; left &= left - 1)
    ThreadCounters::add(level_of(static_cast<std::size_t>(std::countr_zero(left))).denied, 1);
  for (std::uint64_t left = asked.in_vain; left != 0; left &= left - 1)
    ThreadCounters::add(level_of(static_cast<std::size_t>(std::countr_zero(left))).in_vain, 1);
  if (asked.found >= 0) ThreadCounters::add(level_of(static_cast<std::size_t>(asked.found)).found, 1);
}

Status no_room(const MemoryAccount& account, const MissSet& misses) { return refused_charge(account, misses.refused_bytes); }

/// Adds misses for the indexes that the search may need in run `first` and in older runs, so that one fetch reads them all.
void miss_older_indexes(const TablesView& tables, std::size_t first, const LookupKey& key, MissSet* misses) {
  for (std::size_t r = first; r < tables.runs.size(); ++r) {
    if (const int i = tables.runs[r].find(key.key); i >= 0)
      tables.runs[r].reader(static_cast<std::size_t>(i)).add_index_miss(misses);
  }
}

LargeValueRef reference(const Found& found) {
  return {found.large.table, found.large.offset, found.large.stored_bytes, found.length};
}

// Returns the part of a large value that an earlier fetch has read, if it contains [offset, offset + length); otherwise null.
const MissSet::LargeValue* find_fetched(const MissSet& misses, const LargePlace& place, std::uint64_t offset,
                                        std::uint64_t length) {
  for (const MissSet::LargeValue& have : misses.large) {
    if (have.table != place.table || have.offset != place.offset || have.part_offset > offset) continue;
    if (offset - have.part_offset + length <= have.value->size()) return &have;
  }
  return nullptr;
}

// Fills in `found` from the found version. Returns kNotFound if the version is a tombstone or has expired, or if a delete covers
// it. `cover`: the newest range tombstone of the version's source that covers the key.
Status finish_lookup(const ReadView& view, const Entry& entry, const Cover* cover, Found* found,
                     std::shared_ptr<const void> pin) {
  found->seq = entry.seq;
  found->died = 0;
  if (entry.is_tombstone() || (cover != nullptr && cover->seq > entry.seq)) return Status::not_found();
  const bool expired = entry.expired(view.now());
  if (expired || ViewParts::tree(view)->deleted_by_record(entry, view.seq())) [[unlikely]] {
    if (entry.kind == EntryKind::kHeader)
      found->died = older(expired ? entry.expiry : 0, ViewParts::tree(view)->record_birth(entry, view.seq()));
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

// Returns true if a memtable has a version of the key, or a range tombstone that covers the key.
bool get_from_memtables(const ReadView& view, const LookupKey& key, Found* found, Status* status) {
  Entry entry;
  Cover cover{};
  for (const std::shared_ptr<MemTable>& memtable : ViewParts::tree(view)->memtables) {
    const bool covered = memtable->newest_cover(key.key, view.seq(), &cover);
    if (memtable->get(key, view.seq(), &entry)) {
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

Status get_from_tables(const ReadView& view, const LookupKey& key, Found* found, ReadCounters* reads, RunsAsked* asked) {
  const TablesView& tables = *ViewParts::tree(view)->tables;
  MissSet* const misses = view.mode() == ReadMode::kResident ? view.misses() : nullptr;
  const LookupState* state = key.state;
  if (state != nullptr && (state->tables != &tables || ViewParts::lease(view) != nullptr)) state = nullptr;
  Entry entry;
  std::shared_ptr<const void> pin;
  Status status;
  for (std::size_t r = 0; r < tables.runs.size(); ++r) {
    const RunView& run = tables.runs[r];
    const std::uint64_t bit = r < RunsAsked::kRuns ? std::uint64_t{1} << r : 0;
    const bool known = state != nullptr && r < LookupState::kRuns;
    if (known && (state->outside >> r & 1) != 0) continue;
    const int i = known ? state->files[r] : run.find(key.key);
    if (i < 0) continue;
    ++reads->runs_probed;
    const auto at = static_cast<std::size_t>(i);
    const TableLookup& table = run.reader(at);
    const Cover* covered = nullptr;
    if (run.is_special(at)) [[unlikely]] {
      if (run.is_unreadable(at)) return table.unreadable();  // the table may have the key, or a delete of the key
      const Lookup cover = table.newest_cover(key.key, view.seq(), misses, &covered, &status);
      if (cover == Lookup::kNotResident) {
        miss_older_indexes(tables, r + 1, key, misses);
        return missing_status(view);
      }
      if (cover == Lookup::kError) return status;
    }
    if (known && (state->denied >> r & 1) != 0) {
      ++reads->filter_negatives;
      asked->denied |= bit;
    } else {
      const std::uint64_t in_vain = reads->pages_in_vain;
      const LookupState* const found_before = known && state->table == &table && state->stage > kTileStage ? state : nullptr;
      switch (table.get(key, view.seq(), misses, &entry, &pin, reads, &status, found_before)) {
        case Lookup::kFound:
          asked->found = static_cast<int>(r);
          return finish_lookup(view, entry, covered, found, std::move(pin));
        case Lookup::kNotResident:
          if (misses->pages.back().page == kIndexMiss) miss_older_indexes(tables, r + 1, key, misses);
          return missing_status(view);
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

}  // namespace

Status missing_status(const ReadView& view) {
  return view.misses()->refused ? no_room(ViewParts::env(view).memory, *view.misses()) : Status::not_resident();
}

Status find_entry(const ReadView& view, const LookupKey& key, Found* found, ReadCounters* reads) {
  Status status;
  RunsAsked asked;
  return get_from_memtables(view, key, found, &status) ? status : get_from_tables(view, key, found, reads, &asked);
}

Status locate_entry(const ReadView& view, const LookupKey& key, Found* found) {
  if (!view.has_tree()) return Status::not_found();
  if (ViewParts::is_revoked(view)) return revoked_view();
  ThreadCounters& counters = ViewParts::env(view).counters.mine();
  Status status;
  if (get_from_memtables(view, key, found, &status)) {
    count_get(view, counters, status.is_ok());
    return status;
  }
  ReadCounters reads;
  RunsAsked asked;
  status = get_from_tables(view, key, found, &reads, &asked);
  counters.add(reads);
  if (status.is_ok() || status.is_not_found()) {
    count_get(view, counters, status.is_ok());
    counters.add_probes(reads.runs_probed);
    TreeLookups::Slot& lookups = ViewParts::tree(view)->lookups->mine();
    count_runs(ViewParts::tree(view)->tables->runs, asked, lookups);
    if (reads.pages_in_vain != 0) ThreadCounters::add(lookups.pages_in_vain, reads.pages_in_vain);
  }
  return status;
}

// --- functions of ReadView

StampMode ReadView::stamp_mode() const {
  if (tree_ != nullptr) [[likely]]
    return tree_->stamp;
  return env_->first_stamp_mode(database_);
}

bool ReadView::may_have_collection(const LookupKey& key) const {
  if (tree_ == nullptr) return false;
  if (lease_ == nullptr) return tree_->may_have_collection(key, seq_);
  EpochGuard guard(env_->epoch);
  return tree_->may_have_collection(key, seq_);
}

Status ReadView::get(const LookupKey& key, Found* found) const {
  TRY(locate(key, found));
  return found->large.table == nullptr ? Status::ok() : read(found);
}

Status ReadView::locate(const LookupKey& key, Found* found) const {
  if (tree_ == nullptr) return Status::not_found();
  if (lease_ == nullptr) return locate_entry(*this, key, found);
  EpochGuard guard(env_->epoch);
  TRY(locate_entry(*this, key, found));
  if (found->pin == nullptr && found->large.table == nullptr) {
    // The guard ends when this function returns; then the cached page with the value may be freed.
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
    if (misses_->refused) return no_room(env_->memory, *misses_);
    PageMiss miss{table, 0, found.large.offset, found.large.stored_bytes, found.length};
    miss.part_offset = offset;
    miss.part_bytes = length;
    misses_->pages.push_back(miss);
    misses_->keep_alive.push_back(table->shared_from_this());
    return Status::not_resident();
  }
  TRY_ASSIGN(read, env_->values->read_part(*table, reference(found), offset, length));
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

}  // namespace ebbtide
