// Tests of the ledger of files to be removed, and of names in the manifest.
#include <catch2/catch.hpp>

#include "db/purge/purge_ledger.h"
#include "io/memory_fs.h"

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("file is closed and unlinked: it counts as removed after a later sync of its directory", "[purge]") {
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
  CHECK(left() == 1);  // the ticket is open
  CHECK(ledger.leaving().front().floors.at(1) == 100);
  reader.reset();
  CHECK(left() == 0);

  REQUIRE(fs.create("data/000002.data").is_ok());
  ledger.leave({"000002.data", 7, {{1, 100}}});
  REQUIRE(fs.sync_dir("data").is_ok());
  CHECK(left() == 1);  // the file exists
  CHECK_FALSE(ledger.wants_sync());
  REQUIRE(fs.unlink("data/000002.data").is_ok());
  CHECK(left() == 1);  // a power loss may restore the file
  CHECK(ledger.wants_sync());
  REQUIRE(fs.sync_dir("data").is_ok());
  CHECK(left() == 0);
}

TEST_CASE("edits remove files of a tree: the purge ledger keeps the oldest birth in these files until the manifest is rolled",
          "[purge]") {
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
  REQUIRE(ledger.leaving().size() == 1);  // the old manifest still exists
  CHECK(ledger.leaving().front().floors == PurgeLedger::Floors{{1, 100}, {2, 300}});
  REQUIRE(fs.unlink("data/MANIFEST-000003").is_ok());
  REQUIRE(fs.sync_dir("data").is_ok());
  ledger.look();
  CHECK(ledger.leaving().empty());
}

}  // namespace TEST_FILE
