// Tests of CLIENT PAUSE: which commands wait, and until when.
#include "dispatch/client_pause.h"

#include <catch2/catch.hpp>

namespace ebbtide::test {
namespace TEST_FILE {

TEST_CASE("CLIENT PAUSE WRITE is in effect: only writes wait, and check again after at most 20 ms") {
  Switches switches;
  ClientPause pause(switches);
  CHECK(pause.wait_ms(0, true) == 0);
  pause.begin(1000, false);
  CHECK(switches.has(Switches::kPause));
  CHECK(pause.wait_ms(0, true) == 20);
  CHECK(pause.wait_ms(995, true) == 5);
  CHECK(pause.wait_ms(0, false) == 0);
}

TEST_CASE("several client pauses are in effect: the latest end and the strictest mode apply") {
  Switches switches;
  ClientPause pause(switches);
  pause.begin(1000, false);
  pause.begin(500, true);
  pause.begin(700, false);
  CHECK(pause.wait_ms(990, false) == 10);
  CHECK(pause.wait_ms(990, true) == 10);
}

TEST_CASE("client pause ends at its time or by UNPAUSE: no command waits any more") {
  Switches switches;
  ClientPause pause(switches);
  pause.begin(1000, true);
  CHECK(pause.wait_ms(1000, true) == 0);
  CHECK_FALSE(switches.has(Switches::kPause));
  pause.begin(3000, false);
  CHECK(pause.wait_ms(2000, false) == 0);
  pause.end();
  CHECK(pause.wait_ms(2000, true) == 0);
  CHECK_FALSE(switches.has(Switches::kPause));
}

}  // namespace TEST_FILE
}  // namespace ebbtide::test
