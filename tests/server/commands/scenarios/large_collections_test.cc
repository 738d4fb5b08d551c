// Tests of large collections from which elements are removed: the first and last member in a sorted set's header, and the
// rewrite of the remaining elements.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <engine/iterator.h>

#include "commands/families.h"
#include "commands/large_part.h"
#include "commands/large_upkeep.h"
#include "server/dispatch/manual_offload.h"
#include "store/collection/large.h"
#include "store/collections.h"
#include "support/long_run.h"
#include "support/planted_server.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

std::string name(std::size_t i) {
  const std::string digits = std::to_string(i);
  return "member-" + std::string(8 - digits.size(), '0') + digits;
}

/// Runs a command with an argument for each number in [first, end), in parts. `words(i)`: the arguments of element i.
template <typename Words>
void for_each(CommandHarness& server, const std::vector<std::string>& begin, std::size_t first, std::size_t end, Words words) {
  while (first < end) {
    std::vector<std::string> command = begin;
    for (const std::size_t stop = std::min(end, first + 500); first < stop; ++first) {
      for (const std::string& word : words(first)) command.push_back(word);
    }
    const std::string reply = show(server.raw(command));
    INFO(reply);
    REQUIRE(reply.find("(error)") == std::string::npos);
  }
}

void add_members(CommandHarness& server, const std::string& key, std::size_t first, std::size_t end) {
  for_each(server, {"ZADD", key}, first, end, [](std::size_t i) { return std::vector{std::to_string(i), name(i)}; });
}

/// A collection as the database stores it.
struct Stored {
  std::optional<LargeHeader> header;  ///< nullopt: the collection is not large
  std::vector<std::string> names;     ///< of the elements in the order of replies
};

/// Reads a collection, and checks that it has elements of one generation only.
Stored stored(CommandHarness& server, const std::string& key) {
  Stored result;
  IteratorOptions options;
  options.elements = true;
  const auto walk = server.db->iterate(server.db->lease(0), options);
  for (walk->seek(key); walk->valid() && main_key_of(walk->key()) == Bytes(key); walk->next()) {
    if (walk->key() == Bytes(key)) {
      if (walk->kind() != EntryKind::kHeader) continue;
      const auto header = LargeHeader::decode(walk->value());
      REQUIRE(header.is_ok());
      result.header = *header;
      continue;
    }
    REQUIRE(result.header);
    const KeyRange all = element_range(key, result.header->generation);
    REQUIRE(walk->key() >= Bytes(all.start));
    REQUIRE(walk->key() < Bytes(all.end));
    const ElementKeys keys(key, result.header->generation);
    const KeyRange ordered = keys.range(ordered_class(result.header->type));
    if (walk->key() < Bytes(ordered.start) || walk->key() >= Bytes(ordered.end)) continue;
    result.names.emplace_back(keys.name_of(walk->key()));
  }
  REQUIRE(walk->status().is_ok());
  return result;
}

/// Returns the number of entries that a command's walks have passed.
std::uint64_t passed_by(CommandHarness& server, const std::string& command) {
  const std::uint64_t before = server.db->workload(0)->since_open.range_entries;
  const std::string reply = server(command);
  INFO(command << ": " << reply);
  REQUIRE(reply.find("(error)") == std::string::npos);
  return server.db->workload(0)->since_open.range_entries - before;
}

constexpr std::size_t kMany = 5'000;
static_assert(kMany > kMaxCompactElements);

TEST_CASE("members are popped from both ends of a large sorted set: later pops do not read the popped members") {
  CommandHarness server(command_families());
  add_members(server, "z", 0, kMany);
  for (int i = 0; i < 5; ++i) {
    server("ZPOPMIN z 400");
    server("ZPOPMAX z 400");
  }
  CHECK(passed_by(server, "ZRANGE z 0 0") <= 2);
  CHECK(passed_by(server, "ZRANGE z -1 -1") <= 2);
  CHECK(passed_by(server, "ZPOPMIN z") <= 4);
  CHECK(passed_by(server, "ZPOPMAX z") <= 4);
  CHECK(passed_by(server, "ZRANK z " + name(2005)) <= 16);
  CHECK(passed_by(server, "BZPOPMIN z 1") <= 4);
  for (std::size_t i = 2002; i < 2600; ++i) server("ZREM z " + name(i));
  CHECK(passed_by(server, "ZRANGEBYSCORE z -inf +inf LIMIT 0 1") <= 2);
  CHECK(server("ZRANGE z 0 0") == "[\"" + name(2600) + "\"]");
}

