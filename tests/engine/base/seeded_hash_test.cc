// Tests of the hash for tables in memory: keys that share a bucket under one seed do not under another.
#include <engine/seeded_hash.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::size_t kBuckets = 1024;

// Returns how many of the keys share the fullest bucket.
std::size_t fullest_bucket(const std::vector<std::string>& keys) {
  std::vector<std::size_t> counts(kBuckets);
  for (const std::string& key : keys) ++counts[SeededHash{}(key) % kBuckets];
  return *std::max_element(counts.begin(), counts.end());
}

TEST_CASE("keys share a bucket under one seed: under another seed they are spread over the buckets") {
  std::vector<std::string> keys;
  for (int i = 0; keys.size() < 1000; ++i) {
    std::string key = "k" + std::to_string(i);
    if (SeededHash{}(key) % kBuckets == 0) keys.push_back(std::move(key));
  }
  REQUIRE(fullest_bucket(keys) == keys.size());
  seed_hash_tables(0x1234567890abcdef);
  const std::size_t seeded = fullest_bucket(keys);
  seed_hash_tables(0);
  CHECK(seeded < 16);
}

}  // namespace TEST_FILE
