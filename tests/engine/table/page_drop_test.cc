// Tests of dropped pages, in many rounds: living entries read as before, and dropped entries are in neither file.
#include "table/page_drop.h"

#include "base/coding.h"
#include "engine/table/table_fixture.h"
#include "io/fault_fs.h"
#include "table/page.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

// A table, and the entries that it must have.
struct Living {
  BuiltTable built;
  std::shared_ptr<TableReader> table;
  std::vector<Owned> model;
  bool names_linger = false;  // true if a drop so far has reported lingering names
};

// Returns the pages that a delete of [lo, hi) covers completely and in part, by their fences.
PageDropRequest request_of(const TableReader& table, DeleteKey lo, DeleteKey hi) {
  PageDropRequest request;
  for (std::uint32_t p = 0; p < table.page_count(); ++p) {
    const PageFence fence = table.page_fence(p);
    if (fence.entries == 0 || fence.min_delete_key > fence.max_delete_key) continue;
    if (fence.max_delete_key < lo || fence.min_delete_key >= hi) continue;
    const bool plain = (fence.flags & (kPageHasTombstones | kPageHasUnstamped)) == 0;
    const bool whole = plain && fence.min_delete_key >= lo && fence.max_delete_key < hi;
    (whole ? request.whole : request.parts).push_back(p);
  }
  return request;
}

bool is_covered(const Entry& e, DeleteKey lo, DeleteKey hi) {
  return !e.is_tombstone() && e.delete_key != kNoStamp && e.delete_key >= lo && e.delete_key < hi;
}

void require_contents(Bench& bench, const Living& t, const std::vector<Owned>& gone) {
  require_clean(*t.table, t.model.size());
  EpochGuard guard(bench.epoch);
  Entry entry;
  std::shared_ptr<const void> pin;
  Status status;
  for (const Owned& o : t.model) {
    const Lookup found = t.table->get(lookup_key(o.key), o.fields.seq, nullptr, &entry, &pin, nullptr, &status);
    INFO(status.to_string());
    REQUIRE(found == Lookup::kFound);
    require_same(*t.table, entry, o);
  }
  for (const Owned& o : gone) {
    const Lookup found = t.table->get(lookup_key(o.key), o.fields.seq, nullptr, &entry, &pin, nullptr, &status);
    const Owned* const expected = model_get(t.model, o.key, o.fields.seq);
    INFO(status.to_string());
    REQUIRE(found == (expected == nullptr ? Lookup::kAbsent : Lookup::kFound));
    if (expected != nullptr) require_same(*t.table, entry, *expected);
  }
  for (const bool fill : {true, false}) {
    TableIteratorOptions options;
    options.fill_cache = fill;
    auto it = t.table->new_iterator(options);
    std::size_t i = 0;
    for (it->seek_to_first(); it->valid(); it->next()) require_same(*t.table, it->entry(), t.model[i++]);
    REQUIRE(it->status().is_ok());
    REQUIRE(i == t.model.size());
    for (it->seek_to_last(); it->valid(); it->prev()) require_same(*t.table, it->entry(), t.model[--i]);
    REQUIRE(it->status().is_ok());
    REQUIRE(i == 0);
  }
}

// Checks that no separator or bound is a dropped key, unless a living key begins with it, or the drop reported lingering names.
void require_names(const Living& t, const std::vector<Owned>& gone) {
  if (t.names_linger) return;
  const TableMetadata m = t.table->load_metadata().value();
  std::set<std::string> names(m.separators.begin(), m.separators.end());
  names.insert({m.stats.smallest, m.stats.largest});
  for (const Owned& o : gone) {
    const bool lives =
        std::any_of(t.model.begin(), t.model.end(), [&](const Owned& other) { return other.key.starts_with(o.key); });
    INFO(o.key);
    REQUIRE((lives || names.count(o.key) == 0));
  }
}