TEST_CASE(
    "most members of a large sorted set were popped: ZSCAN returns the others at once, and does not pass over popped ones") {
  CommandHarness server(command_families());
  add_members(server, "z", 0, kMany);
  for (int i = 0; i < 11; ++i) server("ZPOPMIN z 400");
  CHECK(passed_by(server, "ZSCAN z 0") <= 600 + 2);
  const std::string reply = server("ZSCAN z 0");
  CHECK(reply.starts_with("[\"0\", [\"" + name(4'400) + "\", \"4400\", "));
  CHECK(reply.ends_with("\"" + name(kMany - 1) + "\", \"4999\"]]"));
  CHECK(server("OBJECT ENCODING z") == "\"skiplist\"");
}

TEST_CASE("ZSCAN of a large sorted set meets thousands of popped members: each call skips only some of them") {
  CommandHarness server(command_families());
  constexpr std::size_t kPopped = 20'000, kLive = 3'000;
  add_members(server, "z", 0, kPopped + kLive);
  for (std::size_t i = 0; i < kPopped; i += 1'000) server("ZPOPMIN z 1000");
  std::size_t found = 0, empty = 0;
  std::string cursor = "0";
  do {
    std::string reply;
    CHECK(passed_by(server, "ZSCAN z " + cursor + " COUNT 100") < kMostWalked + 300);
    reply = server("ZSCAN z " + cursor + " COUNT 100");
    const std::size_t members = static_cast<std::size_t>(std::count(reply.begin(), reply.end(), 'm')) / 2;
    found += members;
    empty += members == 0 ? 1 : 0;
    cursor = reply.substr(2, reply.find('"', 2) - 2);
  } while (cursor != "0");
  CHECK(found == kLive);
  CHECK(empty >= kPopped / kMostWalked);
}

TEST_CASE("members are added and removed in any order: the header of a large sorted set names its first and last member") {
  CommandHarness server(command_families());
  std::mt19937 random(5);
  const std::string prefix(80, 'p');  // longer than a bound: many members have the same one
  std::set<std::pair<int, std::string>> model;
  std::map<std::string, int> score_of;
  const auto remove = [&](const std::pair<int, std::string>& member) {
    score_of.erase(member.second);
    model.erase(member);
  };
  Generation generations = 0, last = 0;
  const int turns = every_nth() == 1 ? 4'000 : 1'500;
  for (int turn = 0; turn < turns; ++turn) {
    const bool grows = score_of.size() < kMaxCompactElements + 50;
    const std::string member = prefix.substr(random() % 2 * 80) + std::to_string(random() % 2'000);
    if (model.empty() || random() % 10 < (grows ? 9 : 4)) {
      const int score = static_cast<int>(random() % 7);
      if (const auto old = score_of.find(member); old != score_of.end()) model.erase({old->second, member});
      score_of[member] = score;
      model.insert({score, member});
      server("ZADD z " + std::to_string(score) + " " + member);
    } else if (const auto which = random() % 4; which == 0) {
      CHECK(server("ZPOPMIN z").find(model.begin()->second) != std::string::npos);
      remove(*model.begin());
    } else if (which == 1) {
      CHECK(server("ZPOPMAX z").find(model.rbegin()->second) != std::string::npos);
      remove(*model.rbegin());
    } else {
      const auto at = std::next(model.begin(), static_cast<std::ptrdiff_t>(random() % model.size()));
      CHECK(server("ZREM z " + at->second) == "(integer) 1");
      remove(*at);
    }
    const Stored now = stored(server, "z");
    if (!now.header) continue;
    generations += now.header->generation != std::exchange(last, now.header->generation) ? 1 : 0;
    REQUIRE(now.header->count == model.size());
    REQUIRE(now.names.size() == model.size());
    REQUIRE(now.header->lowest == bound_of(now.names.front()));
    REQUIRE(now.header->highest == bound_of(now.names.back()));
    REQUIRE_FALSE(is_mostly_dead(*now.header));
    REQUIRE(now.names.front() == scored_name({static_cast<double>(model.begin()->first), model.begin()->second}));
  }
  CHECK(generations > (every_nth() == 1 ? 5 : 1));
}

TEST_CASE("member is added below popped members of a large sorted set: no pop reads more dead members than live ones") {
  CommandHarness server(command_families());
  constexpr std::size_t kLive = kMaxCompactElements + 100;
  add_members(server, "z", 0, kLive);
  for (std::size_t i = kLive; i < kLive + 3'000; ++i) {
    add_members(server, "z", i, i + 1);
    server("ZPOPMIN z");
  }
  for (int i = 0; i < 50; ++i) {
    server("ZADD z -1 urgent");
    CHECK(passed_by(server, "ZPOPMIN z") < 4 * kLive);
  }
}

TEST_CASE("header of a large sorted set lacks its first and last member: the set is readable, and the next write adds them") {
  CommandHarness server(command_families());
  constexpr std::size_t kLive = kMaxCompactElements + 100;
  for (const std::string& write :
       std::vector<std::string>{"ZADD z 50.5 new", "ZPOPMIN z", "ZPOPMAX z", "ZINCRBY z 1000 " + name(3)}) {
    INFO(write);
    server("DEL z");
    add_members(server, "z", 0, kLive);
    LargeHeader header = *stored(server, "z").header;
    header.lowest.clear();
    header.highest.clear();
    WriteBatch batch;
    batch.put(0, "z", header.encode(), {.kind = EntryKind::kHeader});
    REQUIRE(server.db->commit(batch).is_ok());
    CHECK(server("ZRANK z " + name(7)) == "(integer) 7");
    CHECK(server("ZRANGE z -1 -1") == "[\"" + name(kLive - 1) + "\"]");
    server(write);
    const Stored now = stored(server, "z");
    CHECK(now.header->lowest == bound_of(now.names.front()));
    CHECK(now.header->highest == bound_of(now.names.back()));
  }
}

/// Adds a hash h, a set s, a list l and a sorted set z of so many elements.
void add_one_of_each(CommandHarness& server, std::size_t elements) {
  add_members(server, "z", 0, elements);
  for_each(server, {"HSET", "h"}, 0, elements, [](std::size_t i) { return std::vector{name(i), name(i)}; });
  for_each(server, {"SADD", "s"}, 0, elements, [](std::size_t i) { return std::vector{name(i)}; });
  for_each(server, {"RPUSH", "l"}, 0, elements, [](std::size_t i) { return std::vector{name(i)}; });
}

TEST_CASE("header of a large collection has a wrong count: a command that replies with all elements fails") {
  CommandHarness server(command_families());
  constexpr std::size_t kLive = kMaxCompactElements + 100;
  add_one_of_each(server, kLive);
  for (const auto& [key, command] : std::vector<std::pair<std::string, std::string>>{{"h", "HGETALL h"},
                                                                                     {"h", "HVALS h"},
                                                                                     {"s", "SMEMBERS s"},
                                                                                     {"l", "LRANGE l 0 -1"},
                                                                                     {"z", "ZRANGE z 0 -1 WITHSCORES"}}) {
    INFO(command);
    const LargeHeader right = *stored(server, key).header;
    const auto put = [&server, &right, &key = key](std::uint64_t count) {
      LargeHeader header = right;
      header.count = count;
      WriteBatch batch;
      batch.put(0, key, header.encode(), {.kind = EntryKind::kHeader});
      REQUIRE(server.db->commit(batch).is_ok());
    };
    const std::string reply = server(command);
    CHECK(reply.find(name(kLive - 1)) != std::string::npos);
    put(kLive + 1);
    CHECK(server(command).starts_with("(error)"));
    CHECK(server(command).find(name(0)) == std::string::npos);
    put(kLive);
    CHECK(server(command) == reply);
  }
}

/// Adds an element to a large collection of each type, and removes one. The header must count its elements after each write.
void header_counts_each_write() {
  CommandHarness server(command_families());
  constexpr std::size_t kLive = kMaxCompactElements + 100;
  add_one_of_each(server, kLive);
  for (const std::string line :
       {"HSET h new 1", "HDEL h new", "SADD s new", "SREM s new", "ZADD z 1 new", "ZPOPMAX z", "RPUSH l new", "LPOP l"}) {
    const std::string reply = server(line);
    demand(reply.find("(error)") == std::string::npos, "a write fails");
    const Stored now = stored(server, line.substr(line.find(' ') + 1, 1));
    demand(now.header.has_value(), "the collection is not large any more");
    demand_same(std::to_string(now.header->count), std::to_string(now.names.size()), "the count after " + line);
  }
}

TEST_CASE("planted bug leaves the count in a header as it was: the test that counts the elements finds it", "[planted]") {
  must_catch(PlantedServerBug::kCountDrifts, header_counts_each_write);
}

/// Removes members of a large set until the set is rewritten. No removed member may remain.
void rewritten_set_has_no_removed_member() {
  CommandHarness server(command_families());
  constexpr std::size_t kAll = 4 * kMaxCompactElements, kRemoved = kAll / 2 + kAll / 8;
  for_each(server, {"SADD", "s"}, 0, kAll, [](std::size_t i) { return std::vector{name(i)}; });
  const Generation first = stored(server, "s").header->generation;
  for (std::size_t i = 0; i < kRemoved; ++i) {
    demand_same(server("SREM s " + name(i)), "(integer) 1", "the number of removed members");
    demand_same(server("SISMEMBER s " + name(i)), "(integer) 0", "SISMEMBER of a removed member");
  }
  const Stored now = stored(server, "s");
  demand(now.header.has_value(), "the set is not large any more");
  demand_same(std::to_string(now.names.size()), std::to_string(kAll - kRemoved), "the number of members");
  demand(now.header->generation > first, "the set was not rewritten, or has the old generation");
}

TEST_CASE("planted bug keeps the generation of a rewritten set: the test that looks for removed members finds it", "[planted]") {
  must_catch(PlantedServerBug::kReuseGeneration, rewritten_set_has_no_removed_member);
}

TEST_CASE("collection is large: OBJECT ENCODING returns the encoding that Redis has for this size") {
  CommandHarness server(command_families());
  const auto fill = [&server](const char* add, const char* key, std::size_t count, const auto& words) {
    for_each(server, {add, key}, 0, count, words);
    return server("OBJECT ENCODING " + std::string(key));
  };
  const auto field = [](std::size_t i) { return std::vector{name(i), std::string("v")}; };
  const auto member = [](std::size_t i) { return std::vector{name(i)}; };
  const auto integer = [](std::size_t i) { return std::vector{std::to_string(i)}; };
  const auto scored = [](std::size_t i) { return std::vector{std::to_string(i), name(i) + std::string(20, 'x')}; };
  CHECK(fill("HSET", "h", 512, field) == "\"listpack\"");
  CHECK(fill("HSET", "h", 513, field) == "\"hashtable\"");
  CHECK(fill("SADD", "i", 512, integer) == "\"intset\"");
  CHECK(fill("SADD", "i", 513, integer) == "\"hashtable\"");
  CHECK(fill("SADD", "s", 128, member) == "\"listpack\"");
  CHECK(fill("SADD", "s", 129, member) == "\"hashtable\"");
  CHECK(fill("ZADD", "z", 128, scored) == "\"listpack\"");
  CHECK(fill("ZADD", "z", 129, scored) == "\"skiplist\"");
  CHECK(fill("RPUSH", "l", 481, member) == "\"listpack\"");  // 17 bytes each, up to 8 KiB
  CHECK(fill("RPUSH", "l", 1, member) == "\"quicklist\"");
  CHECK(show(server.raw({"HSET", "long", "f", std::string(3'000, 'v')})) == "(integer) 1");
  CHECK(server("OBJECT ENCODING long") == "\"hashtable\"");
}

TEST_CASE("more elements of a collection are dead than alive: the collection is rewritten with its live elements") {
  for (const std::string add : {"SADD", "HSET", "ZADD"}) {
    INFO(add);
    CommandHarness server(command_families());
    const auto words = [&add](std::size_t i) {
      return add == "SADD"   ? std::vector{name(i)}
             : add == "HSET" ? std::vector{name(i), name(i)}
                             : std::vector{std::to_string(i % 7), name(i)};
    };
    const std::string remove = add == "SADD" ? "SREM" : add == "HSET" ? "HDEL" : "ZREM";
    for_each(server, {add, "k"}, 0, kMany, words);
    server("EXPIRE k 1000");
    const Generation first = stored(server, "k").header->generation;
    for (std::size_t i = 0; i < kMany; ++i) {
      if (i % 16 != 5) server(remove + " k " + name(i));
    }
    const Stored left = stored(server, "k");
    REQUIRE(left.header);
    CHECK(left.header->generation > first);
    CHECK(left.header->count == left.names.size());
    CHECK(server("TTL k") == "(integer) 1000");
    CHECK(passed_by(server, add == "SADD"   ? "SMEMBERS k"
                            : add == "HSET" ? "HGETALL k"
                                            : "ZRANGE k 0 -1") < 3 * left.names.size() + 2 * kFewDead);
    for (std::size_t i = 5; i < kMany - 160; i += 16) server(remove + " k " + name(i));
    for (int i = 0; i < 80; ++i) {
      for_each(server, {add, "k"}, 0, 1, words);
      server(remove + " k " + name(0));
    }
    CHECK_FALSE(stored(server, "k").header);  // one entry again
    CHECK(server("TTL k") == "(integer) 1000");
    server.reopen();
    CHECK(server("EXISTS k") == "(integer) 1");
    for (std::size_t i = 0; i < kMany; ++i) server(remove + " k " + name(i));
    CHECK(server("EXISTS k") == "(integer) 0");
  }
}

TEST_CASE("large collection is being rewritten off its loop: other writers wait instead of rewriting it again") {
  CommandHarness server(command_families());
  constexpr std::size_t kLive = kMostRewrittenOnLoop + 200;
  for_each(server, {"SADD", "s"}, 0, kLive, [](std::size_t i) { return std::vector{name(i)}; });
  for (std::size_t i = 0; i < kDeadPerLive * kLive - 100; ++i) {
    server("SREM s " + name(0));
    server("SADD s " + name(0));
  }
  ManualOffload manual;
  server.env.offload = &manual;
  const Generation first = stored(server, "s").header->generation;
  std::size_t removed = 0;
  const auto removal = [&](int client) {
    return std::make_unique<Asked>(*server.dispatcher, server.client(client),
                                   std::vector<std::string>{"SREM", "s", name(100 + removed++)});
  };
  auto writer = removal(2);
  while (removed < 100 && writer->step()) writer = removal(2);
  REQUIRE_FALSE(writer->done());
  manual.run_one();  // collects the keys
  CHECK_FALSE(writer->step());
  CHECK(manual.queued() == 1);
  const auto other = removal(3);
  CHECK_FALSE(other->step());
  CHECK(manual.queued() == 1);
  manual.run_one();
  CHECK(writer->step());
  CHECK(other->step());
  const Stored left = stored(server, "s");
  CHECK(left.header->generation != first);
  CHECK(left.names.size() == kLive - removed);
}

TEST_CASE("collection is rewritten in a transaction: later commands of the transaction see the new generation") {
  CommandHarness server(command_families());
  for_each(server, {"SADD", "s"}, 0, kMany, [](std::size_t i) { return std::vector{name(i)}; });
  server("MULTI");
  for (std::size_t i = 0; i < kMany - 200; ++i) server("SREM s " + name(i));
  server("SADD s other");
  server("SCARD s");
  server("SISMEMBER s " + name(3));
  server("SISMEMBER s " + name(kMany - 1));
  CHECK(server("EXEC").ends_with("(integer) 1, (integer) 201, (integer) 0, (integer) 1]"));
  CHECK(stored(server, "s").names.size() == 201);
}

TEST_CASE("disk is full: elements can be removed from a large collection, even if that rewrites the collection") {
  Settings settings = CommandHarness::small();
  settings.max_disk_bytes = 1 << 20;
  CommandHarness server(command_families(), settings);
  for_each(server, {"SADD", "s"}, 0, kMaxCompactElements + 300, [](std::size_t i) { return std::vector{name(i)}; });
  const Generation first = stored(server, "s").header->generation;
  std::string reply;
  for (int i = 0; i < 20'000 && reply.find("MISCONF") == std::string::npos; ++i) {
    reply = server("SET filler" + std::to_string(i) + " " + std::string(200, 'v'));
    if (i % 100 != 0) continue;
    server.settle();
    server.advance(100);
  }
  REQUIRE(reply.starts_with("(error) MISCONF"));
  for (std::size_t i = 0; i < 290; ++i) REQUIRE(server("SREM s " + name(i)) == "(integer) 1");
  const Stored left = stored(server, "s");
  REQUIRE(left.header);
  CHECK(left.header->generation != first);
  CHECK(left.names.size() == kMaxCompactElements + 10);
}

TEST_CASE("member of a large sorted set is removed: older headers may name the member, so the new header has a delete debt") {
  CommandHarness server(command_families());
  add_members(server, "z", 0, kMany);
  const std::string key = "z";
  for (const Change change : {Change::kKeeps, Change::kRemoves}) {
    for (const CollectionType type : {CollectionType::kSortedSet, CollectionType::kSet}) {
      const ReadView view = server.db->lease(0);
      WriteBatch batch;
      ReadCounts counts;
      Collections collections(view, batch, counts, nullptr);
      std::optional<Found> old;
      REQUIRE(collections.locate({key, hash_key(key)}, &old).is_ok());
      LargeHeader header = *LargeHeader::decode(old->value);
      header.type = type;
      collections.put_header({key, hash_key(key)}, old, header, change);
      std::size_t cursor = 0;
      WriteBatch::Op op;
      REQUIRE(batch.next_op(&cursor, &op));
      CHECK(op.debt == (change == Change::kRemoves && type == CollectionType::kSortedSet));
    }
  }
}

TEST_CASE("earlier version wrote an over-limit collection as one entry: a write makes the collection large") {
  CommandHarness server(command_families());
  std::vector<std::string> names;
  SortedSet members;
  for (std::size_t i = 0; i < 3'000; ++i) names.push_back(name(i));
  for (std::size_t i = 0; i < names.size(); ++i) members.push_back({static_cast<double>(i), names[i]});
  WriteBatch batch;
  batch.put(0, "z", encode(members), {.kind = EntryKind::kCompact});
  REQUIRE(server.db->commit(batch).is_ok());
  server.reopen();
  CHECK(server("ZCARD z") == "(integer) 3000");
  CHECK(server("ZREM z " + names[5]) == "(integer) 1");
  CHECK(server("ZRANK z " + names[6]) == "(integer) 5");
  CHECK_FALSE(stored(server, "z").header);
  CHECK(server("ZADD z 7 new") == "(integer) 1");
  CHECK(stored(server, "z").header->count == 3'000);
  CHECK(server("ZRANGE z 5 6") == "[\"" + names[6] + "\", \"" + names[7] + "\"]");
}

TEST_CASE("large hash shrinks by HDEL: it is rewritten as one entry, unless a field has an expiry") {
  CommandHarness server(command_families());
  for_each(server, {"HSET", "h"}, 0, 400, [](std::size_t i) { return std::vector{name(i), std::to_string(i)}; });
  REQUIRE(server("HPEXPIRE h 100000 FIELDS 1 " + name(399)) == "[(integer) 1]");
  for_each(server, {"HDEL", "h"}, 0, 300, [](std::size_t i) { return std::vector{name(i)}; });
  Stored now = stored(server, "h");
  REQUIRE(now.header);
  CHECK(now.header->expiries);
  CHECK(now.header->dead >= 300);
  CHECK(now.names.size() == 100);
  REQUIRE(server("HPERSIST h FIELDS 1 " + name(399)) == "[(integer) 1]");
  CHECK(server("HDEL h " + name(300)) == "(integer) 1");
  now = stored(server, "h");
  CHECK(!now.header);  // 99 fields are one entry again
  CHECK(server("HLEN h") == "(integer) 99");
  CHECK(server("HGET h " + name(399)) == "\"399\"");
  CHECK(server("HGET h " + name(300)) == "(nil)");
}

}  // namespace TEST_FILE
