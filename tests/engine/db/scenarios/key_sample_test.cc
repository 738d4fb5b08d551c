// Tests of Db::sample_keys: the error of the estimate over many seeds and overlaps of runs. DBSIZE promises 2 %.
#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/db/harness.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr int kSeeds = 25;

/// A database with about fifteen entries per page, so that tens of thousands of entries have thousands of tiles.
struct Keys : Harness {
  Keys() { open(); }

  /// Sets the keys first, first + step, ... below `last`, in a shuffled order.
  void put_all(std::uint64_t first, std::uint64_t last, std::uint64_t step = 1, Millis expiry = 0) {
    std::vector<std::uint64_t> order;
    for (std::uint64_t i = first; i < last; i += step) order.push_back(i);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.uniform(i)]);
    write_all(order, [&](WriteBatch& batch, std::uint64_t i) {
      batch.put(0, key_of(i), std::string(20, 'v'), {kNoStamp, expiry});
    });
  }
  void write_all(const std::vector<std::uint64_t>& keys, const std::function<void(WriteBatch&, std::uint64_t)>& add) {
    for (std::size_t at = 0; at < keys.size();) {
      WriteBatch batch;
      for (std::size_t i = 0; i < 100 && at < keys.size(); ++i) add(batch, keys[at++]);
      write(batch);
      settle();
    }
  }

  /// Checks that the estimate is within 2 % for every seed, and within 0.5 % on average.
  void check() {
    const auto truth = static_cast<double>(db->count(0, KeyRange{}).value());
    REQUIRE(truth > 0);
    double sum = 0, worst = 0;
    for (int seed = 1; seed <= kSeeds; ++seed) {
      const auto guess = db->sample_keys(0, static_cast<std::uint64_t>(seed));
      REQUIRE(guess.is_ok());
      const double error = static_cast<double>(guess.value()) / truth - 1;
      sum += error;
      worst = std::max(worst, std::abs(error));
    }
    INFO("truth " << truth << ", mean error " << sum / kSeeds << ", worst " << worst);
    CHECK(worst < 0.02);
    CHECK(std::abs(sum / kSeeds) < 0.005);
  }
  [[nodiscard]] std::size_t runs() const { return db->tree_info(0).value().runs.size(); }

  Random random{7};
};

TEST_CASE("one key is left among many deleted keys: the sample never estimates 0 keys", "[key_count]") {
  Keys keys;
  constexpr std::uint64_t kKeys = 60'000, kLeft = 41'234;
  keys.put_all(0, kKeys);
  REQUIRE(keys.db->flush(0).is_ok());
  std::vector<std::uint64_t> deleted;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    if (i != kLeft) deleted.push_back(i);
  }
  keys.write_all(deleted, [](WriteBatch& batch, std::uint64_t i) { batch.del(0, key_of(i)); });
  REQUIRE(keys.db->flush(0).is_ok());
  bool zero = false;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) zero |= keys.db->sample_keys(0, seed).value() == 0;
  CHECK_FALSE(zero);
  keys.write_all({kLeft}, [](WriteBatch& batch, std::uint64_t i) { batch.del(0, key_of(i)); });
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) zero |= keys.db->sample_keys(0, seed).value() != 0;
  CHECK_FALSE(zero);
}

TEST_CASE("key ranges of all runs are disjoint: the estimate from a sample is exact", "[key_count]") {
  // No two ranges overlap: each new range is before, between or after the earlier ones.
  Keys keys;
  for (const std::uint64_t first : {40'000, 0, 80'000, 20'000, 60'000}) keys.put_all(first, first + 9'000);
  REQUIRE(keys.runs() > 1);
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) CHECK(keys.db->sample_keys(0, seed).value() == 45'000);
  keys.check();
}

TEST_CASE("keys are partly overwritten: the estimate from a sample is within 2 %", "[key_count]") {
  Keys keys;
  keys.put_all(0, 60'000);
  REQUIRE(keys.db->compact(0, KeyRange{}).is_ok());
  keys.put_all(0, 60'000, 3);
  keys.put_all(10'000, 30'000, 2);
  REQUIRE(keys.runs() > 1);
  keys.check();
}

TEST_CASE("many keys are deleted, singly and by range: the estimate from a sample is within 2 %", "[key_count]") {
  Keys keys;
  keys.put_all(0, 60'000);
  REQUIRE(keys.db->compact(0, KeyRange{}).is_ok());
  std::vector<std::uint64_t> gone;
  for (std::uint64_t i = 0; i < 60'000; ++i) {
    if (keys.random.uniform(10) < 4) gone.push_back(i);
  }
  keys.write_all(gone, [](WriteBatch& batch, std::uint64_t i) { batch.del(0, key_of(i)); });
  keys.del_range(0, key_of(50'000), key_of(56'000));
  keys.put_all(52'000, 54'000);
  REQUIRE(keys.runs() > 1);
  keys.check();
}

TEST_CASE("many keys have expired: the estimate from a sample is within 2 %", "[key_count]") {
  Keys keys;
  const Millis soon = keys.db->now() + 1000;
  keys.put_all(0, 30'000);
  keys.put_all(30'000, 60'000, 1, soon);
  keys.put_all(0, 30'000, 5, soon);
  keys.advance(2000);
  keys.check();
}

TEST_CASE("six of seven keys are deleted: the estimate from a sample is within 2 %", "[key_count]") {
  Keys keys;
  keys.put_all(0, 50'000);
  REQUIRE(keys.db->compact(0, KeyRange{}).is_ok());
  std::vector<std::uint64_t> gone;
  for (std::uint64_t i = 0; i < 50'000; ++i) {
    if (i % 7 != 0) gone.push_back(i);
  }
  keys.write_all(gone, [](WriteBatch& batch, std::uint64_t i) { batch.del(0, key_of(i)); });
  keys.check();
}

TEST_CASE("keys are sampled: the sample does not count as gets or as lookups of filters", "[key_count]") {
  Keys keys;
  keys.put_all(0, 5'000);
  REQUIRE(keys.db->flush(0).is_ok());
  const auto before = keys.db->stats();
  CHECK(keys.db->sample_keys(0, 1).value() == 5'000);
  const auto after = keys.db->stats();
  CHECK(after.gets == before.gets);
  CHECK(after.filter_negatives == before.filter_negatives);
}

TEST_CASE("database is empty or not flushed: the estimate from a sample is exact", "[key_count]") {
  Keys keys;
  CHECK(keys.db->sample_keys(3, 1).value() == 0);
  keys.put(0, "a", "1");
  keys.put(0, "a", "2");
  keys.put(0, "b", "1");
  keys.del(0, "b");
  CHECK(keys.db->sample_keys(0, 1).value() == 1);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
