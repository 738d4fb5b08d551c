#include "table/index_cache.h"

#include "engine/table/table_fixture.h"
#include "io/fault_fs.h"
#include "iter/barrier_iterator.h"
#include "table/loaded_filter.h"

namespace ebbtide::test {
namespace TEST_FILE {

class Reports final : public DamageSink {
 public:
  void report(FileNum data_file, const Status& status) override { reports.emplace_back(data_file, status); }
  std::vector<std::pair<FileNum, Status>> reports;
};

/// Tables that are opened without I/O, and an index cache.
struct ColdBench : Bench {
  IndexCache indexes{epoch};
  FaultFileSystem faults{fs};
  Reports damage;
  Random random{1};

  TableReaderOptions cold_options() {
    TableReaderOptions options = reader_options();
    options.fs = &faults;
    options.indexes = &indexes;
    options.damage = &damage;
    return options;
  }
  std::shared_ptr<TableReader> lazy(const BuiltTable& built) {
    return TableReader::lazy(cold_options(), files_of(built), built.stats);
  }
  /// Unloads every index that is not pinned.
  void unload() {
    indexes.set_capacity(0);
    indexes.set_capacity(IndexCache::kNoLimit);
  }
  std::vector<Owned> plain_entries(std::size_t keys) {
    return random_entries(random, {.keys = keys, .awkward_keys = false, .versions = 1, .tombstone_in = 0, .expiries = false});
  }
};

Lookup find_in(ColdBench& bench, const TableReader& table, Bytes key, MissSet* misses, std::string* value, Status* status) {
  EpochGuard guard(bench.epoch);
  Entry entry;
  std::shared_ptr<const void> pin;
  ReadCounters counters;
  const Lookup result = table.get(lookup_key(key), kMaxSeqNum, misses, &entry, &pin, &counters, status);
  if (result == Lookup::kFound) value->assign(entry.value);
  return result;
}

void flip_byte(ColdBench& bench, const std::string& path, std::size_t at) {
  auto bytes = read_file(bench.fs, path);
  REQUIRE(bytes.is_ok());
  (*bytes)[at] ^= 1;
  REQUIRE(bench.fs.unlink(path).is_ok());
  auto file = bench.fs.create(path);
  REQUIRE(file.is_ok());
  REQUIRE((*file)->append(*bytes).is_ok());
  REQUIRE((*file)->close().is_ok());
}

TEST_CASE("table is opened lazily: no file is read until the table is searched") {
  ColdBench bench;
  const std::vector<Owned> entries = bench.plain_entries(200);
  const BuiltTable built = bench.build(bench.builder_options(), entries);
  bench.faults.inject({.ops = ops_of(FileOp::kOpen), .sticky = true});
  const auto table = bench.lazy(built);
  CHECK(table->stats() == built.stats);
  CHECK(table->pages_per_tile() == 0);
  CHECK(bench.indexes.counts().tables == 0);
  bench.faults.clear_faults();
  std::string value;
  Status status;
  for (const Owned& entry : entries) {
    REQUIRE(find_in(bench, *table, entry.key, nullptr, &value, &status) == Lookup::kFound);
    CHECK(value == entry.value);
  }
  CHECK(bench.indexes.counts().loads == 1);
  CHECK(table->pages_per_tile() == 1);
}

TEST_CASE("lookup may not read, and the table's index is not in memory: first the index, then the page is a miss") {
  ColdBench bench;
  const std::vector<Owned> entries = bench.plain_entries(200);
  const auto table = bench.lazy(bench.build(bench.builder_options(), entries));
  std::string value;
  Status status;
  MissSet misses;
  REQUIRE(find_in(bench, *table, entries[7].key, &misses, &value, &status) == Lookup::kNotResident);
  REQUIRE(misses.pages.size() == 1);
  CHECK(misses.pages[0].page == kIndexMiss);
  CHECK(table->fetch_page_if_cached(kIndexMiss, nullptr) == nullptr);
  CHECK(table->page_place(kIndexMiss).file == nullptr);
  const auto pinned = table->fetch_page(kIndexMiss, nullptr);
  REQUIRE(pinned.is_ok());
  bench.unload();
  misses.clear();
  REQUIRE(find_in(bench, *table, entries[7].key, &misses, &value, &status) == Lookup::kNotResident);
  REQUIRE(misses.pages.size() == 1);
  CHECK(misses.pages[0].page != kIndexMiss);
  REQUIRE(table->fetch_page(misses.pages[0].page, nullptr).is_ok());
  misses.clear();
  CHECK(find_in(bench, *table, entries[7].key, &misses, &value, &status) == Lookup::kFound);
  CHECK(value == entries[7].value);
}

TEST_CASE("lookup misses a page: the table's index stays in memory until the miss is cleared") {
  ColdBench bench;
  const std::vector<Owned> entries = bench.plain_entries(200);
  const auto table = bench.lazy(bench.build(bench.builder_options(), entries));
  std::string value;
  Status status;
  MissSet misses;
  REQUIRE(table->pinned().is_ok());
  REQUIRE(find_in(bench, *table, entries[7].key, &misses, &value, &status) == Lookup::kNotResident);
  bench.unload();
  CHECK(bench.indexes.counts().tables == 1);
  CHECK(table->page_place(misses.pages[0].page).file != nullptr);
  misses.clear();
  bench.unload();
  CHECK(bench.indexes.counts().tables == 0);
}

TEST_CASE("index is unloaded between the stages of a lookup: the lookup finds the same") {
  ColdBench bench;
  const std::vector<Owned> entries = bench.plain_entries(500);
  const std::uint32_t h = GENERATE(1, 4);
  TableBuilderOptions options = bench.builder_options();
  options.pages_per_tile = h;
  const auto table = bench.lazy(bench.build(options, entries));
  for (int leaves_at = 0; leaves_at <= TableLookup::kPrefetchStages; ++leaves_at) {
    for (int comes_back_at = leaves_at; comes_back_at <= TableLookup::kPrefetchStages; ++comes_back_at) {
      for (std::size_t i = 0; i < entries.size(); i += 41) {
        CAPTURE(leaves_at, comes_back_at, i);
        REQUIRE(table->pinned().is_ok());
        EpochGuard guard(bench.epoch);
        LookupState state;
        const LookupKey key{entries[i].key, hash_key(entries[i].key), &state};
        bool maybe = true;
        for (int stage = 0; stage < TableLookup::kPrefetchStages && maybe; ++stage) {
          if (stage == leaves_at) bench.unload();
          if (stage == comes_back_at) REQUIRE(table->pinned().is_ok());
          maybe = table->prefetch(key, stage, &state);
        }
        REQUIRE(maybe);
        Entry entry;
        std::shared_ptr<const void> pin;
        Status status;
        REQUIRE(table->get(key, kMaxSeqNum, nullptr, &entry, &pin, nullptr, &status, &state) == Lookup::kFound);
        CHECK(entry.value == Bytes(entries[i].value));
      }
    }
  }
}

TEST_CASE("indexes exceed the capacity: those not searched since the last check are unloaded") {
  ColdBench bench;
  std::vector<std::shared_ptr<TableReader>> tables;
  std::vector<std::vector<Owned>> entries;
  for (int i = 0; i < 8; ++i) {
    entries.push_back(bench.plain_entries(300));
    tables.push_back(bench.lazy(bench.build(bench.builder_options(), entries.back())));
  }
  REQUIRE(tables[0]->pinned().is_ok());
  const std::uint64_t each = bench.indexes.counts().bytes;
  bench.indexes.set_capacity(3 * each + each / 2);
  std::string value;
  Status status;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t t = 1; t < tables.size(); ++t) {
      const Owned& hot = entries[0][t];
      REQUIRE(find_in(bench, *tables[0], hot.key, nullptr, &value, &status) == Lookup::kFound);
      const Owned& cold = entries[t][static_cast<std::size_t>(round)];
      REQUIRE(find_in(bench, *tables[t], cold.key, nullptr, &value, &status) == Lookup::kFound);
      CHECK(value == cold.value);
      CHECK(bench.indexes.counts().bytes <= bench.indexes.counts().capacity);
    }
  }
  CHECK(tables[0]->pinned_if_loaded() != nullptr);
  CHECK(bench.indexes.counts().loads == 1 + 3 * 7);  // the hot table was read once
}

