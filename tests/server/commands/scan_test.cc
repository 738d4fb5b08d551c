#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <string>

#include "commands/families.h"
#include "server/dispatch/manual_offload.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

struct Page {
  std::string cursor;
  std::vector<std::string> keys;
};

/// Makes one SCAN call with these options.
Page scan(CommandHarness& server, const std::string& cursor, std::vector<std::string> options = {}) {
  std::vector<std::string> argv{"SCAN", cursor};
  argv.insert(argv.end(), options.begin(), options.end());
  const std::string resp = server.raw(argv);
  INFO(resp);
  REQUIRE(resp.starts_with("*2\r\n$"));
  Page page;
  Bytes rest = Bytes(resp).substr(4);
  take_line(&rest);
  page.cursor = take_line(&rest);
  const std::size_t n = std::stoul(take_line(&rest).substr(1));
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t size = std::stoul(take_line(&rest).substr(1));
    page.keys.emplace_back(rest.substr(0, size));
    rest.remove_prefix(size + 2);
  }
  return page;
}

std::size_t bucket_of_scan(std::uint64_t steps) {
  std::size_t i = 0;
  while (i < kScanBounds.size() && steps > kScanBounds[i]) ++i;
  return i;
}

std::vector<std::string> scan_all(CommandHarness& server, const std::vector<std::string>& options, int* calls = nullptr) {
  std::vector<std::string> keys;
  Page page{"0", {}};
  do {
    page = scan(server, page.cursor, options);
    keys.insert(keys.end(), page.keys.begin(), page.keys.end());
    if (calls != nullptr) ++*calls;
  } while (page.cursor != "0");
  return keys;
}

TEST_CASE("client calls SCAN until the cursor is 0: it gets every key once, in pages of COUNT keys") {
  CommandHarness server(command_families());
  std::set<std::string> expected;
  for (int i = 0; i < 137; ++i) {
    const std::string key = "key:" + std::to_string(i) + (i % 3 == 0 ? std::string("\0x", 2) : "");
    server.raw({"SET", key, "v"});
    expected.insert(key);
    if (i == 60) REQUIRE(server("TREE.FLUSH") == "OK");
  }
  int calls = 0;
  const auto keys = scan_all(server, {}, &calls);
  CHECK(std::set<std::string>(keys.begin(), keys.end()) == expected);
  CHECK(keys.size() == expected.size());
  CHECK(calls == 14);
  CHECK(scan_all(server, {"COUNT", "1000"}, &calls).size() == 137);
  CHECK(calls == 15);
  CHECK(scan_all(server, {"MATCH", "key:1?"}) ==
        std::vector<std::string>{"key:10", "key:11", "key:13", "key:14", "key:16", "key:17", "key:19"});
  CHECK(scan_all(server, {"MATCH", "nothing*"}).empty());
  CHECK(scan_all(server, {"TYPE", "string"}).size() == 137);
  CHECK(scan_all(server, {"TYPE", "hash"}).empty());
}

TEST_CASE("other clients write during a SCAN: SCAN returns every key that exists throughout") {
  CommandHarness server(command_families());
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) server.raw({"SET", "stay:" + std::to_string(i), "v"});
  std::set<std::string> seen;
  Page page{"0", {}};
  do {
    page = scan(server, page.cursor, {"COUNT", "7"});
    seen.insert(page.keys.begin(), page.keys.end());
    for (int i = 0; i < 5; ++i) {
      server.raw({"SET", "come:" + std::to_string(random() % 100), "v"});
      server.raw({"DEL", "come:" + std::to_string(random() % 100)});
      server.raw({"SET", "stay:" + std::to_string(random() % 200), "w"});
    }
    if (random() % 10 == 0) REQUIRE(server("TREE.FLUSH") == "OK");
  } while (page.cursor != "0");
  for (int i = 0; i < 200; ++i) CHECK(seen.contains("stay:" + std::to_string(i)));
}

TEST_CASE("MATCH begins with literal text: SCAN reads only keys that begin with this text, in one call") {
  CommandHarness server(command_families());
  for (int i = 0; i < 500; ++i) server.raw({"SET", "a:" + std::to_string(i), "v"});
  server.raw({"SET", "b:1", "v"});
  const Page page = scan(server, "0", {"MATCH", "b:*"});
  CHECK(page.cursor == "0");
  CHECK(page.keys == std::vector<std::string>{"b:1"});
}

