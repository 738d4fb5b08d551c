// Tests of tickets as text.
#include <catch2/catch.hpp>

#include <engine/purge.h>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("ticket is parsed: only the text that format_ticket() writes is accepted", "[purge]") {
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

}  // namespace TEST_FILE