TEST_CASE("pinned index exceeds the capacity: it is unloaded when its pin ends") {
  ColdBench bench;
  const std::vector<Owned> entries = bench.plain_entries(100);
  const auto table = bench.lazy(bench.build(bench.builder_options(), entries));
  auto pin = table->pinned();
  REQUIRE(pin.is_ok());
  auto walk = (*pin)->new_iterator({});
  pin = Status::not_found();
  bench.indexes.set_capacity(0);
  std::size_t seen = 0;
  for (walk->seek_to_first(); walk->valid(); walk->next()) ++seen;
  CHECK(seen == entries.size());
  CHECK(bench.indexes.counts().tables == 1);
  walk.reset();
  bench.indexes.set_capacity(0);
  CHECK(bench.indexes.counts().tables == 0);
  CHECK(table->memory_bytes() < table->resident_bytes() + 1);
}

TEST_CASE("more than 128 pinned indexes exceed the capacity: a missed page does not pin its index") {
  ColdBench bench;
  constexpr std::size_t kTables = IndexCache::kMostPinned + 1;
  const std::vector<Owned> entries = bench.plain_entries(20);
  std::vector<std::shared_ptr<TableReader>> tables, pins;
  bench.indexes.set_capacity(0);
  for (std::size_t t = 0; t < kTables; ++t) {
    CHECK_FALSE(bench.indexes.crowded());
    tables.push_back(bench.lazy(bench.build(bench.builder_options(), entries)));
    auto pin = tables.back()->pinned();
    REQUIRE(pin.is_ok());
    pins.push_back(std::move(pin).value());
  }
  CHECK(bench.indexes.crowded());
  CHECK(tables[0]->is_crowded());
  std::string value;
  Status status;
  MissSet misses;
  REQUIRE(find_in(bench, *tables[0], entries[7].key, &misses, &value, &status) == Lookup::kNotResident);
  pins.erase(pins.begin());
  CHECK(tables[0]->pinned_if_loaded() == nullptr);  // the miss does not pin the index, so the end of the pin has unloaded it
  CHECK_FALSE(bench.indexes.crowded());
  CHECK(bench.indexes.counts().tables == kTables - 1);
  misses.clear();
  REQUIRE(find_in(bench, *tables[1], entries[7].key, &misses, &value, &status) == Lookup::kNotResident);
  pins.clear();
  bench.unload();
  CHECK(tables[1]->pinned_if_loaded() != nullptr);
}

