// Tests of the choice of the unauthenticated connection that makes room for a new one.
#include "net/strangers.h"

#include <catch2/catch.hpp>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("unauthenticated connections are too many: the oldest of the network with the most of them is closed") {
  Strangers strangers;
  strangers.add({1, "a", "a", nullptr});
  strangers.add({2, "b", "b", nullptr});
  strangers.add({3, "b", "b", nullptr});
  strangers.add({4, "c", "c", nullptr});
  CHECK(strangers.take_one_to_close()->client_id == 2);
  CHECK(strangers.take_one_to_close()->client_id == 1);
  strangers.remove(3);
  strangers.remove(99);
  strangers.add({5, "c", "c", nullptr});
  CHECK(strangers.take_one_to_close()->client_id == 4);
  CHECK(strangers.take_one_to_close()->client_id == 5);
  CHECK_FALSE(strangers.take_one_to_close());
}

TEST_CASE("unauthenticated client has closed its sending side: it is disconnected before others of its host") {
  Strangers strangers;
  strangers.add({1, "a", "a", nullptr});
  strangers.add({2, "a", "a", nullptr});
  strangers.add({3, "b", "b", nullptr});
  strangers.add({4, "a", "a", nullptr});
  strangers.end(3);
  strangers.end(4);
  strangers.end(4);
  strangers.end(99);
  CHECK(strangers.take_one_to_close()->client_id == 4);
  CHECK(strangers.take_one_to_close()->client_id == 1);
  CHECK(strangers.take_one_to_close()->client_id == 2);
  CHECK(strangers.take_one_to_close()->client_id == 3);
  CHECK_FALSE(strangers.take_one_to_close());
}

TEST_CASE("one host has many unauthenticated connections: those of other hosts in its network are not closed") {
  Strangers strangers;
  strangers.add({1, "net/64", "net::1", nullptr});
  strangers.add({2, "other", "other", nullptr});
  strangers.end(1);
  strangers.end(2);
  for (std::uint64_t id = 3; id < 130; ++id) strangers.add({id, "net/64", "net::2", nullptr});
  for (std::uint64_t id = 3; id < 128; ++id) REQUIRE(strangers.take_one_to_close()->client_id == id);
}

}  // namespace TEST_FILE