// Checks that padding is zeros, and that dropped pages in the data file are zeros, too.
void require_zeros(Bench& bench, const Living& t) {
  const TableMetadata m = t.table->load_metadata().value();
  const std::string data = read_file(bench.fs, join_path(bench.dir, data_file_name(t.built.data_file))).value();
  const std::string metadata = read_file(bench.fs, join_path(bench.dir, metadata_file_name(t.built.metadata_file))).value();
  const auto all_zero = [](Bytes bytes) { return bytes.find_first_not_of('\0') == Bytes::npos; };
  for (const PageMeta& page : m.pages) {
    INFO("page at " << page.offset << ", flags " << page.flags);
    if (page.dropped() || page.replaced()) REQUIRE(all_zero(Bytes(data).substr(page.offset, page.length)));
    if (page.dropped()) continue;
    const Bytes block = page.replaced() ? Bytes(metadata).substr(page.replaced_offset, page.replaced_length)
                                        : Bytes(data).substr(page.offset, page.length);
    const std::size_t payload = load_fixed<std::uint32_t>(block.data() + block.size() - kBlockTrailerBytes);
    REQUIRE(payload + kBlockTrailerBytes <= block.size());
    REQUIRE(all_zero(block.substr(payload, block.size() - kBlockTrailerBytes - payload)));
  }
  for (const FileExtent& hole : m.holes) REQUIRE(all_zero(Bytes(data).substr(hole.offset, hole.length)));
}

// Checks that every separator is an existing key or a prefix of one, and that no tile is stale.
void require_existing_names(const TableMetadata& m, const std::vector<Owned>& model) {
  for (std::size_t i = 1; i < m.tiles.size(); ++i) {
    REQUIRE((m.tiles[i].flags & kTileStale) == 0);
    const auto first = std::find_if(model.begin(), model.end(), [&](const Owned& o) { return o.key >= m.separators[i]; });
    REQUIRE(first != model.end());
    REQUIRE(first->key.starts_with(m.separators[i]));
  }
}

// Renews names, as the caller does before the deadline.
void renew(Bench& bench, Living* t) {
  auto renewed = renew_names(*t->table, bench.fs, bench.dir, bench.next_file++);
  INFO(renewed.status().to_string());
  REQUIRE(renewed.is_ok());
  REQUIRE_FALSE(renewed->names_may_linger);
  REQUIRE(renewed->entries_gone == 0);
  REQUIRE(renewed->built.dead_bytes == t->built.dead_bytes);
  t->built = renewed->built;
  t->table.reset();
  t->table = bench.open(t->built).value();
  t->names_linger = false;
  const TableMetadata m = t->table->load_metadata().value();
  REQUIRE(m.stats.smallest == t->model.front().key);
  REQUIRE(m.stats.largest == t->model.back().key);
  REQUIRE_FALSE(m.stats.largest_exclusive);
  require_existing_names(m, t->model);
}

