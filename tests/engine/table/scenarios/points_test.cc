// Tests of tables whose keys have points: a search passes over the tiles that its filter does not meet, and over no others.
#include "engine/table/table_fixture.h"
#include "table/page_drop.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

constexpr std::uint32_t kAt = 3;

/// The points of a rectangle, both of whose coordinates are the upper halves of the numbers in the keys.
class Rectangle final : public PointFilter {
 public:
  explicit Rectangle(PointBounds bounds, std::uint32_t at = kAt) : PointFilter(at), bounds_(bounds) {}
  [[nodiscard]] bool meets(const PointBounds& b) const override {
    ++asked;
    return bounds_.min_x <= b.max_x && b.min_x <= bounds_.max_x && bounds_.min_y <= b.max_y && b.min_y <= bounds_.max_y;
  }
  [[nodiscard]] bool has(Bytes key) const {
    PointBounds point;
    point.add(key, kAt);
    return bounds_.encloses(point);
  }
  mutable std::uint64_t asked = 0;

 private:
  const PointBounds bounds_;
};

std::string number(std::uint64_t value) {
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift & 0xff));
  return out;
}

/// Points of a grid of 64 columns, in columns, with the lower halves of their numbers random.
std::vector<Owned> grid(Random& random, std::size_t rows) {
  std::vector<Owned> entries;
  for (std::uint64_t x = 0; x < 64; ++x) {
    for (std::uint64_t y = 0; y < rows; ++y) {
      Owned o;
      o.key = "key" + number(x << 32 | random.uniform(1000)) + number(y << 32 | random.uniform(1000)) + "record";
      o.fields.seq = 1 + random.uniform(1'000'000);
      o.fields.kind = random.one_in(4) ? EntryKind::kTombstone : EntryKind::kValue;
      o.fields.delete_key = random.uniform(1'000'000);
      entries.push_back(std::move(o));
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Owned& a, const Owned& b) { return a.key < b.key; });
  return entries;
}

/// Walks over the table in both directions. Checks that all entries of the filter are shown, in order. Returns the pages that the
/// walk forward read.
std::uint64_t check_search(const std::shared_ptr<TableReader>& table, const std::vector<Owned>& entries,
                           const Rectangle& filter) {
  ReadCounters counters;
  std::vector<std::string> wanted, found;
  for (const Owned& o : entries) {
    if (filter.has(o.key)) wanted.push_back(o.key);
  }
  const auto it = table->new_iterator({.bounds = {}, .fill_cache = false, .counters = &counters, .points = &filter});
  for (it->seek_to_first(); it->valid(); it->next()) {
    if (filter.has(it->entry().key)) found.emplace_back(it->entry().key);
  }
  REQUIRE(it->status().is_ok());
  REQUIRE(found == wanted);
  const std::uint64_t pages = counters.pages_read;
  found.clear();
  for (it->seek_to_last(); it->valid(); it->prev()) {
    if (filter.has(it->entry().key)) found.emplace_back(it->entry().key);
  }
  std::reverse(found.begin(), found.end());
  REQUIRE(found == wanted);
  for (std::size_t i = 0; i < wanted.size(); i += 7) {
    it->seek(wanted[i]);
    REQUIRE(it->valid());
    REQUIRE(it->entry().key == Bytes(wanted[i]));
    it->seek_before(wanted[i]);
    while (it->valid() && !filter.has(it->entry().key)) it->prev();
    REQUIRE(it->valid() == (i > 0));
    if (i > 0) REQUIRE(it->entry().key == Bytes(wanted[i - 1]));
  }
  return pages;
}

PointBounds random_rectangle(Random& random, std::uint32_t side) {
  const auto x = static_cast<std::uint32_t>(random.uniform(64)), y = static_cast<std::uint32_t>(random.uniform(64));
  return {x, x + static_cast<std::uint32_t>(random.uniform(side)), y, y + static_cast<std::uint32_t>(random.uniform(side))};
}

TEST_CASE("table is searched for points in a rectangle: the search finds all of them, and reads few other pages", "[table]") {
  for (const std::uint32_t h : {1u, 4u}) {
    Bench bench;
    Random random(h);
    const std::vector<Owned> entries = grid(random, 64);
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = h;
    options.points_at = kAt;
    const auto table = bench.table(options, entries);
    require_clean(*table, entries.size());
    CHECK(table->stats().points == PointBounds{0, 63, 0, 63});
    for (int i = 0; i < 100; ++i) check_search(table, entries, Rectangle(random_rectangle(random, 64)));
    const std::uint64_t all = check_search(table, entries, Rectangle(PointBounds::everything()));
    CHECK(all == table->page_count());
    const std::uint64_t one = check_search(table, entries, Rectangle({20, 20, 30, 30}));
    CHECK(one >= 1);
    CHECK(one <= 4 * (h == 1 ? 1 : h + 1));  // a tile at the end of a column has also the begin of the next
    CHECK(check_search(table, entries, Rectangle({64, 70, 0, 63})) == 0);
  }
}

