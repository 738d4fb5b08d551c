// Tests of round trips: a reader returns the builder's entries, for every h and compression, by lookups and by iterators.
#include "engine/table/table_fixture.h"
#include "io/fault_fs.h"
#include "io/trace_fs.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

void check_lookups(Bench& bench, const TableReader& table, const std::vector<Owned>& entries, Random& random) {
  EpochGuard guard(bench.epoch);
  const auto check = [&](Bytes key, SeqNum view_seq) {
    Entry entry;
    std::shared_ptr<const void> pin;
    Status status;
    const Owned* const expected = model_get(entries, key, view_seq);
    const Lookup found = table.get(lookup_key(key), view_seq, nullptr, &entry, &pin, nullptr, &status);
    INFO(status.to_string());
    REQUIRE(found == (expected != nullptr ? Lookup::kFound : Lookup::kAbsent));
    if (expected != nullptr) require_same(table, entry, *expected);
  };
  for (const Owned& o : entries) {
    check(o.key, o.fields.seq);
    check(o.key, kMaxSeqNum);
    check(o.key, o.fields.seq - 1);
    REQUIRE(table.may_contain(lookup_key(o.key), *table.filter()));
    if (is_collection(o.fields.kind)) REQUIRE(table.may_have_collection(lookup_key(o.key)));
  }
  for (int i = 0; i < 300; ++i) {
    std::string key = random_bytes(random, random.uniform(6));
    if (random.one_in(2)) key = entries[random.uniform(entries.size())].key + static_cast<char>(random.uniform(256));
    check(key, kMaxSeqNum);
  }
}

void check_walks(const std::shared_ptr<TableReader>& table, const std::vector<Owned>& entries, bool fill_cache) {
  TableIteratorOptions options;
  options.fill_cache = fill_cache;
  auto it = table->new_iterator(options);
  it->seek_to_first();
  for (const Owned& o : entries) {
    INFO(it->status().to_string());
    REQUIRE(it->valid());
    require_same(*table, it->entry(), o);
    it->next();
  }
  REQUIRE(!it->valid());
  REQUIRE(it->status().is_ok());
  it->seek_to_last();
  for (std::size_t i = entries.size(); i-- > 0;) {
    REQUIRE(it->valid());
    require_same(*table, it->entry(), entries[i]);
    it->prev();
  }
  REQUIRE(!it->valid());
}

void round_trip(std::uint32_t h, Compression compression, const Recipe& recipe, std::uint64_t seed) {
  CAPTURE(h, static_cast<int>(compression), seed);
  Random random(seed);
  Bench bench;
  const std::vector<Owned> entries = random_entries(random, recipe);
  TableBuilderOptions options = bench.builder_options();
  options.pages_per_tile = h;
  options.compression = compression;
  auto table = bench.table(options, entries);
  REQUIRE(table->pages_per_tile() == h);
  require_clean(*table, entries.size());
  check_lookups(bench, *table, entries, random);
  check_walks(table, entries, true);
  check_walks(table, entries, false);
}

constexpr Compression kCompressions[] = {Compression::kNone, Compression::kLz4, Compression::kZstd};

TEST_CASE("table is written with any tile size and compression: its entries read back as written", "[table]") {
  for (const std::uint32_t h : {1u, 2u, 3u, 8u, 16u, 64u}) {
    for (const Compression compression : kCompressions) round_trip(h, compression, Recipe{}, 100 + h);
  }
}

TEST_CASE("entries have large values and long keys: they read back as written", "[table]") {
  for (const std::uint32_t h : {1u, 8u}) {
    for (const Compression compression : kCompressions) {
      Recipe recipe;
      recipe.keys = 60;
      recipe.long_keys = 4;
      recipe.large_values = 4;
      round_trip(h, compression, recipe, 7 + h);
    }
  }
}

