// Tests of PURGE.REPORT: the facts in it, and null for unknown facts.
#include <catch2/catch.hpp>
#include <string>

#include "commands/families.h"
#include "server/dispatch/harness.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

constexpr Millis kDeadline = 3'600'000;

Settings with_deadline() {
  Settings s = CommandHarness::small();
  s.tree.delete_deadline = kDeadline;
  return s;
}

void pass(CommandHarness& server, Millis ms) {
  for (Millis done = 0; done < ms; done += 60'000) {
    server.advance(60'000);
    server.settle();
    server.db->write_log();
  }
}

TEST_CASE("deletes are on time or late: PURGE.REPORT says which, and null after a restart") {
  const std::span<const CommandSpec> families[] = {string_commands(), range_delete_commands(), tree_commands(), purge_commands()};
  CommandHarness server(families, with_deadline());
  server("SET k v");
  REQUIRE(server.db->flush(0).is_ok());
  std::string ticket = server("DELPREFIX k");
  ticket = ticket.substr(1, ticket.size() - 2);  // removes the quotes
  const auto says = [&](const std::string& field) {
    server.clock.advance(100);  // the state of a purge may be up to 20 ms old
    const std::string report = server.raw({"PURGE.REPORT", ticket});
    INFO(report);
    return report.find(field) != std::string::npos;
  };
  CHECK(says("\"in_time\":null"));
  const bool late = GENERATE(false, true);
  if (late) {
    for (int minute = 0; minute < 61; ++minute) server.advance(60'000);  // an hour passes without background work
    CHECK(says("\"state\":\"pending\""));
    CHECK(says("\"in_time\":false"));
  }
  REQUIRE(server.db->compact(0, {}).is_ok());
  pass(server, kDeadline / 2);
  CHECK(says("\"state\":\"done\""));
  CHECK(says(late ? "\"in_time\":false" : "\"in_time\":true"));
  pass(server, kDeadline);
  CHECK(says(late ? "\"in_time\":false" : "\"in_time\":true"));
  server.reopen();
  CHECK(says("\"state\":\"done\""));
  CHECK(says("\"in_time\":null"));
}

}  // namespace TEST_FILE
