// Tests of the number of keys from a sample: exact if every entry is current, otherwise close, and never 0 by chance.
#include "db/read/key_sample.h"

#include <catch2/catch.hpp>

#include "engine/db/read/read_fixture.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

TEST_CASE("nothing was overwritten: sample_keys() returns the exact number of keys, in memtables and tables") {
  ReadFixture f;
  for (int i = 0; i < 3000; ++i) f.put(numbered(i), "value");
  f.flush();
  for (int i = 3000; i < 3100; ++i) f.put(numbered(i), "value");
  CHECK(sample_keys(f.leased_view(), GENERATE(1u, 2u, 3u)).value() == 3100);
}

TEST_CASE("entries are overwritten, deleted or expired: sample_keys() does not count them") {
  ReadFixture f;
  for (int i = 0; i < 3000; ++i) f.put(numbered(i), "value", {.expiry = i % 3 == 0 ? f.now : 0});
  f.flush();
  for (int i = 0; i < 3000; i += 3) f.put(numbered(i + 1), "again");
  f.flush();
  f.del(numbered(2));
  CHECK(sample_keys(f.leased_view(), 1).value() == Approx(1999).epsilon(0.03));
}

TEST_CASE("all sampled entries are deleted: sample_keys() returns 0 only if no key is left in the tree") {
  ReadFixture f;
  for (int i = 0; i < 200; ++i) f.put(numbered(i), "value");
  f.flush();
  f.del_range("a", "z");
  CHECK(sample_keys(f.leased_view(), 1).value() == 0);
  f.put("key", "value");
  CHECK(sample_keys(f.leased_view(), 1).value() == 1);
}

TEST_CASE("view is revoked: sample_keys() ends with kRevoked, and is not counted as a get") {
  ReadFixture f;
  for (int i = 0; i < 200; ++i) f.put(numbered(i), "value");
  f.flush();
  const ReadView view = f.leased_view();
  CHECK(sample_keys(view, 1).is_ok());
  CHECK(f.env.counters.mine().gets == 0);
  f.leases.revoke_if([](const TreeView&) { return true; });
  CHECK(sample_keys(view, 1).status().code() == Code::kRevoked);
}

}  // namespace TEST_FILE
