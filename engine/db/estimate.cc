// How many keys lie in a range, from what is in memory anyway: fences, counts of entries and the memtables. No I/O.
//
// A table's entries are taken to be spread evenly over its bytes, and each tombstone to stand for a key that is gone: as many
// entries as there are, less two for each. Versions that are shadowed, expired or under a range tombstone count until a merge
// drops them.
#include <engine/db.h>

#include <algorithm>
#include <limits>

#include "db/db_impl.h"

namespace ebbtide {
namespace {

/// Entries of one memtable that are looked at; of the rest, one half is taken to lie in the range.
constexpr std::uint64_t kMaxWalked = 100'000;

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

}  // namespace

std::uint64_t Db::estimate_keys(DatabaseId database, const KeyRange& range) const {
  const ReadView view = lease(database);
  if (!view.has_tree()) return 0;
  Counted counted;
  for (const auto& memtable : view.tree_->memtables) add_memtable(*memtable, range, &counted);
  for (const RunView& run : view.tree_->tables->runs) {
    for (std::size_t i = run.lower_bound(range.start); i < run.tables().size(); ++i) {
      const OpenTable& table = *run.tables()[i];
      if (!range.end.empty() && Bytes(table.meta->stats.smallest) >= Bytes(range.end)) break;
      add_table(table, range, &counted);
    }
  }
  return static_cast<std::uint64_t>(std::max(0.0, counted.entries - 2 * counted.tombstones));
}

}  // namespace ebbtide