TEST_CASE("SCAN reads keys and deleted entries: each call counts both as steps of the scan") {
  CommandHarness server(command_families());
  CHECK(scan(server, "0").keys.empty());
  CHECK(server.stats.scans().steps == 0);
  CHECK(server.stats.scans().buckets[0] == 1);
  for (int i = 100; i < 300; ++i) server.raw({"SET", "k" + std::to_string(i), "v"});
  Page page = scan(server, "0", {"COUNT", "50"});
  CHECK(server.stats.scans().steps == 50);
  CHECK(server.stats.scans().buckets[bucket_of_scan(50)] == 1);
  for (int i = 150; i < 250; ++i) server.raw({"DEL", "k" + std::to_string(i)});
  page = scan(server, page.cursor, {"COUNT", "50"});
  CHECK(page.keys.size() == 50);
  CHECK(server.stats.scans().steps >= 50 + 100 + 50);  // the tombstones, and the entries that they hide
  CHECK(server.stats.scans().buckets[bucket_of_scan(150)] == 1);
  // Keys that do not match count, too, and so do the keys of a SCAN inside a transaction.
  const std::uint64_t before = server.stats.scans().steps;
  server("MULTI");
  server("SCAN 0 COUNT 20 MATCH *7");
  server("EXEC");
  CHECK(server.stats.scans().steps == before + 20);
}

TEST_CASE("SCAN gets a cursor again: it returns the same page, or an error if another database is selected") {
  CommandHarness server(command_families());
  for (int i = 0; i < 50; ++i) server.raw({"SET", "k" + std::to_string(i), "v"});
  const Page first = scan(server, "0");
  const Page second = scan(server, first.cursor);
  CHECK(scan(server, first.cursor).keys == second.keys);
  CHECK(std::stoull(first.cursor) < (std::uint64_t{1} << 53));
  const std::string unknown = "(error) ERR unknown cursor";
  CHECK(server("SCAN 12345").starts_with(unknown));
  CHECK(server("SCAN 18446744073709551615").starts_with(unknown));
  server("SELECT 1");
  CHECK(server("SCAN " + first.cursor).starts_with(unknown));
}

TEST_CASE("SCAN cursors exceed their number or bytes: cursors that were already used are evicted first") {
  ScanCursors cursors(1, 4, 1000);
  const std::uint64_t slow = cursors.add(0, "slow");
  std::uint64_t fast = cursors.add(0, "fast");
  for (int i = 0; i < 100; ++i) {
    REQUIRE(cursors.find(0, fast) == "fast");
    fast = cursors.add(0, "fast");
  }
  CHECK(cursors.find(0, slow) == "slow");
  CHECK(cursors.size() <= 4);
  CHECK_FALSE(cursors.find(1, fast).has_value());
  const std::uint64_t big = cursors.add(0, std::string(5000, 'x'));
  CHECK(cursors.size() == 1);
  CHECK(cursors.find(0, big).has_value());
  CHECK_FALSE(ScanCursors(2).find(0, fast).has_value());
}

