#include <rocksdb/cache.h>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/metadata.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/debug.h>
#include <rocksdb/utilities/table_properties_collectors.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "bench/engines/engine.h"
#include "bench/engines/measure.h"

namespace ebbtide::bench {
namespace {

void check(const rocksdb::Status& status) {
  if (!status.ok()) die("rocksdb: " + status.ToString());
}
rocksdb::Slice slice(Bytes bytes) { return {bytes.data(), bytes.size()}; }

/// Returns the stamp that put_stamped() wrote into the value.
std::uint64_t stamp_of(const rocksdb::Slice& value) {
  std::uint64_t stamp = 0;
  if (value.size() >= sizeof stamp) std::memcpy(&stamp, value.data(), sizeof stamp);
  return stamp;
}

class StampFilter final : public rocksdb::CompactionFilter {
 public:
  bool Filter(int, const rocksdb::Slice&, const rocksdb::Slice& value, std::string*, bool*) const override {
    return stamp_of(value) < end;
  }
  const char* Name() const override { return "StampFilter"; }
  std::atomic<std::uint64_t> end{0};
};

/// Adds up the results of flushes and compactions when they end, so that reads and writes count nothing.
class Account final : public rocksdb::EventListener {
 public:
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo& info) override {
    ++flushes;
    flushed += info.table_properties.data_size + info.table_properties.index_size + info.table_properties.filter_size;
  }
  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo& info) override {
    read += info.stats.total_input_bytes;
    written += info.stats.total_output_bytes;
    ++merges;
  }
  std::atomic<std::uint64_t> flushed{0}, read{0}, written{0}, merges{0}, flushes{0};
};

rocksdb::Options options_of(const EngineSetup& setup) {
  rocksdb::BlockBasedTableOptions table;
  table.block_size = 4096;
  table.block_cache = rocksdb::NewLRUCache(setup.cache_bytes);
  if (setup.filter_bits > 0) table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(setup.filter_bits));
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = setup.memtable_bytes;
  options.max_background_jobs = static_cast<int>(setup.merge_threads) + 1;  // one of the jobs is a flush
  options.compression = rocksdb::kNoCompression;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.use_direct_reads = setup.direct_reads;
  if (setup.size_ratio > 0) {
    options.num_levels = 20;  // the default of 7 would end a tree of small memtables early
    options.max_bytes_for_level_multiplier = setup.size_ratio;
    const double first = std::max(setup.size_ratio, static_cast<double>(options.level0_file_num_compaction_trigger));
    options.max_bytes_for_level_base = static_cast<std::uint64_t>(first * static_cast<double>(setup.memtable_bytes));
    options.target_file_size_base = setup.memtable_bytes;
  }
  if (!setup.multipliers.empty()) {  // RocksDB does not use the first
    options.max_bytes_for_level_base *= static_cast<std::uint64_t>(setup.multipliers.front());
    options.max_bytes_for_level_multiplier_additional = setup.multipliers;
    options.max_bytes_for_level_multiplier_additional.resize(static_cast<std::size_t>(options.num_levels), 1);
  }
  if (setup.level1_memtables > 0) {
    options.max_bytes_for_level_base =
        static_cast<std::uint64_t>(setup.level1_memtables * static_cast<double>(setup.memtable_bytes));
  }
  if (setup.file_bytes != 0) options.target_file_size_base = setup.file_bytes;
  if (setup.ttl_seconds != 0) options.ttl = setup.ttl_seconds;
  if (setup.periodic_seconds != 0) options.periodic_compaction_seconds = setup.periodic_seconds;
  options.level_compaction_dynamic_level_bytes = setup.dynamic_levels;
  // Compacts a file if half of any 1024 adjacent entries, or a twentieth of the file, are tombstones.
  if (setup.delete_collector) {
    options.table_properties_collector_factories.push_back(rocksdb::NewCompactOnDeletionCollectorFactory(1024, 512, 0.05));
  }
  return options;
}

