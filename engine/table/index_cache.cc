#include "table/index_cache.h"

#include <utility>

#include "table/table_reader_impl.h"

namespace ebbtide {

// Marks all tables as not listed. A queued task may keep a table alive longer than the cache; the table's destructor must then
// not call the cache.
IndexCache::~IndexCache() {
  MutexLock lock(mutex_);
  for (const TableReaderImpl* table : tables_) table->in_cache.listed.store(false, std::memory_order_release);
}

void IndexCache::set_capacity(std::uint64_t bytes) {
  Retired retired;
  {
    MutexLock lock(mutex_);
    capacity_ = bytes;
    retired = evict();
  }
  retire(std::move(retired));
}

void IndexCache::shrink() {
  Retired retired;
  {
    MutexLock lock(mutex_);
    retired = evict();
  }
  retire(std::move(retired));
}

IndexCache::Counts IndexCache::counts() const {
  MutexLock lock(mutex_);
  return {capacity_, bytes_, tables_.size(), loads_, unloads_};
}

void IndexCache::add(const TableReaderImpl& table) {
  Retired retired;
  {
    MutexLock lock(mutex_);
    const std::uint64_t bytes = table.loaded_bytes();
    table.in_cache.place = tables_.insert(tables_.end(), &table);
    table.in_cache.bytes = bytes;
    table.in_cache.listed.store(true, std::memory_order_release);
    bytes_ += bytes;
    ++loads_;
    retired = evict();
  }
  retire(std::move(retired));
}

void IndexCache::resize(const TableReaderImpl& table) {
  MutexLock lock(mutex_);
  if (!table.in_cache.listed) return;
  const std::uint64_t bytes = table.loaded_bytes();
  bytes_ = bytes_ - table.in_cache.bytes + bytes;
  table.in_cache.bytes = bytes;
}

void IndexCache::remove(const TableReaderImpl& table) {
  MutexLock lock(mutex_);
  if (!table.in_cache.listed) return;
  tables_.erase(table.in_cache.place);
  bytes_ -= table.in_cache.bytes;
  table.in_cache.listed.store(false, std::memory_order_release);
}

// Examines each table at most twice. The first time it skips tables that are pinned or were searched lately, the second time only
// pinned tables. So the loop ends even if other threads search the tables all the time.
IndexCache::Retired IndexCache::evict() {
  Retired retired;
  for (std::size_t looks = 0, most = 2 * tables_.size(); bytes_ > capacity_ && looks < most; ++looks) {
    const TableReaderImpl& table = *tables_.front();
    if ((looks < most / 2 && table.take_hot()) || !table.unload(&retired)) {
      tables_.splice(tables_.end(), tables_, tables_.begin());
      continue;
    }
    tables_.pop_front();
    bytes_ -= table.in_cache.bytes;
    table.in_cache.listed.store(false, std::memory_order_release);  // from here on the table may be destroyed
    ++unloads_;
  }
  // If the units still exceed the capacity, all of them are pinned.
  crowded_.store(bytes_ > capacity_ && tables_.size() > kMostPinned, std::memory_order_relaxed);
  return retired;
}

void IndexCache::retire(Retired retired) {
  if (!retired.empty()) epoch_.retire([retired = std::move(retired)] {});
}

}  // namespace ebbtide
