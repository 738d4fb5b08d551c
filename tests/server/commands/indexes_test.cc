// Tests of indexes: after every command an index has exactly the records that it should.
#include <catch2/catch.hpp>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "commands/families.h"
#include "io/file_system.h"
#include "server/dispatch/harness.h"
#include "support/files.h"
#include "support/long_run.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

/// Returns the records that the index of the field should have, from a scan of the records.
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

/// Returns the records of the entries that keep the position of the build of "towns".
std::vector<std::string> positions(CommandHarness& server) {
  std::vector<std::string> out;
  IteratorOptions options;
  options.bounds = build_positions();
  const auto walk = server.db->iterate(server.db->lease(index_tree(0, 1)), options);
  for (walk->seek_to_first(); walk->valid(); walk->next()) out.emplace_back(build_position_of(walk->key()));
  REQUIRE(walk->status().is_ok());
  return out;
}

std::set<std::string> files(CommandHarness& server) {
  const auto names = server.faults().list("data").value();
  return {names.begin(), names.end()};
}

std::vector<std::string> files_with(CommandHarness& server, const std::string& text) {
  std::vector<std::string> out;
  for (const std::string& name : files(server)) {
    const auto bytes = read_file(server.faults(), "data/" + name);
    if (bytes.is_ok() && bytes->find(text) != std::string::npos) out.push_back(name);
  }
  return out;
}

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

