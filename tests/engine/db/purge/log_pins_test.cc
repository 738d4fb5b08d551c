// Tests of which segments pins keep, and which pins are revoked.
#include "db/purge/log_pins.h"

#include <catch2/catch.hpp>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("segments are pinned: oldest() is the first segment of the oldest pin, until that pin is removed") {
  LogPins pins;
  CHECK(pins.oldest() == std::numeric_limits<FileNum>::max());
  const auto newer = pins.pin(7, 9);
  const auto older = pins.pin(4, 5);
  CHECK(pins.oldest() == 4);
  pins.unpin(older);
  CHECK(pins.oldest() == 7);
  pins.unpin(older);  // removed already: no effect
  CHECK(pins.oldest() == 7);
  pins.unpin(newer);
  CHECK(pins.oldest() == std::numeric_limits<FileNum>::max());
}

TEST_CASE("segments must be removed: pins that contain one of them, at an end or inside, are revoked") {
  LogPins pins;
  const auto pin = pins.pin(4, 6);
  const auto other = pins.pin(8, 9);
  pins.revoke(std::vector<FileNum>{3, 7});
  CHECK_FALSE((pin->revoked() || other->revoked()));
  const FileNum segment = GENERATE(4, 5, 6);
  pins.revoke(std::vector<FileNum>{segment, 10});
  CHECK((pin->revoked() && !other->revoked()));
}

TEST_CASE("pin is revoked: oldest() still includes its segments, until the holder removes the pin") {
  LogPins pins;
  const auto pin = pins.pin(4, 6);
  pins.revoke(std::vector<FileNum>{5});
  CHECK((pin->revoked() && pins.oldest() == 4));
}

}  // namespace TEST_FILE