TEST_CASE("random entries are written with random table options: they read back as written", "[table][property]") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed * 977);
    Recipe recipe;
    recipe.keys = 1 + random.uniform(400);
    recipe.awkward_keys = random.one_in(2);
    recipe.versions = static_cast<std::uint32_t>(1 + random.uniform(12));
    recipe.tombstone_in = static_cast<std::uint32_t>(random.uniform(4));
    recipe.value_bytes = random.uniform(600);
    recipe.stamps = random.one_in(2);
    recipe.expiries = random.one_in(2);
    if (!recipe.awkward_keys && recipe.keys < 2) recipe.keys = 2;
    round_trip(static_cast<std::uint32_t>(1 + random.uniform(64)), kCompressions[random.uniform(3)], recipe, seed);
  }
}

TEST_CASE("table iterator has bounds: it shows the entries within them, from any start and in any direction",
          "[table][iterator]") {
  for (const std::uint32_t h : {1u, 3u, 8u, 64u}) {
    Random random(h);
    Bench bench;
    const std::vector<Owned> entries = random_entries(random, Recipe{});
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = h;
    auto table = bench.table(options, entries);
    const auto some_key = [&]() -> std::string {
      if (random.one_in(5)) return random_bytes(random, random.uniform(5));
      std::string key = entries[random.uniform(entries.size())].key;
      if (random.one_in(3)) key += '\0';
      return key;
    };
    const auto less = [](const Owned& o, Bytes k) { return Bytes(o.key) < k; };
    for (int round = 0; round < 60; ++round) {
      TableIteratorOptions it_options;
      if (!random.one_in(4)) it_options.bounds.start = some_key();
      if (!random.one_in(4)) it_options.bounds.end = some_key();
      it_options.fill_cache = random.one_in(2);
      const KeyRange& bounds = it_options.bounds;
      // The model has the entries within the bounds.
      auto first = std::lower_bound(entries.begin(), entries.end(), Bytes(bounds.start), less);
      auto last = bounds.end.empty() ? entries.end() : std::lower_bound(entries.begin(), entries.end(), Bytes(bounds.end), less);
      const std::vector<Owned> model(first, std::max(first, last));
      auto it = table->new_iterator(it_options);
      std::ptrdiff_t at = -1;  // index in model; an index out of range means not valid
      for (int step = 0; step < 60; ++step) {
        const auto size = static_cast<std::ptrdiff_t>(model.size());
        const bool valid = at >= 0 && at < size;
        switch (valid ? random.uniform(10) : random.uniform(4)) {
          case 0:
            it->seek_to_first();
            at = 0;
            break;
          case 1:
            it->seek_to_last();
            at = size - 1;
            break;
          case 2: {
            const std::string key = some_key();
            it->seek(key);
            at = std::lower_bound(model.begin(), model.end(), Bytes(key), less) - model.begin();
            break;
          }
          case 3: {
            const std::string key = some_key();
            it->seek_before(key);
            at = std::lower_bound(model.begin(), model.end(), Bytes(key), less) - model.begin() - 1;
            break;
          }
          case 4:
          case 5:
          case 6:
            it->next();
            ++at;
            break;
          default:
            it->prev();
            --at;
        }
        INFO(it->status().to_string());
        REQUIRE(it->status().is_ok());
        REQUIRE(it->valid() == (at >= 0 && at < size));
        if (it->valid()) require_same(*table, it->entry(), model[static_cast<std::size_t>(at)]);
      }
    }
  }
}