// Drops [lo, hi) and replaces the table by the result. Returns false if no entry is left.
bool drop_range(Bench& bench, Living* t, DeleteKey lo, DeleteKey hi, Millis birth, PageDropOutcome* outcome) {
  PageDropRequest request = request_of(*t->table, lo, hi);
  request.renew_names = hi % 3 == 0;
  request.judge = [&](const PageFence&, const Entry& e) -> EntryVerdict {
    if (!is_covered(e, lo, hi)) return {};
    return birth == 0 ? EntryVerdict{EntryFate::kGoes, 0} : EntryVerdict{EntryFate::kBecomesTombstone, birth};
  };
  // Partly dropped pages leave tombstones, and completely dropped pages leave nothing.
  std::set<std::pair<std::string, SeqNum>> whole;
  for (const std::uint32_t p : request.whole) {
    const std::string bytes = t->table->read_page(p, nullptr).value();
    const PageView view(bytes);
    std::string key;
    Entry e;
    for (std::uint32_t i = 0; i < view.count(); ++i) {
      view.read(i, t->table.get(), &key, &e);
      REQUIRE(is_covered(e, lo, hi));
      whole.emplace(key, e.seq);
    }
  }
  auto dropped = drop_pages(*t->table, request, bench.fs, bench.dir, bench.next_file++);
  INFO(dropped.status().to_string());
  REQUIRE(dropped.is_ok());
  *outcome = *dropped;
  std::vector<Owned> left, gone;
  for (Owned& o : t->model) {
    if (!is_covered(o.fields, lo, hi)) {
      left.push_back(std::move(o));
      continue;
    }
    gone.push_back(o);
    if (birth == 0 || whole.count({o.key, o.fields.seq}) != 0) continue;
    o.fields.kind = EntryKind::kTombstone;
    o.fields.delete_key = birth;
    o.fields.expiry = 0;
    if (o.fields.debt >= birth) o.fields.debt = 0;
    o.value.clear();
    left.push_back(std::move(o));
  }
  t->model = std::move(left);
  REQUIRE(outcome->nothing_left == t->model.empty());
  REQUIRE(outcome->entries_gone == gone.size());
  if (outcome->nothing_left) return false;
  if (gone.empty()) return true;
  t->built = outcome->built;
  t->table.reset();
  auto opened = bench.open(t->built);
  INFO(opened.status().to_string());
  REQUIRE(opened.is_ok());
  // The table is the same, read back from disk or opened from memory.
  REQUIRE(outcome->table->stats() == (*opened)->stats());
  REQUIRE(outcome->table->dead_extents() == (*opened)->dead_extents());
  t->table = lo % 3 == 0 ? *opened : std::move(outcome->table);
  // Dead ranges are punched, so no reader may read them.
  const auto m = t->table->load_metadata();
  std::uint64_t dead = 0;
  REQUIRE(t->table->dead_extents() == m->dead_extents());
  for (const FileExtent& extent : t->table->dead_extents()) {
    dead += extent.length;
    REQUIRE(bench.fs.punch_hole(join_path(bench.dir, data_file_name(t->built.data_file)), extent.offset, extent.length).is_ok());
  }
  REQUIRE(dead == t->built.dead_bytes);
  require_zeros(bench, *t);
  t->names_linger |= outcome->names_may_linger;
  if (request.renew_names) {
    REQUIRE_FALSE(outcome->names_may_linger);
    if (outcome->names_renewed) {
      t->names_linger = false;
      REQUIRE(m->stats.largest == t->model.back().key);
    }
    require_existing_names(*m, t->model);
  }
  require_names(*t, gone);
  require_contents(bench, *t, gone);
  if (lo % 2 == 0) {
    renew(bench, t);
    require_zeros(bench, *t);
    require_names(*t, gone);
    require_contents(bench, *t, gone);
  }
  return true;
}

