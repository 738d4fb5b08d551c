// Tests of the lookup of one key in a view: which version decides, what hides it, and how the lookup is counted.
#include "db/read/lookup.h"

#include <catch2/catch.hpp>

#include "db/read/page_fetcher.h"
#include "engine/db/read/read_fixture.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

TEST_CASE("key has several versions: lookup finds the newest, in a memtable or in the newest run that has the key") {
  ReadFixture f;
  f.put("a", "old");
  f.put("b", "old");
  f.put("c", "old");
  f.flush();
  f.put("b", "middle");
  f.put("c", "middle");
  f.flush();
  f.put("c", "new");
  const bool leased = GENERATE(false, true);
  EpochGuard guard(f.bench.epoch);
  const ReadView view = leased ? f.leased_view() : f.pass_view();
  CHECK(value_of(view, "a") == "old");
  CHECK(value_of(view, "b") == "middle");
  CHECK(value_of(view, "c") == "new");
  CHECK(value_of(view, "d") == "absent");
}

TEST_CASE("key gets a newer version after a view was made: the view still finds the older version") {
  ReadFixture f;
  f.put("a", "old");
  const ReadView before = f.leased_view();
  f.put("a", "new");
  CHECK(value_of(before, "a") == "old");
  CHECK(value_of(f.leased_view(), "a") == "new");
}

TEST_CASE("tombstone, expiry or covering delete hides a version: lookup finds no value in memtable or table") {
  ReadFixture f;
  f.put("deleted", "v");
  f.put("expired", "v", {.expiry = f.now});
  f.put("expires later", "v", {.expiry = f.now + 1});
  f.put("ranged", "v");
  f.put("recorded", "v", {.stamp = 7});
  f.put("other stamp", "v", {.stamp = 8});
  f.flush();
  f.del("deleted");
  f.del_range("range", "rangez");
  f.del_stamps(7, 8);
  f.put("rangey", "later");
  if (GENERATE(false, true)) f.flush();
  const ReadView view = f.leased_view();
  for (const char* key : {"deleted", "expired", "ranged", "recorded"}) {
    CAPTURE(key);
    CHECK(value_of(view, key) == "absent");
  }
  CHECK(value_of(view, "expires later") == "v");
  CHECK(value_of(view, "other stamp") == "v");
  CHECK(value_of(view, "rangey") == "later");
}

TEST_CASE("lookup finds an entry: it returns the entry's seq, kind, stamp, expiry and length") {
  ReadFixture f;
  f.put("k", "value", {.expiry = f.now + 5, .stamp = 9});
  f.flush();
  Found found;
  REQUIRE(f.leased_view().get(lookup_key("k"), &found).is_ok());
  CHECK(found.seq == 1);
  CHECK(found.kind == EntryKind::kValue);
  CHECK(found.stamp == 9);
  CHECK(found.expiry == f.now + 5);
  CHECK(found.length == 5);
  CHECK(found.pin != nullptr);
  CHECK(found.value == "value");
}

TEST_CASE("lookup may not read, and lacks a page: the page is a miss, and after a fetch the key is found") {
  ReadFixture f;
  for (int i = 0; i < 100; ++i) f.put(numbered(i), "value");
  f.flush();
  PageFetcher fetcher(
      0, f.account, [] {}, *f.env.values);
  MissSet misses;
  EpochGuard guard(f.bench.epoch);
  CHECK(f.pass_view(ReadMode::kResident, &misses).get(lookup_key(numbered(5)), nullptr).is_not_resident());
  REQUIRE(misses.pages.size() == 1);
  CHECK(misses.pages[0].table == f.table_name());
  REQUIRE(fetcher.fetch(&misses, ignore, nullptr));
  CHECK(value_of(f.pass_view(ReadMode::kResident, &misses), numbered(5)) == "value");
}

TEST_CASE("large value is located: lookup returns its length without its bytes, and reads all or a part on request") {
  ReadFixture f;
  const std::string large(kLargeValueBytes + 1000, 'x');
  f.put("k", large);
  f.flush();
  const ReadView view = f.leased_view();
  Found found;
  REQUIRE(view.locate(lookup_key("k"), &found).is_ok());
  CHECK(found.value.empty());
  CHECK(found.length == large.size());
  ValuePart part;
  REQUIRE(view.read_part(found, 10, 20, &part).is_ok());
  CHECK(part.bytes == std::string(20, 'x'));
  REQUIRE(view.read(&found).is_ok());
  CHECK(found.value == large);
}

TEST_CASE("lease is revoked: lookups of keys and of parts of values return kRevoked") {
  ReadFixture f;
  f.put("k", std::string(kLargeValueBytes + 1, 'x'));
  f.flush();
  const ReadView view = f.leased_view();
  Found found;
  REQUIRE(view.locate(lookup_key("k"), &found).is_ok());
  f.leases.revoke_if([](const TreeView&) { return true; });
  CHECK(view.get(lookup_key("k"), &found).code() == Code::kRevoked);
  ValuePart part;
  CHECK(view.read_part(found, 0, 1, &part).code() == Code::kRevoked);
}

TEST_CASE("database has no tree: lookup finds nothing, and stamp_mode() is that of the tree to be made") {
  ReadFixture f;
  const auto view_of = [&](DatabaseId database) {
    return ViewParts::pass_view(f.env, database, nullptr, 0, f.now, ReadMode::kBlocking, nullptr);
  };
  CHECK_FALSE(view_of(ReadFixture::kDatabase).has_tree());
  CHECK(value_of(view_of(ReadFixture::kDatabase), "k") == "absent");
  CHECK(view_of(ReadFixture::kDatabase).stamp_mode() == StampMode::kExplicit);
  CHECK(view_of(0).stamp_mode() == StampMode::kWriteTime);
  CHECK(f.leased_view().stamp_mode() == StampMode::kWriteTime);  // the stamp mode of the tree
}

TEST_CASE("lookup ends: the thread's counters have its hits, runs and levels") {
  ReadFixture f;
  f.put("a", "1");
  f.put("z", "1");
  f.flush();
  f.put("a", "2");
  f.put("z", "2");
  f.put("q", "2");
  f.flush();
  f.set_levels({0, 1});
  EpochGuard guard(f.bench.epoch);
  const ReadView view = f.pass_view();
  const ThreadCounters& counters = f.env.counters.mine();
  Found found;
  ReadCounters reads;
  REQUIRE(find_entry(view, lookup_key("q"), &found, &reads).is_ok());
  CHECK(reads.runs_probed == 1);
  CHECK(counters.gets == 0);
  REQUIRE(locate_entry(view, lookup_key("q"), &found).is_ok());
  CHECK(locate_entry(view, lookup_key("b"), &found).is_not_found());
  CHECK(counters.gets == 2);
  CHECK(counters.get_hits == 1);
  CHECK(f.env.counters.operations(f.kDatabase) == OperationCounts{.empty_reads = 1, .reads = 1});
  CHECK(counters.runs_probed == 3);
  const LookupsByLevel levels = f.lookups->total();
  CHECK(levels[0].found == 1);
  CHECK(levels[0].denied + levels[0].in_vain == 1);
  CHECK(levels[1].denied + levels[1].in_vain == 1);
}

}  // namespace TEST_FILE