TEST_CASE("key has many versions: all are in one tile, unless they outgrow a tile", "[table][kiwi]") {
  for (const std::uint32_t h : {1u, 4u}) {
    Bench bench;
    Random random(h);
    std::vector<Owned> entries;
    const auto add = [&](const std::string& key, SeqNum seq, std::size_t value_bytes) {
      Owned o;
      o.key = key;
      o.value = random_bytes(random, value_bytes);
      o.fields.seq = seq;
      o.fields.delete_key = random.uniform(1000);
      entries.push_back(o);
    };
    for (int i = 0; i < 50; ++i) add("a" + std::to_string(100 + i), 5, 100);
    SECTION("key has a few versions, h = " + std::to_string(h)) {
      for (SeqNum seq = 500; seq > 300; --seq) add("b", seq, 200);
      for (int i = 0; i < 50; ++i) add("c" + std::to_string(100 + i), 5, 100);
      TableBuilderOptions options = bench.builder_options();
      options.pages_per_tile = h;
      auto table = bench.table(options, entries);
      auto m = table->load_metadata();
      REQUIRE(m.is_ok());
      for (const TileMeta& tile : m->tiles) REQUIRE((tile.flags & ~kTileSingleVersions) == kTileUniqueKeys);
      require_clean(*table, entries.size());
    }
    SECTION("key has more versions than a tile can hold, h = " + std::to_string(h)) {
      for (SeqNum seq = 9000; seq > 1000; --seq) add("b", seq, 1000);
      for (int i = 0; i < 50; ++i) add("c" + std::to_string(100 + i), 5, 100);
      TableBuilderOptions options = bench.builder_options();
      options.pages_per_tile = h;
      options.compression = Compression::kNone;
      auto table = bench.table(options, entries);
      auto m = table->load_metadata();
      REQUIRE(m.is_ok());
      std::size_t continued = 0;
      for (const TileMeta& tile : m->tiles) continued += (tile.flags & kTileContinues) != 0 ? 1 : 0;
      REQUIRE(continued >= 3);
      require_clean(*table, entries.size());
      EpochGuard guard(bench.epoch);
      for (const SeqNum view : {SeqNum{999}, SeqNum{1000}, SeqNum{1001}, SeqNum{4567}, SeqNum{8999}, SeqNum{9000}, kMaxSeqNum}) {
        Entry entry;
        std::shared_ptr<const void> pin;
        Status status;
        const Owned* const expected = model_get(entries, "b", view);
        REQUIRE(table->get(lookup_key("b"), view, nullptr, &entry, &pin, nullptr, &status) ==
                (expected != nullptr ? Lookup::kFound : Lookup::kAbsent));
        if (expected != nullptr) require_same(*table, entry, *expected);
      }
      auto it = table->new_iterator({});
      it->seek("b");
      REQUIRE(it->valid());
      REQUIRE(it->entry().seq == 9000);
      it->seek_before("b");
      REQUIRE(it->entry().key == "a149");
      it->seek_before("c");
      REQUIRE(it->entry().seq == 1001);
      TableIteratorOptions bounded;
      bounded.bounds = {"b", "c"};
      it = table->new_iterator(bounded);
      std::size_t seen = 0;
      for (it->seek_to_first(); it->valid(); it->next()) ++seen;
      REQUIRE(seen == 8000);
      for (it->seek_to_last(); it->valid(); it->prev()) --seen;
      REQUIRE(seen == 0);
      // The bound is a key whose versions fill several tiles. None of its versions is before the bound.
      bounded.bounds = {"", "b"};
      it = table->new_iterator(bounded);
      for (it->seek_to_first(); it->valid(); it->next()) ++seen;
      REQUIRE(seen == 50);
      for (it->seek_to_last(); it->valid(); it->prev()) --seen;
      REQUIRE(seen == 0);
      it->seek("b");
      REQUIRE(!it->valid());
    }
  }
}

TEST_CASE("tile has several pages: they are in delete-key order, with unstamped entries and tombstones last", "[table][kiwi]") {
  Bench bench;
  Random random(3);
  Recipe recipe;
  recipe.keys = 3000;
  const std::vector<Owned> entries = random_entries(random, recipe);
  TableBuilderOptions options = bench.builder_options();
  options.pages_per_tile = 8;
  auto table = bench.table(options, entries);
  auto m = table->load_metadata();
  REQUIRE(m.is_ok());
  REQUIRE(m->unit == kPunchUnit);
  REQUIRE(m->tiles.size() > 3);
  for (const TileMeta& tile : m->tiles) {
    DeleteKey last = 0;
    bool unstamped = false;
    for (std::uint32_t p = 0; p < tile.pages; ++p) {
      const PageMeta& page = m->pages[tile.first_page + p];
      REQUIRE(page.offset % kPunchUnit == 0);
      REQUIRE(page.length % kPunchUnit == 0);
      if ((page.flags & kPageTombstones) != 0) {
        REQUIRE(p + 1 == tile.pages);
        continue;
      }
      REQUIRE((page.flags & kPageHasTombstones) == 0);
      if (page.has_delete_keys()) {
        REQUIRE(!unstamped);
        REQUIRE(page.min_delete_key >= last);
        last = page.max_delete_key;
      }
      unstamped |= (page.flags & kPageHasUnstamped) != 0;
    }
  }
}

