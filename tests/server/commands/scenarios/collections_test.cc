// Tests of collections as entries of the engine: commands that leave a pending delete, limits, damage, and large collections.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "commands/families.h"
#include "server/dispatch/harness.h"
#include "store/collection/compact.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

Settings with_deadline() {
  Settings s = CommandHarness::small();
  s.tree.delete_deadline = 3'600'000;
  return s;
}

/// Runs the commands before the last one, flushes, and returns whether the last one leaves a pending delete.
bool owes(const std::vector<const char*>& commands) {
  CommandHarness server(command_families(), with_deadline());
  const auto pending = [&server] { return server.db->tree_info(0)->oldest_obligation != 0; };
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (i + 1 == commands.size()) {
      REQUIRE(server.db->flush(0).is_ok());
      INFO(commands[i]);
      REQUIRE_FALSE(pending());
    }
    const std::string reply = server(commands[i]);
    INFO(commands[i] << ": " << reply);
    REQUIRE(reply.find("(error)") == std::string::npos);
  }
  return pending();
}

TEST_CASE("collections: write removes elements or overwrites the collection: the put leaves a pending delete") {
  const std::vector<std::vector<const char*>> cases = {
      {"HSET h a 1 b 2", "HDEL h a"},
      {"HSET h a 1 b 2", "HEXPIRE h 100 FIELDS 1 a"},
      {"HSET h a 1 b 2", "HEXPIRE h 0 FIELDS 1 a"},
      {"HSETEX h EX 100 FIELDS 1 a 1", "HPEXPIREAT h 1 FIELDS 1 a"},
      {"HSETEX h EX 100 FIELDS 2 a 1 b 2", "HGETDEL h FIELDS 1 a"},
      {"HSETEX h EX 100 FIELDS 2 a 1 b 2", "HPERSIST h FIELDS 1 a"},
      {"SADD s a b", "SREM s a"},
      {"SADD s a b", "SPOP s"},
      {"SADD s a b", "SMOVE s t a"},
      {"ZADD z 1 a 2 b", "ZREM z a"},
      {"ZADD z 1 a 2 b", "ZPOPMIN z"},
      {"ZADD z 1 a 2 b", "ZPOPMAX z"},
      {"ZADD z 1 a 2 b", "ZMPOP 1 z MIN"},
      {"ZADD z 1 a 2 b", "ZREMRANGEBYRANK z 0 0"},
      {"ZADD z 1 a 2 b", "ZREMRANGEBYSCORE z 1 1"},
      {"ZADD z 0 a 0 b", "ZREMRANGEBYLEX z - [a"},
      {"RPUSH l a b", "LPOP l"},
      {"RPUSH l a b", "RPOP l"},
      {"RPUSH l a b", "LMPOP 1 l LEFT"},
      {"RPUSH l a b", "LREM l 0 a"},
      {"RPUSH l a b", "LTRIM l 1 1"},
      {"RPUSH l a b", "LMOVE l k LEFT LEFT"},
      {"RPUSH l a b", "RPOPLPUSH l k"},
      {"RPUSH l a b", "BLPOP l 1"},
      {"RPUSH l a b", "BRPOP l 1"},
      {"RPUSH l a b", "BLMPOP 1 1 l LEFT"},
      {"RPUSH l a b", "BLMOVE l k LEFT LEFT 1"},
      {"RPUSH l a b", "BRPOPLPUSH l k 1"},
      {"ZADD z 1 a 2 b", "BZPOPMIN z 1"},
      {"ZADD z 1 a 2 b", "BZPOPMAX z 1"},
      {"ZADD z 1 a 2 b", "BZMPOP 1 1 z MIN"},
      {"HSET h a 1", "HDEL h a"},
      {"HSET h a 1", "DEL h"},
      {"HSET h a 1", "SET h text"},
      {"HSET h a 1", "SETEX h 100 text"},
      {"HSET h a 1", "MSET g 1 h text"},
      {"HSET h a 1", "SET g 1", "RENAME g h"},
      {"HSET h a 1", "SADD s 1", "SUNIONSTORE h s"},
      {"HSET h a 1", "SADD s 1", "COPY s h REPLACE"},
      {"HSET h a 1", "SET g 1", "BITOP NOT h g"},
      {"SADD s 1 2", "SADD t 1", "SINTERSTORE s t"},
      {"ZADD z 1 a 2 b", "ZRANGESTORE z z 0 0"},
  };
  for (const auto& commands : cases) {
    INFO(commands.back());
    CHECK(owes(commands));
  }
}