TEST_CASE("index is unloaded: the table's filter excludes no key until the index is loaded again") {
  ColdBench bench;
  TableBuilderOptions options = bench.builder_options();
  options.filter_slices = {6, 4};
  const auto table = bench.lazy(bench.build(options, bench.plain_entries(300)));
  CHECK(table->slices().empty());
  REQUIRE(table->pinned().is_ok());
  CHECK(table->filter()->slices() == 2);
  bench.unload();
  bool tombstones = false;
  CHECK(table->filter()->candidates(hash_key("absent"), &tombstones) == ~std::uint64_t{0});
  CHECK(table->filter_bits() == 0);
  CHECK(table->slices().size() == 2);
  REQUIRE(table->keep_slices(1).is_ok());
  CHECK(bench.indexes.counts().tables == 0);
  REQUIRE(table->pinned().is_ok());
  CHECK(table->filter()->slices() == 1);
}

TEST_CASE("first search of a table finds damage: the damage is reported once, and the table is unreadable") {
  ColdBench bench;
  const std::vector<Owned> entries = bench.plain_entries(100);
  const BuiltTable built = bench.build(bench.builder_options(), entries);
  const std::string path = join_path("db", metadata_file_name(built.metadata_file));
  const bool missing = GENERATE(false, true);
  if (missing) {
    REQUIRE(bench.fs.unlink(path).is_ok());
  } else {
    flip_byte(bench, path, 100);
  }
  const auto table = bench.lazy(built);
  CHECK(table->unreadable().is_ok());
  std::string value;
  Status status;
  REQUIRE(find_in(bench, *table, entries[0].key, nullptr, &value, &status) == Lookup::kError);
  CHECK(status.code() == Code::kCorruption);
  REQUIRE(bench.damage.reports.size() == 1);
  CHECK(bench.damage.reports[0].first == built.data_file);
  CHECK(table->unreadable().to_string() == status.to_string());
  MissSet misses;
  CHECK(find_in(bench, *table, entries[0].key, &misses, &value, &status) == Lookup::kError);
  CHECK(misses.empty());
  const auto walk = table->new_iterator({});
  walk->seek_to_first();
  REQUIRE(walk->valid());
  CHECK(barrier_status(walk->entry()).code() == Code::kCorruption);
  CHECK(bench.damage.reports.size() == 1);
}

