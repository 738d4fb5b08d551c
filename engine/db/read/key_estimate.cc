// The estimate assumes that the entries of a table are spread evenly over its bytes, and that each tombstone deletes one key. So
// a range has as many keys as entries, minus two for each tombstone. Elements of large collections are left out. Versions
// that are shadowed, expired or under a range tombstone are included until a merge drops them.
#include "db/read/key_estimate.h"

#include <algorithm>

#include "base/invariant.h"

namespace ebbtide {
namespace {

/// Most entries of one memtable that are counted one by one. If the range has more entries, half of the memtable's uncounted
/// entries are assumed to be inside the range.
constexpr std::uint64_t kMaxSampledKeys = 100'000;
/// The approximate number of range tombstone fragments of one table that are examined. Each other fragment is assumed to cover
/// the average number of entries.
constexpr std::size_t kMaxFragments = 1000;

struct Counted {
  double entries = 0;  // elements of collections included
  double main_entries = 0, main_tombstones = 0;
};

void add_memtable(const MemTable& memtable, const KeyRange& range, Counted* counted) {
  if (memtable.empty()) return;
  const auto walk = memtable.new_iterator();
  std::uint64_t walked = 0, walked_main = 0;
  for (walk->seek(range.start); walk->valid() && range.contains(walk->entry().key); walk->next()) {
    if (walked == kMaxSampledKeys) {
      const double rest = static_cast<double>(memtable.entries() - std::min(memtable.entries(), walked)) / 2;
      counted->entries += rest;
      counted->main_entries += rest * static_cast<double>(walked_main) / static_cast<double>(walked);
      return;
    }
    ++walked;
    counted->entries += 1;
    if (walk->entry().element) continue;
    ++walked_main;
    counted->main_entries += 1;
    if (walk->entry().kind == EntryKind::kTombstone) counted->main_tombstones += 1;
  }
}

/// Returns the fraction of the table's bytes that lies in the range. If the table's index is not in memory, and the range
/// contains only a part of the table, returns 0.5.
double part_of_bytes(const OpenTable& table, const KeyRange& range) {
  const TableStats& stats = table.meta->stats;
  if (const auto loaded = table.reader->pinned_if_loaded(); loaded != nullptr)
    return static_cast<double>(loaded->approximate_bytes(range)) / static_cast<double>(table.meta->data_bytes);
  if (!stats.overlaps(range) || !table.reader->unreadable().is_ok()) return 0;
  const bool whole = Bytes(range.start) <= Bytes(stats.smallest) && (range.end.empty() || stats.ends_before(range.end));
  return whole ? 1 : 0.5;
}

void add_table(const OpenTable& table, const KeyRange& range, Counted* counted) {
  const TableStats& stats = table.meta->stats;
  if (table.meta->data_bytes == 0) return;
  const double share = part_of_bytes(table, range);
  counted->entries += share * static_cast<double>(stats.entries);
  counted->main_entries += share * static_cast<double>(stats.entries - stats.elements);
  counted->main_tombstones += share * static_cast<double>(stats.tombstones - stats.element_tombstones);
}

void add_run(const RunView& run, const KeyRange& range, Counted* counted) {
  for (std::size_t i = run.lower_bound(range.start); i < run.tables().size(); ++i) {
    const OpenTable& table = *run.tables()[i];
    if (!range.end.empty() && Bytes(table.meta->stats.smallest) >= Bytes(range.end)) break;
    add_table(table, range, counted);
  }
}

/// Returns the estimated number of entries in older runs that the range tombstones of `table` cover. `table` is pinned and
/// belongs to the run with index `run`.
std::uint64_t covered_entries(const TablesView& tables, std::size_t run, const TableReader& table) {
  const auto& fragments = table.range_tombstones()->fragments();
  const std::size_t step = 1 + fragments.size() / kMaxFragments;
  Counted covered;
  for (std::size_t f = 0; f < fragments.size(); f += step) {
    const KeyRange range = fragments[f].range();
    for (std::size_t older = run + 1; older < tables.runs.size(); ++older) add_run(tables.runs[older], range, &covered);
  }
  return static_cast<std::uint64_t>(covered.entries * static_cast<double>(step));
}

}  // namespace

void estimate_invalidated(const TablesView& tables, TreeShape* shape) {
  std::size_t view = 0;
  for (RunShape& run : shape->runs) {
    if (run.files.empty()) continue;
    ASSERT(view < tables.runs.size() && tables.runs[view].id() == run.id);
    for (std::size_t i = 0, c = 0; i < run.files.size(); ++i) {
      while (i >= run.files.start_of(c) + run.files.at_chunk(c).items.size()) ++c;
      if (FileShapes::sums_of(run.files.at_chunk(c)).most_tombstones == 0) {
        i = run.files.start_of(c) + run.files.at_chunk(c).items.size() - 1;  // no table of the chunk has tombstones
        continue;
      }
      if (run.files[i].range_tombstones == 0) continue;
      const OpenTable& table = *tables.runs[view].tables()[i];
      std::uint64_t covered = table.covered_entries.load(std::memory_order_relaxed);
      if (covered == OpenTable::kNotEstimated) {
        const auto loaded = table.reader->pinned_if_loaded();
        covered = loaded == nullptr ? 0 : covered_entries(tables, view, *loaded);
        if (loaded != nullptr) table.covered_entries.store(covered, std::memory_order_relaxed);
      }
      FileShape& file = run.files.edit(i);
      file.invalidated = file.tombstones + std::max(file.range_tombstones, covered);
    }
    run.files.seal();
    ++view;
  }
}

std::uint64_t estimate_keys(const TreeView& tree, const KeyRange& range) {
  Counted counted;
  for (const auto& memtable : tree.memtables) add_memtable(*memtable, range, &counted);
  for (const RunView& run : tree.tables->runs) add_run(run, range, &counted);
  return static_cast<std::uint64_t>(std::max(0.0, counted.main_entries - 2 * counted.main_tombstones));
}

}  // namespace ebbtide
