// Tests that the stages of a prefetch change no result, find the first page that a get needs, and are ignored once the tables
// have changed.
#include <catch2/catch.hpp>

#include "engine/db/read/read_fixture.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

/// A key and the state that its stages fill.
struct StagedKey {
  explicit StagedKey(std::string name) : key_bytes(std::move(name)) {}
  std::string key_bytes;
  LookupState state;
  [[nodiscard]] LookupKey key() {
    LookupKey key = lookup_key(key_bytes);
    key.state = &state;
    return key;
  }
};

void prefetch(const ReadView& view, const LookupKey& key) {
  for (int stage = 0; stage < ReadView::kPrefetchStages; ++stage) view.prefetch(key, stage);
}

TEST_CASE("get follows a prefetch: it has the same result as a get without one") {
  ReadFixture f;
  f.pages_per_tile = GENERATE(1u, 4u);
  for (int i = 0; i < 200; ++i) f.put(numbered(i), "old");
  f.flush();
  for (int i = 0; i < 200; i += 2) f.put(numbered(i), "new");
  f.del(numbered(100));
  f.flush();
  f.put(numbered(7), "memory");
  EpochGuard guard(f.bench.epoch);
  const ReadView view = f.pass_view();
  for (int round = 0; round < 2; ++round) {  // first with pages not in memory, then in memory
    for (int i = 0; i < 250; ++i) {
      StagedKey staged(numbered(i));
      prefetch(view, staged.key());
      Found found;
      const Status status = view.get(staged.key(), &found);
      CAPTURE(i, status.to_string());
      CHECK((status.is_ok() ? std::string(found.value) : "absent") == value_of(view, numbered(i)));
    }
  }
}

TEST_CASE("prefetch finds that a page is not in memory: the page is an expected miss, to be read ahead") {
  ReadFixture f;
  for (int i = 0; i < 200; ++i) f.put(numbered(i), "value");
  f.flush();
  EpochGuard guard(f.bench.epoch);
  const ReadView view = f.pass_view();
  StagedKey staged(numbered(3));
  MissSet misses;
  view.add_expected_miss(staged.key(), &misses);
  CHECK(misses.empty());  // nothing was prefetched yet
  prefetch(view, staged.key());
  view.add_expected_miss(staged.key(), &misses);
  REQUIRE(misses.pages.size() == 1);
  CHECK(misses.pages[0].ahead);
  CHECK(misses.pages[0].table == f.table_name());

  CHECK(value_of(view, numbered(3)) == "value");  // this reads the page
  misses.clear();
  prefetch(view, staged.key());
  view.add_expected_miss(staged.key(), &misses);
  CHECK(misses.empty());
}

TEST_CASE("memtable has the key: the prefetch does not look for it in tables") {
  ReadFixture f;
  f.put("k", "table");
  f.flush();
  f.put("k", "memory");
  EpochGuard guard(f.bench.epoch);
  const ReadView view = f.pass_view();
  StagedKey staged("k");
  prefetch(view, staged.key());
  CHECK(staged.state.tables == nullptr);
  CHECK(value_of(view, "k") == "memory");
}

TEST_CASE("tables change between prefetch and get: the get does not use the prefetched table") {
  ReadFixture f;
  f.put("k", "old");
  f.flush();
  EpochGuard guard(f.bench.epoch);
  StagedKey staged("k");
  prefetch(f.pass_view(), staged.key());
  REQUIRE(staged.state.table != nullptr);
  f.put("k", "new");
  f.flush();
  Found found;
  REQUIRE(f.pass_view().get(staged.key(), &found).is_ok());
  CHECK(found.value == "new");
}

TEST_CASE("tables change between prefetch and get: the get ignores which tables were excluded by bounds and filters") {
  ReadFixture f;
  const bool by_filter = GENERATE(true, false);
  f.put(by_filter ? "a" : "x", "1");
  f.put("z", "1");
  f.flush();
  EpochGuard guard(f.bench.epoch);
  StagedKey staged("k");
  prefetch(f.pass_view(), staged.key());
  REQUIRE((by_filter ? staged.state.denied : staged.state.outside) == 1);
  f.put("k", "new");
  f.flush();
  Found found;
  REQUIRE(f.pass_view().get(staged.key(), &found).is_ok());
  CHECK(found.value == "new");
}

TEST_CASE("tables change after a prefetch: add_expected_miss() adds no page") {
  ReadFixture f;
  f.put("k", "old");
  f.flush();
  EpochGuard guard(f.bench.epoch);
  const ReadView before = f.pass_view();
  StagedKey staged("k");
  prefetch(before, staged.key());
  f.put("k", "new");
  f.flush();
  MissSet misses;
  f.pass_view().add_expected_miss(staged.key(), &misses);
  CHECK(misses.empty());
  before.add_expected_miss(staged.key(), &misses);
  CHECK(misses.pages.size() == 1);
}

TEST_CASE("prefetch of a key skips a stage, or changes to a view with other tables: later stages do nothing") {
  ReadFixture f;
  f.put("k", "value");
  f.flush();
  EpochGuard guard(f.bench.epoch);
  const ReadView view = f.pass_view(), other = f.pass_view();
  for (int at = 2; at < ReadView::kPrefetchStages; ++at) {
    for (const bool other_tables : {false, true}) {
      CAPTURE(at, other_tables);
      StagedKey staged("k");
      for (int stage = 0; stage < at; ++stage) view.prefetch(staged.key(), stage);
      const LookupState state = staged.state;
      if (other_tables) other.prefetch(staged.key(), at);
      for (int stage = at + 1; stage < ReadView::kPrefetchStages; ++stage) view.prefetch(staged.key(), stage);
      CHECK((staged.state.stage == at && staged.state.table == state.table && staged.state.page == state.page));
      Found found;
      REQUIRE(view.get(staged.key(), &found).is_ok());
      CHECK(found.value == "value");
    }
  }
}

}  // namespace TEST_FILE
