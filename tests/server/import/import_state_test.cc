// Tests of the file of --resume, and of the report that it keeps.
#include "import/import_state.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <filesystem>

#include "import/report.h"

namespace ebbtide {
namespace TEST_FILE {

TEST_CASE("import report is saved and restored: counts, lines and keys in doubt are the same") {
  TransferReport report;
  for (int i = 0; i < 7; ++i) report.add(3, "string", Fate::kTaken);
  report.add_lost(0, "hash with expiring fields", Fate::kUnsupported, "a\nb", "not known");
  report.add_in_doubt(1, "set", "k");
  report.add_other("function library at byte 9", "the server does not have this");
  report.add_unseen(256);
  TransferReport restored;
  REQUIRE(restored.restore(report.save()).is_ok());
  CHECK(restored.text("imported") == report.text("imported"));
  CHECK(restored.save() == report.save());
  CHECK(restored.lost_any());
  CHECK(report.text("imported").find("1 of these exist") != std::string::npos);
}

TEST_CASE("import report is restored from a bad line: the error names the line") {
  TransferReport report;
  CHECK(report.restore("lost many\n").message().find("lost many") != std::string::npos);
  CHECK_FALSE(report.restore("else 5\n").is_ok());
  CHECK_FALSE(report.restore("count 0 1 2 3\n").is_ok());
}

TEST_CASE("resume state of an import is written: reading returns the same, or none if the file is missing") {
  const std::filesystem::path home = std::filesystem::temp_directory_path() / ("import_state_" + std::to_string(::getpid()));
  std::filesystem::create_directories(home);
  const std::string path = home / "state";
  CHECK_FALSE((*read_import_state(path)).has_value());
  ImportState state;
  state.import = "crc 1 to here";
  state.entries = 5;
  state.list_bytes = 6;
  state.report = "lost 0\nline   x: y\n";
  REQUIRE(write_import_state(path, state).is_ok());
  CHECK(**read_import_state(path) == state);
  state.entries = 7;
  REQUIRE(write_import_state(path, state).is_ok());
  CHECK(**read_import_state(path) == state);
  state.commands = 0;
  state.complete = true;
  REQUIRE(write_import_state(path, state, false).is_ok());
  CHECK(**read_import_state(path) == state);
  state.pass = 2;
  state.known_from = 16;
  state.known_to = 48;
  state.removed = 3;
  state.missing = true;
  state.databases = {0, 7};
  REQUIRE(write_import_state(path, state).is_ok());
  CHECK(**read_import_state(path) == state);
  CHECK(write_import_state(home / "none" / "state", state).message().find("none/state") != std::string::npos);
  std::filesystem::remove_all(home);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
