// Tests of the results for given sizes of memtables and tables: limits of the account, the cache's size and memtables to flush.
// There is no database.
#include <catch2/catch.hpp>

#include "base/clock.h"
#include "db/write/memory_budget.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr auto kLarge = MemoryAccount::Kind::kLargeValues;
constexpr auto kMemTables = MemoryAccount::Kind::kMemTables;

/// A budget of 160 MiB. The cache and each kind of charge may have 8 MiB in any case: the floor.
struct Fixture {
  SimulatedClock clock{1'000'000};
  std::shared_ptr<MemoryAccount> account = std::make_shared<MemoryAccount>();
  std::uint64_t cache = 0, index_capacity = 0, index_bytes = 0;
  int fits = 0;
  bool flushes_fail = false;
  std::uint64_t cache_bytes = 0;
  MemoryBudget budget;

  explicit Fixture(std::uint64_t block_cache = 0)
      : budget({.account = account,
                .clock = &clock,
                .block_cache = block_cache,
                .set_cache_capacity =
                    [this](std::uint64_t bytes) {
                      cache = bytes;
                      ++fits;
                    },
                .set_index_capacity = [this](std::uint64_t bytes) { index_capacity = bytes; },
                .index_bytes = [this] { return index_bytes; },
                .flushes_fail = [this] { return flushes_fail; },
                .cache_bytes = [this] { return cache_bytes; }},
               160 * kMiB) {}
};

TEST_CASE("cache gets the memory that memtables, tables and charges leave: it never gets less than a minimum") {
  Fixture f;
  f.account->charge(kLarge, 10 * kMiB);
  f.budget.divide({.memtables = 20 * kMiB, .uncharged = 20 * kMiB, .tables = 30 * kMiB});
  CHECK(f.cache == 100 * kMiB);
  CHECK(f.account->room() == 92 * kMiB);
  CHECK(f.account->budget() == 160 * kMiB);
  CHECK(f.account->most() == 122 * kMiB);
  f.budget.divide({.memtables = 160 * kMiB, .uncharged = 160 * kMiB});
  CHECK(f.cache == 8 * kMiB);
  CHECK(f.account->room() == 0);
  CHECK(f.budget.try_charge(MemoryAccount::Kind::kPages, 8 * kMiB));  // the floor of each kind
}

TEST_CASE("table indexes may take seven eighths of the free memory: the cache gets what they leave") {
  Fixture f;
  const auto divide = [&](std::uint64_t memtables) { f.budget.divide({.memtables = memtables, .uncharged = memtables}); };
  divide(80 * kMiB);
  CHECK(f.index_capacity == 70 * kMiB);
  CHECK(f.cache == 80 * kMiB);
  f.index_bytes = 30 * kMiB;
  divide(80 * kMiB);
  CHECK(f.index_capacity == 70 * kMiB);
  CHECK(f.cache == 50 * kMiB);
  f.index_bytes = 75 * kMiB;  // some are pinned
  divide(80 * kMiB);
  CHECK(f.cache == 10 * kMiB);
  CHECK(f.account->room() == 72 * kMiB);  // indexes are dropped to make room for charges
  divide(160 * kMiB);
  CHECK(f.index_capacity == 2 * kMiB);
  CHECK(f.cache == 8 * kMiB);
}

TEST_CASE("memtables have charged values: the division of the budget counts these values once") {
  Fixture f;
  f.account->charge(kMemTables, 50 * kMiB);
  f.budget.divide({.memtables = 60 * kMiB, .uncharged = 10 * kMiB});
  CHECK(f.cache == 100 * kMiB);
}

TEST_CASE("uncounted memory exceeds the budget's free part: the excess reduces the room for cache and charges") {
  Fixture f;
  std::uint64_t resident = 0;
  const auto divide = [&](std::uint64_t now_resident) {
    resident = now_resident;
    f.clock.advance(100);
    f.budget.divide({.memtables = 20 * kMiB, .uncharged = 20 * kMiB, .tables = 30 * kMiB});
  };
  f.account->charge(kLarge, 10 * kMiB);
  f.budget.set_resident_source([&] { return resident; });
  for (int i = 0; i < 3; ++i) divide(62 * kMiB);  // 2 MiB of this are counted nowhere else
  CHECK(f.budget.overhead() == 0);
  CHECK(f.account->room() == 92 * kMiB);
  for (int i = 0; i < 3; ++i) divide(94 * kMiB);  // 34 MiB of this are counted nowhere else, of which 4 MiB are free
  CHECK(f.budget.overhead() == 30 * kMiB);
  CHECK(f.account->room() == 62 * kMiB);
  CHECK(f.cache == 70 * kMiB);
  divide(60 * kMiB);  // one low measurement: charges may be released later than their memory
  CHECK(f.account->room() == 62 * kMiB);
  divide(60 * kMiB);
  CHECK(f.account->room() == 92 * kMiB);
}

