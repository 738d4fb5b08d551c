// Names of backups. What happens to the directories is told by tests/contract/test_backup.py.
#include "checkpoint/backups.h"

#include <catch2/catch.hpp>

using namespace ebbtide;

TEST_CASE("a backup is named by the time at which it was begun, and names sort by time") {
  CHECK(backup_name(0) == "1970-01-01T00-00-00.000Z");
  CHECK(backup_name(1'795'296'067'312'999) == "2026-11-21T21-21-07.312Z");
  CHECK(backup_name(1'795'296'067'312'000) < backup_name(1'795'296'067'313'000));
  CHECK(backup_name(1'795'296'067'999'000) < backup_name(1'795'296'068'000'000));
}

TEST_CASE("only what is a backup's name gives a time") {
  CHECK(backup_unix_seconds("2026-11-21T21-21-07.312Z") == 1'795'296'067);
  for (const char* other :
       {"", "mine", "2026-11-21", "2026-11-21T21-21-07.312", "2026-11-21T21-21-07.312Zx", "2026-13-21T21-21-07.312Z",
        "2026-02-30T21-21-07.312Z", "2026-11-21T21-21-7.312Z", " 2026-11-21T21-21-07.312Z", "../-11-21T21-21-07.312Z"}) {
    INFO(other);
    CHECK(backup_unix_seconds(other) == 0);
  }
}
