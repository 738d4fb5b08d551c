// Tests of the report of an import.
#include "import/report.h"

#include <catch2/catch.hpp>

#include <string>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("import report has missing keys: they are listed with the reason, and the table has aligned columns and sums") {
  TransferReport report;
  for (int i = 0; i < 1234; ++i) report.add(0, "string", Fate::kTaken);
  report.add(12, "hash", Fate::kExpired);
  report.add_lost(12, "stream", Fate::kUnsupported, Bytes("a\0\"", 3), "no streams");
  CHECK(report.lost_any());
  CHECK(report.text("imported") ==
        "database  type    imported  expired  unsupported  refused\n"
        "       0  string     1,234        0            0        0\n"
        "      12  hash           0        1            0        0\n"
        "      12  stream         0        0            1        0\n"
        "     all             1,234        1            1        0\n"
        "\n"
        "not imported:\n"
        "  database 12, stream \"a\\x00\\\"\": no streams\n");
}

TEST_CASE("import report has over twenty missing keys: it shows the first ones, and how to list all") {
  TransferReport report;
  for (int i = 0; i < 23; ++i) report.add_lost(0, "list", Fate::kRefused, "k" + std::to_string(i), "too large");
  const std::string text = report.text("imported");
  CHECK(text.find("\"k19\"") != std::string::npos);
  CHECK(text.find("\"k20\"") == std::string::npos);
  CHECK(text.find("and 3 more; --list FILE lists all") != std::string::npos);
}

TEST_CASE("import report has no missing keys: it is only the table") {
  TransferReport report;
  report.add(0, "set", Fate::kTaken);
  CHECK_FALSE(report.lost_any());
  CHECK(report.text("imported").find("not imported") == std::string::npos);
}

}  // namespace TEST_FILE
