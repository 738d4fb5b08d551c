// One get: newest to oldest, memtables then runs; the first version found decides, unless something newer covers it.
//
// Sources are in age order: for any one key, everything in a newer source has a larger seq than anything in an older one. So once
// a range tombstone that covers the key was met, no older source can have a version that survives it, and the search ends.
#include "base/hash.h"
#include "db/db_impl.h"

namespace ebbtide {
namespace {

using Cover = FragmentedRangeTombstones::Cover;

void count_hit(ThreadCounters& counters, bool hit) {
  ThreadCounters::add(counters.gets, 1);
  if (hit) ThreadCounters::add(counters.get_hits, 1);
}

Status no_room() { return Status::out_of_memory("storage.memory_budget has no room for what the command has to read"); }

// A large value lies beside the pages: from an earlier fetch, or read here, or to be fetched.
Status read_large_value(const ReadView& view, const LargeValueRef& ref, LargeValues& values, Found* found) {
  const auto* table = static_cast<const TableReader*>(ref.table);
  MissSet* misses = view.misses();
  if (misses != nullptr) {
    for (const MissSet::LargeValue& have : misses->large) {
      if (have.table == ref.table && have.offset == ref.offset) {
        found->value = *have.value;
        found->pin = have.value;
        return Status::ok();
      }
    }
  }
  if (view.mode() == ReadMode::kResident && misses != nullptr) {
    if (misses->refused) return no_room();
    misses->pages.push_back({table, 0, ref.offset, ref.stored_bytes, ref.length});
    misses->keep_alive.push_back(table->shared_from_this());
    return Status::not_resident();
  }
  TRY_ASSIGN(value, values.read(*table, ref));
  found->value = *value;
  found->pin = std::move(value);
  return Status::ok();
}

}  // namespace

Status DbImpl::finish_lookup(const ReadView& view, const Entry& entry, const Cover* cover, Found* found,
                             std::shared_ptr<const void> pin) {
  if (entry.is_tombstone() || entry.expired(view.now()) || (cover != nullptr && cover->seq > entry.seq))
    return Status::not_found();
  found->kind = entry.kind;
  found->seq = entry.seq;
  found->expiry = entry.expiry;
  found->stamp = entry.delete_key;
  if (entry.is_large()) return read_large_value(view, entry.large, *view.impl_->large_values_, found);
  found->value = entry.value;
  found->pin = entry.shared != nullptr ? std::shared_ptr<const void>(*entry.shared) : std::move(pin);
  return Status::ok();
}

Status DbImpl::get(const ReadView& view, const LookupKey& key, Found* found) {
  const TreeView* tree = view.tree_;
  if (tree == nullptr) return Status::not_found();
  if (view.lease_ != nullptr && view.lease_->revoked()) return Status::revoked("the read view was open for too long");
  ThreadCounters& counters = counters_.mine();
  Entry entry;
  Cover cover{};
  for (const std::shared_ptr<MemTable>& memtable : tree->memtables) {
    const bool covered = memtable->newest_cover(key.key, view.seq_, &cover);
    if (memtable->get(key, view.seq_, &entry)) {
      const Status status = finish_lookup(view, entry, covered ? &cover : nullptr, found, nullptr);
      count_hit(counters, status.is_ok());
      return status;
    }
    if (covered) {
      count_hit(counters, false);
      return Status::not_found();
    }
  }
  ReadCounters reads;
  const Status status = get_from_tables(view, key, found, &reads);
  counters.add(reads);
  if (status.is_ok() || status.is_not_found()) count_hit(counters, status.is_ok());
  return status;
}

Status DbImpl::get_from_tables(const ReadView& view, const LookupKey& key, Found* found, ReadCounters* reads) {
  for (const RunView& run : view.tree_->tables->runs) {
    const int i = run.find(key.key);
    if (i < 0) continue;
    const auto at = static_cast<std::size_t>(i);
    const TableReader& table = run.reader(at);
    const Cover* covered = run.has_range_tombstones(at) ? table.range_tombstones()->newest_cover(key.key, view.seq_) : nullptr;
    Entry entry;
    std::shared_ptr<const void> pin;
    Status status;
    switch (table.get(key, view.seq_, view.mode_ == ReadMode::kResident ? view.misses_ : nullptr, &entry, &pin, reads, &status)) {
      case Lookup::kFound:
        return finish_lookup(view, entry, covered, found, std::move(pin));
      case Lookup::kNotResident:
        return view.misses_->refused ? no_room() : Status::not_resident();
      case Lookup::kError:
        return status;
      case Lookup::kAbsent:
        break;
    }
    if (covered != nullptr) break;
  }
  return Status::not_found();
}

}  // namespace ebbtide
