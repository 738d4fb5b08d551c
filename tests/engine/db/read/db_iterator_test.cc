// Tests of a walk over a leased view: which keys it shows, and when it ends.
#include "db/read/db_iterator.h"

#include <catch2/catch.hpp>

#include "db/read/page_fetcher.h"
#include "engine/db/read/read_fixture.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

std::unique_ptr<Iterator> walk_of(const ReadView& view, const IteratorOptions& options = {}) {
  return new_db_iterator(ViewParts::lease(view), view.now(), options, RangeTally{&ViewParts::env(view).counters, view.database()},
                         ViewParts::env(view).values);
}

std::vector<std::string> keys_of(Iterator& walk) {
  std::vector<std::string> keys;
  for (walk.seek_to_first(); walk.valid(); walk.next()) keys.emplace_back(walk.key());
  CHECK(walk.status().is_ok());
  return keys;
}

/// Walks in steps, as an event loop does: each step begins again, with the pages that earlier ones lacked. Returns the last
/// status.
struct ResidentWalks {
  ReadFixture& f;
  bool backward = false;
  std::uint32_t pages_at_once = 1;
  MissSet misses{};
  int steps = 0;
  std::vector<std::string> keys{};
  PageFetcher fetcher{0, f.account, [] {}, *f.env.values};

  Status run() {
    IteratorOptions options;
    options.pages_at_once = pages_at_once;
    while (true) {
      ++steps;
      keys.clear();
      EpochGuard guard(f.bench.epoch);
      const auto walk =
          new_resident_iterator(f.pass_view(ReadMode::kResident, &misses), options, RangeTally{&f.env.counters, f.kDatabase});
      for (backward ? walk->seek_to_last() : walk->seek_to_first(); walk->valid(); backward ? walk->prev() : walk->next()) {
        const std::string value(walk->value());
        if (!walk->status().is_ok()) break;
        keys.push_back(std::string(walk->key()) + "=" + value.substr(0, 1) + std::to_string(value.size()));
      }
      if (!walk->status().is_not_resident()) return walk->status();
      REQUIRE_FALSE(misses.empty());
      REQUIRE(fetcher.fetch(&misses, ignore, nullptr));
    }
  }
};

TEST_CASE("walk merges memtables and runs: it shows neither deleted nor expired keys") {
  ReadFixture f;
  for (const char* key : {"a", "b", "c", "d", "e"}) f.put(key, "old", {.stamp = static_cast<DeleteKey>(key[0])});
  f.put("f", "old", {.expiry = f.now});
  f.flush();
  f.del("b");
  f.put("c", "new");
  f.flush();
  f.del_range("d", "e");
  f.del_stamps('e', 'f');
  f.put("g", "memory");
  const auto walk = walk_of(f.leased_view());
  CHECK(keys_of(*walk) == std::vector<std::string>{"a", "c", "g"});
  walk->seek("b");
  CHECK(walk->key() == "c");
  CHECK(walk->value() == "new");
  walk->seek_to_last();
  CHECK(walk->key() == "g");
  walk->prev();
  CHECK(walk->key() == "c");
}

TEST_CASE("walk has bounds: it shows only keys within them, and reads large values only if requested") {
  ReadFixture f;
  const std::string large(kLargeValueBytes + 7, 'x');
  for (const char* key : {"a", "b", "c"}) f.put(key, large);
  f.flush();
  IteratorOptions options;
  options.bounds = {"b", "c"};
  const auto walk = walk_of(f.leased_view(), options);
  CHECK(keys_of(*walk) == std::vector<std::string>{"b"});
  walk->seek_to_first();
  CHECK(f.account->charged() == 0);
  CHECK(walk->value() == large);
  CHECK(f.account->charged(MemoryAccount::Kind::kLargeValues) == large.size());
  walk->next();
  CHECK(f.account->charged() == 0);
}

TEST_CASE("lease of a walk is revoked: the walk ends with kRevoked") {
  ReadFixture f;
  f.put("a", "v");
  f.put("b", "v");
  const auto walk = walk_of(f.leased_view());
  walk->seek_to_first();
  REQUIRE(walk->valid());
  f.leases.revoke_if([](const TreeView&) { return true; });
  walk->next();
  CHECK_FALSE(walk->valid());
  CHECK(walk->status().code() == Code::kRevoked);
}

TEST_CASE("walk gets no lease: it shows no keys and returns no error") {
  const auto walk = new_db_iterator(nullptr, 0, {}, RangeTally{}, nullptr);
  walk->seek_to_first();
  CHECK_FALSE(walk->valid());
  CHECK(walk->status().is_ok());
}

