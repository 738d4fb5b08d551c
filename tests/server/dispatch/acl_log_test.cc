// Tests of ACL LOG: its entries and their order.
#include "dispatch/acl_log.h"

#include <catch2/catch.hpp>

namespace TEST_FILE {

using namespace ebbtide;

AclLogEntry entry(const std::string& user, std::int64_t ms) {
  return {.context = "toplevel", .object = "AUTH", .user = user, .client = "at " + std::to_string(ms), .updated_ms = ms};
}

TEST_CASE("ACL LOG: equal failures come within a minute: one entry counts them and moves to the front") {
  AclLog log;
  log.add(entry("a", 1'000));
  log.add(entry("b", 2'000));
  log.add(entry("a", 61'000));
  const auto entries = log.newest(10);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].user == "a");
  CHECK(entries[0].count == 2);
  CHECK(entries[0].id == 0);
  CHECK(entries[0].created_ms == 1'000);
  CHECK(entries[0].updated_ms == 61'000);
  CHECK(entries[0].client == "at 61000");
  log.add(entry("b", 62'001));  // more than a minute after the first one
  CHECK(log.newest(10).size() == 3);
  CHECK(log.newest(1)[0].id == 2);
  log.reset();
  CHECK(log.newest(10).empty());
}

TEST_CASE("ACL LOG: failures are of more kinds than the log may keep: the newest entries stay") {
  AclLog log;
  for (int i = 0; i < 200; ++i) log.add(entry(std::to_string(i), 1'000));
  const auto entries = log.newest(1'000);
  REQUIRE(entries.size() == 128);
  CHECK(entries.front().user == "199");
  CHECK(entries.back().user == "72");
}

TEST_CASE("ACL LOG: its limit becomes smaller: the oldest entries are removed, or all entries for a limit of 0") {
  AclLog log;
  for (int i = 0; i < 5; ++i) log.add(entry(std::to_string(i), 1'000));
  log.set_limit(2);
  REQUIRE(log.newest(10).size() == 2);
  CHECK(log.newest(10)[0].user == "4");
  log.set_limit(0);
  log.add(entry("z", 1'000));
  CHECK(log.newest(10).empty());
}

TEST_CASE("ACL LOG: denials have different reasons: each reason has an entry, and a long key is shortened") {
  AclLog log;
  AclLogEntry denied = entry("a", 1'000);
  denied.object = std::string(5'000, 'k');
  denied.reason = AclDenial::kKey;
  log.add(denied);
  denied.reason = AclDenial::kChannel;
  log.add(denied);
  log.add(denied);
  const auto entries = log.newest(10);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].count == 2);
  CHECK(entries[1].object.size() == 1'024);
}

TEST_CASE("ACL LOG: denials are many and large: entries are charged to the memory budget, up to a part of it") {
  AclLog log;
  std::size_t charged = 0;
  log.memory.charge = [&](std::size_t bytes) { charged += bytes; };
  log.memory.release = [&](std::size_t bytes) { charged -= bytes; };
  constexpr std::uint64_t kBudget = std::uint64_t{64} << 20;
  log.set_budget(kBudget);
  log.set_limit(1'000'000);
  for (int i = 0; i < 10'000; ++i) log.add(entry(std::to_string(i) + std::string(1'000, 'u'), 1'000));  // 10 MB in all
  CHECK(log.memory_bytes() <= kBudget / AclLog::kBudgetPart);
  CHECK(log.size() > 500);
  CHECK(log.newest(1)[0].id == 9'999);
  CHECK(charged <= log.memory_bytes());
  CHECK(charged + SteppedCharge::kStep > log.memory_bytes());
  log.set_budget(kBudget / 4);
  CHECK(log.memory_bytes() <= kBudget / 4 / AclLog::kBudgetPart);
  CHECK(log.newest(1)[0].id == 9'999);
  log.set_budget(~std::uint64_t{0});
  for (int i = 0; i < 20'000; ++i) log.add(entry(std::to_string(i) + std::string(1'000, 'u'), 1'000));
  CHECK(log.memory_bytes() <= AclLog::kMostBytes);
  log.reset();
  CHECK(charged == 0);
  CHECK(log.memory_bytes() == 0);
}

TEST_CASE("ACL LOG: entry gets a longer client description: the memory of the log grows") {
  AclLog log;
  log.add(entry("a", 1'000));
  const std::size_t before = log.memory_bytes();
  AclLogEntry same = entry("a", 2'000);
  same.client = std::string(4'000, 'c');
  log.add(same);
  CHECK(log.size() == 1);
  CHECK(log.memory_bytes() >= before + 4'000);
  log.set_limit(0);
  CHECK(log.memory_bytes() == 0);
}

}  // namespace TEST_FILE
