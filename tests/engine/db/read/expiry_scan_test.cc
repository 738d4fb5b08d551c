// Tests of the scan for keys that expire in a period: it finds only current entries, the earliest first.
#include "db/read/expiry_scan.h"

#include <catch2/catch.hpp>

#include <map>

#include "engine/db/read/read_fixture.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

struct Expiring {
  std::map<std::string, Millis> keys;
  Millis until = 0;
};

Expiring expiring(const ReadView& view, Millis after, Millis until, std::size_t limit = 1000) {
  std::vector<ExpiringKey> found;
  Expiring out;
  out.until = expiring_keys(view, after, until, limit, &found).value();
  for (const ExpiringKey& each : found) CHECK(out.keys.emplace(each.key, each.expiry).second);
  return out;
}

TEST_CASE("scan of expiries covers a period: it finds keys that expire after its start and up to its end") {
  ReadFixture f;
  const Millis now = f.now;
  f.put("never", "v");
  f.put("sooner", "v", {.expiry = now + 100});
  f.put("first", "v", {.expiry = now + 101});
  f.put("last", "v", {.expiry = now + 200});
  f.put("later", "v", {.expiry = now + 201});
  f.put("longer", "v", {.expiry = now + 150});
  f.put("shorter", "v", {.expiry = now + 900});
  f.put("deleted", "v", {.expiry = now + 150});
  if (GENERATE(false, true)) f.flush();
  f.put("longer", "w", {.expiry = now + 900});
  f.put("shorter", "w", {.expiry = now + 160});
  f.del("deleted");
  for (int round = 0; round < 2; ++round) {
    const Expiring found = expiring(f.leased_view(), now + 100, now + 200);
    CHECK(found.keys == std::map<std::string, Millis>{{"first", now + 101}, {"last", now + 200}, {"shorter", now + 160}});
    CHECK(found.until == now + 200);
    f.now = now + 300;  // all of them have expired
  }
}

TEST_CASE("scan of expiries has a limit: it returns the earliest keys, and the time up to which these are complete") {
  ReadFixture f;
  for (int i = 0; i < 20; ++i) f.put(numbered(i), "v", {.expiry = f.now + 10 + static_cast<Millis>(i / 4)});
  const Expiring found = expiring(f.leased_view(), f.now, f.now + 1000, 10);
  CHECK(found.keys.size() == 8);  // there is no room for the keys of a third moment
  CHECK(found.until == f.now + 11);
  const Expiring crowd = expiring(f.leased_view(), f.now, f.now + 1000, 3);
  CHECK(crowd.keys.size() == 3);
  CHECK(crowd.until == f.now + 10);
}

TEST_CASE("view is revoked: the scan of expiries ends with kRevoked") {
  ReadFixture f;
  f.put("k", "v", {.expiry = f.now + 10});
  const ReadView view = f.leased_view();
  f.leases.revoke_if([](const TreeView&) { return true; });
  std::vector<ExpiringKey> found;
  CHECK(expiring_keys(view, 0, f.now + 100, 10, &found).status().code() == Code::kRevoked);
}

}  // namespace TEST_FILE