TEST_CASE("table has range tombstones: they, the table's bounds and its stats read back as written", "[table]") {
  Bench bench;
  Random random(5);
  const std::vector<RangeTombstone> ranges = {{"b", "d", 10, 100}, {"c", "", 12, 90}, {"", "a", 3, 200}, {"x", "x", 4, 1}};
  TableBuilderOptions options = bench.builder_options();
  options.applied_seq = 77;
  Recipe recipe;
  recipe.keys = 20;
  const std::vector<Owned> entries = random_entries(random, recipe);
  const BuiltTable built = bench.build(options, entries, ranges);
  auto table = bench.open(built);
  REQUIRE(table.is_ok());
  REQUIRE((*table)->stats() == built.stats);
  REQUIRE(built.stats.applied_seq == 77);
  REQUIRE(built.stats.range_tombstones == 3);  // an empty range makes no tombstone
  REQUIRE(built.stats.unbounded);
  REQUIRE((*table)->range_tombstones()->newest_cover("cc", kMaxSeqNum)->seq == 12);
  REQUIRE((*table)->range_tombstones()->newest_cover("cc", 11)->seq == 10);
  require_clean(**table, entries.size());

  SECTION("table has only range tombstones") {
    const BuiltTable only = bench.build(bench.builder_options(), {}, ranges);
    auto reader = bench.open(only);
    REQUIRE(reader.is_ok());
    REQUIRE((*reader)->range_tombstones()->fragments().size() > 1);
    EpochGuard guard(bench.epoch);
    Entry entry;
    std::shared_ptr<const void> pin;
    Status status;
    REQUIRE((*reader)->get(lookup_key("b"), kMaxSeqNum, nullptr, &entry, &pin, nullptr, &status) == Lookup::kAbsent);
    REQUIRE(!(*reader)->may_contain(lookup_key("b"), *(*reader)->filter()));
    auto it = (*reader)->new_iterator({});
    it->seek_to_first();
    REQUIRE(!it->valid());
    it->seek_to_last();
    REQUIRE(!it->valid());
    require_clean(**reader, 0);
  }
}

TEST_CASE("lookup may not read: it adds the missing pages to its miss set", "[table][resident]") {
  Bench bench;
  Random random(9);
  Recipe recipe;
  recipe.large_values = 3;
  const std::vector<Owned> entries = random_entries(random, recipe);
  for (const std::uint32_t h : {1u, 8u}) {
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = h;
    auto table = bench.table(options, entries);
    for (const Owned& o : entries) {
      bench.cache.erase_file(table->files().data_file);
      MissSet misses;
      Entry entry;
      std::shared_ptr<const void> pin;
      Status status;
      {
        EpochGuard guard(bench.epoch);
        REQUIRE(table->get(lookup_key(o.key), o.fields.seq, &misses, &entry, &pin, nullptr, &status) == Lookup::kNotResident);
      }
      REQUIRE(!misses.empty());
      REQUIRE(misses.keep_alive.size() == 1);
      std::vector<std::shared_ptr<const void>> pins;
      for (const PageMiss& miss : misses.pages) {
        REQUIRE(miss.table == table.get());
        auto page = table->fetch_page(miss.page, nullptr);
        REQUIRE(page.is_ok());
        pins.push_back(page.value());
      }
      misses.clear();
      EpochGuard guard(bench.epoch);
      REQUIRE(table->get(lookup_key(o.key), o.fields.seq, &misses, &entry, &pin, nullptr, &status) == Lookup::kFound);
      REQUIRE(misses.empty());
      REQUIRE(same_fields(entry, o.view()));
      if (!entry.is_large()) continue;
      REQUIRE(table->large_if_resident(entry.large) == nullptr);
      auto value = table->read_large(entry.large);
      INFO(value.status().to_string());
      REQUIRE(value.is_ok());
      REQUIRE(*table->large_if_resident(entry.large) == o.value);
      value.value() = nullptr;
      REQUIRE(table->large_if_resident(entry.large) == nullptr);
    }
  }
}

