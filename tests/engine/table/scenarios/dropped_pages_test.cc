// Tests how a reader treats page drops: pages flagged as dropped, and pages replaced by the metadata file.
#include "base/coding.h"
#include "engine/table/table_fixture.h"
#include "filter/bloom.h"
#include "io/file_names.h"
#include "table/loaded_filter.h"
#include "table/page.h"
#include "table/page_builder.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

// For each page, its entries in the model. Found by reading all pages.
struct Layout {
  std::vector<std::vector<std::size_t>> pages;  ///< indexes into the model
};

Layout layout_of(Bench& bench, const TableMetadata& m, const std::vector<Owned>& entries) {
  Layout layout;
  layout.pages.resize(m.pages.size());
  std::size_t next = 0, at = 0;
  std::vector<std::uint8_t> order;
  for (std::size_t t = 0; t < m.tiles.size(); ++t) {
    const std::uint64_t count = m.tile_entries(t);
    unpack_permutation(m.tiles[t].pages > 1 ? Bytes(m.permutations).substr(at) : Bytes(), m.tiles[t].pages, count, &order);
    at += permutation_bytes(m.tiles[t].pages, count);
    for (const std::uint8_t p : order) layout.pages[m.tiles[t].first_page + p].push_back(next++);
  }
  REQUIRE(next == entries.size());
  return layout;
}

// Removes `gone` from page `p`: drops the page if no entry is left, otherwise replaces it by a page of the remaining entries.
void take_out(TableMetadata* m, const Layout& layout, const std::vector<Owned>& entries, std::size_t p,
              const std::vector<bool>& gone) {
  PageMeta& page = m->pages[p];
  std::vector<PendingEntry> left;
  std::vector<std::uint32_t> indexes;
  PageMeta fresh;
  fresh.flags = page.flags & kPageTombstones;
  for (const std::size_t i : layout.pages[p]) {
    if (gone[i]) continue;
    indexes.push_back(static_cast<std::uint32_t>(left.size()));
    left.push_back({entries[i].view(), hash_key(entries[i].key)});
    fresh.add(left.back().entry);
  }
  fresh.offset = page.offset;
  fresh.length = page.length;
  if (left.empty()) {
    fresh.flags = page.flags | kPageDropped;
    page = fresh;
    return;
  }
  fresh.flags |= kPageReplaced;
  page = fresh;
  std::string payload;
  build_page(left, indexes, &payload);
  m->replaced.emplace_back(static_cast<std::uint32_t>(p), std::move(payload));
}

