#include "dispatch/stepped_charge.h"

#include <catch2/catch.hpp>

#include <cstddef>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("memory changes: its charge follows in whole steps, and stays if the change is smaller than a step") {
  constexpr std::size_t kStep = SteppedCharge::kStep;
  std::size_t charged = 0, calls = 0;
  SteppedCharge memory;
  memory.charge = [&](std::size_t bytes) { charged += bytes, ++calls; };
  memory.release = [&](std::size_t bytes) { charged -= bytes, ++calls; };
  memory.follow(kStep - 1);
  CHECK((charged == 0 && calls == 0));
  memory.follow(3 * kStep + 5);
  memory.follow(4 * kStep - 1);
  CHECK((charged == 3 * kStep && calls == 1));
  memory.follow(kStep);
  CHECK((charged == kStep && calls == 2));
  memory.follow(0);
  CHECK(charged == 0);
}

TEST_CASE("memory changes, and no function for charges is set: nothing is charged") {
  SteppedCharge memory;
  memory.follow(10 * SteppedCharge::kStep);
  memory.follow(0);
}

}  // namespace TEST_FILE
