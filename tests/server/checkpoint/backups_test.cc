// Tests of the names of backups. tests/contract/test_backup.py tests the directories.
#include "checkpoint/backups.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include <stdlib.h>
#include <sys/stat.h>

namespace TEST_FILE {

using namespace ebbtide;

// A directory of this test alone, even if several tests run at once.
struct OwnDirectory {
  OwnDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ebbtide-backups-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~OwnDirectory() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

const std::string kId = "3f9a1c07";

TEST_CASE("backup begins: its directory is named after the start time, so that names sort by time") {
  CHECK(backup_name(0, kId) == "1970-01-01T00-00-00.000Z-3f9a1c07");
  CHECK(backup_name(1'795'296'067'312'999, kId) == "2026-11-21T21-21-07.312Z-3f9a1c07");
  CHECK(backup_name(1'795'296'067'312'000, kId) < backup_name(1'795'296'067'313'000, kId));
  CHECK(backup_name(1'795'296'067'999'000, kId) < backup_name(1'795'296'068'000'000, kId));
}

TEST_CASE("directory's name is not that of a backup of this database: the directory does not count as a backup") {
  CHECK(backup_unix_seconds("2026-11-21T21-21-07.312Z-3f9a1c07", kId) == 1'795'296'067);
  CHECK(backup_unix_seconds("2026-11-21T21-21-07.312Z-3f9a1c08", kId) == 0);
  CHECK(backup_unix_seconds("2026-11-21T21-21-07.312Z", kId) == 0);  // the name has no id, so its database is unknown
  for (const char* other :
       {"", "mine", "2026-11-21", "2026-11-21T21-21-07.312", "2026-11-21T21-21-07.312Zx-3f9a1c07",
        "2026-13-21T21-21-07.312Z-3f9a1c07", "2026-02-30T21-21-07.312Z-3f9a1c07", "2026-11-21T21-21-7.312Z-3f9a1c07",
        " 2026-11-21T21-21-07.312Z-3f9a1c07", "2026-11-21T21-21-07.312Z-3f9a1c07/", "../-11-21T21-21-07.312Z-3f9a1c07"}) {
    INFO(other);
    CHECK(backup_unix_seconds(other, kId) == 0);
  }
}

TEST_CASE("data directory has no DATABASE_ID or a damaged one: a new id is written, and later starts use it") {
  const OwnDirectory own;
  const std::filesystem::path dir = own.path / "data";
  CHECK_FALSE(database_id(dir.string(), 1).is_ok());
  std::filesystem::create_directory(dir);
  CHECK(*database_id(dir.string(), 0xabc) == "00000abc");
  CHECK(*database_id(dir.string(), 0xdef) == "00000abc");
  std::ofstream(dir / "DATABASE_ID", std::ios::trunc) << "../../etc\n";
  CHECK(*database_id(dir.string(), 0xdef) == "00000def");
  std::ofstream(dir / "DATABASE_ID", std::ios::trunc) << "00000def0\n";
  CHECK(*database_id(dir.string(), 0xabc) == "00000abc");
}

TEST_CASE("DATABASE_ID of a running server is removed or overwritten: the server writes its id again") {
  const OwnDirectory own;
  const std::filesystem::path file = own.path / "DATABASE_ID";
  CHECK(*database_id(own.path.string(), 0xabc) == "00000abc");
  CHECK(*keep_database_id(own.path.string(), "00000abc") == false);
  std::filesystem::remove(file);
  CHECK(*keep_database_id(own.path.string(), "00000abc") == true);
  std::ofstream(file, std::ios::trunc) << "";
  CHECK(*keep_database_id(own.path.string(), "00000abc") == true);
  std::ofstream(file, std::ios::trunc) << "00000def\n";
  CHECK(*keep_database_id(own.path.string(), "00000abc") == true);
  CHECK(*database_id(own.path.string(), 0xdef) == "00000abc");
}

TEST_CASE("DATABASE_ID or its temporary file is a named pipe: the server does not block, and writes a new id") {
  const OwnDirectory own;
  const std::string file = (own.path / "DATABASE_ID").string();
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  REQUIRE(::mkfifo((file + ".tmp").c_str(), 0600) == 0);
  CHECK(*database_id(own.path.string(), 0xabc) == "00000abc");
  CHECK(*database_id(own.path.string(), 0xdef) == "00000abc");
}

}  // namespace TEST_FILE