TEST_CASE("pages are dropped as a whole and in part, in many rounds: all living entries can still be read", "[table][drops]") {
  for (const std::uint32_t h : {1u, 2u, 8u, 16u}) {
    for (const Millis birth : {Millis{0}, Millis{1'650'000'000'000}}) {
      for (const std::uint32_t versions : {1u, 3u}) {
        INFO("h " << h << ", birth " << birth << ", versions " << versions);
        Bench bench;
        Random random(h * 7 + versions + (birth != 0 ? 100 : 0));
        Recipe recipe;
        recipe.keys = 700;
        recipe.versions = versions;
        recipe.tombstone_in = 9;
        Living t;
        t.model = random_entries(random, recipe);
        for (Owned& o : t.model) {
          if (o.fields.delete_key == kMaxDeleteKey) o.fields.delete_key = 999'999;
        }
        TableBuilderOptions options = bench.builder_options();
        options.pages_per_tile = h;
        t.built = bench.build(options, t.model);
        t.table = bench.open(t.built).value();
        std::uint32_t whole = 0, parts = 0;
        for (int round = 0; round < 6; ++round) {
          const DeleteKey lo = random.uniform(1'000'000), hi = lo + random.uniform(400'000);
          PageDropOutcome outcome;
          if (!drop_range(bench, &t, lo, hi, birth, &outcome)) break;
          whole += outcome.pages_whole;
          parts += outcome.pages_in_part;
          REQUIRE((outcome.reads.bytes_read == 0) == (outcome.pages_in_part == 0 && outcome.reads.pages_read == 0));
        }
        REQUIRE(parts > 0);
        if (h > 2) REQUIRE(whole > 0);  // a page of half a tile has more delete keys than a delete covers
      }
    }
  }
}

TEST_CASE("whole pages are dropped: no page is read, and the fences of dropped tiles are removed", "[table][drops]") {
  Bench bench;
  // With h = 1 and delete keys that follow the sort keys, a range of delete keys is a range of tiles.
  Living t;
  for (int i = 0; i < 2000; ++i) {
    Owned o;
    o.key = "key:" + std::to_string(100000 + i);
    o.value = std::string(60, 'v');
    o.fields.seq = static_cast<SeqNum>(i + 1);
    o.fields.delete_key = static_cast<DeleteKey>(i);
    t.model.push_back(o);
  }
  TableBuilderOptions options = bench.builder_options();
  t.built = bench.build(options, t.model);
  t.table = bench.open(t.built).value();
  const std::uint32_t tiles = t.table->tile_count();
  PageDropRequest request;
  // The first quarter of the tiles ends before delete key 500.
  std::size_t last = 0;
  for (std::uint32_t p = 0; p < t.table->page_count(); ++p) {
    if (t.table->page_fence(p).max_delete_key >= 500) continue;
    request.whole.push_back(p);
    last = t.table->page_fence(p).max_delete_key;
  }
  auto outcome = drop_pages(*t.table, request, bench.fs, bench.dir, bench.next_file++);
  REQUIRE(outcome.is_ok());
  REQUIRE(outcome->reads.bytes_read == 0);
  REQUIRE(outcome->pages_whole == request.whole.size());
  REQUIRE_FALSE(outcome->names_may_linger);
  auto opened = bench.open(outcome->built);
  REQUIRE(opened.is_ok());
  REQUIRE((*opened)->tile_count() == tiles - request.whole.size());
  REQUIRE((*opened)->stats().smallest > t.model[last].key);
  REQUIRE((*opened)->stats().smallest <= t.model[last + 1].key);
  const std::string bytes = read_file(bench.fs, join_path(bench.dir, metadata_file_name(outcome->built.metadata_file))).value();
  for (std::size_t i = 0; i <= last; ++i) {
    INFO(t.model[i].key);
    REQUIRE(bytes.find(t.model[i].key) == std::string::npos);
  }
  // There is one dead range, from the header to the first living page.
  REQUIRE((*opened)->load_metadata()->dead_extents().size() == 1);

  // After a drop at the table's end, the new upper bound is the fence of the dropped tile, which may be the key of a dropped
  // entry.
  PageDropRequest end;
  end.whole = {t.table->page_count() - 1};
  auto cut = drop_pages(*t.table, end, bench.fs, bench.dir, bench.next_file++);
  REQUIRE(cut.is_ok());
  REQUIRE(cut->names_may_linger);
  REQUIRE(cut->built.stats.largest_exclusive);
  REQUIRE(cut->built.stats.largest <= t.model.back().key);
}

TEST_CASE("drop leaves names of dropped keys in some tiles: flags mark these tiles, and a renewal reads one page of each",
          "[table][drops]") {
  Bench bench;
  Living t;
  for (int i = 0; i < 2000; ++i) {
    Owned o;
    o.key = "key:" + std::to_string(100000 + i);
    o.value = std::string(60, 'v');
    o.fields.seq = static_cast<SeqNum>(i + 1);
    o.fields.delete_key = static_cast<DeleteKey>((i * 7919) % 2000);
    t.model.push_back(o);
  }
  TableBuilderOptions options = bench.builder_options();
  options.pages_per_tile = 8;
  t.built = bench.build(options, t.model);
  t.table = bench.open(t.built).value();
  PageDropRequest request = request_of(*t.table, 0, 400);
  request.parts.clear();
  auto outcome = drop_pages(*t.table, request, bench.fs, bench.dir, bench.next_file++);
  REQUIRE(outcome.is_ok());
  REQUIRE(outcome->reads.bytes_read == 0);
  REQUIRE(outcome->names_may_linger);
  auto dropped = bench.open(outcome->built).value();
  const TableMetadata m = dropped->load_metadata().value();
  const auto stale = static_cast<std::uint64_t>(
      std::count_if(m.tiles.begin(), m.tiles.end(), [](const TileMeta& tile) { return (tile.flags & kTileStale) != 0; }));
  REQUIRE(stale > 0);
  REQUIRE(stale < m.tiles.size());  // about a sixth of the tiles are stale
  auto renewed = renew_names(*dropped, bench.fs, bench.dir, bench.next_file++);
  REQUIRE(renewed.is_ok());
  REQUIRE(renewed->reads.pages_read == stale + 1);  // one more for the page with the last key

  // The drop may also renew the names itself. It reads the same pages, and the result is the same.
  request.renew_names = true;
  auto both = drop_pages(*t.table, request, bench.fs, bench.dir, bench.next_file++);
  REQUIRE(both.is_ok());
  CHECK(both->names_renewed);
  CHECK_FALSE(both->names_may_linger);
  CHECK(both->reads.pages_read == stale + 1);
  const TableMetadata one_pass = both->table->load_metadata().value(), two_passes = renewed->table->load_metadata().value();
  CHECK(one_pass.separators == two_passes.separators);
  CHECK(one_pass.tiles == two_passes.tiles);
  CHECK(one_pass.stats == two_passes.stats);
}

TEST_CASE("drop renews names, and a tile begins with an entry of a replaced page: the drop does not read this page again",
          "[table][drops]") {
  Bench bench;
  Random random(8);
  Recipe recipe;
  recipe.keys = 100;
  recipe.versions = 1;
  recipe.tombstone_in = 0;
  std::vector<Owned> entries = random_entries(random, recipe);
  TableBuilderOptions options = bench.builder_options();
  options.pages_per_tile = 4;
  const auto table = bench.table(options, entries);
  REQUIRE(table->tile_count() > 1);
  PageDropRequest request;
  for (std::uint32_t p = 0; p < table->page_count(); ++p) request.parts.push_back(p);
  // Only the first key of each tile goes.
  std::set<std::string> first;
  for (std::uint32_t t = 0; t < table->tile_count(); ++t) {
    const std::string start(table->tile_range(t).start);
    first.insert(std::find_if(entries.begin(), entries.end(), [&](const Owned& o) { return o.key >= start; })->key);
  }
  request.judge = [&](const PageFence&, const Entry& e) -> EntryVerdict {
    return {first.count(std::string(e.key)) != 0 ? EntryFate::kGoes : EntryFate::kStays, 0};
  };
  request.renew_names = true;
  const auto outcome = drop_pages(*table, request, bench.fs, bench.dir, bench.next_file++);
  REQUIRE(outcome.is_ok());
  REQUIRE(outcome->names_renewed);
  // Each tile's new first entry, and the table's last one, would take a read each if their pages were not in memory.
  CHECK(outcome->reads.pages_read < table->page_count() + table->tile_count() + 1);
  std::erase_if(entries, [&](const Owned& o) { return first.count(o.key) != 0; });
  const TableMetadata m = outcome->table->load_metadata().value();
  require_existing_names(m, entries);
  CHECK(m.stats.smallest == entries.front().key);
  CHECK(m.stats.largest == entries.back().key);
}

TEST_CASE("page cannot be read during a renewal of names: the dead pages are dropped all the same, and names linger",
          "[table][drops]") {
  Bench bench;
  std::vector<Owned> entries;
  for (int i = 0; i < 400; ++i) {
    Owned o;
    o.key = "key:" + std::to_string(100000 + i);
    o.value = std::string(60, 'v');
    o.fields.seq = static_cast<SeqNum>(i + 1);
    o.fields.delete_key = static_cast<DeleteKey>((i * 79) % 400);
    entries.push_back(o);
  }
  TableBuilderOptions options = bench.builder_options();
  options.pages_per_tile = 8;
  const BuiltTable built = bench.build(options, entries);
  FaultFileSystem faults(bench.fs);
  TableReaderOptions reading = bench.reader_options();
  reading.fs = &faults;
  const auto table = TableReader::open(reading, Bench::files_of(built)).value();
  PageDropRequest request = request_of(*table, 0, 100);
  request.parts.clear();
  request.renew_names = true;
  faults.inject({.ops = ops_of(FileOp::kRead), .path_has = ".data"});
  const auto outcome = drop_pages(*table, request, faults, bench.dir, bench.next_file++);
  INFO(outcome.status().to_string());
  REQUIRE(outcome.is_ok());
  CHECK(faults.failures() != 0);
  CHECK(outcome->pages_whole == request.whole.size());
  CHECK(outcome->names_may_linger);
  CHECK_FALSE(outcome->names_renewed);
  faults.clear_faults();
  auto renewed = renew_names(*outcome->table, faults, bench.dir, bench.next_file++);
  REQUIRE(renewed.is_ok());
  require_clean(*renewed->table, outcome->built.stats.entries);
}

TEST_CASE("table has range tombstones: renew_names() refuses to renew the names of dropped keys", "[table][drops]") {
  Bench bench;
  Random random(3);
  Recipe recipe;
  recipe.keys = 50;
  auto table = bench.table(bench.builder_options(), random_entries(random, recipe), {{"a", "c", 2'000'000, 77}});
  REQUIRE_FALSE(table->names_can_be_renewed());
  const std::size_t files = bench.fs.tree().size();
  REQUIRE(renew_names(*table, bench.fs, bench.dir, bench.next_file++).status().code() == Code::kInvalidArgument);
  REQUIRE(bench.fs.tree().size() == files);
}

TEST_CASE("entry of a table is dropped: lingering names are reported only if it was the first or last entry", "[table][drops]") {
  Recipe recipe;
  recipe.keys = 20;
  recipe.versions = 1;
  recipe.tombstone_in = 0;
  Random random(3);
  const std::vector<Owned> entries = random_entries(random, recipe);
  for (const std::size_t victim : {std::size_t{0}, entries.size() / 2, entries.size() - 1}) {
    INFO("entry " << victim << " of " << entries.size());
    Bench bench;
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = 4;
    const auto table = bench.table(options, entries);
    REQUIRE(table->tile_count() == 1);
    PageDropRequest request;
    for (std::uint32_t p = 0; p < table->page_count(); ++p) request.parts.push_back(p);
    request.judge = [&](const PageFence&, const Entry& e) -> EntryVerdict {
      return {e.key == Bytes(entries[victim].key) ? EntryFate::kGoes : EntryFate::kStays, 0};
    };
    const auto outcome = drop_pages(*table, request, bench.fs, bench.dir, bench.next_file++);
    REQUIRE(outcome.is_ok());
    REQUIRE(outcome->entries_gone == 1);
    CHECK(outcome->names_may_linger == (victim == 0 || victim == entries.size() - 1));
  }
}

TEST_CASE("all entries are dropped: no file is written, unless range tombstones are left", "[table][drops]") {
  for (const bool ranges : {false, true}) {
    Bench bench;
    Random random(3);
    Recipe recipe;
    recipe.keys = 200;
    recipe.versions = 1;
    recipe.tombstone_in = 0;
    std::vector<Owned> entries = random_entries(random, recipe);
    for (Owned& o : entries) o.fields.kind = EntryKind::kValue;
    std::vector<RangeTombstone> tombstones;
    if (ranges) tombstones.push_back({"a", "c", 2'000'000, 77});
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = 4;
    auto table = bench.table(options, entries, tombstones);
    PageDropRequest request;
    for (std::uint32_t p = 0; p < table->page_count(); ++p) request.whole.push_back(p);
    const std::size_t files = bench.fs.tree().size();
    auto outcome = drop_pages(*table, request, bench.fs, bench.dir, bench.next_file++);
    REQUIRE(outcome.is_ok());
    REQUIRE(outcome->nothing_left == !ranges);
    REQUIRE(bench.fs.tree().size() == files + (ranges ? 1 : 0));
    if (!ranges) continue;
    auto left = bench.open(outcome->built);
    INFO(left.status().to_string());
    REQUIRE(left.is_ok());
    require_clean(**left, 0);
    REQUIRE((*left)->tile_count() == 0);
    REQUIRE((*left)->stats().smallest == "a");
    REQUIRE((*left)->stats().largest == "c");
    REQUIRE_FALSE((*left)->range_tombstones()->empty());
    EpochGuard guard(bench.epoch);
    Entry entry;
    Status status;
    for (const Owned& o : entries) {
      REQUIRE((*left)->get(lookup_key(o.key), kMaxSeqNum, nullptr, &entry, nullptr, nullptr, &status) == Lookup::kAbsent);
    }
  }
}

TEST_CASE("drop request is invalid, or a write of the drop fails: the drop fails and leaves no file", "[table][drops]") {
  Bench bench;
  Random random(5);
  Recipe recipe;
  recipe.keys = 40;
  recipe.large_values = 6;
  recipe.tombstone_in = 0;
  const std::vector<Owned> entries = random_entries(random, recipe);
  TableBuilderOptions options = bench.builder_options();
  auto table = bench.table(options, entries);
  std::uint32_t large = 0;
  while ((table->page_fence(large).flags & kPageHasLarge) == 0) ++large;
  for (const std::vector<std::uint32_t>& bad :
       {std::vector<std::uint32_t>{large}, std::vector<std::uint32_t>{table->page_count()}}) {
    PageDropRequest request;
    request.whole = bad;
    const Status status = drop_pages(*table, request, bench.fs, bench.dir, bench.next_file++).status();
    REQUIRE(status.code() == Code::kInvalidArgument);
  }
  PageDropRequest twice;
  twice.whole = {0};
  twice.parts = {0};
  REQUIRE_FALSE(drop_pages(*table, twice, bench.fs, bench.dir, bench.next_file++).is_ok());
  std::uint32_t small = 0;
  while ((table->page_fence(small).flags & kPageHasLarge) != 0) ++small;
  PageDropRequest good;
  good.whole = {small};
  const auto files = bench.fs.tree();
  FaultFileSystem faults(bench.fs);
  for (const FileOp op : {FileOp::kCreate, FileOp::kWrite, FileOp::kSync}) {
    faults.inject({.ops = ops_of(op)});
    REQUIRE_FALSE(drop_pages(*table, good, faults, bench.dir, bench.next_file++).is_ok());
    REQUIRE(bench.fs.tree() == files);
  }
  REQUIRE(drop_pages(*table, good, faults, bench.dir, bench.next_file++).is_ok());
}

TEST_CASE("partial drop finds no dead entries: no file is written", "[table][drops]") {
  Bench bench;
  Random random(6);
  Recipe recipe;
  recipe.keys = 40;
  auto table = bench.table(bench.builder_options(), random_entries(random, recipe));
  PageDropRequest request;
  request.parts = {0, 1};
  request.judge = [](const PageFence&, const Entry&) { return EntryVerdict{}; };
  const auto files = bench.fs.tree();
  const auto outcome = drop_pages(*table, request, bench.fs, bench.dir, bench.next_file++);
  REQUIRE(outcome.is_ok());
  REQUIRE(outcome->entries_gone == 0);
  REQUIRE(outcome->reads.pages_read == 2);
  REQUIRE(bench.fs.tree() == files);
}

TEST_CASE("table is written: flags mark pages with only expiring entries, and tiles with only single versions",
          "[table][drops]") {
  Bench bench;
  std::vector<Owned> entries;
  for (int i = 0; i < 400; ++i) {
    Owned o;
    o.key = "k" + std::to_string(1000 + i);
    o.value = std::string(50, 'x');
    o.fields.seq = 1000;
    o.fields.delete_key = static_cast<DeleteKey>(i % 7);
    // All entries of the first half expire. Of the second half one in three does not.
    if (i < 200 || i % 3 != 0) o.fields.expiry = static_cast<Millis>(5000 + i);
    entries.push_back(o);
    if (i == 300) {
      o.fields.seq = 999;
      entries.push_back(o);
    }
  }
  auto table = bench.table(bench.builder_options(), entries);
  require_clean(*table, entries.size());
  bool all = false, some = false, several = false;
  for (std::uint32_t p = 0; p < table->page_count(); ++p) {
    const PageFence fence = table->page_fence(p);
    const bool expires = (fence.flags & kPageAllExpire) != 0;
    const KeyRange range = table->tile_range(fence.tile);
    if (range.end <= "k1200") REQUIRE(expires);
    if (range.start > "k1200") REQUIRE_FALSE(expires);
    all |= expires;
    some |= !expires;
    REQUIRE(fence.unique_keys);
    REQUIRE(fence.single_versions == !(range.start <= "k1300" && range.end > "k1300"));
    several |= !fence.single_versions;
  }
  REQUIRE((all && some && several));
}

}  // namespace TEST_FILE