TEST_CASE("collections: write keeps all elements: the put leaves no pending delete") {
  const std::vector<std::vector<const char*>> cases = {
      {"SET k v", "SADD s 1", "SUNIONSTORE k s"},
      {"HSET h a 1", "HSET h b 2"},
      {"HSET h a 1", "HSET h a 2"},
      {"HSET h a 1", "HINCRBY h a 1"},
      {"HSET h a 1", "HDEL h none"},
      {"HSET h a 1", "EXPIRE h 100"},
      {"SADD s a", "SADD s b"},
      {"ZADD z 1 a", "ZADD z 2 a"},
      {"ZADD z 1 a", "ZINCRBY z 1 a"},
      {"RPUSH l a", "LPUSH l b"},
      {"RPUSH l a b", "LSET l 0 c"},
      {"RPUSH l a", "LINSERT l BEFORE a b"},
      {"RPUSH l a b", "LTRIM l 0 -1"},
      {"RPUSH l a b", "RPOPLPUSH l l"},
      {"HSET h a 1", "SET text v"},
      {"SET text v", "SET text w"},
  };
  for (const auto& commands : cases) {
    INFO(commands.back());
    CHECK_FALSE(owes(commands));
  }
}

TEST_CASE("collections: RESTORE overwrites a collection: this leaves a pending delete, unlike RESTORE of a new key") {
  const std::string list("\x01\x01\x01x\x0b\x00\x01\x11\x86\x24\x42\x81\x38\x8f", 14);
  CommandHarness server(command_families(), with_deadline());
  const auto pending = [&server] { return server.db->tree_info(0)->oldest_obligation != 0; };
  CHECK(show(server.raw({"RESTORE", "k", "0", list})) == "OK");
  CHECK(server("SET text v") == "OK");
  CHECK(show(server.raw({"RESTORE", "text", "0", list, "REPLACE"})) == "OK");
  CHECK(server("TYPE text") == "list");
  REQUIRE(server.db->flush(0).is_ok());
  REQUIRE_FALSE(pending());
  CHECK(show(server.raw({"RESTORE", "k", "0", list, "REPLACE"})) == "OK");
  CHECK(pending());
}

TEST_CASE("collections: SET follows HSET in one transaction: the SET carries a delete debt for the hash that it hides") {
  CommandHarness server(command_families(), with_deadline());
  server("SET other 1");
  server("MULTI");
  server("HSET h field 1");
  server("SET h text");
  server("HSET g field 1");
  server("EXEC");
  CHECK(server("GET h") == "\"text\"");
  CHECK(server.db->tree_info(0)->oldest_obligation != 0);
}

TEST_CASE("collections: write exceeds the limits of one entry: the collection becomes large") {
  CommandHarness server(command_families());
  server("RPUSH l a");
  std::vector<std::string> push = {"RPUSH", "l"};
  push.resize(2 + kMaxCompactElements, "x");
  CHECK(show(server.raw(push)) == "(integer) 129");
  CHECK(server("LPUSH l y") == "(integer) 130");
  CHECK(server("LLEN l") == "(integer) 130");
  CHECK(server("LRANGE l 0 2") == "[\"y\", \"a\", \"x\"]");
  CHECK(server("OBJECT ENCODING l") == "\"listpack\"");
  CHECK(server("LMOVE l other LEFT RIGHT") == "\"y\"");
  CHECK(server("LRANGE l 0 0") == "[\"a\"]");
  CHECK(server("LMOVE other l LEFT LEFT") == "\"y\"");
  CHECK(server("EXISTS other") == "(integer) 0");
  CHECK(server("DEL l") == "(integer) 1");
  CHECK(server("LPUSH l z") == "(integer) 1");
  CHECK(server("LRANGE l 0 -1") == "[\"z\"]");
  const std::string half(600 << 10, 'v');
  CHECK(show(server.raw({"HSET", "h", "a", half})) == "(integer) 1");
  CHECK(show(server.raw({"HSET", "h", "b", half})) == "(integer) 1");
  CHECK(server("HSTRLEN h b") == "(integer) 614400");
  CHECK(server("HDEL h b none") == "(integer) 1");
  CHECK(server("HLEN h") == "(integer) 1");
}

