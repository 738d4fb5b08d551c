// Tests of the scan for keys by stamp: only current entries, a limited number at a time.
#include "db/read/stamp_scan.h"

#include <catch2/catch.hpp>

#include "engine/db/read/read_fixture.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

constexpr std::uint64_t kManyPages = 1'000'000;

std::vector<std::string> scanned(const ReadView& view, DeleteKey lo, DeleteKey hi, std::size_t max_keys = 1000) {
  std::vector<std::string> keys;
  std::string from;
  for (bool more = true; more;) {
    const auto found = scan_stamps(view, lo, hi, from, max_keys, kManyPages);
    REQUIRE(found.is_ok());
    CHECK(found->keys.size() <= max_keys);
    for (const auto& key : found->keys) keys.push_back(key.key);
    more = found->more;
    if (more) CHECK(found->resume > from);
    from = found->resume;
  }
  return keys;
}

TEST_CASE("keys in memtables and tables have stamps: a scan by stamp finds a key by the stamp of its current entry") {
  ReadFixture f;
  f.pages_per_tile = GENERATE(1u, 4u);
  f.put("a", "v", {.stamp = 10});
  f.put("b", "v", {.stamp = 20});
  f.put("c", "v", {.stamp = 15});
  f.put("d", "v", {.stamp = 15});
  f.put("e", "v", {.stamp = 15});
  f.flush();
  f.put("c", "v", {.stamp = 99});  // its old stamp must not count
  f.put("b", "v", {.stamp = 12});
  f.del("d");
  f.put("f", "v", {.stamp = 19});
  CHECK(scanned(f.leased_view(), 10, 20) == std::vector<std::string>{"a", "b", "e", "f"});
  CHECK(scanned(f.leased_view(), 20, 20).empty());
}

TEST_CASE("scan by stamp returns few keys at a time: repeated scans find each key once, in order") {
  ReadFixture f;
  std::vector<std::string> expected;
  for (int i = 0; i < 300; ++i) {
    f.put(numbered(i), "v", {.stamp = static_cast<DeleteKey>(i % 7)});
    if (i % 7 >= 2 && i % 7 < 4) expected.push_back(numbered(i));
    if (i == 150) f.flush();
  }
  CHECK(scanned(f.leased_view(), 2, 4, GENERATE(1u, 10u)) == expected);
}

TEST_CASE("scan by stamp ends: the pages that it read are counted, and its lookups as gets") {
  ReadFixture f;
  for (int i = 0; i < 300; ++i) f.put(numbered(i), "v", {.stamp = static_cast<DeleteKey>(i)});
  f.flush();
  const auto found = scan_stamps(f.leased_view(), 0, 1000, "", 1000, kManyPages);
  REQUIRE(found.is_ok());
  CHECK(found->pages_read == f.table().reader->page_count());
  CHECK(f.env.counters.mine().gets == 300);
}

TEST_CASE("keys in a range of stamps are estimated: pages that a delete by stamp covers are left out") {
  ReadFixture f;
  for (int i = 0; i < 1000; ++i) f.put(numbered(i), "v", {.stamp = static_cast<DeleteKey>(i)});
  CHECK(estimate_stamps(f.leased_view(), 100, 600) == 500);
  f.flush();
  CHECK(estimate_stamps(f.leased_view(), 100, 600) == Approx(500).epsilon(0.05));
  f.del_stamps(0, 300);
  CHECK(estimate_stamps(f.leased_view(), 100, 600) == Approx(300).epsilon(0.2));
  CHECK(estimate_stamps(f.leased_view(), 600, 600) == 0);
}

}  // namespace TEST_FILE