TEST_CASE("large value is copied to another table: its chunks are copied compressed, as they are stored", "[table][large]") {
  Bench bench;
  Random random(11);
  Recipe recipe;
  recipe.keys = 40;
  recipe.large_values = 6;
  const std::vector<Owned> entries = random_entries(random, recipe);
  for (const std::uint32_t from : {1u, 4u}) {
    for (const std::uint32_t to : {1u, 4u}) {
      TableBuilderOptions options = bench.builder_options();
      options.pages_per_tile = from;
      options.compression = Compression::kZstd;
      auto source = bench.table(options, entries);
      TableBuilderOptions target_options = bench.builder_options();
      target_options.pages_per_tile = to;
      target_options.compression = Compression::kNone;  // chunks keep the source table's compression
      TableBuilder builder(target_options);
      TableIteratorOptions it_options;
      it_options.fill_cache = false;
      auto it = source->new_iterator(it_options);
      for (it->seek_to_first(); it->valid(); it->next()) REQUIRE(builder.add(it->entry()).is_ok());
      auto built = builder.finish();
      REQUIRE(built.is_ok());
      auto target = bench.open(built.value());
      REQUIRE(target.is_ok());
      REQUIRE((*target)->stats() == source->stats());
      require_clean(**target, entries.size());
      check_walks(*target, entries, true);
    }
  }
}

TEST_CASE("table is built: its data is sent to the device in parts, and an error of sending fails the build", "[table]") {
  Bench bench;
  TraceFileSystem trace(bench.fs, {.ops = ops_of(FileOp::kWrite, FileOp::kWriteBack, FileOp::kSync), .lengths = true});
  TableBuilderOptions options = bench.builder_options();
  options.fs = &trace;
  Random random(5);
  std::vector<Owned> entries(9);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].key = "k" + std::to_string(i);
    entries[i].fields.seq = 1 + i;
    entries[i].value = random_bytes(random, std::size_t{1} << 20);
  }
  const BuiltTable built = bench.build(options, entries);
  REQUIRE(built.data_bytes > std::uint64_t{9} << 20);

  std::uint64_t unstarted = 0, most = 0;
  int parts = 0;
  for (const std::string& line : trace.lines()) {
    if (line.find(data_file_name(built.data_file)) == std::string::npos) continue;
    if (line.starts_with("write ")) {
      unstarted += std::stoull(line.substr(line.rfind(' ')));
      most = std::max(most, unstarted);
    } else {
      parts += line.starts_with("write_back ") ? 1 : 0;
      unstarted = 0;
    }
  }
  CHECK(parts >= 6);
  CHECK(most <= std::uint64_t{2} << 20);

  FaultFileSystem faults(bench.fs);
  faults.inject({.ops = ops_of(FileOp::kWriteBack), .nth = 3});
  options = bench.builder_options();
  options.fs = &faults;
  TableBuilder builder(options);
  Status status;
  for (const Owned& o : entries) status = builder.add(o.view());
  CHECK(status.code() == Code::kIoError);
  CHECK(builder.finish().status().code() == Code::kIoError);
}

TEST_CASE("table builder is destroyed before finish(): it leaves no file", "[table]") {
  Bench bench;
  {
    TableBuilder builder(bench.builder_options());
    Owned o;
    o.key = "k";
    o.fields.seq = 1;
    REQUIRE(builder.add(o.view()).is_ok());
    REQUIRE(!builder.empty());
  }
  REQUIRE(bench.fs.list(bench.dir)->empty());
}

