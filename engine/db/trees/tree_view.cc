#include "db/trees/tree_view.h"

#include <algorithm>
#include <unordered_map>

#include "base/coding.h"
#include "base/oldest.h"
#include "compaction/key_ranges.h"
#include "tree/frozen.h"

namespace ebbtide {
Millis oldest_birth(const MemTable& memtable, Millis now) {
  Millis oldest = memtable.oldest_birth();
  if (memtable.min_expiry() <= now) keep_oldest(&oldest, memtable.min_expiry());
  return oldest;
}

void DataFile::add_reader(std::weak_ptr<const TableReader> reader) {
  MutexLock lock(mutex_);
  std::erase_if(readers_, [](const auto& known) { return known.expired(); });
  readers_.push_back(std::move(reader));
}

std::vector<std::shared_ptr<const TableReader>> DataFile::readers() const {
  std::vector<std::shared_ptr<const TableReader>> alive;
  MutexLock lock(mutex_);
  for (const auto& known : readers_) {
    if (auto reader = known.lock(); reader != nullptr) alive.push_back(std::move(reader));
  }
  return alive;
}

bool DataFile::read_only_by(const TableReader* reader) const {
  MutexLock lock(mutex_);
  return std::all_of(readers_.begin(), readers_.end(), [&](const auto& known) {
    const auto alive = known.lock();
    return alive == nullptr || alive.get() == reader;
  });
}

TableSums TableSums::of(std::span<const OpenTablePtr> tables) {
  TableSums sums;
  for (const OpenTablePtr& table : tables) {
    const std::uint64_t keys = table->meta->stats.filter_keys();
    sums.keys += keys;
    const std::uint32_t pages_per_tile = table->reader->pages_per_tile();
    sums.read_keys += pages_per_tile != 0 ? keys : 0;
    sums.tile_pages += keys * pages_per_tile;
    sums.memory_bytes += table->reader->resident_bytes();
    sums.special += table->meta->stats.range_tombstones != 0 || !table->reader->unreadable().is_ok() ? 1 : 0;
  }
  return sums;
}

RunView::RunView(const Run& run, TableList tables, const RunView* earlier)
    : id_(run.id), level_(run.level), tables_(std::move(tables)) {
  if (tables_.empty()) return;
  tables_.seal();
  const TableStats& last = tables_.back()->meta->stats;
  const Bytes lowest = tables_.front()->meta->stats.smallest;
  if (!last.unbounded) common_.assign(lowest.substr(0, common_bytes(lowest, last.largest)));
  // The chunks of the earlier view, each with the index of its first table in that view.
  std::unordered_map<const TableList::Chunk*, std::size_t> known;
  if (earlier != nullptr && earlier->common_ == common_) {
    for (std::size_t c = 0; c < earlier->tables_.chunks(); ++c) {
      known.emplace(&earlier->tables_.at_chunk(c), earlier->tables_.start_of(c));
    }
  }
  readers_.reserve(tables_.size());
  special_.reserve(tables_.size());
  lowers_.reserve(tables_.size());
  uppers_.reserve(tables_.size());
  for (std::size_t c = 0; c < tables_.chunks(); ++c) {
    const TableList::Chunk& chunk = tables_.at_chunk(c);
    if (const auto at = known.find(&chunk); at != known.end()) {
      copy_arrays(*earlier, at->second, chunk.items.size());
    } else {
      for (const OpenTablePtr& table : chunk.items) add_to_arrays(*table);
    }
  }
  any_collections_ =
      std::any_of(special_.begin(), special_.end(), [](unsigned char flags) { return (flags & kCollections) != 0; });
}

void RunView::copy_arrays(const RunView& from, std::size_t first, std::size_t count) {
  const auto copy = [first, count](auto* to, const auto& all) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    to->insert(to->end(), begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  copy(&readers_, from.readers_);
  copy(&special_, from.special_);
  copy(&lowers_, from.lowers_);
  copy(&uppers_, from.uppers_);
}

void RunView::add_to_arrays(const OpenTable& table) {
  const TableStats& stats = table.meta->stats;
  readers_.push_back(table.reader.get());
  special_.push_back(static_cast<unsigned char>((stats.range_tombstones != 0 ? kRanged : 0) |
                                                (table.reader->unreadable().is_ok() ? 0 : kUnreadable) |
                                                (stats.collections != 0 ? kCollections : 0)));
  lowers_.push_back(key_word(stats.smallest, common_.size()));
  uppers_.push_back(stats.unbounded ? ~std::uint64_t{0} : key_word(stats.largest, common_.size()));
}

TableSums RunView::sums() const {
  TableSums all;
  tables_.for_each_sums([&](const TableSums& sums) {
    all.keys += sums.keys;
    all.read_keys += sums.read_keys;
    all.tile_pages += sums.tile_pages;
    all.memory_bytes += sums.memory_bytes;
    all.special += sums.special;
  });
  return all;
}

const OpenTable* RunView::table_of(const FileMeta& file) const {
  const int i = find(file.stats.smallest);
  if (i < 0) return nullptr;
  const OpenTable& table = *tables_[static_cast<std::size_t>(i)];
  return table.meta->data_file == file.data_file ? &table : nullptr;
}

// Only the last table whose lower bound is <= key can contain the key.
int RunView::find(Bytes key) const {
  if (tables_.empty() || key.size() < common_.size() || !same_bytes(key.data(), common_.data(), common_.size())) return -1;
  const std::uint64_t p = key_word(key, common_.size());
  std::size_t i = 0;  // number of tables whose lower bound is <= key
  // Bisects without a branch that depends on a comparison of keys.
  for (std::size_t left = lowers_.size(); left > 0;) {
    const std::size_t half = (left + 1) / 2;
    i += lowers_[i + half - 1] <= p ? half : 0;
    left -= half;
  }
  // Tables whose 8 bytes equal the key's may begin after the key, so their whole keys are compared, the last table first.
  while (i > 0 && lowers_[i - 1] == p && Bytes(tables_[i - 1]->meta->stats.smallest) > key) --i;
  if (i == 0 || (p >= uppers_[i - 1] && tables_[i - 1]->meta->stats.ends_before(key))) return -1;
  return static_cast<int>(i - 1);
}

std::size_t RunView::lower_bound(Bytes key) const {
  const auto at = tables_.partition_point([&](const OpenTablePtr& t) { return t->meta->stats.ends_before(key); });
  return static_cast<std::size_t>(at - tables_.begin());
}

bool TablesView::is_frozen(const FileMeta& file) const {
  return !frozen.empty() && frozen_at(frozen, range_of(file.stats)) != nullptr;
}

bool TablesView::is_quarantined(FileNum data_file) const {
  return std::any_of(quarantined.begin(), quarantined.end(),
                     [data_file](const FileMetaPtr& file) { return file->data_file == data_file; });
}

std::vector<std::shared_ptr<const TableReader>> TablesView::readers_of(FileNum data_file) const {
  for (const RunView& run : runs) {
    for (const OpenTablePtr& table : run.tables()) {
      if (table->meta->data_file == data_file) return table->data->readers();
    }
  }
  return {};
}

// Only the newest version matters: whatever replaced an older collection also deleted the collection's elements.
bool TreeView::may_have_collection(const LookupKey& key, SeqNum view_seq) const {
  if (!may_have_collections()) return false;
  Entry newest;
  for (const auto& memtable : memtables) {
    if (memtable->get(key, view_seq, &newest)) return is_collection(newest.kind);
  }
  return std::any_of(tables->runs.begin(), tables->runs.end(), [&](const RunView& run) {
    const TableLookup* table = run.with_collections(key.key);
    return table != nullptr && table->may_have_collection(key);
  });
}

bool TreeView::find_record(const Entry& entry, SeqNum view_seq) const {
  for (const auto& memtable : memtables) {
    if (memtable->records().covers(entry.delete_key, entry.seq, view_seq)) return true;
  }
  return tables->version->records->covers(entry.delete_key, entry.seq, view_seq);
}

Millis TreeView::record_birth(const Entry& entry, SeqNum view_seq) const {
  Millis oldest = 0;
  if (entry.delete_key == kNoStamp) return oldest;
  for (const SharedRecords& set : record_sets()) {
    keep_oldest(&oldest, set->oldest_birth(entry.delete_key, entry.seq, view_seq));
  }
  return oldest;
}

std::vector<SharedRecords> TreeView::record_sets() const {
  std::vector<SharedRecords> sets;
  if (!recorded->load(std::memory_order_relaxed)) return sets;
  for (const auto& memtable : memtables) {
    for (SharedRecords& set : memtable->records().sets()) sets.push_back(std::move(set));
  }
  if (!tables->version->records->empty()) sets.push_back(tables->version->records);
  return sets;
}

}  // namespace ebbtide