TEST_CASE("device fails at the first search of a table: the error is reported, and the next search succeeds") {
  ColdBench bench;
  const std::vector<Owned> entries = bench.plain_entries(100);
  const auto table = bench.lazy(bench.build(bench.builder_options(), entries));
  bench.faults.inject({.ops = ops_of(FileOp::kRead)});
  std::string value;
  Status status;
  REQUIRE(find_in(bench, *table, entries[0].key, nullptr, &value, &status) == Lookup::kError);
  CHECK(status.code() == Code::kIoError);
  CHECK(bench.damage.reports.size() == 1);
  CHECK(table->unreadable().is_ok());
  status = Status::ok();
  CHECK(find_in(bench, *table, entries[0].key, nullptr, &value, &status) == Lookup::kFound);
}

TEST_CASE("manifest's statistics of a table differ from its file's: verify() reports corruption of the lazily opened table") {
  ColdBench bench;
  const BuiltTable built = bench.build(bench.builder_options(), bench.plain_entries(100));
  std::vector<Status> errors;
  std::uint64_t pages = 0, entries = 0;
  REQUIRE(bench.lazy(built)->verify(&errors, &pages, &entries));
  BuiltTable other = built;
  other.stats.max_seq += 1;
  CHECK_FALSE(bench.lazy(other)->verify(&errors, &pages, &entries));
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code() == Code::kCorruption);
}

TEST_CASE("metadata file is replaced by another valid one: reading it again reports corruption") {
  ColdBench bench;
  const BuiltTable built = bench.build(bench.builder_options(), bench.plain_entries(100));
  const std::string path = join_path("db", metadata_file_name(built.metadata_file));
  const auto table = bench.lazy(built);
  const auto pinned = table->pinned();
  REQUIRE(pinned.is_ok());
  auto metadata = table->load_metadata();
  REQUIRE(metadata.is_ok());
  metadata->stats.max_seq += 1;
  std::uint64_t checksum = 0;
  // The new file has valid checksums, but is not the file that was written.
  const std::string bytes = metadata->encode(built.metadata_file, &checksum);
  REQUIRE(bench.fs.unlink(path).is_ok());
  auto file = bench.fs.create(path);
  REQUIRE(file.is_ok());
  REQUIRE((*file)->append(bytes).is_ok());
  REQUIRE((*file)->close().is_ok());
  CHECK(table->load_metadata().status().code() == Code::kCorruption);
  REQUIRE(bench.damage.reports.size() == 1);
  CHECK(bench.damage.reports[0].first == built.data_file);
}

