// One tree of memtables and real tables in memory, and views of it. There is no database.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <engine/collection_keys.h>
#include "compaction/table_files.h"
#include "db/read/view_parts.h"
#include "engine/table/table_fixture.h"

namespace ebbtide::test {

/// The fields of an entry that is put.
struct PutFields {
  Millis expiry = 0;
  DeleteKey stamp = kNoStamp;
};

class ReadFixture {
 public:
  static constexpr DatabaseId kDatabase = 3;

  Bench bench;
  const std::shared_ptr<MemoryAccount> account = std::make_shared<MemoryAccount>();
  ReadEnv env{.epoch = bench.epoch, .memory = *account, .first_stamp_mode = [](DatabaseId database) {
                return database == kDatabase ? StampMode::kExplicit : StampMode::kWriteTime;
              }};
  LeaseRegistry leases;
  SeqNum seq = 0;
  Millis now = 1'000'000;
  std::uint32_t pages_per_tile = 1;
  std::vector<double> filter_slices = {10};

  ReadFixture() {
    account->set_budget(std::uint64_t{1} << 30, std::uint64_t{1} << 30);
    env.values = std::make_shared<LargeValues>(account, [] {});
  }

  void put(const std::string& key, const std::string& value, PutFields fields = {}) {
    Owned entry{key, value, {}};
    entry.fields.expiry = fields.expiry;
    entry.fields.delete_key = fields.stamp;
    add(std::move(entry));
  }
  /// Puts the header of a large collection.
  void put_header(const std::string& key, Generation generation, PutFields fields = {}) {
    Owned entry{key, header_start(1, 0, generation), {}};
    entry.fields.kind = EntryKind::kHeader;
    entry.fields.expiry = fields.expiry;
    entry.fields.delete_key = fields.stamp;
    add(std::move(entry));
  }
  void del(const std::string& key) {
    Owned entry{key, {}, {}};
    entry.fields.kind = EntryKind::kTombstone;
    entry.fields.delete_key = now;
    add(std::move(entry));
  }
  void del_range(const std::string& start, const std::string& end) {
    ranges_.push_back({start, end, ++seq, now});
    memtable_->insert_range(ranges_.back());
  }
  void del_stamps(DeleteKey lo, DeleteKey hi) {
    records_.push_back({lo, hi, ++seq, now});
    memtable_->insert_record(records_.back());
    *recorded_ = true;
  }
  /// Writes the memtable as a table, which becomes the newest run.
  void flush() {
    std::sort(entries_.begin(), entries_.end(),
              [](const Owned& a, const Owned& b) { return version_before(a.key, a.fields.seq, b.key, b.fields.seq); });
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = pages_per_tile;
    options.filter_slices = filter_slices;
    const BuiltTable built = bench.build(options, entries_, ranges_);
    auto meta = std::make_shared<const FileMeta>(meta_of(built));
    auto reader = bench.open(built);
    REQUIRE(reader.is_ok());
    auto data = std::make_shared<DataFile>(built.data_file, &sink_);
    runs_.insert(runs_.begin(), {next_run_++, 0, {meta}});
    tables_.insert(tables_.begin(), std::make_shared<OpenTable>(meta, *reader, std::move(data), &sink_));
    memtable_ = std::make_shared<MemTable>(kMemTableBytes);
    entries_.clear();
    ranges_.clear();
  }
  /// Sets the runs' levels, newest run first.
  void set_levels(const std::vector<int>& levels) {
    for (std::size_t r = 0; r < runs_.size(); ++r) runs_[r].level = levels[r];
  }

  /// Returns the current tree.
  [[nodiscard]] std::shared_ptr<const TreeView> tree() {
    auto version = std::make_shared<Version>();
    version->tree = 1;
    version->runs = runs_;
    version->next_run = next_run_;
    version->records = std::make_shared<const RecordSet>(records_);
    auto tables = std::make_shared<TablesView>();
    tables->version = version;
    for (std::size_t r = 0; r < runs_.size(); ++r) tables->runs.emplace_back(runs_[r], std::vector<OpenTablePtr>{tables_[r]});
    auto view = std::make_shared<TreeView>();
    view->tree = 1;
    view->recorded = recorded_;
    view->lookups = lookups;
    view->memtables = {memtable_};
    view->tables = std::move(tables);
    kept_.push_back(view);
    return view;
  }
  /// Returns a view that does not own the data that it reads; the fixture keeps the data.
  [[nodiscard]] ReadView pass_view(ReadMode mode = ReadMode::kBlocking, MissSet* misses = nullptr) {
    return ViewParts::pass_view(env, kDatabase, tree().get(), seq, now, mode, misses);
  }
  [[nodiscard]] ReadView leased_view() { return ViewParts::leased_view(env, kDatabase, leases.lease(tree(), seq, now), now); }
  /// Returns the newest run's table.
  [[nodiscard]] const OpenTable& table() const { return *tables_.front(); }
  /// Returns the identity of the newest run's table in PageMiss and LookupState.
  [[nodiscard]] const void* table_name() const { return static_cast<const TableLookup*>(table().reader.get()); }

  const std::shared_ptr<TreeLookups> lookups = std::make_shared<TreeLookups>();

 private:
  static constexpr std::size_t kMemTableBytes = std::size_t{1} << 20;

  void add(Owned entry) {
    entry.fields.seq = ++seq;
    const Entry view = entry.view();
    const auto shared = std::make_shared<const std::string>(entry.value);
    Entry stored = view;
    if (view.value.size() > kLargeValueBytes) {
      stored.value = *shared;
      stored.shared = &shared;
    }
    memtable_->insert(lookup_key(entry.key), stored);
    entries_.push_back(std::move(entry));
  }

  ObsoleteSink sink_ = [](const ObsoleteFiles&) {};
  std::shared_ptr<MemTable> memtable_ = std::make_shared<MemTable>(kMemTableBytes);
  std::vector<Owned> entries_;  // the entries of the memtable
  std::vector<RangeTombstone> ranges_;
  std::vector<Record> records_;
  const std::shared_ptr<std::atomic<bool>> recorded_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<Run> runs_;
  std::vector<OpenTablePtr> tables_;  // the table of each run
  RunId next_run_ = 1;
  std::vector<std::shared_ptr<const TreeView>> kept_;
};

/// A callback for fetches without threads, which never call it.
inline void ignore() {}

inline std::string numbered(int i) { return "key:" + std::to_string(10'000 + i); }

/// Returns the value of a key, or the status of its get.
inline std::string value_of(const ReadView& view, const std::string& key) {
  Found found;
  const Status status = view.get(lookup_key(key), &found);
  return status.is_ok() ? std::string(found.value) : status.is_not_found() ? "absent" : status.to_string();
}

}  // namespace ebbtide::test
