// Tests of the set of watched keys.
#include "dispatch/transaction.h"

#include <catch2/catch.hpp>

#include <string>

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("key is watched again: its first version stays, but the same name in another database is another key") {
  WatchedKeys watched;
  CHECK((watched.size() == 0 && watched.begin() == watched.end()));
  CHECK_FALSE(watched.contains({0, "a"}));
  {
    std::string key = "a key that is longer than a string object keeps inside";
    watched.add({1, key}, {.hash = 7, .seen_seq = 5});
    key.assign(key.size(), 'x');
  }
  watched.add({0, "a"}, {.seen_seq = 1});
  watched.add({0, "a"}, {.seen_seq = 2});
  CHECK(watched.size() == 2);
  CHECK(watched.contains({1, "a key that is longer than a string object keeps inside"}));
  CHECK_FALSE(watched.contains({1, "a"}));
  CHECK(watched.begin()->second.seen_seq == 1);
  watched.clear();
  CHECK((watched.size() == 0 && !watched.contains({0, "a"})));
  watched.add({0, "b"}, {});
  CHECK(watched.contains({0, "b"}));
}

}  // namespace TEST_FILE