TEST_CASE("memory is used only for a moment: it does not count as overhead, and pinned pages are not counted twice") {
  Fixture f;
  std::uint64_t resident = 30 * kMiB;
  f.budget.set_resident_source([&] { return resident; });
  f.cache_bytes = 60 * kMiB;
  f.account->charge(MemoryAccount::Kind::kPages, 50 * kMiB);
  for (int i = 0; i < 5; ++i) {
    resident = (i == 2 || i == 3 ? 400 : 62) * kMiB;
    f.clock.advance(100);
    f.budget.divide({});
    CHECK(f.budget.overhead() == 0);
  }
  resident = 84 * kMiB;  // 60 MiB of it are blocks of the cache
  for (int i = 0; i < 3; ++i) {
    f.clock.advance(100);
    f.budget.divide({});
  }
  CHECK(f.budget.overhead() == 20 * kMiB);
}

TEST_CASE("cache size is configured: the cache never gets more") {
  Fixture f(16 * kMiB);
  f.budget.divide({});
  CHECK(f.cache == 16 * kMiB);
  f.budget.divide({.memtables = 148 * kMiB, .uncharged = 148 * kMiB});
  CHECK(f.cache == 12 * kMiB);
}

TEST_CASE("memory budget changes: the cache changes with the next division of the budget") {
  Fixture f;
  f.budget.divide({});
  f.budget.set_bytes(320 * kMiB);
  CHECK(f.cache == 160 * kMiB);
  f.budget.divide({});
  CHECK(f.cache == 320 * kMiB);
}

TEST_CASE("charges since the last division exceed 1/32 of the budget: the cache is resized at once") {
  Fixture f;
  f.budget.divide({});
  REQUIRE(f.fits == 1);
  CHECK(f.budget.try_charge(kLarge, 5 * kMiB));
  CHECK(f.fits == 1);
  CHECK(f.budget.try_charge(kLarge, 1));
  CHECK(f.fits == 2);
  CHECK(f.cache == 155 * kMiB - 1);
}

TEST_CASE("room for a charge is requested: the answer is that there is room now, after a flush, or never") {
  Fixture f;
  f.budget.divide({.memtables = 100 * kMiB, .uncharged = 100 * kMiB, .kept = 10 * kMiB});
  CHECK(f.budget.room(42 * kMiB) == BudgetRoom::kNow);  // 10 MiB stay reserved
  CHECK(f.account->take_refused() == 0);
  CHECK(f.budget.room(43 * kMiB) == BudgetRoom::kAfterFlush);
  CHECK(f.account->take_refused() == 53 * kMiB);  // the next relief() makes room for this
  CHECK(f.budget.room(132 * kMiB) == BudgetRoom::kAfterFlush);
  CHECK(f.budget.room(133 * kMiB) == BudgetRoom::kNone);  // 10 MiB stay in memtables, and 8 MiB are the floor
  f.flushes_fail = true;
  CHECK(f.budget.room(53 * kMiB) == BudgetRoom::kNone);
}

TEST_CASE("commands charge memory: 1/16 of the budget is kept for connections' buffers, and a minimum for commands") {
  Fixture f;
  f.budget.divide({.memtables = 50 * kMiB, .uncharged = 50 * kMiB});  // 102 MiB are left
  constexpr auto kCommands = MemoryAccount::Kind::kCommands;
  CHECK_FALSE(f.budget.try_charge(kCommands, 93 * kMiB));
  CHECK(f.account->take_refused() == 93 * kMiB);
  CHECK(f.budget.try_charge(kCommands, 92 * kMiB));
  f.account->charge(MemoryAccount::Kind::kConnections, 10 * kMiB);
  CHECK(f.account->room() == 0);
  f.account->release(kCommands, 92 * kMiB);
  f.account->charge(kLarge, 92 * kMiB);
  CHECK(f.budget.try_charge(kCommands, 8 * kMiB));
}

