#include "dispatch/expiry_watch.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <engine/db.h>
#include <catch2/catch.hpp>

#include "store/collection/large.h"

namespace ebbtide {
namespace TEST_FILE {

std::vector<ExpiryWatch::Key> take_due(ExpiryWatch& watch, Millis now) {
  std::vector<ExpiryWatch::Key> out;
  while (auto key = watch.take_first_due(now)) out.push_back(std::move(*key));
  return out;
}

std::vector<std::string> due(ExpiryWatch& watch, Millis now) {
  std::vector<std::string> out;
  for (const auto& key : take_due(watch, now)) out.push_back(std::to_string(key.database) + ":" + key.key);
  std::sort(out.begin(), out.end());
  return out;
}

using Keys = std::vector<std::string>;

TEST_CASE("expiry watch: key with an expiry is written: the key is reported once, at its last expiry") {
  ExpiryWatch watch;
  watch.written(0, "before", 100, 0);  // the watch is off
  watch.set_mode(true, false, 0);
  watch.written(0, "a", 100, 0);
  watch.written(1, "a", 100, 0);
  watch.written(0, "b", 200, 0);
  watch.written(0, "kept", 100, 0);
  watch.written(0, "kept", 0, 0);
  watch.written(0, "moved", 100, 0);
  watch.written(0, "moved", 300, 0);
  CHECK(due(watch, 99).empty());
  CHECK(due(watch, 100) == Keys{"0:a", "1:a"});
  CHECK(due(watch, 200) == Keys{"0:b"});
  CHECK(due(watch, 1000) == Keys{"0:moved"});
  CHECK(due(watch, 1000).empty());
}

TEST_CASE("expiry watch: field of a hash expires: the field is reported, and 1 ms later the end of a hash without fields") {
  ExpiryWatch watch;
  watch.set_mode(true, true, 0);
  ElementKeys elements("h", 7);
  const std::string field = elements.of(ElementClass::kExpiry, expiry_name(100, "f"));
  const auto sweep = watch.begin_sweep(50);
  REQUIRE(sweep);
  watch.found(0, std::vector<ExpiringKey>{{"h", 100}, {elements.of(ElementClass::kField, "f"), 100}, {field, 100}, {"own", 100}});
  watch.end_sweep(sweep->until);
  CHECK(ExpiryWatch::hash_of_field(field) == Bytes("h"));
  CHECK_FALSE(ExpiryWatch::hash_of_field("h"));
  CHECK(due(watch, 100) == Keys{"0:" + field, "0:own"});
  CHECK(due(watch, 101) == Keys{"0:" + ExpiryWatch::end_of_fields("h")});
}

TEST_CASE("expiry watch: key had expired when it was written: it is reported although no sweep finds it") {
  ExpiryWatch watch;
  watch.set_mode(true, true, 1000);
  watch.written(0, "dead", 1001, 1001);
  watch.written(0, "alive", 1002, 1001);
  CHECK(due(watch, 1100) == Keys{"0:dead"});
  const auto sweep = watch.begin_sweep(1100);
  REQUIRE(sweep);
  watch.found(0, "alive", 1002);
  watch.end_sweep(sweep->until);
  CHECK(due(watch, 1100) == Keys{"0:alive"});
}

TEST_CASE("expiry watch: command accesses an expired key: the key is reported at this access, and only once") {
  ExpiryWatch watch;
  watch.set_mode(true, false, 0);
  watch.written(0, "a", 100, 0);
  CHECK_FALSE(watch.is_due(0, "a", 99));
  CHECK_FALSE(watch.take_due(0, "a", 99));
  CHECK(watch.is_due(0, "a", 100));
  CHECK(watch.take_due(0, "a", 100));
  CHECK_FALSE(watch.is_due(0, "a", 100));
  CHECK_FALSE(watch.take_due(0, "a", 100));
  CHECK(due(watch, 1000).empty());
}

TEST_CASE("expiry watch: range or database is deleted, or the watch is switched off: the keys are not reported") {
  ExpiryWatch watch;
  watch.set_mode(true, false, 0);
  for (const char* key : {"a", "b", "c", "d"}) watch.written(0, key, 100, 0);
  watch.written(1, "b", 100, 0);
  watch.range_deleted(0, "b", "d");
  CHECK(due(watch, 100) == Keys{"0:a", "0:d", "1:b"});
  watch.written(0, "a", 200, 0);
  watch.range_deleted(0, "", "");
  CHECK(due(watch, 200).empty());
  watch.written(0, "a", 300, 0);
  watch.databases_changed();
  CHECK(due(watch, 300).empty());
  watch.written(0, "a", 400, 0);
  watch.set_mode(false, false, 300);
  watch.set_mode(true, false, 300);
  CHECK(due(watch, 400).empty());
}

TEST_CASE("expiry watch: key is written during a sweep: the key's new expiry counts, not the one that the sweep finds") {
  ExpiryWatch watch;
  watch.set_mode(true, true, 1000);
  const auto sweep = watch.begin_sweep(1000);
  REQUIRE(sweep);
  CHECK(sweep->after == 1000);
  CHECK(sweep->until == 1000 + ExpiryWatch::kHorizon);
  CHECK_FALSE(watch.begin_sweep(1000));  // there is one sweep at a time
  watch.written(0, "deleted", 0, 0);
  watch.written(0, "new", 1200, 0);
  watch.written(0, "far", 1000 + 2 * ExpiryWatch::kHorizon, 0);
  watch.found(0, "deleted", 1100);
  watch.found(0, "old", 1100);
  watch.end_sweep(sweep->until);
  CHECK(due(watch, 1500) == Keys{"0:new", "0:old"});
  CHECK_FALSE(watch.begin_sweep(2000));
  // The next sweep finds a key that expires beyond the horizon.
  const Millis later = 1000 + ExpiryWatch::kHorizon - 1000;
  const auto next = watch.begin_sweep(later);
  REQUIRE(next);
  CHECK(next->after == sweep->until);
  watch.end_sweep(std::nullopt);  // the sweep failed
  CHECK(watch.begin_sweep(later)->after == sweep->until);
}

TEST_CASE("expiry watch: keys exceed its limit: it keeps those that expire first, and a later sweep finds the others") {
  ExpiryWatch watch;
  watch.set_mode(true, true, 0);
  const auto sweep = watch.begin_sweep(0);
  REQUIRE(sweep);
  for (std::size_t i = 0; i < ExpiryWatch::kMaxKeys + 10; ++i) {
    watch.found(0, std::to_string(i), 10'000 + static_cast<Millis>(i) / 10);
  }
  watch.end_sweep(sweep->until);
  const std::size_t told = take_due(watch, ExpiryWatch::kHorizon).size();
  CHECK(told <= ExpiryWatch::kMaxKeys);
  CHECK(told >= ExpiryWatch::kMaxKeys - 10);
  const auto next = watch.begin_sweep(ExpiryWatch::kHorizon);
  REQUIRE(next);
  CHECK(next->after >= 10'000 + static_cast<Millis>(ExpiryWatch::kMaxKeys) / 10 - 2);
  CHECK(next->after < 10'000 + static_cast<Millis>(ExpiryWatch::kMaxKeys + 10) / 10);
}

TEST_CASE("expiry watch: too many keys expire at one moment: some are reported, and the next sweep begins after them") {
  ExpiryWatch watch;
  watch.set_mode(true, true, 1000);
  const auto sweep = watch.begin_sweep(1000);
  REQUIRE(sweep);
  for (std::size_t i = 0; i < ExpiryWatch::kMaxKeys + 10; ++i) watch.found(0, std::to_string(i), 5000);
  watch.end_sweep(sweep->until);
  CHECK(due(watch, 5000).size() == ExpiryWatch::kMaxKeys);
  const auto next = watch.begin_sweep(20'000);
  REQUIRE(next);
  CHECK(next->after == 5000);
}

TEST_CASE("expiry watch: range is deleted during a sweep: its keys are not reported, and the sweep is repeated") {
  ExpiryWatch watch;
  watch.set_mode(true, true, 0);
  const auto sweep = watch.begin_sweep(0);
  REQUIRE(sweep);
  watch.range_deleted(0, "a", "b");
  watch.found(0, "a1", 100);
  watch.end_sweep(sweep->until);
  CHECK(due(watch, 1000).empty());
  const auto again = watch.begin_sweep(10);
  REQUIRE(again);
  CHECK(again->after < 100);
}

TEST_CASE("expiry watch: long keys exceed its memory: it keeps those that expire first") {
  constexpr std::size_t kKeyBytes = std::size_t{1} << 20, kFit = ExpiryWatch::kMaxBytes / kKeyBytes;
  ExpiryWatch watch;
  watch.set_mode(true, false, 0);
  std::string key(kKeyBytes, 'k');
  for (std::size_t i = 0; i < 2 * kFit; ++i) {
    key[0] = static_cast<char>(i);
    watch.written(0, key, 100 + i, 0);
  }
  const auto told = take_due(watch, 1000);
  CHECK(told.size() < kFit);
  CHECK(told.size() > kFit - 3);
  CHECK(told.front().key[0] == '\0');
}

TEST_CASE("expiry watch: too many keys are written during a sweep: the sweep's results are dropped, and it is repeated") {
  constexpr std::size_t kKeyBytes = std::size_t{1} << 20;
  ExpiryWatch watch;
  watch.set_mode(true, true, 0);
  const auto sweep = watch.begin_sweep(0);
  REQUIRE(sweep);
  std::string key(kKeyBytes, 'k');
  for (std::size_t i = 0; i <= ExpiryWatch::kMaxBytes / kKeyBytes; ++i) {
    key[0] = static_cast<char>(i);
    watch.written(0, key, 0, 0);
  }
  watch.found(0, key, 100);
  CHECK(take_due(watch, 1000).empty());
  watch.end_sweep(sweep->until);
  const auto again = watch.begin_sweep(10);
  REQUIRE(again);
  CHECK(again->after < 100);
  watch.found(0, "a", 100);
  watch.end_sweep(again->until);
  CHECK(due(watch, 1000) == Keys{"0:a"});
}

}  // namespace TEST_FILE
}  // namespace ebbtide
