// Tests of what a fetch reads, pins and charges, and what it leaves out if the memory account has no room.
#include "db/read/page_fetcher.h"

#include <catch2/catch.hpp>

#include "cache/block_cache.h"
#include "db/read/db_iterator.h"
#include "engine/db/read/read_fixture.h"
#include "table/index_cache.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

struct FetchFixture : ReadFixture {
  FetchFixture() {
    for (int i = 0; i < 200; ++i) put(numbered(i), std::string(50, 'v'));
    put("large", std::string(kLargeValueBytes + 1, 'x'));
    flush();
    REQUIRE(table().reader->page_count() > 3);
  }
  [[nodiscard]] PageMiss page(std::uint32_t number) const { return {table_name(), number}; }
  /// Adds the misses of a read of the whole value "large" that does no I/O.
  void miss_large(MissSet* misses) {
    EpochGuard guard(bench.epoch);
    Found found;
    while (pass_view(ReadMode::kResident, misses).get(lookup_key("large"), &found).is_not_resident()) {
      if (misses->pages.back().large_offset != 0) return;
      REQUIRE(fetch_now(misses));
    }
    FAIL("the large value was resident");
  }
  /// Fetches the pages. Without threads, all of them are in memory on return.
  bool fetch_now(MissSet* misses) { return fetcher.fetch(misses, ignore, nullptr); }
  int charges = 0;
  PageFetcher fetcher{0, account, [this] { ++charges; }, *env.values};
};

TEST_CASE("several reads miss the same page: the page is read and charged once, until the set of misses is cleared") {
  FetchFixture f;
  MissSet misses;
  misses.pages = {f.page(1), f.page(2), f.page(1)};
  REQUIRE(f.fetch_now(&misses));
  CHECK(misses.empty());
  CHECK(f.fetcher.pages_read() == 2);
  const std::uint64_t charged = f.account->charged(MemoryAccount::Kind::kPages);
  CHECK(charged > 0);
  misses.clear();
  CHECK(f.account->charged() == 0);
  misses.pages = {f.page(1), f.page(2)};
  REQUIRE(f.fetch_now(&misses));
  CHECK(f.fetcher.pages_read() == 2);  // the cache has it
  CHECK(f.account->charged(MemoryAccount::Kind::kPages) == charged);
  misses.clear();
  CHECK(f.account->charged() == 0);
}

TEST_CASE("page is pinned: the memory of its block is charged, and each charge is reported") {
  FetchFixture f;
  MissSet misses;
  misses.pages = {f.page(1), f.page(2)};
  REQUIRE(f.fetch_now(&misses));
  CHECK(f.charges == 2);
  ReadCounters counters;
  std::uint64_t memory = 0;
  for (const std::uint32_t page : {1, 2}) {
    const auto pin = f.table().reader->fetch_page_if_cached(page, &counters);
    REQUIRE(pin != nullptr);
    memory += BlockCache::memory_of(static_cast<const CachedBlock*>(pin.get()));
  }
  CHECK(f.account->charged(MemoryAccount::Kind::kPages) == memory);
}

TEST_CASE("cache has lost the pages of a fetch: a get and a walk find them in the set of misses, until it is cleared") {
  FetchFixture f;
  MissSet misses;
  for (std::uint32_t i = 0; i < f.table().reader->page_count(); ++i) misses.pages.push_back(f.page(i));
  REQUIRE(f.fetch_now(&misses));
  f.bench.cache.erase_file(f.table().reader->files().data_file);
  const auto attempt = [&] {
    EpochGuard guard(f.bench.epoch);
    const ReadView view = f.pass_view(ReadMode::kResident, &misses);
    Found found;
    const Status got = view.get(lookup_key(numbered(100)), &found);
    if (got.is_ok()) CHECK(found.value == std::string(50, 'v'));
    int walked = 0;
    const auto walk = new_resident_iterator(view, {}, RangeTally{&f.env.counters, ReadFixture::kDatabase});
    for (walk->seek_to_first(); walk->valid() && walked < 200; walk->next()) ++walked;
    return std::pair(got.code(), walked);
  };
  CHECK(attempt() == std::pair(Code::kOk, 200));
  CHECK(misses.empty());
  misses.clear();
  CHECK(attempt() == std::pair(Code::kNotResident, 0));
}