TEST_CASE("pages were dropped or replaced: the table reads as if the removed entries never existed", "[table][drops]") {
  for (const std::uint32_t h : {1u, 2u, 8u, 16u}) {
    Bench bench;
    Random random(h + 60);
    Recipe recipe;
    recipe.keys = 600;
    recipe.versions = 1;
    const std::vector<Owned> entries = random_entries(random, recipe);
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = h;
    const BuiltTable built = bench.build(options, entries);
    const std::string meta_path = join_path(bench.dir, metadata_file_name(built.metadata_file));
    auto m = TableMetadata::decode(read_file(bench.fs, meta_path).value(), built.metadata_file, meta_path);
    REQUIRE(m.is_ok());
    const Layout layout = layout_of(bench, *m, entries);

    // All entries with lo <= D < hi are removed, as page drops for a secondary range delete do in a bottommost run.
    const DeleteKey lo = 200'000, hi = 700'000;
    std::vector<bool> gone(entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Entry& e = entries[i].fields;
      gone[i] = !e.is_tombstone() && e.delete_key != kNoStamp && e.delete_key >= lo && e.delete_key < hi;
    }
    std::size_t dropped = 0;
    TableMetadata after = m.value();
    for (std::size_t p = 0; p < after.pages.size(); ++p) {
      const bool any = std::any_of(layout.pages[p].begin(), layout.pages[p].end(), [&](std::size_t i) { return gone[i]; });
      if (any) take_out(&after, layout, entries, p, gone);
      dropped += after.pages[p].dropped() ? 1 : 0;
    }
    if (h >= 8) REQUIRE(dropped > 0);
    // Permutations and stats are those of living entries. Fences and filters stay unchanged.
    std::vector<Owned> model;
    TableStats stats;
    after.permutations.clear();
    std::size_t next = 0;
    for (std::size_t t = 0; t < after.tiles.size(); ++t) {
      std::vector<std::uint8_t> order;
      std::vector<std::pair<std::size_t, std::uint8_t>> all;
      for (std::uint32_t p = 0; p < after.tiles[t].pages; ++p) {
        for (const std::size_t i : layout.pages[after.tiles[t].first_page + p]) all.emplace_back(i, static_cast<std::uint8_t>(p));
      }
      std::sort(all.begin(), all.end());
      for (const auto& [i, p] : all) {
        REQUIRE(i == next++);
        if (!gone[i]) order.push_back(p);
      }
      append_permutation(after.tiles[t].pages, order, &after.permutations);
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (gone[i]) continue;
      model.push_back(entries[i]);
      stats.add_entry(entries[i].view());
    }
    after.stats = stats;
    BuiltTable changed = built;
    changed.metadata_file = bench.next_file++;
    // The data checksum leaves out dropped and replaced pages. encode() sets the checksums of replaced pages, so the data
    // checksum is computed before that.
    after.data_checksum = after.sum_checksums();
    const std::string bytes = after.encode(changed.metadata_file, &changed.metadata_checksum);
    changed.metadata_bytes = bytes.size();
    changed.data_checksum = after.data_checksum;
    const std::string path = join_path(bench.dir, metadata_file_name(changed.metadata_file));
    auto file = bench.fs.create(path);
    REQUIRE((*file)->append(bytes).is_ok());
    REQUIRE((*file)->close().is_ok());
    // Dropped pages are punched, so no reader may read them.
    if (h > 1) {
      for (const PageMeta& page : after.pages) {
        if (page.dropped() || page.replaced()) {
          REQUIRE(bench.fs.punch_hole(join_path(bench.dir, data_file_name(built.data_file)), page.offset, page.length).is_ok());
        }
      }
    }
    auto table = bench.open(changed);
    INFO(table.status().to_string());
    REQUIRE(table.is_ok());
    require_clean(**table, model.size());
    EpochGuard guard(bench.epoch);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Entry entry;
      std::shared_ptr<const void> pin;
      Status status;
      const Lookup found = (*table)->get(lookup_key(entries[i].key), kMaxSeqNum, nullptr, &entry, &pin, nullptr, &status);
      INFO(status.to_string());
      REQUIRE(found == (gone[i] ? Lookup::kAbsent : Lookup::kFound));
      if (!gone[i]) require_same(**table, entry, entries[i]);
    }
    for (const bool fill : {true, false}) {
      TableIteratorOptions it_options;
      it_options.fill_cache = fill;
      auto it = (*table)->new_iterator(it_options);
      std::size_t i = 0;
      for (it->seek_to_first(); it->valid(); it->next()) require_same(**table, it->entry(), model[i++]);
      REQUIRE(it->status().is_ok());
      REQUIRE(i == model.size());
      for (it->seek_to_last(); it->valid(); it->prev()) require_same(**table, it->entry(), model[--i]);
      REQUIRE(i == 0);
    }
  }
}

TEST_CASE("table is open: its delete fences are in memory, and contain the delete keys of their pages", "[table][drops]") {
  Bench bench;
  Random random(90);
  for (const bool stamps : {true, false}) {
    Recipe recipe;
    recipe.keys = 2000;
    recipe.stamps = stamps;
    recipe.expiries = stamps;
    std::vector<Owned> entries = random_entries(random, recipe);
    // The first table spans all delete keys (coarse steps), since random_entries() has a few at the limit.
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = 8;
    auto table = bench.table(options, entries);
    auto m = table->load_metadata();
    REQUIRE(m.is_ok());
    for (std::uint32_t p = 0; p < table->page_count(); ++p) {
      const PageFence fence = table->page_fence(p);
      const PageMeta& page = m->pages[p];
      REQUIRE(fence.entries == page.entries);
      REQUIRE(fence.flags == page.flags);
      REQUIRE(fence.stored_bytes == page.length);
      REQUIRE(m->tiles[fence.tile].first_page <= p);
      REQUIRE(p < m->tiles[fence.tile].first_page + m->tiles[fence.tile].pages);
      REQUIRE((fence.min_seq == page.min_seq && fence.max_seq == page.max_seq));
      REQUIRE((fence.min_delete_key <= fence.max_delete_key) == page.has_delete_keys());
      if (page.has_delete_keys()) {
        REQUIRE(fence.min_delete_key <= page.min_delete_key);
        REQUIRE(fence.max_delete_key >= page.max_delete_key);
      }
      REQUIRE((fence.min_expiry <= fence.max_expiry) == (page.max_expiry != 0));
      if (page.max_expiry != 0) REQUIRE((fence.min_expiry == page.min_expiry && fence.max_expiry == page.max_expiry));
    }
  }
}

TEST_CASE("permutation of a tile with any number of pages is packed: it unpacks to the same order", "[table][kiwi]") {
  Random random(71);
  for (std::uint32_t pages = 1; pages <= 65; ++pages) {
    std::vector<std::uint8_t> order(random.uniform(300)), back;
    for (std::uint8_t& p : order) p = static_cast<std::uint8_t>(random.uniform(pages));
    std::string packed;
    append_permutation(pages, order, &packed);
    REQUIRE(packed.size() == permutation_bytes(pages, order.size()));
    unpack_permutation(packed, pages, order.size(), &back);
    REQUIRE(back == order);
  }
}