TEST_CASE("flushed values are held by readers only: for a second, room() still answers that a flush makes room") {
  Fixture f;
  f.account->charge(kMemTables, 100 * kMiB);
  f.budget.divide({.memtables = 100 * kMiB, .uncharged = 0});
  CHECK(f.budget.room(60 * kMiB) == BudgetRoom::kAfterFlush);
  f.budget.divide({});  // the memtable is flushed, and a reader still has its values
  CHECK(f.budget.room(60 * kMiB) == BudgetRoom::kAfterFlush);
  f.clock.advance(1'000);
  CHECK(f.budget.room(60 * kMiB) == BudgetRoom::kNone);
}

TEST_CASE("memtables are below the ceiling: none is flushed for memory") {
  const std::vector<TreeMemory> trees = {{.active_bytes = 60 * kMiB, .frozen_bytes = 40 * kMiB, .frozen_rests = true}};
  CHECK(plan_relief(trees, 100 * kMiB, kMiB).flush_frozen.empty());
  const MemoryRelief relief = plan_relief(trees, 100 * kMiB - 1, kMiB);
  CHECK(relief.flush_frozen == std::vector<std::size_t>{0});
  CHECK(relief.freeze_active == std::vector<std::size_t>{0});
}

TEST_CASE("memtables are above the ceiling: the largest active ones are frozen until active ones have 1/4 of the ceiling") {
  const std::vector<TreeMemory> trees = {{.active_bytes = 10 * kMiB},
                                         {.active_bytes = 40 * kMiB},
                                         {.active_bytes = 50 * kMiB, .active_is_empty = true},
                                         {.active_bytes = 30 * kMiB},
                                         {.active_bytes = 1 * kMiB}};
  CHECK(plan_relief(trees, 120 * kMiB, 2 * kMiB).freeze_active == std::vector<std::size_t>{1, 3, 0});
  CHECK(plan_relief(trees, 120 * kMiB, 35 * kMiB).freeze_active == std::vector<std::size_t>{1});
  CHECK(plan_relief(std::vector<TreeMemory>{{.active_bytes = 40 * kMiB}, {.active_bytes = 30 * kMiB}}, 60 * kMiB, 0)
            .freeze_active == std::vector<std::size_t>{0, 1});
}

TEST_CASE("frozen memtables have most of the memory: no active memtable is frozen") {
  const std::vector<TreeMemory> trees = {{.active_bytes = 50 * kMiB, .frozen_bytes = 60 * kMiB}};
  CHECK(plan_relief(trees, 100 * kMiB, kMiB).freeze_active.empty());
}

TEST_CASE("memtables exceed half of the budget, or what charges leave: the largest is frozen") {
  Fixture f;
  const std::vector<TreeMemory> trees = {{.active_bytes = 70 * kMiB}};
  f.budget.divide({.memtables = 70 * kMiB, .uncharged = 70 * kMiB});
  CHECK(f.budget.relief(trees, 0).freeze_active.empty());
  REQUIRE(f.budget.room(100 * kMiB) == BudgetRoom::kAfterFlush);
  CHECK(f.budget.relief(trees, 0).freeze_active.size() == 1);
  CHECK(f.budget.relief(trees, 0).freeze_active.empty());  // the refused charge counts once
  f.account->note_refused(500 * kMiB);                     // a charge that can never fit
  CHECK(f.budget.relief(trees, 0).freeze_active.empty());
  f.account->charge(kLarge, 100 * kMiB);
  CHECK(f.budget.relief(trees, 0).freeze_active.size() == 1);
}

TEST_CASE("memtables are small: they stay unflushed while they have at most 1/8 of the budget together") {
  CHECK(small_memtable_bytes(512 * kMiB, 0, 3) == kMiB);
  CHECK(small_memtable_bytes(512 * kMiB, 0, 640) == kMiB / 10);
  CHECK(small_memtable_bytes(512 * kMiB, kMiB, 3) == 2 * kMiB);
}

}  // namespace TEST_FILE