class RocksDb final : public RocksEngine {
 public:
  explicit RocksDb(const EngineSetup& setup) : dir_(setup.dir), account_(std::make_shared<Account>()) {
    rocksdb::Options options = options_of(setup);
    options.listeners.push_back(account_);
    if (setup.stamps) options.compaction_filter = &filter_;
    rocksdb::DB* db = nullptr;
    check(rocksdb::DB::Open(options, setup.dir, &db));
    db_.reset(db);
    subcompactions_ = setup.merge_threads;
    rocksdb::SetPerfLevel(rocksdb::kEnableCount);
    rocksdb::get_perf_context()->Reset();
  }
  ~RocksDb() override {
    iterator_.reset();
    pinned_.Reset();  // the cache owns pinned pages
    check(db_->Close());
  }

  void put(Bytes key, Bytes value) override { check(db_->Put(rocksdb::WriteOptions(), slice(key), slice(value))); }
  void put_stamped(Bytes key, std::string* value, std::uint64_t stamp) override {
    std::memcpy(value->data(), &stamp, sizeof stamp);
    put(key, *value);
  }
  void del(Bytes key) override { check(db_->Delete(rocksdb::WriteOptions(), slice(key))); }

  bool get(Bytes key) override {
    pinned_.Reset();
    const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), slice(key), &pinned_);
    if (status.IsNotFound()) return false;
    check(status);
    sum_ += pinned_.size();
    return true;
  }
  std::size_t get_span(const Key* keys) override {
    rocksdb::Slice slices[kSpan];
    rocksdb::PinnableSlice values[kSpan];
    rocksdb::Status statuses[kSpan];
    for (std::size_t i = 0; i < kSpan; ++i) slices[i] = slice(keys[i].view());
    db_->MultiGet(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), kSpan, slices, values, statuses);
    std::size_t hits = 0;
    for (std::size_t i = 0; i < kSpan; ++i) {
      if (statuses[i].IsNotFound()) continue;
      check(statuses[i]);
      sum_ += values[i].size();
      ++hits;
    }
    return hits;
  }
  std::size_t scan(Bytes key, std::size_t length) override {
    if (!iterator_) iterator_.reset(db_->NewIterator(rocksdb::ReadOptions()));
    std::size_t seen = 0;
    for (iterator_->Seek(slice(key)); iterator_->Valid(); iterator_->Next()) {
      sum_ += iterator_->value().size();
      if (++seen == length) break;
    }
    check(iterator_->status());
    return seen;
  }
  void renew_scan() override { iterator_.reset(); }

  void settle_after(int looks) override {
    check(db_->Flush(rocksdb::FlushOptions()));
    rest(looks);
  }
  void rest(int looks) override {
    wait_for_rest(looks, [this] {
      return property(rocksdb::DB::Properties::kNumRunningCompactions) + property(rocksdb::DB::Properties::kCompactionPending) !=
             0;
    });
  }
  void freeze() override {
    stop_compactions();
    check(db_->Flush(rocksdb::FlushOptions()));
  }
  [[nodiscard]] const std::string& dir() const override { return dir_; }
  void visit(const std::function<void(const StoredVersion&)>& visitor) override {
    // The versions come in portions, since they come with their values. A portion begins with all versions of the last key of the
    // portion before.
    constexpr std::size_t kPortion = 20'000;
    const std::string end(32, '\xff');
    std::string from;
    bool more = true;
    for (bool first = true; more; first = false) {
      std::vector<rocksdb::KeyVersion> versions;
      check(rocksdb::GetAllKeyVersions(db_.get(), from, end, kPortion, &versions));
      more = versions.size() >= kPortion;
      const std::string last = versions.empty() ? "" : versions.back().user_key;
      if (more && last == from && !first) die("rocksdb: more versions of one key than fit into a portion");
      for (const rocksdb::KeyVersion& version : versions) {
        if (more && version.user_key == last) break;
        constexpr int kDeletion = 0;  // the ValueType of RocksDB's db/dbformat.h
        visitor({version.user_key, version.type == kDeletion, version.user_key.size() + version.value.size()});
      }
      from = last;
    }
  }

  EngineCounters counters() override {
    return {account_->flushed, account_->read, account_->written, account_->merges, account_->flushes};
  }
  std::uint64_t pages_read() override { return rocksdb::get_perf_context()->block_read_count; }
  std::uint64_t tombstones() override {
    rocksdb::TablePropertiesCollection tables;
    check(db_->GetPropertiesOfAllTables(&tables));
    std::uint64_t tombstones = 0;
    for (const auto& [name, table] : tables) tombstones += table->num_deletions;
    return tombstones;
  }
  std::vector<LevelCounts> levels() override {
    rocksdb::ColumnFamilyMetaData tree;
    db_->GetColumnFamilyMetaData(&tree);
    std::vector<LevelCounts> levels;
    for (const rocksdb::LevelMetaData& level : tree.levels) {
      if (level.files.empty()) continue;
      const std::uint64_t runs = level.level == 0 ? level.files.size() : 1;
      levels.push_back({level.level, runs, level.files.size(), level.size});
    }
    return levels;
  }
  double filter_bits_per_key() override {
    rocksdb::TablePropertiesCollection tables;
    check(db_->GetPropertiesOfAllTables(&tables));
    double bits = 0, entries = 0;
    for (const auto& [name, table] : tables) {
      bits += 8 * static_cast<double>(table->filter_size);
      entries += static_cast<double>(table->num_entries);
    }
    return entries == 0 ? 0 : bits / entries;
  }

  void scan_and_delete(std::uint64_t end) override {
    rocksdb::ReadOptions read;
    read.fill_cache = false;
    read.readahead_size = std::size_t{2} << 20;
    rocksdb::WriteBatch batch;
    {
      const std::unique_ptr<rocksdb::Iterator> entries(db_->NewIterator(read));
      for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
        if (stamp_of(entries->value()) >= end) continue;
        check(batch.Delete(entries->key()));
        if (batch.Count() < 1000) continue;
        check(db_->Write(rocksdb::WriteOptions(), &batch));
        batch.Clear();
      }
      check(entries->status());
    }
    check(db_->Write(rocksdb::WriteOptions(), &batch));
    check(db_->Flush(rocksdb::FlushOptions()));
    compact_all(rocksdb::BottommostLevelCompaction::kSkip);  // compacted with the tombstones, so that both are dropped
  }
  void filter_out(std::uint64_t end) override {
    filter_.end = end;
    check(db_->Flush(rocksdb::FlushOptions()));
    compact_all(rocksdb::BottommostLevelCompaction::kForceOptimized);
  }

 private:
  void stop_compactions() {
    check(db_->SetOptions({{"disable_auto_compactions", "true"}}));
    while (property(rocksdb::DB::Properties::kNumRunningCompactions) != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // Compacts level by level. Other compactions could move files unfiltered beyond the deepest level that a full compaction knows.
  void compact_all(rocksdb::BottommostLevelCompaction bottommost) {
    stop_compactions();
    rocksdb::CompactRangeOptions compact;
    compact.bottommost_level_compaction = bottommost;
    compact.max_subcompactions = subcompactions_;
    check(db_->CompactRange(compact, nullptr, nullptr));
    check(db_->SetOptions({{"disable_auto_compactions", "false"}}));
  }
  [[nodiscard]] std::uint64_t property(const std::string& name) const {
    std::uint64_t value = 0;
    if (!db_->GetIntProperty(name, &value)) die("rocksdb does not know " + name);
    return value;
  }

  const std::string dir_;
  StampFilter filter_;  // it must outlive the database
  std::shared_ptr<Account> account_;
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
  rocksdb::PinnableSlice pinned_;
  unsigned subcompactions_ = 1;
  std::uint64_t sum_ = 0;
};

}  // namespace

std::unique_ptr<RocksEngine> open_rocksdb(const EngineSetup& setup) { return std::make_unique<RocksDb>(setup); }

std::unique_ptr<Engine> open_engine(const std::string& name, const EngineSetup& setup) {
  if (name == "rocksdb") return open_rocksdb(setup);
  if (name == "ebbtide") return open_ebbtide(setup);
  die("no engine '" + name + "'; there are ebbtide and rocksdb");
}

}  // namespace ebbtide::bench