TEST_CASE("page is nearly as large as a block of the file system: it lies in one block, with room for the cache's header",
          "[table]") {
  Bench bench;
  Random random(17);
  std::vector<Owned> entries(4000);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].key = "key:" + std::to_string(1'000'000 + i);
    entries[i].value = random_bytes(random, 100);
    entries[i].fields.seq = i + 1;
  }
  TableBuilderOptions options = bench.builder_options();
  options.pages_per_tile = 1;
  options.page_size = 4096;
  options.compression = Compression::kNone;
  const BuiltTable built = bench.build(options, entries);
  const std::string meta_path = join_path(bench.dir, metadata_file_name(built.metadata_file));
  auto m = TableMetadata::decode(read_file(bench.fs, meta_path).value(), built.metadata_file, meta_path);
  REQUIRE(m.is_ok());
  REQUIRE(m->pages.size() > 100);
  for (const PageMeta& page : m->pages) {
    CHECK(page.offset / 4096 == (page.offset + page.length - 1) / 4096);
    CHECK(page.length <= 4096);
  }
  // Entries have about 110 bytes, so little space is left empty.
  CHECK(built.data_bytes < entries.size() * 125);
}

TEST_CASE("pages compress well: page_size limits their size before compression if h = 1, after it if h > 1", "[table][kiwi]") {
  Bench bench;
  Random random(18);
  std::vector<Owned> entries(6000);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].key = "key:" + std::to_string(1'000'000 + i);
    entries[i].value = random_bytes(random, 20) + std::string(80, 'v');
    entries[i].fields.seq = i + 1;
    entries[i].fields.delete_key = i;
  }
  for (const std::uint32_t h : {1u, 8u}) {
    INFO("h " << h);
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = h;
    options.page_size = 4096;
    options.compression = Compression::kLz4;
    const auto table = bench.open(bench.build(options, entries)).value();
    const TableMetadata m = table->load_metadata().value();
    std::size_t decompressed = 0, stored = 0, largest = 0;
    for (std::uint32_t p = 0; p < m.pages.size(); ++p) {
      const std::size_t bytes = table->read_page(p, nullptr).value().size();
      decompressed += bytes;
      largest = std::max(largest, bytes);
      stored = std::max<std::size_t>(stored, m.pages[p].length);
    }
    const std::size_t mean = decompressed / m.pages.size();
    if (h == 1) {
      CHECK(largest <= 4096);
      CHECK(mean > 3500);
      CHECK(stored < 2500);
    } else {
      CHECK(mean > 6000);  // the first tile is built before its compression ratio is known
      CHECK(stored == 4096);
    }
  }
}

TEST_CASE("split points and sizes of key ranges are requested: the table computes them from its fences", "[table]") {
  Bench bench;
  Random random(13);
  Recipe recipe;
  recipe.keys = 2000;
  recipe.awkward_keys = false;
  recipe.versions = 1;
  const std::vector<Owned> entries = random_entries(random, recipe);
  for (const std::uint32_t h : {1u, 4u}) {
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = h;
    auto table = bench.table(options, entries);
    const auto points = table->split_points({}, 7);
    REQUIRE(points.size() == 7);
    REQUIRE(std::is_sorted(points.begin(), points.end()));
    std::uint64_t sum = 0;
    std::string from;
    for (std::size_t i = 0; i <= points.size(); ++i) {
      const KeyRange part{from, i < points.size() ? points[i] : ""};
      const std::uint64_t bytes = table->approximate_bytes(part);
      REQUIRE(bytes > table->files().data_bytes / 32);
      REQUIRE(bytes < table->files().data_bytes / 3);
      sum += bytes;
      from = part.end;
    }
    REQUIRE(sum == table->files().data_bytes);
    REQUIRE(table->approximate_bytes({}) == table->files().data_bytes);
    REQUIRE(table->approximate_bytes({"a", "b"}) == 0);
    const KeyRange middle{entries[500].key, entries[1500].key};
    for (const std::string& point : table->split_points(middle, 3)) REQUIRE((point > middle.start && point < middle.end));
    REQUIRE(table->split_points({}, 1'000'000).size() == table->tile_count() - 1);
    for (const std::size_t count : {1u, 7u, 1'000'000u}) {
      const auto samples = table->byte_samples({}, count);
      REQUIRE(samples.size() == std::min<std::size_t>(count, table->tile_count()));
      sum = 0;
      for (const auto& [key, bytes] : samples) {
        REQUIRE(bytes > 0);
        sum += bytes;
      }
      REQUIRE(sum + 4096 >= table->files().data_bytes);  // all bytes except the file's header
      REQUIRE(sum <= table->files().data_bytes);
      REQUIRE(std::is_sorted(samples.begin(), samples.end()));
    }
    const auto inside = table->byte_samples(middle, 3);
    REQUIRE(inside.size() == 3);
    REQUIRE((inside[0].first > middle.start && inside[2].first < middle.end));
    REQUIRE(table->byte_samples({"a", "b"}, 3).empty());
  }
}

