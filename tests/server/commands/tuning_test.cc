// Tests of TUNE.APPLY where the state of the database refuses it. tests/contract/test_tune_apply.py has the rest.
#include <catch2/catch.hpp>
#include <string>

#include "commands/families.h"
#include "server/dispatch/harness.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

const std::span<const CommandSpec> kFamilies[] = {string_commands(), tuning_commands()};

TEST_CASE("database is read-only: TUNE.APPLY is refused like a write, and computes no advice") {
  CommandHarness server(kFamilies);
  server("SET k v");
  CHECK(server("TUNE.APPLY") == "(error) ERR no advice: the history has 1 operations, and needs 1000");
  server.faults().inject({.sticky = true});
  server.advance(20'000);  // this fails, since the mark of engine time cannot be written
  REQUIRE_FALSE(server.db->write_status().is_ok());
  CHECK(server("TUNE.APPLY").starts_with("(error) MISCONF Writes are refused"));
  server.faults().clear_faults();
}

}  // namespace TEST_FILE
