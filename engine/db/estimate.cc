// How many keys lie in a range, and how many entries a file's range tombstones cover, from what is in memory anyway: fences, counts
// of entries and the memtables. No I/O.
//
// A table's entries are taken to be spread evenly over its bytes, and each tombstone to stand for a key that is gone: as many
// entries as there are, less two for each. Versions that are shadowed, expired or under a range tombstone count until a merge
// drops them.
#include <engine/db.h>

#include <algorithm>
#include <limits>

#include "base/invariant.h"
#include "db/db_impl.h"

namespace ebbtide {
namespace {

/// Entries of one memtable that are looked at; of the rest, one half is taken to lie in the range.
constexpr std::uint64_t kMaxWalked = 100'000;
/// Fragments of a table's range tombstones that are looked at, about; the others are taken to cover as much.
constexpr std::size_t kMaxFragments = 1000;

struct Counted {
  double entries = 0, tombstones = 0;
};

void add_memtable(const MemTable& memtable, const KeyRange& range, Counted* counted) {
  if (memtable.empty()) return;
  const auto walk = memtable.new_iterator();
  std::uint64_t walked = 0;
  for (walk->seek(range.start); walk->valid() && range.contains(walk->entry().key); walk->next()) {
    if (walked == kMaxWalked) {
      counted->entries += static_cast<double>(memtable.entries() - std::min(memtable.entries(), walked)) / 2;
      return;
    }
    ++walked;
    counted->entries += 1;
    if (walk->entry().kind == EntryKind::kTombstone) counted->tombstones += 1;
  }
}

void add_table(const OpenTable& table, const KeyRange& range, Counted* counted) {
  const TableStats& stats = table.meta->stats;
  if (table.meta->data_bytes == 0) return;
  const double share = static_cast<double>(table.reader->approximate_bytes(range)) / static_cast<double>(table.meta->data_bytes);
  counted->entries += share * static_cast<double>(stats.entries);
  counted->tombstones += share * static_cast<double>(stats.tombstones);
}

void add_run(const RunView& run, const KeyRange& range, Counted* counted) {
  for (std::size_t i = run.lower_bound(range.start); i < run.tables().size(); ++i) {
    const OpenTable& table = *run.tables()[i];
    if (!range.end.empty() && Bytes(table.meta->stats.smallest) >= Bytes(range.end)) break;
    add_table(table, range, counted);
  }
}

/// Entries of older runs that the range tombstones of a table of run number `run` cover.
std::uint64_t covered_entries(const TablesView& tables, std::size_t run, const OpenTable& table) {
  const auto& fragments = table.reader->range_tombstones()->fragments();
  const std::size_t step = 1 + fragments.size() / kMaxFragments;
  Counted covered;
  for (std::size_t f = 0; f < fragments.size(); f += step) {
    const KeyRange range{fragments[f].start, fragments[f].end};
    for (std::size_t older = run + 1; older < tables.runs.size(); ++older) add_run(tables.runs[older], range, &covered);
  }
  return static_cast<std::uint64_t>(covered.entries * static_cast<double>(step));
}

}  // namespace

// b of Lethe (section 4.1.2): point tombstones, and the entries that range tombstones cover. A table is asked once, when a
// plan is first made with it: what lies below it changes little while it waits.
void DbImpl::estimate_invalidated(const TablesView& tables, TreeShape* shape) {
  std::size_t view = 0;
  for (RunShape& run : shape->runs) {
    if (run.files.empty()) continue;
    ASSERT(view < tables.runs.size() && tables.runs[view].id() == run.id);
    for (std::size_t i = 0; i < run.files.size(); ++i) {
      FileShape& file = run.files[i];
      if (file.range_tombstones == 0) continue;
      const OpenTable& table = *tables.runs[view].tables()[i];
      std::uint64_t covered = table.covered_entries.load(std::memory_order_relaxed);
      if (covered == OpenTable::kNotEstimated) {
        covered = covered_entries(tables, view, table);
        table.covered_entries.store(covered, std::memory_order_relaxed);
      }
      file.invalidated = file.tombstones + std::max(file.range_tombstones, covered);
    }
    ++view;
  }
}

std::uint64_t Db::estimate_keys(DatabaseId database, const KeyRange& range) const {
  const ReadView view = lease(database);
  if (!view.has_tree()) return 0;
  Counted counted;
  for (const auto& memtable : view.tree_->memtables) add_memtable(*memtable, range, &counted);
  for (const RunView& run : view.tree_->tables->runs) add_run(run, range, &counted);
  return static_cast<std::uint64_t>(std::max(0.0, counted.entries - 2 * counted.tombstones));
}

}  // namespace ebbtide
