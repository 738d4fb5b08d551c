#include "dispatch/key_locks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/random.h"

namespace TEST_FILE {

using namespace ebbtide;

bool ascends(std::span<const std::uint16_t> stripes) {
  return std::adjacent_find(stripes.begin(), stripes.end(), std::greater_equal<>()) == stripes.end();
}

TEST_CASE("command has several keys: it locks their stripes in ascending order, each once") {
  KeyLocks locks(2);
  {
    const KeyLocks::Guard guard(locks, std::vector<std::uint16_t>{900, 3, 700, 42});
    const auto taken = guard.stripes();
    REQUIRE(std::vector(taken.begin(), taken.end()) == std::vector<std::uint16_t>{3, 42, 700, 900});
  }
  Random random(1);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::string> names;
    for (std::uint64_t n = 2 + random.uniform(20); n > 0; --n) names.push_back("key" + std::to_string(random.uniform(50)));
    std::vector<LookupKey> keys;
    for (const std::string& name : names) keys.push_back({name, hash_key(name)});
    const KeyLocks::Guard guard(locks, keys, 7);
    REQUIRE(ascends(guard.stripes()));
    for (const LookupKey& key : keys) {
      const auto held = guard.stripes();
      CHECK(std::binary_search(held.begin(), held.end(), KeyLocks::stripe_of(key, 7)));
    }
  }
}

}  // namespace TEST_FILE