TEST_CASE("many SCAN cursors exist: they are charged to the memory budget, up to a fixed share of it") {
  ScanCursors cursors(1);
  std::size_t charged = 0;
  cursors.memory.charge = [&charged](std::size_t bytes) { charged += bytes; };
  cursors.memory.release = [&charged](std::size_t bytes) { charged -= bytes; };
  cursors.set_budget(std::uint64_t{64} << 20);
  constexpr std::size_t kShare = (std::size_t{64} << 20) / ScanCursors::kBudgetPart;
  for (int i = 0; i < 100; ++i) cursors.add(0, std::string(60'000, 'x'));
  CHECK((charged > kShare - 200'000 && charged <= kShare));
  cursors.set_budget(std::uint64_t{16} << 20);
  CHECK(charged <= kShare / 4);
}

TEST_CASE("RANDOMKEY is called often: it returns every key at least once") {
  CommandHarness server(command_families());
  CHECK(server("RANDOMKEY") == "(nil)");
  server("MSET a 1 b 2 c 3 zz 4");
  std::set<std::string> seen;
  for (int i = 0; i < 300; ++i) seen.insert(server("RANDOMKEY"));
  CHECK(seen == std::set<std::string>{"\"a\"", "\"b\"", "\"c\"", "\"zz\""});
}

TEST_CASE("nearly all keys are deleted: RANDOMKEY returns the key that is left, and nil only if there is none") {
  CommandHarness server(command_families());
  std::string all = "MSET", deletes = "DEL";
  for (int i = 100'000; i < 160'000; ++i) {
    all += " k" + std::to_string(i) + " v";
    if (i != 131'313) deletes += " k" + std::to_string(i);
  }
  server(all);
  server(deletes);
  for (int i = 0; i < 5; ++i) CHECK(server("RANDOMKEY") == "\"k131313\"");
  server("DEL k131313");
  CHECK(server("RANDOMKEY") == "(nil)");
  server("SET k099999 v");
  CHECK(server("RANDOMKEY") == "\"k099999\"");
}

TEST_CASE("RANDOMKEY finds only deleted entries: it reads all entries on a thread for long work") {
  CommandHarness server(command_families());
  std::string all = "MSET", deletes = "DEL";
  for (int i = 100'000; i < 220'000; ++i) {
    all += " k" + std::to_string(i) + " v";
    if (i != 104'000) deletes += " k" + std::to_string(i);
  }
  server(all);
  server(deletes);
  server("SET a v");
  server("DEL a");
  ManualOffload manual;
  server.env.offload = &manual;
  int long_walks = 0;
  for (int i = 0; i < 40; ++i) {
    Asked asked(*server.dispatcher, server.client(), {"RANDOMKEY"});
    CHECK_FALSE(asked.step());
    CHECK(manual.last() == OffloadClass::kShort);
    REQUIRE(manual.run_one());
    if (!asked.step()) {
      ++long_walks;
      CHECK(manual.last() == OffloadClass::kLong);
      REQUIRE(manual.run_one());
      CHECK(asked.step());
    }
    CHECK(asked.reply() == "\"k104000\"");
  }
  CHECK(long_walks > 0);
  server.env.offload = &*server.offload;
}

TEST_CASE("transaction's KEYS meets too many deleted entries: it is refused, like RANDOMKEY and COUNTRANGE EXACT") {
  CommandHarness server(command_families());
  for (int part = 0; part < 5; ++part) {
    std::string all = "MSET", deletes = "DEL";
    for (int i = 0; i < 50'000; ++i) {
      const std::string key = " k" + std::to_string(1'000'000 + part * 50'000 + i);
      all += key + " v";
      deletes += key;
    }
    server(all);
    server(deletes);
  }
  const auto in_transaction = [&](const std::string& command) {
    server("MULTI");
    server(command);
    return server("EXEC");
  };
  CHECK(in_transaction("RANDOMKEY").find("RANDOMKEY inside a transaction") != std::string::npos);
  server("SET l v");
  CHECK(in_transaction("KEYS *").find("KEYS inside a transaction") != std::string::npos);
  CHECK(in_transaction("COUNTRANGE - + EXACT").find("COUNTRANGE EXACT inside a transaction") != std::string::npos);
  CHECK(in_transaction("DBSIZE").find("(integer) 0") == std::string::npos);
  CHECK(in_transaction("COUNTRANGE l + EXACT").find("(integer) 1") != std::string::npos);
  server("DEL l");
  CHECK(server("RANDOMKEY") == "(nil)");  // checked last: while it runs off the loop, merges may drop the deleted entries
}

TEST_CASE("transaction must stay on its event loop: all its KEYS together examine at most 100,000 keys") {
  CommandHarness server(command_families());
  std::string all = "MSET";
  for (int i = 0; i < 60'000; ++i) all += " k" + std::to_string(1'000'000 + i) + " v";
  server(all);
  server("SET l v");
  const auto transaction = [&](const std::string& first) {
    server("MULTI");
    for (const std::string& line :
         {first, std::string("KEYS none*"), std::string("KEYS *1059999"), std::string("KEYS *"), std::string("DBSIZE"),
          std::string("SCAN 0 COUNT 1000000"), std::string("COUNTRANGE l + EXACT"), std::string("RANDOMKEY")}) {
      server(line);
    }
    return server("EXEC");
  };
  const std::string refused = "(error) ERR KEYS inside a transaction examines at most 100000 keys: use SCAN";
  const std::string together = transaction("CLIENT ID");
  CHECK(together.starts_with("[(integer) 1, [], [\"k1059999\"], " + refused + ", (integer) 60001, ["));
  CHECK(together.find("\"k1000200\"]], (integer) 1, ") != std::string::npos);
  const std::string alone = transaction("PING");
  CHECK(alone.find(refused) == std::string::npos);
  CHECK(alone.find("\"l\"]") != std::string::npos);
}

TEST_CASE("transaction deletes keys before KEYS: KEYS counts them as examined, and SCAN and COUNTRANGE miss no other key") {
  CommandHarness server(command_families());
  for (int part = 0; part < 5; ++part) {
    std::string all = "MSET";
    for (int i = 0; i < 50'000; ++i) all += " k" + std::to_string(1'000'000 + part * 50'000 + i) + " v";
    server(all);
  }
  server("MSET a v l v");
  server("MULTI");
  server("DELPREFIX k");
  server("KEYS *");
  server("SCAN 0 COUNT 10");
  server("COUNTRANGE l + EXACT");
  const std::string replies = server("EXEC");
  CHECK(replies.find("KEYS inside a transaction") != std::string::npos);
  CHECK(replies.find("\"a\"") != std::string::npos);
  CHECK(replies.find("(integer) 1") != std::string::npos);
  server("SET k2 v");
  CHECK(scan_all(server, {}) == std::vector<std::string>{"a", "k2", "l"});
}

}  // namespace TEST_FILE