TEST_CASE("table has no bounds of points, or bounds for another offset: a search for points reads every page", "[table]") {
  Bench bench;
  Random random(5);
  const std::vector<Owned> entries = grid(random, 20);
  for (const std::uint32_t at : {kNoPoints, kAt + 1}) {
    TableBuilderOptions options = bench.builder_options();
    options.points_at = at;
    const auto table = bench.table(options, entries);
    CHECK(table->stats().points.empty() == (at == kNoPoints));
    CHECK(check_search(table, entries, Rectangle({20, 20, 10, 10})) == table->page_count());
  }
}

TEST_CASE("search for points may not read: it requests only pages whose bounds meet the rectangle", "[table]") {
  Bench bench;
  Random random(6);
  const std::vector<Owned> entries = grid(random, 64);
  TableBuilderOptions options = bench.builder_options();
  options.points_at = kAt;
  const auto table = bench.table(options, entries);
  const Rectangle filter({10, 50, 30, 30});
  MissSet misses;
  const auto it = table->new_iterator({.bounds = {}, .misses = &misses, .pages_at_once = 1000, .points = &filter});
  it->seek_to_first();
  CHECK(it->status().is_not_resident());
  CHECK(misses.pages.size() >= 41);
  CHECK(misses.pages.size() <= 3 * 41);
}

TEST_CASE("pages of points are dropped: the new bounds of the table contain only the points that are left", "[table][drops]") {
  for (const std::uint32_t h : {1u, 4u}) {
    Bench bench;
    Random random(h + 10);
    std::vector<Owned> entries = grid(random, 32);
    for (Owned& o : entries) {
      if (o.fields.is_tombstone()) o.fields.kind = EntryKind::kValue;
      // The points with small coordinates are deleted by stamp.
      PointBounds point;
      point.add(o.key, kAt);
      o.fields.delete_key = point.min_x < 40 ? 1 : 2;
    }
    TableBuilderOptions options = bench.builder_options();
    options.pages_per_tile = h;
    options.points_at = kAt;
    const auto table = bench.table(options, entries);
    PageDropRequest request;
    for (std::uint32_t p = 0; p < table->page_count(); ++p) {
      const PageFence fence = table->page_fence(p);
      if (fence.max_delete_key == 1) {
        request.whole.push_back(p);
      } else if (fence.min_delete_key == 1) {
        request.parts.push_back(p);
      }
    }
    request.judge = [](const PageFence&, const Entry& entry) {
      return EntryVerdict{entry.delete_key == 1 ? EntryFate::kGoes : EntryFate::kStays, 0};
    };
    const auto dropped = drop_pages(*table, request, bench.fs, bench.dir, bench.next_file++);
    INFO(dropped.status().to_string());
    REQUIRE(dropped.is_ok());
    std::erase_if(entries, [](const Owned& o) { return o.fields.delete_key == 1; });
    CHECK(dropped->built.stats.points == PointBounds{40, 63, 0, 31});
    require_clean(*dropped->table, entries.size());
    for (int i = 0; i < 30; ++i) check_search(dropped->table, entries, Rectangle(random_rectangle(random, 32)));
  }
}

TEST_CASE("table has keys that are too short for points: its bounds contain every point, so each search reads it", "[table]") {
  Bench bench;
  std::vector<Owned> entries(3);
  entries[0].key = "a";
  entries[1].key = "key" + number(5ull << 32) + number(5ull << 32);
  entries[2].key = "z";
  for (Owned& o : entries) o.fields.seq = 1, o.fields.kind = EntryKind::kValue;
  TableBuilderOptions options = bench.builder_options();
  options.points_at = kAt;
  const auto table = bench.table(options, entries);
  require_clean(*table, 3);
  CHECK(table->stats().points == PointBounds::everything());
}

TEST_CASE("statistics of a table with points are encoded: they decode to the same, and so do those without points") {
  TableStats stats;
  stats.entries = 3;
  stats.points_at = 8;
  stats.points = {1, 2, 3, ~0u};
  std::string with, without;
  stats.encode(&with);
  Bytes in = with;
  CHECK(TableStats::decode(&in).value() == stats);
  stats.points_at = kNoPoints;
  stats.points = {};
  stats.encode(&without);
  in = without;
  CHECK(TableStats::decode(&in).value() == stats);
  CHECK(with.size() > without.size());
}

}  // namespace TEST_FILE
