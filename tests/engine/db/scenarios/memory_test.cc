// Tests of the memory budget: shares of large values, pinned pages and connections, and their priorities.
#include <engine/charged_value.h>

#include <optional>
#include <utility>

#include "cache/block_cache.h"
#include "compaction/table_files.h"
#include "db/read/large_values.h"
#include "engine/db/harness.h"
#include "table/table_reader.h"
#include "version/version_set.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::size_t kBig = std::size_t{4} << 20;

// Makes `count` values of 4 MiB in tables.
void put_big(Harness& h, int count) {
  for (int i = 0; i < count; ++i) {
    WriteBatch batch;
    batch.put_shared(0, key_of(i), std::make_shared<const std::string>(kBig, static_cast<char>('a' + i % 26)), {});
    h.write(batch);
    REQUIRE(h.db->flush(0).is_ok());
    h.settle();
  }
  h.advance(100);
}

// Reads as MGET does: all keys at once, then a fetch, and again, until all have a result or there is an error.
Status get_all(Harness& h, int count, MissSet* misses, std::vector<Found>* found) {
  for (int round = 0; round < 5; ++round) {
    PassGuard guard(*h.db);
    const ReadView view = h.db->view(0, h.db->now(), ReadMode::kResident, misses);
    found->assign(static_cast<std::size_t>(count), Found{});
    bool missing = false;
    for (int i = 0; i < count; ++i) {
      const std::string key = key_of(i);
      const Status status = view.get({key, hash_key(key)}, &(*found)[static_cast<std::size_t>(i)]);
      if (status.is_not_resident()) {
        missing = true;
      } else if (!status.is_ok()) {
        return status;
      }
    }
    if (!missing) return Status::ok();
    REQUIRE(h.db->fetch(misses, [] {}));
  }
  return Status::aborted("no end of rounds");
}

TEST_CASE("large values together exceed the budget: the get fails with kOutOfMemory, and no value stays in memory") {
  Harness h;
  h.open();
  put_big(h, 40);
  MissSet misses;
  std::vector<Found> found;
  CHECK(get_all(h, 40, &misses, &found).code() == Code::kOutOfMemory);
  CHECK(h.db->stats().large_value_bytes == 0);
}

TEST_CASE("large values exceed the room left in the budget: the get stays within that room, and fails with kOutOfMemory") {
  Harness h;
  h.open();
  put_big(h, 12);
  MemoryAccount& account = h.db->memory();
  const std::uint64_t others = h.settings.memory_budget / 4;
  account.charge(MemoryAccount::Kind::kConnections, others);
  MissSet misses;
  std::vector<Found> found;
  CHECK(get_all(h, 12, &misses, &found).code() == Code::kOutOfMemory);
  CHECK(h.db->stats().large_value_bytes <= h.settings.memory_budget - others);
  CHECK(h.db->stats().large_value_bytes >= 4 * kBig);
  account.release(MemoryAccount::Kind::kConnections, others);
  found.clear();
  misses.clear();
  CHECK(h.db->stats().large_value_bytes == 0);
  CHECK(h.db->stats().pinned_page_bytes == 0);
  // Values that fit are read, and are charged as long as the set or a pin holds them.
  REQUIRE(get_all(h, 8, &misses, &found).is_ok());
  for (int i = 0; i < 8; ++i) CHECK(found[static_cast<std::size_t>(i)].value == std::string(kBig, static_cast<char>('a' + i)));
  CHECK(h.db->stats().large_value_bytes == 8 * kBig);
  misses.clear();
  CHECK(h.db->stats().large_value_bytes == 8 * kBig);
  found.resize(3);
  CHECK(h.db->stats().large_value_bytes == 3 * kBig);
  found.clear();
  CHECK(h.db->stats().large_value_bytes == 0);
}

TEST_CASE("command fetches a page: it is counted as a page read and a miss, and its next use as a hit") {
  Harness h;
  h.open();
  h.put(0, key_of(0), "v");
  REQUIRE(h.db->flush(0).is_ok());
  h.reopen();
  const Stats before = h.db->stats();
  MissSet misses;
  std::vector<Found> found;
  REQUIRE(get_all(h, 1, &misses, &found).is_ok());
  const Stats cold = h.db->stats();
  CHECK(cold.pages_read == before.pages_read + 1);
  CHECK(cold.cache_misses == before.cache_misses + 1);
  CHECK(cold.cache_hits == before.cache_hits);
  REQUIRE(get_all(h, 1, &misses, &found).is_ok());
  const Stats warm = h.db->stats();
  CHECK(warm.pages_read == cold.pages_read);
  CHECK(warm.cache_misses == cold.cache_misses);
  CHECK(warm.cache_hits == cold.cache_hits + 1);
}