TEST_CASE("index is not in memory: may_contain() is true for any key") {
  ColdBench bench;
  const auto table = bench.lazy(bench.build(bench.builder_options(), bench.plain_entries(50)));
  const LookupKey absent = lookup_key("absent");
  CHECK(table->may_contain(absent, *table->filter()));
  CHECK(table->may_have_collection(absent));
  const auto pinned = table->pinned();
  REQUIRE(pinned.is_ok());
  CHECK_FALSE((*pinned)->may_contain(absent, *(*pinned)->filter()));
  CHECK_FALSE((*pinned)->may_have_collection(absent));
}

TEST_CASE("filter slices of a table are dropped or loaded: the index cache counts the new bytes") {
  ColdBench bench;
  TableBuilderOptions options = bench.builder_options();
  options.filter_slices = {6, 4};
  const auto table = bench.lazy(bench.build(options, bench.plain_entries(3000)));
  const auto pinned = table->pinned();
  REQUIRE(pinned.is_ok());
  const std::uint64_t all = bench.indexes.counts().bytes;
  REQUIRE(table->keep_slices(0).is_ok());
  CHECK(bench.indexes.counts().bytes < all);
  CHECK(bench.indexes.counts().bytes == table->memory_bytes() - table->resident_bytes());
  REQUIRE(table->keep_slices(kAllSlices).is_ok());
  CHECK(bench.indexes.counts().bytes == all);
}

TEST_CASE("index is unloaded: readers whose EpochGuard began before may still use it") {
  ColdBench bench;
  const auto table = bench.lazy(bench.build(bench.builder_options(), bench.plain_entries(50)));
  bool freed = false;
  std::weak_ptr<const LoadedFilter> filter;
  {
    EpochGuard guard(bench.epoch);
    const auto pinned = table->pinned();
    REQUIRE(pinned.is_ok());
    filter = (*pinned)->filter();
    CHECK_FALSE(filter.expired());
  }
  {
    EpochGuard guard(bench.epoch);
    bench.unload();
    CHECK_FALSE(filter.expired());
  }
  for (int i = 0; i < 100 && !freed; ++i) {
    bench.epoch.collect();
    freed = filter.expired();
  }
  CHECK(freed);
}

TEST_CASE("table is abandoned and its file is missing: loading its index returns kAborted and reports no damage") {
  ColdBench bench;
  const BuiltTable built = bench.build(bench.builder_options(), bench.plain_entries(100));
  const auto table = bench.lazy(built);
  table->abandon();
  REQUIRE(bench.fs.unlink(join_path("db", metadata_file_name(built.metadata_file))).is_ok());
  CHECK(table->pinned().status().code() == Code::kAborted);
  CHECK(bench.damage.reports.empty());
}

// 10 TB in files of 64 MiB are 160,000 tables. With 2 GB of memory each table may take 12.5 KB. The test has a thousandth of
// both: 160 tables and 2 MB.
TEST_CASE("160 tables, enough for 10 GB, are open without their indexes: they take less than 320 KiB") {
  ColdBench bench;
  std::uint64_t resident = 0, all = 0;
  std::vector<std::shared_ptr<TableReader>> tables;
  for (int i = 0; i < 160; ++i) {
    tables.push_back(bench.lazy(bench.build(bench.builder_options(), bench.plain_entries(20))));
    REQUIRE(tables.back()->pinned().is_ok());
    all += tables.back()->memory_bytes();
  }
  bench.unload();
  for (const auto& table : tables) resident += table->memory_bytes();
  CHECK(bench.indexes.counts().tables == 0);
  CHECK(resident < all);
  CHECK(resident < 160 * 2048);  // the rest of 2 MB is for the manifest's entries, open files and the bounds in tree views
}

}  // namespace TEST_FILE
}  // namespace ebbtide::test
