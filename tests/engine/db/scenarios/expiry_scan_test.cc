// Tests of the scan for keys that expire soon, in memtables and tables. It must find only current versions.
#include <map>

#include "engine/db/harness.h"

namespace TEST_FILE {

using namespace ebbtide;

using Keys = std::map<std::string, Millis>;

struct Expiring {
  Keys keys;
  Millis until = 0;
};

Expiring expiring(Harness& h, Millis after, Millis until, std::size_t limit = 1000) {
  std::vector<ExpiringKey> found;
  const auto reached = h.db->expiring_keys(0, after, until, limit, &found);
  REQUIRE(reached.is_ok());
  Expiring out{{}, *reached};
  for (const ExpiringKey& each : found) CHECK(out.keys.emplace(each.key, each.expiry).second);
  return out;
}

TEST_CASE("keys expire within a range of times: a scan of that range finds them, past or future, in memory and in tables") {
  Harness h;
  h.open();
  const Millis now = h.db->now();
  h.put(0, "never", "v");
  h.put(0, "sooner", "v", now + 999);
  h.put(0, "first", "v", now + 1001);
  h.put(0, "last", std::string(kLargeValueBytes + 1, 'v'), now + 2000);
  h.put(0, "later", "v", now + 2001);
  h.put(0, "longer", "v", now + 1500);
  h.put(0, "shorter", "v", now + 9000);
  h.put(0, "kept", "v", now + 1500);
  h.put(0, "deleted", "v", now + 1500);
  h.put(1, "elsewhere", "v", now + 1500);
  const bool flushed = GENERATE(false, true);
  if (flushed) REQUIRE(h.db->flush(0).is_ok());
  h.put(0, "longer", "w", now + 9000);
  h.put(0, "shorter", "w", now + 1600);
  h.put(0, "kept", "w");
  h.del(0, "deleted");
  const Keys expected{{"first", now + 1001}, {"last", now + 2000}, {"shorter", now + 1600}};
  for (int round = 0; round < 2; ++round) {
    const Expiring found = expiring(h, now + 1000, now + 2000);
    CHECK(found.keys == expected);
    CHECK(found.until == now + 2000);
    h.clock.advance(3000);  // all of these have expired now
  }
}

TEST_CASE("range delete deletes a key with an expiry: scans of expiries do not find the key any more") {
  Harness h;
  h.settings.tree.stamp = StampMode::kExplicit;
  h.open();
  const Millis now = h.db->now();
  for (const char* key : {"a", "b", "c"}) {
    WriteBatch batch;
    batch.put(0, key, "v", {static_cast<DeleteKey>(key[0]), now + 500});
    h.write(batch);
  }
  h.del_range(0, "a", "b");
  WriteBatch batch;
  batch.delete_stamps(0, 'c', 'c' + 1);
  h.write(batch);
  for (int round = 0; round < 3; ++round) {
    CHECK(expiring(h, now, now + 1000).keys == Keys{{"b", now + 500}});
    if (round == 0) REQUIRE(h.db->flush(0).is_ok());
    if (round == 1) h.clock.advance(700);
  }
}

TEST_CASE("scan of expiries is limited: it returns the earliest keys, and repeated scans find all") {
  Harness h;
  h.open();
  const Millis now = h.db->now();
  Keys all;
  for (int i = 0; i < 100; ++i) {
    const std::string key = "key" + std::to_string(i);
    all[key] = now + 10 + static_cast<Millis>(i * 37 % 100 / 4);  // four keys at each moment
    h.put(0, key, "v", all[key]);
    if (i == 50) REQUIRE(h.db->flush(0).is_ok());
  }
  Keys seen;
  int rounds = 0;
  for (Millis after = now; after < now + 1000; ++rounds) {
    const Expiring found = expiring(h, after, now + 1000, 10);
    REQUIRE(found.keys.size() <= 10);
    REQUIRE(found.until > after);
    for (const auto& [key, expiry] : found.keys) {
      CHECK(expiry > after);
      CHECK(expiry <= found.until);
      CHECK(seen.emplace(key, expiry).second);
    }
    after = found.until;
  }
  CHECK(seen == all);
  CHECK(rounds > 10);
}

TEST_CASE("more keys than the limit expire at one moment: the next scan continues after that moment") {
  Harness h;
  h.open();
  const Millis now = h.db->now();
  for (int i = 0; i < 50; ++i) h.put(0, "key" + std::to_string(i), "v", now + 100);
  h.put(0, "after", "v", now + 200);
  const Expiring crowd = expiring(h, now, now + 1000, 10);
  CHECK(crowd.keys.size() == 10);
  CHECK(crowd.until == now + 100);
  CHECK(expiring(h, crowd.until, now + 1000, 10).keys == Keys{{"after", now + 200}});
}

}  // namespace TEST_FILE