TEST_CASE("iterator reads a page from the disk: it is counted as a page read and a miss, and its next use as a hit") {
  Harness h;
  h.open();
  h.put(0, key_of(0), "v");
  REQUIRE(h.db->flush(0).is_ok());
  h.reopen();
  const auto first_key = [&h] {
    auto it = h.db->iterate(h.db->lease(0), {});
    it->seek_to_first();
    REQUIRE(it->valid());
    return it;
  };
  const Stats before = h.db->stats();
  const auto open = first_key();
  const Stats cold = h.db->stats();
  CHECK(cold.pages_read == before.pages_read + 1);
  CHECK(cold.cache_misses == before.cache_misses + 1);
  CHECK(cold.cache_hits == before.cache_hits);
  (void)first_key();
  const Stats warm = h.db->stats();
  CHECK(warm.pages_read == cold.pages_read);
  CHECK(warm.cache_misses == cold.cache_misses);
  CHECK(warm.cache_hits == cold.cache_hits + 1);
}

TEST_CASE("tables are removed: the cache drops their pages at once") {
  Harness h;
  h.open();
  for (int i = 0; i < 2000; ++i) h.put(0, key_of(i), std::string(500, 'v'));
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  for (int i = 0; i < 2000; i += 2) REQUIRE(h.get(0, key_of(i)) == std::string(500, 'v'));
  const std::uint64_t before = h.db->stats().cache_bytes;
  REQUIRE(before > 500'000);
  WriteBatch batch;
  batch.flush_database(0);
  h.write(batch);
  h.settle();
  h.advance(100);
  h.settle();
  h.advance(100);
  CHECK(h.db->stats().cache_bytes < before / 4);
}

TEST_CASE("large value has many readers: it is charged once, and stays readable after the database is closed") {
  Harness h;
  h.open();
  put_big(h, 1);
  std::vector<MissSet> sets(20);
  std::vector<std::vector<Found>> found(20);
  for (std::size_t i = 0; i < sets.size(); ++i) REQUIRE(get_all(h, 1, &sets[i], &found[i]).is_ok());
  CHECK(h.db->stats().large_value_bytes == kBig);
  auto it = h.db->iterate(h.db->lease(0), {});
  it->seek_to_first();
  CHECK(it->value().size() == kBig);
  CHECK(h.db->stats().large_value_bytes == kBig);
  it.reset();
  sets.clear();
  CHECK(h.db->stats().large_value_bytes == kBig);
  h.drop();
  CHECK(found[7][0].value == std::string(kBig, 'a'));
}

TEST_CASE("another reader loads a large value between charge and read: the value is charged once") {
  Harness h;
  h.open();
  put_big(h, 1);
  demand_ok(h.db->close(), "close");
  h.drop();
  const auto versions = VersionSet::open(*h.files, "data");
  REQUIRE(versions.is_ok());
  const FileMeta& meta = *(*versions)->trees().begin()->second->runs.front().files.front();
  Epoch epoch;
  BlockCache cache(1 << 20, epoch);
  TableReaderOptions options;
  options.fs = h.files.get();
  options.cache = &cache;
  options.dir = "data";
  const auto table = TableReader::open(options, files_of(meta));
  REQUIRE(table.is_ok());
  const auto walk = (*table)->new_iterator({});
  walk->seek_to_first();
  REQUIRE(walk->valid());
  const LargeValueRef ref = walk->entry().large;

  const auto account = std::make_shared<MemoryAccount>();
  account->set_limit(4 * kBig, 0);
  LargeValues* all = nullptr;
  SharedValue first, second;
  bool met = false;
  LargeValues values(account, [&] {
    if (std::exchange(met, true)) return;
    second = all->read(**table, ref).value();
  });
  all = &values;
  first = values.read(**table, ref).value();
  REQUIRE(met);
  REQUIRE(first->data() == second->data());
  CHECK(account->charged() == kBig);
  first.reset();
  CHECK(account->charged() == kBig);
  second.reset();
  CHECK(account->charged() == 0);
}

TEST_CASE("budget has no room for a large value: iterators and leased views return kOutOfMemory for it") {
  Settings settings = Harness::small();
  settings.memory_budget = 32 << 20;  // a sixteenth of it is free for large values in any case
  Harness h(settings);
  h.open();
  put_big(h, 1);
  const std::uint64_t all = h.settings.memory_budget;
  h.db->memory().charge(MemoryAccount::Kind::kConnections, all);
  auto it = h.db->iterate(h.db->lease(0), {});
  it->seek_to_first();
  REQUIRE(it->valid());
  CHECK(it->value().empty());
  CHECK(it->status().code() == Code::kOutOfMemory);
  Found found;
  CHECK(h.db->lease(0).get({key_of(0), hash_key(key_of(0))}, &found).code() == Code::kOutOfMemory);
  h.db->memory().release(MemoryAccount::Kind::kConnections, all);
  CHECK(h.db->lease(0).get({key_of(0), hash_key(key_of(0))}, &found).is_ok());
}

TEST_CASE("one command reads many pages: its pinned pages stay within the budget") {
  Settings settings = Harness::small();
  settings.memory_budget = 8 << 20;
  settings.tree.page_size = 16 << 10;
  Harness h(settings);
  h.open();
  constexpr int kKeys = 1200;
  for (int i = 0; i < kKeys; ++i) {
    h.put(0, key_of(i), std::string(14'000, 'v'));
    if (i % 4 == 3) h.settle();
  }
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  h.advance(100);
  MissSet misses;
  std::vector<Found> found;
  CHECK(get_all(h, kKeys, &misses, &found).code() == Code::kOutOfMemory);
  CHECK(h.db->stats().pinned_page_bytes <= settings.memory_budget);
  CHECK(h.db->stats().pinned_page_bytes > settings.memory_budget / 4);
  // No tick has passed, but the cache has made room for the pinned pages at once.
  const Stats stats = h.db->stats();
  CHECK(stats.cache_capacity + stats.pinned_page_bytes <= settings.memory_budget + settings.memory_budget / 16);
  misses.clear();
  CHECK(h.db->stats().pinned_page_bytes == 0);
  h.db->memory().charge(MemoryAccount::Kind::kConnections, settings.memory_budget);
  h.advance(100);
  REQUIRE(get_all(h, 10, &misses, &found).is_ok());
  CHECK(found[9].value.size() == 14'000);
  misses.clear();
  h.db->memory().release(MemoryAccount::Kind::kConnections, settings.memory_budget);
}

TEST_CASE("command fetches pages ahead for later reads: pages of the current read are pinned before these") {
  Settings settings = Harness::small();
  settings.tree.page_size = 16 << 10;
  Harness h(settings);
  h.open();
  constexpr int kKeys = 100;
  for (int i = 0; i < kKeys; ++i) h.put(0, key_of(i), std::string(14'000, 'v'));
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  h.reopen();
  MissSet misses;
  {
    PassGuard guard(*h.db);
    const ReadView view = h.db->view(0, h.db->now(), ReadMode::kResident, &misses);
    Found found;
    const std::string last = key_of(kKeys - 1);
    REQUIRE(view.get({last, hash_key(last)}, &found).is_not_resident());
    std::vector<std::string> names;
    for (int i = 0; i < kKeys - 1; ++i) names.push_back(key_of(i));
    std::vector<LookupState> states(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      const LookupKey key{names[i], hash_key(names[i]), &states[i]};
      const LookupKey* const one[] = {&key};
      view.prefetch(one);
      view.add_expected_miss(key, &misses);
    }
  }
  REQUIRE(misses.pages.size() >= kKeys - 1);
  REQUIRE(h.db->fetch(&misses, [] {}));
  CHECK_FALSE(misses.refused);
  CHECK(h.db->stats().pinned_page_bytes > 0);
  CHECK(h.db->stats().pinned_page_bytes < 64 << 10);
  misses.clear();
  std::vector<Found> found;
  const std::uint64_t read = h.db->stats().pages_read;
  REQUIRE(get_all(h, kKeys, &misses, &found).is_ok());
  CHECK(h.db->stats().pages_read == read);
}

TEST_CASE("connections use up the budget: memtables are flushed early, the cache shrinks, and then writes are refused") {
  Settings settings = Harness::small();
  settings.tree.memtable_size = 4 << 20;
  Harness h(settings);
  h.open();
  for (int i = 0; i < 300; ++i) h.put(0, key_of(i), std::string(5000, 'v'));
  h.advance(100);
  const Stats before = h.db->stats();
  CHECK(before.memtable_bytes > 1'500'000);
  CHECK(before.cache_capacity > settings.memory_budget / 2);
  MemoryAccount& account = h.db->memory();
  const std::uint64_t most = settings.memory_budget - (1 << 20);
  account.charge(MemoryAccount::Kind::kConnections, most);
  h.advance(100);
  h.settle();
  h.advance(100);
  Stats now = h.db->stats();
  CHECK(now.memtable_bytes < before.memtable_bytes / 2);
  CHECK(now.cache_capacity < settings.memory_budget / 8);
  CHECK(now.flushes > before.flushes);
  h.put(0, "still", "accepted");
  // With even more charges, writes of data are refused, and deletes still work.
  account.charge(MemoryAccount::Kind::kConnections, 10 << 20);
  h.advance(100);
  WriteBatch batch;
  batch.put(0, "k", "v");
  CHECK(h.db->commit(batch).code() == Code::kOutOfMemory);
  h.del(0, "still");
  CHECK(h.get(0, "still") == "(absent)");
  CHECK(h.get(0, key_of(7)).size() == 5000);
  account.release(MemoryAccount::Kind::kConnections, most + (10 << 20));
  h.advance(100);
  h.put(0, "k", "v");
  CHECK(h.db->stats().cache_capacity > settings.memory_budget / 2);
}

TEST_CASE("large values need room: the cache shrinks at once, not at the next tick") {
  Harness h;
  h.open();
  put_big(h, 8);
  const std::uint64_t before = h.db->stats().cache_capacity;
  MissSet misses;
  std::vector<Found> found;
  REQUIRE(get_all(h, 8, &misses, &found).is_ok());
  CHECK(h.db->stats().cache_capacity <= before - 7 * kBig);
}

// Charges memory like a command that builds a value of 4 MiB.
SharedValue build(Db& db, char fill) {
  REQUIRE(db.try_charge(MemoryAccount::Kind::kCommands, kBig));
  MemoryCharge charge;
  charge.took(db.memory(), MemoryAccount::Kind::kCommands, kBig);
  return charged_value(std::string(kBig, fill), &charge);
}

TEST_CASE("command builds a value: it is charged once, though batch, memtable and reader hold it") {
  Harness h;
  h.open();
  const auto counted = [&] {
    const Stats s = h.db->stats();
    return s.command_bytes + s.large_value_bytes + s.memtable_bytes;
  };
  const std::uint64_t empty = counted();
  {
    WriteBatch batch;
    batch.put_shared(0, key_of(1), build(*h.db, 'x'), {});
    CHECK(h.db->stats().command_bytes == kBig);
    h.write(batch);
  }
  CHECK(h.db->stats().command_bytes == 0);
  CHECK(counted() >= empty + kBig);
  CHECK(counted() < empty + kBig + kBig / 2);
  MissSet misses;
  std::vector<Found> found;
  const std::string key = key_of(1);
  std::optional<Found> held(std::in_place);
  {
    PassGuard guard(*h.db);
    REQUIRE(h.db->view(0, h.db->now(), ReadMode::kBlocking, &misses).get({key, hash_key(key)}, &*held).is_ok());
  }
  REQUIRE(h.db->flush(0).is_ok());
  h.settle();
  h.advance(100);
  CHECK(counted() >= empty + kBig);
  CHECK(held->value == std::string(kBig, 'x'));
  held.reset();
  CHECK(counted() < empty + kBig / 2);
}

TEST_CASE("charge is refused because memtables fill the budget: the next tick flushes them") {
  Settings settings = Harness::small();
  settings.memory_budget = 32 << 20;
  settings.tree.memtable_size = 16 << 20;
  Harness h(settings);
  h.open();
  for (int i = 0; i < 3; ++i) {
    WriteBatch batch;
    batch.put_shared(0, key_of(i), build(*h.db, 'x'), {});
    h.write(batch);
  }
  h.advance(200);
  CHECK(h.db->stats().memtable_bytes >= 3 * kBig);
  CHECK_FALSE(h.db->try_charge(MemoryAccount::Kind::kCommands, 5 * kBig));
  h.advance(200);
  h.settle();
  h.advance(200);
  CHECK(h.db->try_charge(MemoryAccount::Kind::kCommands, 5 * kBig));
  h.db->memory().release(MemoryAccount::Kind::kCommands, 5 * kBig);
}

}  // namespace TEST_FILE
