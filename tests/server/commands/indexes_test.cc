// Tests of indexes: after every command an index has exactly the records that it should.
#include <catch2/catch.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "commands/families.h"
#include "server/dispatch/harness.h"
#include "support/long_run.h"

using namespace ebbtide;
using namespace ebbtide::test;

namespace {

/// Returns the records that the index of the field should have, found through the records themselves.
std::string expected(CommandHarness& server, const std::string& prefix, const std::string& field) {
  std::set<std::pair<std::string, std::string>> records;
  const std::string keys = server("KEYS " + prefix + "*");
  for (std::size_t at = keys.find('"'); at != std::string::npos; at = keys.find('"', at + 1)) {
    const std::size_t end = keys.find('"', at + 1);
    const std::string key = keys.substr(at + 1, end - at - 1);
    at = end;
    if (server("TYPE " + key) != "hash") continue;
    const std::string value = server("HGET " + key + " " + field);
    if (value != "(nil)") records.emplace(value.substr(1, value.size() - 2), key);
  }
  std::string out = "[";
  for (const auto& [value, key] : records) out += (out.size() == 1 ? "\"" : ", \"") + key + "\"";
  return out + "]";
}

std::string town() { return "INDEX.CREATE towns PREFIX car: FIELD town"; }

/// Returns a random command on records.
std::string change(Random& random, Millis now) {
  const auto key = [&] { return (random.one_in(5) ? "bus:" : "car:") + std::to_string(random.uniform(12)); };
  const std::string value = " t" + std::to_string(random.uniform(5));
  std::string many;
  const int fields = random.one_in(2) ? 150 : 600;  // 1,200 arguments make a long write
  for (int i = 0; i < fields; ++i) many += " f" + std::to_string(i) + " v";
  switch (random.uniform(27)) {
    case 0:
    case 1:
    case 2:
      return "HSET " + key() + " town" + value;
    case 3:
      return "HSET " + key() + " town" + value + " x 1";
    case 4:
      return "HSET " + key() + " x 1";
    case 5:
      return "HSET " + key() + " town" + value + many;
    case 6:
      return "HDEL " + key() + " town";
    case 7:
      return "HDEL " + key() + " x";
    case 8:
      return "DEL " + key();
    case 9:
      return "UNLINK " + key() + " " + key();
    case 10:
      return "SET " + key() + " string";
    case 11:
      return "RENAME " + key() + " " + key();
    case 12:
      return "COPY " + key() + " " + key() + " REPLACE";
    case 13:
      return "MOVE " + key() + " 1";
    case 14:
      return "PEXPIRE " + key() + " " + std::to_string(random.uniform(300));
    case 15:
      return "HPEXPIRE " + key() + " " + std::to_string(random.uniform(300)) + " FIELDS 1 town";
    case 16:
      return "PERSIST " + key();
    case 17:
      return "HPERSIST " + key() + " FIELDS 1 town";
    case 18:
      return "SADD " + key() + " member";
    case 19:
      return "HSETNX " + key() + " town" + value;
    case 20:
      return "HINCRBY " + key() + " n 1";
    case 21:
      return "HGETDEL " + key() + " FIELDS 1 town";
    case 22:
      return "DELPREFIX car:" + std::to_string(random.uniform(9));
    case 23:
      return random.one_in(3) ? "DELPREFIX ca" : random.one_in(2) ? "DELRANGE - +" : "DELRANGE bus:3 car:2";
    case 24:
      return "STAMP.DELRANGE - " + std::to_string(now - random.uniform(600));
    case 25:
      return "GETDEL " + key();
    default:
      return "HSETEX " + key() + " PX " + std::to_string(1 + random.uniform(300)) + " FIELDS 1 town" + value;
  }
}

}  // namespace

TEST_CASE("record is written and deleted: the index follows in the same commit") {
  CommandHarness server(command_families());
  CHECK(server("HSET car:1 town Ulm") == "(integer) 1");
  CHECK(server(town()) == "OK");
  CHECK(server("INDEX.RANGE towns - +").starts_with("(error) ERR the index 'towns' is being built"));
  server.build_indexes();
  CHECK(server("INDEX.RANGE towns - +") == "[\"car:1\"]");
  CHECK(server("HSET car:2 town Bonn") == "(integer) 1");
  CHECK(server("INDEX.RANGE towns - + WITHVALUES") == "[\"car:2\", \"Bonn\", \"car:1\", \"Ulm\"]");
  CHECK(server("HSET car:1 town Aalen") == "(integer) 0");
  CHECK(server("INDEX.RANGE towns - + LIMIT 0 1") == "[\"car:1\"]");
  CHECK(server("DEL car:1") == "(integer) 1");
  CHECK(server("SET car:2 string") == "OK");
  CHECK(server("INDEX.RANGE towns - +") == "[]");
}

TEST_CASE("name, prefix, field or range is wrong: the command gives an error and changes nothing") {
  CommandHarness server(command_families());
  CHECK(server("INDEX.CREATE towns PREFIX car:") == "(error) ERR wrong number of arguments for 'index.create' command");
  CHECK(server("INDEX.CREATE towns PREFIX car: PREFIX x") == "(error) ERR syntax error");
  CHECK(server("INDEX.CREATE 'a b' PREFIX car: FIELD town").starts_with("(error) ERR the name of an index"));
  CHECK(
      server("INDEX.CREATE towns PREFIX " + std::string(1025, 'p') + " FIELD town").starts_with("(error) ERR prefix and field"));
  CHECK(server("INDEX.LIST") == "[]");
  CHECK(server("INDEX.RANGE towns - +") == "(error) ERR there is no index 'towns'");
  CHECK(server("INDEX.DROP towns") == "(error) ERR there is no index 'towns'");
  CHECK(server(town()) == "OK");
  CHECK(server(town()) == "(error) ERR there is an index 'towns' already");
  server.build_indexes();
  CHECK(server("INDEX.RANGE towns a b") == "(error) ERR min or max not valid string range item");
  CHECK(server("INDEX.RANGE towns + -") == "[]");
  CHECK(server("INDEX.RANGE towns - + LIMIT -1 1").starts_with("(error) ERR LIMIT"));
  CHECK(server("MULTI") == "OK");
  CHECK(server("INDEX.DROP towns").starts_with("(error) ERR Command not allowed inside a transaction"));
  CHECK(server("DISCARD") == "OK");
}