TEST_CASE("record is written or deleted: its index entry changes in the same commit") {
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

TEST_CASE("INDEX command has a wrong name, prefix, field or range: it replies with an error and changes nothing") {
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
  for (const char* command :
       {"INDEX.DROP towns", "INDEX.CREATE more PREFIX car: FIELD town", "INDEX.INFO towns", "INDEX.RANGE towns - +"})
    CHECK(server(command).starts_with("(error) ERR Command not allowed inside a transaction"));
  CHECK(server("INDEX.LIST") == "QUEUED");
  CHECK(server("DISCARD") == "OK");
  for (const char* command : {"'INDEX.DROP', 'towns'", "'INDEX.CREATE', 'a', 'PREFIX', 'b', 'FIELD', 'c'",
                              "'INDEX.INFO', 'towns'", "'INDEX.RANGE', 'towns', '-', '+'"})
    CHECK(server("EVAL \"return redis.call(" + std::string(command) + ")\" 0").find("not allowed from script") !=
          std::string::npos);
}

TEST_CASE("index is of numbers: ranges have bounds like those of ZRANGEBYSCORE, and other values have no entries") {
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

TEST_CASE("random commands, transactions, scripts and restarts change records: the index equals a scan of all records") {
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
      } else if (random.one_in(8)) {  // commits as one batch
        std::vector<std::vector<std::string>> sets;
        for (std::uint64_t i = 2 + random.uniform(6); i > 0; --i)
          sets.push_back({"SET", "car:" + std::to_string(random.uniform(4)), "string"});
        INFO("as a group of SETs");
        server.raw_pipeline(sets);
        server(command);
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

TEST_CASE("index is created over many records: it is built step by step, and a restart continues the build") {
  CommandHarness server(command_families());
  for (int i = 0; i < 1000; ++i) server("HSET car:" + std::to_string(i) + " town t" + std::to_string(i % 7));
  CHECK(server(town()) == "OK");
  MissSet misses;
  std::uint32_t wait_ms = 0;
  REQUIRE(build_step(*server.db, server.indexes, 0, "towns", &misses, &wait_ms).is_ok());
  const std::string from = server.indexes.of(0)->at("towns").position;
  CHECK(from > "car:");
  server("HSET car:5 town moved");
  server("DEL car:999");
  server.db->write_log();
  server.reopen();
  CHECK(*server.indexes.of(0)->at("towns").building_from == from);
  server.build_indexes();
  CHECK(server("INDEX.RANGE towns - +") == expected(server, "car:", "town"));
}

TEST_CASE("SETs replace indexed hashes in one batch: the index loses the entries of these records") {
  CommandHarness server(command_families());
  server(town());
  server.build_indexes();
  for (int i = 0; i < 4; ++i) server("HSET car:" + std::to_string(i) + " town t" + std::to_string(i));
  server.raw_pipeline({{"SET", "car:0", "a"}, {"SET", "car:2", "a"}, {"SET", "car:0", "b"}, {"SET", "bus:1", "a"}});
  CHECK(server("INDEX.RANGE towns - +") == "[\"car:1\", \"car:3\"]");
  CHECK(server("GET car:0") == "\"b\"");
}

TEST_CASE("DELPREFIX deletes indexed records: few entries are deleted one by one; for many, the index is built again") {
  CommandHarness server(command_families());
  server(town());
  server.build_indexes();
  for (int i = 0; i < 1500; ++i) server("HSET car:" + std::to_string(11000 + i) + " town t" + std::to_string(i % 7));
  server("SET car:110x string");
  const auto complete = [&] { return !server.indexes.of(0)->at("towns").building_from; };
  const std::string way =
      GENERATE("DELPREFIX car:110", "DELRANGE car:111 car:114", "MULTI", "EVAL \"return redis.call('DELPREFIX', 'car:119')\" 0");
  INFO(way);
  if (way == "MULTI") {
    for (const char* each :
         {"MULTI", "HSET car:1155x town new", "DELPREFIX car:115", "HSET car:11501 town new", "HSET car:9 town new", "EXEC"})
      server(each);
  } else {
    server(way);
  }
  CHECK(complete());
  CHECK(server("INDEX.RANGE towns - +") == expected(server, "car:", "town"));
  server("DELPREFIX car:1");
  CHECK_FALSE(complete());
  server.build_indexes();
  CHECK(server("INDEX.RANGE towns - +") == expected(server, "car:", "town"));
}

TEST_CASE("records have no value for an index: INDEX.INFO counts them by reason") {
  CommandHarness server(command_families());
  server("SET car:1 string");
  server("HSET car:2 x 1");
  server("HSET car:3 town " + std::string(1025, 't'));
  server("HSET car:4 speed fast town a");
  server("SET bus:1 string");
  server(town());
  server("INDEX.CREATE speeds PREFIX car: FIELD speed NUMBER");
  server.build_indexes();
  const auto counts = [&](const std::string& name, const std::string& which) {
    const std::string about = server("INDEX.INFO " + name);
    const std::size_t at = about.find("\"" + which + "\"");
    return at == std::string::npos ? about : about.substr(at, about.find(']', at) - at);
  };
  CHECK(
      counts("towns", "skipped")
          .find(R"("other-type", (integer) 1, "no-field", (integer) 1, "too-long", (integer) 1, "not-a-number", (integer) 0)") !=
      std::string::npos);
  CHECK(
      counts("speeds", "skipped")
          .find(R"("other-type", (integer) 1, "no-field", (integer) 2, "too-long", (integer) 0, "not-a-number", (integer) 1)") !=
      std::string::npos);
  server("HSET car:4 speed slow");
  server("HSET car:5 speed 7");
  server("DEL car:1");
  CHECK(
      counts("speeds", "skipped-writes")
          .find(R"("other-type", (integer) 0, "no-field", (integer) 0, "too-long", (integer) 0, "not-a-number", (integer) 1)") !=
      std::string::npos);
}

TEST_CASE("server restarts with an index without entries: the index is not built again") {
  CommandHarness server(command_families());
  server("HSET car:1 x 1");
  server(town());
  server.build_indexes();
  const std::uint64_t builds = server.indexes.of(0)->at("towns").builds;
  const bool emptied = GENERATE(false, true);
  INFO("emptied: " << emptied << ", tree " << server.db->lease(index_tree(0, 1)).has_tree());
  if (emptied) {
    server("HSET car:1 town Ulm");
    server("DEL car:1");
    server("FLUSHDB");
    server.db->write_log();
  }
  server.reopen();
  CHECK_FALSE(server.indexes.of(0)->at("towns").building_from);
  CHECK(server.indexes.of(0)->at("towns").builds == builds);
  CHECK(server("INDEX.RANGE towns - +") == "[]");
}

TEST_CASE("catalog of indexes is damaged: the database opens, and its indexes can be created again") {
  CommandHarness server(command_families());
  server("HSET car:1 town Ulm");
  server(town());
  server.build_indexes();
  for (const DatabaseId tree : {DatabaseId{0}, index_tree(0, 1)}) REQUIRE(server.db->flush(tree).is_ok());
  const auto before = files(server);
  REQUIRE(server.db->flush(index_tree(0, kCatalog)).is_ok());
  server.settle();
  std::vector<std::string> made;
  for (const std::string& name : files(server)) {
    if (!before.contains(name) && name.ends_with(".data")) made.push_back("data/" + name);
  }
  REQUIRE(made.size() == 1);
  const std::string bytes = read_file(server.faults(), made[0]).value();
  flip(server.faults(), made[0], bytes.find("towns"));
  server.reopen();
  REQUIRE(server.warnings.size() == 1);
  INFO(server.warnings[0]);
  CHECK(server.warnings[0].find("catalog of indexes of database 0 is damaged") != std::string::npos);
  CHECK(server("HGET car:1 town") == "\"Ulm\"");
  CHECK(server("INDEX.LIST") == "[]");
  CHECK(server("HSET car:1 town Bonn") == "(integer) 0");
  CHECK(server(town()) == "OK");
  server.build_indexes();
  CHECK(server("INDEX.RANGE towns - + WITHVALUES") == "[\"car:1\", \"Bonn\"]");
  server.reopen();
  CHECK(server.warnings.size() == 1);
  CHECK(server("INDEX.RANGE towns - + WITHVALUES") == "[\"car:1\", \"Bonn\"]");
}

TEST_CASE("record at the position of an unfinished build is deleted: the position's key is in no file after the deadline") {
  Settings settings = CommandHarness::small();
  settings.tree.delete_deadline = 3'600'000;
  CommandHarness server(command_families(), settings);
  for (int i = 0; i < 600; ++i) server("HSET car:secret" + std::to_string(1000 + i) + " town t");
  server(town());
  MissSet misses;
  std::uint32_t wait_ms = 0;
  REQUIRE(build_step(*server.db, server.indexes, 0, "towns", &misses, &wait_ms).is_ok());
  const std::string key = server.indexes.of(0)->at("towns").position;
  REQUIRE(key.starts_with("car:secret"));
  CHECK(positions(server) == std::vector{key});
  REQUIRE(server.db->flush(index_tree(0, 1)).is_ok());
  const std::string way = GENERATE("DEL ", "RENAME ", "PEXPIRE ", "DELPREFIX ", "STAMP.DELRANGE ", "FLUSHDB", "SET ");
  INFO(way);
  if (way == "DEL " || way == "DELPREFIX ") server(way + key);
  if (way == "RENAME ") server(way + key + " bus:1");
  if (way == "PEXPIRE ") server(way + key + " 10");
  if (way == "STAMP.DELRANGE ") server(way + "- +");
  if (way == "FLUSHDB") server(way);
  if (way == "SET ") server(way + key + " string");
  server.advance(20);
  CHECK(positions(server).empty());
  if (way != "SET ") {
    for (int minute = 0; minute < 60; ++minute) {
      server.advance(60'000);
      server.settle();
      server.db->write_log();
    }
    CHECK(files_with(server, key) == std::vector<std::string>());
  }
  server.db->write_log();
  server.reopen();
  CHECK(server.indexes.of(0)->at("towns").building_from == "");
  server.build_indexes();
  CHECK(positions(server).empty());
  CHECK(server("INDEX.RANGE towns - +") == expected(server, "car:", "town"));
}

TEST_CASE("build of one index fails: the other indexes are built next") {
  CommandHarness server(command_families());
  server(town());
  server("INDEX.CREATE a PREFIX x FIELD y");
  const IndexName a{0, "a"}, towns{0, "towns"};
  CHECK(unfinished_index(server.indexes, 16) == a);
  CHECK(unfinished_index(server.indexes, 16, a) == towns);
  CHECK(unfinished_index(server.indexes, 16, towns) == a);
  CHECK(unfinished_index(server.indexes, 16, towns, {a}) == towns);
  CHECK(unfinished_index(server.indexes, 16, towns, {a, towns}) == std::nullopt);
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

TEST_CASE("database has an index: SCAN, KEYS and DBSIZE return none of its entries") {
  CommandHarness server(command_families());
  CHECK(server(town()) == "OK");
  server.build_indexes();
  CHECK(server("HSET car:1 town Ulm") == "(integer) 1");
  CHECK(server("SCAN 0") == "[\"0\", [\"car:1\"]]");
  CHECK(server("DBSIZE") == "(integer) 1");
  CHECK(server("KEYS *") == "[\"car:1\"]");
}

TEST_CASE("records are deleted by stamp: whole pages of the index are dropped unread") {
  Settings settings = CommandHarness::small();
  settings.tree.stamp = StampMode::kWriteTime;
  CommandHarness server(command_families(), settings);
  CHECK(server("INDEX.CREATE times PREFIX car: FIELD time NUMBER") == "OK");
  server.build_indexes();
  Millis middle = 0;
  for (int i = 0; i < 4000; ++i) {
    server("HSET car:" + std::to_string(i * 7919 % 4000) + " time " + std::to_string(i));
    server.advance(1);
    if (i == 1999) middle = server.db->now();
  }
  const DatabaseId tree = index_tree(0, 1);
  for (const DatabaseId each : {DatabaseId{0}, tree}) REQUIRE(server.db->compact(each, {}).is_ok());
  server.settle();
  const auto bytes = [&] {
    std::uint64_t sum = 0;
    const TreeInfo info = server.db->tree_info(tree).value();
    for (const RunInfo& run : info.runs) sum += run.bytes;
    return sum;
  };
  const std::uint64_t before = bytes(), dropped = server.db->stats().pages_dropped_full;
  server("STAMP.DELRANGE - " + std::to_string(middle));
  REQUIRE(server.db->flush(tree).is_ok());
  server.settle();
  CHECK(server.db->stats().pages_dropped_full > dropped);
  CHECK(bytes() < before * 3 / 5);
  CHECK(server("INDEX.RANGE times -inf +inf LIMIT 0 1") ==
        "[\"" + std::string("car:") + std::to_string(2000 * 7919 % 4000) + "\"]");
}

}  // namespace TEST_FILE
