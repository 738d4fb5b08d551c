#include "db/trees/tree_view.h"

#include <algorithm>

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

RunView::RunView(const Run& run, std::vector<OpenTablePtr> tables) : id_(run.id), level_(run.level), tables_(std::move(tables)) {
  for (const OpenTablePtr& t : tables_) {
    readers_.push_back(t->reader.get());
    special_.push_back(static_cast<unsigned char>((t->meta->stats.range_tombstones != 0 ? kRanged : 0) |
                                                  (t->reader->unreadable().is_ok() ? 0 : kUnreadable)));
  }
  if (tables_.empty()) return;
  const TableStats& last = tables_.back()->meta->stats;
  const Bytes lowest = tables_.front()->meta->stats.smallest;
  if (!last.unbounded) common_.assign(lowest.substr(0, common_bytes(lowest, last.largest)));
  for (const OpenTablePtr& t : tables_) {
    const TableStats& stats = t->meta->stats;
    lowers_.push_back(key_word(stats.smallest, common_.size()));
    uppers_.push_back(stats.unbounded ? ~std::uint64_t{0} : key_word(stats.largest, common_.size()));
  }
}

// The last table whose lower bound is <= key is the only one that can hold it.
int RunView::find(Bytes key) const {
  if (tables_.empty() || key.size() < common_.size() || !same_bytes(key.data(), common_.data(), common_.size())) return -1;
  const std::uint64_t p = key_word(key, common_.size());
  std::size_t i = 0;                                    // number of tables whose lower bound is <= key
  for (std::size_t left = lowers_.size(); left > 0;) {  // no branch depends on a comparison but the last
    const std::size_t half = (left + 1) / 2;
    i += lowers_[i + half - 1] <= p ? half : 0;
    left -= half;
  }
  // Equal numbers do not decide: compare whole keys, from the back.
  while (i > 0 && lowers_[i - 1] == p && Bytes(tables_[i - 1]->meta->stats.smallest) > key) --i;
  if (i == 0 || (p >= uppers_[i - 1] && tables_[i - 1]->meta->stats.ends_before(key))) return -1;
  return static_cast<int>(i - 1);
}

std::size_t RunView::lower_bound(Bytes key) const {
  return static_cast<std::size_t>(std::partition_point(tables_.begin(), tables_.end(),
                                                       [&](const OpenTablePtr& t) { return t->meta->stats.ends_before(key); }) -
                                  tables_.begin());
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

bool TreeView::find_record(const Entry& entry, SeqNum view_seq) const {
  for (const auto& memtable : memtables) {
    if (memtable->records().covers(entry.delete_key, entry.seq, view_seq)) return true;
  }
  return tables->version->records->covers(entry.delete_key, entry.seq, view_seq);
}

std::vector<SharedRecords> TreeView::record_sets() const {
  std::vector<SharedRecords> sets;
  if (!recorded->load(std::memory_order_relaxed)) return sets;
  for (const auto& memtable : memtables) {
    if (!memtable->records().empty()) sets.push_back(memtable->records().snapshot());
  }
  if (!tables->version->records->empty()) sets.push_back(tables->version->records);
  return sets;
}

}  // namespace ebbtide
