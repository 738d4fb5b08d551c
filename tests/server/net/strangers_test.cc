// Which unauthenticated connection makes room for a new one.
#include "net/strangers.h"

#include <catch2/catch.hpp>

using namespace ebbtide;

TEST_CASE("the network with the most strangers loses its oldest; among equals the oldest of all goes") {
  Strangers strangers;
  strangers.add({1, "a", nullptr});
  strangers.add({2, "b", nullptr});
  strangers.add({3, "b", nullptr});
  strangers.add({4, "c", nullptr});
  CHECK(strangers.take_one_to_close()->client_id == 2);
  CHECK(strangers.take_one_to_close()->client_id == 1);
  strangers.remove(3);
  strangers.remove(99);
  strangers.add({5, "c", nullptr});
  CHECK(strangers.take_one_to_close()->client_id == 4);
  CHECK(strangers.take_one_to_close()->client_id == 5);
  CHECK_FALSE(strangers.take_one_to_close());
}