TEST_CASE("index of numbers: ranges are those of scores, and other values are left out") {
  CommandHarness server(command_families());
  CHECK(server("INDEX.CREATE speeds PREFIX car: FIELD speed NUMBER") == "OK");
  server.build_indexes();
  int i = 0;
  for (const char* speed : {"10", "9", "-3.5", "fast", "inf", "nan", "-0", "0"})
    server("HSET car:" + std::to_string(i++) + " speed " + speed);
  CHECK(server("INDEX.RANGE speeds -inf +inf WITHVALUES") ==
        R"(["car:2", "-3.5", "car:6", "0", "car:7", "0", "car:1", "9", "car:0", "10", "car:4", "inf"])");
  CHECK(server("INDEX.RANGE speeds (9 10") == "[\"car:0\"]");
  CHECK(server("INDEX.RANGE speeds x 10") == "(error) ERR min or max is not a float");
}

TEST_CASE("random commands, transactions, scripts and restarts: the index has the records that it should") {
  const std::uint64_t runs = number_from_env("EBBTIDE_INDEX_RUNS", 12);
  for (std::uint64_t run = 0; run < runs; ++run) {
    Random random(first_seed() + run);
    Settings settings = CommandHarness::small();
    settings.tree.stamp = static_cast<StampMode>(run % 3);
    CommandHarness server(command_families(), settings);
    INFO("run " << run);
    server(town());
    server("INDEX.CREATE all PREFIX '' FIELD x");
    for (int step = 0; step < 300; ++step) {
      const std::string command = change(random, server.db->now());
      INFO("step " << step << ": " << command);
      if (random.one_in(6)) {
        const std::string second = change(random, server.db->now()),
                          third = random.one_in(8) ? "FLUSHDB" : change(random, server.db->now());
        INFO("in one transaction with " << second << " and " << third);
        server("MULTI");
        for (const std::string& each : {command, second, third}) server(each);
        server("EXEC");
      } else if (random.one_in(40)) {
        server(random.one_in(2) ? "SWAPDB 0 2" : "FLUSHDB");
      } else {
        server(command);
      }
      if (random.one_in(8)) server.advance(random.uniform(200));
      if (random.one_in(30)) server.settle();
      if (random.one_in(60)) server.reopen();
      if (random.one_in(2)) continue;  // while the index is built, too
      server.build_indexes();
      REQUIRE(server("INDEX.RANGE towns - +") == expected(server, "car:", "town"));
      REQUIRE(server("INDEX.RANGE all - +") == expected(server, "", "x"));
    }
  }
}

TEST_CASE("many records exist: they are indexed step by step, and a restart continues the build") {
  CommandHarness server(command_families());
  for (int i = 0; i < 1000; ++i) server("HSET car:" + std::to_string(i) + " town t" + std::to_string(i % 7));
  CHECK(server(town()) == "OK");
  MissSet misses;
  std::uint32_t wait_ms = 0;
  REQUIRE(build_step(*server.db, server.indexes, 0, "towns", &misses, &wait_ms).is_ok());
  const std::string from = *server.indexes.of(0)->at("towns").building_from;
  CHECK(from > "car:");
  server("HSET car:5 town moved");
  server("DEL car:999");
  server.db->write_log();
  server.reopen();
  CHECK(*server.indexes.of(0)->at("towns").building_from == from);
  server.build_indexes();
  CHECK(server("INDEX.RANGE towns - +") == expected(server, "car:", "town"));
}

TEST_CASE("index is created, written and dropped: no client gets an event or an invalidation for its trees") {
  CommandHarness server(command_families());
  std::vector<std::string> events;
  server.observers.notifications.publish = [&events](Bytes channel, Bytes message, ClientLoop*, SeqNum) {
    events.push_back(std::string(channel) + " " + std::string(message));
  };
  server.observers.notifications.set_flags(*parse_notify_flags("KEAn"));
  CHECK(server(town()) == "OK");
  server.build_indexes();
  CHECK(events.empty());
  CHECK(server("HSET car:1 town Ulm") == "(integer) 1");
  CHECK(server("DEL car:1") == "(integer) 1");
  for (const std::string& event : events)
    CHECK((event.find("car:1") != std::string::npos && event.find("Ulm") == std::string::npos));
  const std::size_t known = events.size();
  CHECK(server("INDEX.DROP towns") == "OK");
  CHECK(events.size() == known);
}

TEST_CASE("database has an index: its trees are in no walk and no count of keys") {
  CommandHarness server(command_families());
  CHECK(server(town()) == "OK");
  server.build_indexes();
  CHECK(server("HSET car:1 town Ulm") == "(integer) 1");
  CHECK(server("SCAN 0") == "[\"0\", [\"car:1\"]]");
  CHECK(server("DBSIZE") == "(integer) 1");
  CHECK(server("KEYS *") == "[\"car:1\"]");
}