TEST_CASE("disk is full: elements can be removed, but a command that overwrites one collection with another is refused") {
  Settings settings = CommandHarness::small();
  settings.max_disk_bytes = 1 << 20;
  CommandHarness server(command_families(), settings);
  for (const char* command : {"HSET h a 1 b 2", "SADD s a b c", "SADD t a b", "RPUSH l a b", "ZADD z 1 a 2 b", "SET text v"})
    server(command);
  std::string reply;
  for (int i = 0; i < 20'000 && reply.find("MISCONF") == std::string::npos; ++i) {
    reply = server("SET filler" + std::to_string(i) + " " + std::string(200, 'v'));
    if (i % 100 != 0) continue;
    server.settle();
    server.advance(100);
  }
  REQUIRE(reply.starts_with("(error) MISCONF"));
  for (const char* command : {"SUNIONSTORE t s", "COPY s t REPLACE", "ZRANGESTORE t z 0 -1", "SADD t c", "SMOVE s l x"}) {
    INFO(command);
    CHECK(server(command).starts_with("(error)"));
  }
  CHECK(server("SMEMBERS t") == "[\"a\", \"b\"]");
  server("MULTI");
  server("SREM s c");
  server("SUNIONSTORE t s");
  CHECK(server("EXEC").find("MISCONF Writes are refused") != std::string::npos);
  CHECK(server("SREM s c") == "(integer) 1");
  server("MULTI");
  server("HDEL h a");
  server("LPOP l");
  server("ZREM z a");
  CHECK(server("EXEC") == "[(integer) 1, \"a\", (integer) 1]");
  CHECK(server("HKEYS h") == "[\"b\"]");
}

TEST_CASE("large collection is in a table: commands that need all its elements, or only its type, find the collection") {
  CommandHarness server(command_families());
  const std::string large(200 << 10, 'v');
  server.raw({"HSET", "h", "a", large, "b", "2"});
  REQUIRE(server.db->flush(0).is_ok());
  CHECK(server("TYPE h") == "hash");
  CHECK(server("HGET h b") == "\"2\"");
  CHECK(server("HSTRLEN h a") == "(integer) 204800");
  CHECK(server("HDEL h a") == "(integer) 1");
  CHECK(server("HGETALL h") == "[\"b\", \"2\"]");
}

TEST_CASE("collections: random commands return existing elements, and SPOP removes each of them once") {
  CommandHarness server(command_families());
  server("SADD s a b c d e");
  for (int i = 0; i < 20; ++i) {
    const std::string member = server("SRANDMEMBER s");
    CHECK(server("SISMEMBER s " + member) == "(integer) 1");
  }
  std::string popped;
  for (int i = 0; i < 5; ++i) popped += server("SPOP s")[1];
  std::sort(popped.begin(), popped.end());
  CHECK(popped == "abcde");
  CHECK(server("EXISTS s") == "(integer) 0");
}

TEST_CASE("database has collections: SET looks up only a key that may be a collection") {
  CommandHarness server(command_families(), with_deadline());
  REQUIRE(server("HSET hash field value") == "(integer) 1");
  REQUIRE(server("SET string value") == "OK");
  for (int i = 0; i < 1'000; ++i) server("SET key:" + std::to_string(i) + " value");
  REQUIRE(server.db->flush(0).is_ok());
  const auto lookups_of = [&server](const char* command) {
    const std::uint64_t before = server.db->stats().gets;
    const std::string reply = server(command);
    INFO(command << ": " << reply);
    REQUIRE(reply.find("(error)") == std::string::npos);
    return server.db->stats().gets - before;
  };
  CHECK(lookups_of("SET string other") == 0);
  CHECK(lookups_of("SET new value") == 0);
  CHECK(lookups_of("MSET string a b c") == 0);
  CHECK(lookups_of("SET hash value") == 1);
  CHECK(lookups_of("SET hash again") == 0);
}

}  // namespace TEST_FILE