TEST_CASE("more filter slices are loaded: lookups of absent keys read fewer pages", "[table][filter]") {
  for (const std::uint32_t h : {1u, 8u}) {
    Bench bench;
    Random random(h + 80);
    Recipe recipe;
    recipe.keys = 4000;
    recipe.awkward_keys = false;
    const std::vector<Owned> entries = random_entries(random, recipe);
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = h;
    options.filter_slices = {4, 4, 4};
    const BuiltTable built = bench.build(options, entries);
    std::uint64_t last = ~std::uint64_t{0};
    for (std::uint32_t slices = 0; slices <= 4; ++slices) {
      TableReaderOptions reader_options = bench.reader_options();
      reader_options.filter_slices = slices;
      auto table = TableReader::open(reader_options, Bench::files_of(built));
      REQUIRE(table.is_ok());
      if (slices > 0 && slices <= 3) REQUIRE((*table)->filter_bits() > 3 * slices * 4000);
      EpochGuard guard(bench.epoch);
      Entry entry;
      std::shared_ptr<const void> pin;
      Status status;
      for (const Owned& o : entries) {
        REQUIRE((*table)->get(lookup_key(o.key), o.fields.seq, nullptr, &entry, &pin, nullptr, &status) == Lookup::kFound);
      }
      ReadCounters counters;
      for (int i = 0; i < 4000; ++i) {
        const std::string key = random_key(random, recipe) + "x";
        REQUIRE((*table)->get(lookup_key(key), kMaxSeqNum, nullptr, &entry, &pin, &counters, &status) == Lookup::kAbsent);
      }
      if (slices <= 3) REQUIRE(counters.filter_false_positives <= last);
      if (slices == 0) REQUIRE(counters.filter_positives == 0);
      if (slices > 0) {
        REQUIRE(counters.filter_negatives + counters.filter_positives == 4000);
        last = counters.filter_false_positives;
      }
      if (slices == 3) REQUIRE(counters.filter_false_positives < 4000 * 0.02 * h);
    }
  }
}

TEST_CASE("filter slices are loaded and dropped: may_contain() stays true for every key, also in filters that readers hold",
          "[table][filter]") {
  for (const std::uint32_t h : {1u, 8u}) {
    Bench bench;
    Random random(h + 90);
    Recipe recipe;
    recipe.keys = 4000;
    recipe.awkward_keys = false;
    const std::vector<Owned> entries = random_entries(random, recipe);
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = h;
    options.filter_slices = {6, 4};
    const BuiltTable built = bench.build(options, entries);
    auto opened = TableReader::open(bench.reader_options(), Bench::files_of(built));
    REQUIRE(opened.is_ok());
    TableReader& table = **opened;
    REQUIRE(table.slices().size() == 2);
    CHECK(table.slices()[0].rate == Approx(expected_false_positive_rate(6)).epsilon(0.2));
    const std::uint64_t whole = table.memory_bytes();
    const auto let_through = [&] {
      int count = 0;
      for (int i = 0; i < 2000; ++i) count += table.may_contain(lookup_key(random_key(random, recipe) + "x"), *table.filter());
      return count;
    };
    const auto held = table.filter();
    auto replaced = table.keep_slices(1);
    REQUIRE(replaced.is_ok());
    CHECK(*replaced == held);
    CHECK(table.filter_bits() == table.slices()[0].bits);
    CHECK(table.memory_bytes() + table.slices()[1].bits / 8 <= whole);
    CHECK(held->slices() == 2);
    const int with_one = let_through();
    CHECK(with_one > 0);
    for (const Owned& o : entries) {
      REQUIRE(table.may_contain(lookup_key(o.key), *held));
      REQUIRE(table.may_contain(lookup_key(o.key), *table.filter()));
    }
    REQUIRE(table.keep_slices(7).is_ok());
    CHECK(table.memory_bytes() == whole);
    CHECK(let_through() < with_one);
    for (const Owned& o : entries) REQUIRE(table.may_contain(lookup_key(o.key), *table.filter()));
    REQUIRE(table.keep_slices(0).is_ok());
    CHECK(let_through() == 2000);
    CHECK(table.false_positive_rate() == 1);
    replaced = table.keep_slices(0);
    REQUIRE(replaced.is_ok());
    CHECK(*replaced == nullptr);
    // Without the metadata file nothing can be loaded, so nothing changes.
    REQUIRE(bench.fs.unlink(join_path(bench.reader_options().dir, metadata_file_name(built.metadata_file))).is_ok());
    CHECK(!table.keep_slices(2).is_ok());
    CHECK(table.filter()->empty());
  }
}

}  // namespace TEST_FILE
