// Files on their way out, and what the manifest names.
#include <catch2/catch.hpp>

#include "db/purge.h"
#include "db/purge_ledger.h"
#include "io/memory_fs.h"

using namespace ebbtide;

TEST_CASE("a file is gone when nobody has it open, its name is gone, and the directory was synced after that", "[purge]") {
  MemoryFileSystem base;
  RemovalsFileSystem fs(base, "data");
  REQUIRE(fs.create_dir("data").is_ok());
  REQUIRE(fs.create("data/000001.data").is_ok());
  PurgeLedger ledger(fs, "data");
  auto reader = std::make_shared<int>();
  ledger.leave({"000001.data", 7, {{1, 100}}, reader});
  const auto left = [&] {
    ledger.look();
    return ledger.leaving().size();
  };
  CHECK(left() == 1);
  REQUIRE(fs.unlink("data/000001.data").is_ok());
  REQUIRE(fs.sync_dir("data").is_ok());
  CHECK(left() == 1);  // open
  CHECK(ledger.leaving().front().floors.at(1) == 100);
  reader.reset();
  CHECK(left() == 0);

  REQUIRE(fs.create("data/000002.data").is_ok());
  ledger.leave({"000002.data", 7, {{1, 100}}});
  REQUIRE(fs.sync_dir("data").is_ok());
  CHECK(left() == 1);  // there
  CHECK_FALSE(ledger.wants_sync());
  REQUIRE(fs.unlink("data/000002.data").is_ok());
  CHECK(left() == 1);  // it may come back
  CHECK(ledger.wants_sync());
  REQUIRE(fs.sync_dir("data").is_ok());
  CHECK(left() == 0);
}

TEST_CASE("the first edit that takes files out of a tree sets the floor, until the manifest is rolled", "[purge]") {
  MemoryFileSystem base;
  RemovalsFileSystem fs(base, "data");
  REQUIRE(fs.create_dir("data").is_ok());
  REQUIRE(fs.create("data/MANIFEST-000003").is_ok());
  PurgeLedger ledger(fs, "data");
  ledger.supersede(1, 100, 150);
  ledger.supersede(1, 200, 250);
  ledger.supersede(2, 300, 350);
  CHECK(ledger.superseded().at(1).floor == 100);
  CHECK(ledger.superseded().at(1).since == 150);
  ledger.rolled("MANIFEST-000003", 50, {{2, {300, 350}}});  // the roll was part of the last edit
  CHECK(ledger.superseded().size() == 1);
  CHECK(ledger.superseded().at(2).floor == 300);
  ledger.look();
  REQUIRE(ledger.leaving().size() == 1);  // the old manifest is there
  CHECK(ledger.leaving().front().floors == PurgeLedger::Floors{{1, 100}, {2, 300}});
  REQUIRE(fs.unlink("data/MANIFEST-000003").is_ok());
  REQUIRE(fs.sync_dir("data").is_ok());
  ledger.look();
  CHECK(ledger.leaving().empty());
}

TEST_CASE("a history answers late rather than early, however long it gets", "[purge]") {
  PurgeHistory history;
  CHECK_FALSE(history.covers(0));
  history.note(100, 110);
  history.note(90, 120);  // floors do not go back
  CHECK(history.covers(99));
  CHECK_FALSE(history.covers(100));
  CHECK(history.known_at(50) == 110);
  for (Millis t = 0; t < 100'000; t += 10) history.note(1000 + t, 1005 + t);
  for (Millis n = 0; n < 100'900; n += 37) {
    REQUIRE(history.covers(n));
    const Millis at = history.known_at(n);
    CHECK(at > n);
    if (n > 100'500) CHECK(at <= n + 15);  // the latest are exact
  }
}

TEST_CASE("tickets have one spelling", "[purge]") {
  for (const char* text : {"purge-1", "purge-1700000000000", "purge-5-0", "purge-5-4294967295"}) {
    const auto ticket = parse_ticket(text);
    REQUIRE(ticket);
    CHECK(format_ticket(*ticket) == text);
  }
  for (const char* text :
       {"", "purge", "purge-", "purge-x", "purge-01", "purge-+1", "purge--1", "purge-1-", "purge-1--1", "purge-1-01",
        "purge-1-4294967296", "purge-99999999999999999999", "purge-1-2-3", "Purge-1", "purge-1 ", " purge-1"}) {
    INFO(text);
    CHECK_FALSE(parse_ticket(text));
  }
}