TEST_CASE("page is read ahead: the cache keeps it, and it is neither pinned nor charged") {
  FetchFixture f;
  MissSet misses;
  misses.pages = {f.page(1)};
  misses.pages[0].ahead = true;
  REQUIRE(f.fetch_now(&misses));
  CHECK(f.fetcher.pages_read() == 1);
  CHECK(f.account->charged() == 0);
  ReadCounters counters;
  CHECK(f.table().reader->fetch_page_if_cached(1, &counters) != nullptr);
}

TEST_CASE("page is needed now and also requested as read-ahead: the page is read once and pinned") {
  FetchFixture f;
  MissSet misses;
  misses.pages = {f.page(1), f.page(1), f.page(1)};
  misses.pages[GENERATE(0u, 1u, 2u)].ahead = true;
  REQUIRE(f.fetch_now(&misses));
  CHECK(f.fetcher.pages_read() == 1);
  CHECK(f.account->charged(MemoryAccount::Kind::kPages) > 0);
}

TEST_CASE("budget has no room for the pages of a fetch: the fetch is refused, and reports the bytes that it needs") {
  FetchFixture f;
  f.account->set_limit(0, 0);
  MissSet misses;
  misses.pages = {f.page(1)};
  REQUIRE(f.fetch_now(&misses));
  CHECK(misses.refused);
  CHECK(misses.refused_bytes > 0);
  CHECK(f.account->charged() == 0);
}

TEST_CASE("too many table indexes are pinned: the next fetch is refused, and reports the bytes that it needs") {
  FetchFixture f;
  IndexCache indexes(f.bench.epoch);
  TableReaderOptions options = f.bench.reader_options();
  options.indexes = &indexes;
  indexes.set_capacity(0);
  std::vector<std::shared_ptr<TableReader>> cold;
  for (std::size_t t = 0; t < IndexCache::kMostPinned + 2; ++t)
    cold.push_back(TableReader::lazy(options, f.table().reader->files(), f.table().meta->stats));
  std::vector<MissSet> misses(cold.size());
  for (std::size_t t = 0; t < cold.size(); ++t) {
    misses[t].pages = {{static_cast<const TableLookup*>(cold[t].get()), kIndexMiss}};
    REQUIRE(f.fetch_now(&misses[t]));
    const bool fits = t < IndexCache::kMostPinned;
    CHECK(misses[t].refused == !fits);
    CHECK((cold[t]->pinned_if_loaded() != nullptr) == fits);
    CHECK((misses[t].refused_bytes > 0) == !fits);
  }
  misses[0].clear();
  misses.back().clear();
  misses.back().pages = {{static_cast<const TableLookup*>(cold.back().get()), kIndexMiss}};
  REQUIRE(f.fetch_now(&misses.back()));
  CHECK_FALSE(misses.back().refused);
  misses.clear();
}

TEST_CASE("large value is fetched: the miss set keeps it in memory, unless it exceeds the budget of a command") {
  FetchFixture f;
  MissSet misses;
  f.miss_large(&misses);
  const std::vector<PageMiss> missed = misses.pages;
  REQUIRE(f.fetch_now(&misses));
  REQUIRE(misses.large.size() == 1);
  CHECK(misses.large[0].value->size() == kLargeValueBytes + 1);
  misses.clear();

  f.account->set_budget(1 << 20, kLargeValueBytes);
  misses.pages = missed;
  REQUIRE(f.fetch_now(&misses));
  CHECK(misses.large.empty());
  CHECK(misses.refused);
  CHECK(misses.refused_bytes >= kLargeValueBytes + 1);
}

TEST_CASE("threads fetch pages: the callback runs once, when all pages are in memory", "[threads]") {
  FetchFixture f;
  std::atomic<int> calls{0};
  MissSet misses;
  f.miss_large(&misses);
  for (std::uint32_t i = 0; i < f.table().reader->page_count(); ++i) misses.pages.push_back(f.page(i));
  {
    PageFetcher fetcher(
        2, f.account, [] {}, *f.env.values);
    const bool at_once = fetcher.fetch(
        &misses, [&] { ++calls; }, nullptr);
    CHECK_FALSE(at_once);
  }  // the destructor ends every fetch
  CHECK(calls == 1);
  CHECK(misses.large.size() == 1);
  ReadCounters counters;
  for (std::uint32_t i = 0; i < f.table().reader->page_count(); ++i) {
    CHECK(f.table().reader->fetch_page_if_cached(i, &counters) != nullptr);
  }
}

}  // namespace TEST_FILE