TEST_CASE("walk ends: its seeks are counted as range reads, and the entries that it passed as range entries") {
  ReadFixture f;
  for (const char* key : {"a", "b", "c", "d"}) f.put(key, "old");
  f.flush();
  f.del("b");
  {
    const auto walk = walk_of(f.leased_view());
    CHECK(keys_of(*walk) == std::vector<std::string>{"a", "c", "d"});
    walk->seek("c");
    CHECK(f.env.counters.operations(f.kDatabase) == OperationCounts());
  }
  const OperationCounts counts = f.env.counters.operations(f.kDatabase);
  CHECK(counts.ranges == 2);
  CHECK(counts.range_entries >= 5);  // a, b, c, d and c again; the tombstone may count, too
  CHECK(counts.range_entries <= 6);
  CHECK((counts.reads == 0 && counts.empty_reads == 0 && counts.writes == 0));
  { const auto walk = walk_of(f.leased_view()); }  // never positioned
  CHECK(f.env.counters.operations(f.kDatabase) == counts);
}

TEST_CASE("walk may not read, and lacks pages: it lists the pages, and shows all keys once these are fetched") {
  for (const std::uint32_t pages_per_tile : {1u, 4u}) {
    for (const bool backward : {false, true}) {
      INFO(pages_per_tile << " pages per tile, " << (backward ? "backward" : "forward"));
      ReadFixture f;
      f.pages_per_tile = pages_per_tile;
      const std::string large(kLargeValueBytes + 7, 'x');
      for (int i = 0; i < 300; ++i) f.put(numbered(i), std::string(50, 'v'), {.stamp = static_cast<DeleteKey>(i * 37 % 100)});
      f.put("large", large);
      f.flush();
      for (int i = 0; i < 300; i += 3) f.del(numbered(i));
      f.del_range(numbered(100), numbered(150));
      f.flush();
      f.put(numbered(120), "memory");
      std::vector<std::string> expected;
      for (int i = 0; i < 300; ++i) {
        if (i == 120) expected.push_back(numbered(i) + "=m6");
        if (i % 3 != 0 && (i < 100 || i >= 150)) expected.push_back(numbered(i) + "=v50");
      }
      expected.push_back("large=x" + std::to_string(large.size()));
      if (backward) std::reverse(expected.begin(), expected.end());
      ResidentWalks walks{f, backward};
      REQUIRE(walks.run().is_ok());
      CHECK(walks.keys == expected);
      CHECK(walks.steps > 2);
      CHECK(walks.fetcher.pages_read() > 3);
      // Only the walk that was complete counts.
      CHECK(f.env.counters.operations(f.kDatabase).ranges == 1);
    }
  }
}

TEST_CASE("walk may not read, and the budget lacks room for pages: it ends with kOutOfMemory") {
  ReadFixture f;
  for (int i = 0; i < 300; ++i) f.put(numbered(i), std::string(50, 'v'));
  f.flush();
  f.account->set_limit(0, 0);
  ResidentWalks walks{f};
  CHECK(walks.run().code() == Code::kOutOfMemory);
}

TEST_CASE("walk may not read, and lacks a page: it lists further pages that it will need, none outside its bounds") {
  for (const bool backward : {false, true}) {
    ReadFixture f;
    for (int i = 0; i < 1000; ++i) f.put(numbered(i), std::string(50, 'v'));
    f.flush();
    const std::uint64_t pages = f.table().reader->page_count();
    REQUIRE(pages > 12);
    ResidentWalks walks{f, backward, 1000};
    REQUIRE(walks.run().is_ok());
    CHECK(walks.keys.size() == 1000);
    CHECK(walks.steps == 2);
    CHECK(walks.fetcher.pages_read() == pages);
  }
  ReadFixture f;
  for (int i = 0; i < 1000; ++i) f.put(numbered(i), std::string(50, 'v'));
  f.flush();
  MissSet misses;
  IteratorOptions options;
  options.bounds = {numbered(500), numbered(501)};
  options.pages_at_once = 1000;
  EpochGuard guard(f.bench.epoch);
  const auto walk = new_resident_iterator(f.pass_view(ReadMode::kResident, &misses), options, RangeTally{});
  walk->seek_to_first();
  CHECK(walk->status().is_not_resident());
  CHECK(misses.pages.size() <= 2);
}

}  // namespace TEST_FILE