TEST_CASE("iterator is for a compaction: it reads under twice the file's bytes, and does not fill the cache",
          "[table][iterator]") {
  Bench bench;
  Random random(15);
  Recipe recipe;
  recipe.keys = 5000;
  const std::vector<Owned> entries = random_entries(random, recipe);
  auto table = bench.table(bench.builder_options(), entries);
  const std::uint64_t before = bench.cache.usage();
  ReadCounters counters;
  TableIteratorOptions options;
  options.fill_cache = false;
  options.counters = &counters;
  auto it = table->new_iterator(options);
  std::size_t seen = 0;
  for (it->seek_to_first(); it->valid(); it->next()) ++seen;
  REQUIRE(seen == entries.size());
  REQUIRE(bench.cache.usage() == before);
  REQUIRE(counters.pages_read == table->page_count());
  REQUIRE(counters.bytes_read < 2 * table->files().data_bytes);
}

TEST_CASE("table has strings and collections: its filter tells keys that may be collections from others", "[table][filter]") {
  const auto h = GENERATE(1u, 8u);
  struct Case {
    std::size_t collection_in;  // one in this many keys is a collection
    std::vector<double> slices;
    double strings, absent;  // the largest share of strings, and of absent keys, that may be collections
  };
  const Case cases[] = {
      {10, {10}, 0.12, 0.12},  // at h = 8 each page has its own chance of a false positive
      {10, {6, 4}, 0.12, 0.12}, {4, {10}, 0.12, 0.12},
      {1, {10}, 1, 0.12},  // all are collections: their keys are in the filter once
      {10, {}, 1, 1},
  };
  for (const Case& c : cases) {
    CAPTURE(h, c.collection_in, c.slices.size());
    Bench bench;
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = h;
    options.filter_slices = c.slices;
    std::vector<Owned> entries;
    for (int i = 0; i < 4'000; ++i) {
      Owned o{.key = "key" + std::to_string(10'000 + i), .value = "value", .fields = {}};
      o.fields.seq = 7;
      o.fields.kind = i % c.collection_in == 0 ? EntryKind::kCompact : EntryKind::kValue;
      entries.push_back(o);
      if (o.fields.kind == EntryKind::kValue || i % 3 != 0) continue;
      o.fields.seq = 5;  // an older version of the same collection
      entries.push_back(o);
    }
    const auto table = bench.table(options, entries);
    require_clean(*table, entries.size());
    EpochGuard guard(bench.epoch);
    double strings = 0, wrong = 0, absent = 0;
    for (const Owned& o : entries) {
      const bool may_be = table->may_have_collection(lookup_key(o.key));
      if (is_collection(o.fields.kind)) REQUIRE(may_be);
      if (o.fields.kind != EntryKind::kValue) continue;
      ++strings;
      wrong += may_be;
    }
    for (int i = 0; i < 4'000; ++i) absent += table->may_have_collection(lookup_key("key" + std::to_string(10'000 + i) + "x"));
    CHECK(wrong <= c.strings * strings);
    CHECK(absent <= c.absent * 4'000);
    CHECK_FALSE((!c.slices.empty() && table->may_have_collection(lookup_key("another beginning"))));
  }
}

}  // namespace TEST_FILE
