// Tests of ranks in large sorted sets and sets: every reply is compared with that of an ordered set, while other commands write.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "commands/families.h"
#include "server/dispatch/harness.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

using Member = std::pair<int, std::string>;

/// A sorted set, and its copy in memory.
class Ranked {
 public:
  explicit Ranked(std::uint64_t seed) : server(command_families()), random(seed) {}

  std::string name(std::uint64_t i) const {
    std::string digits = std::to_string(i);
    return "m" + std::string(6 - digits.size(), '0') + digits;
  }
  void set_score(const std::string& member, int score, const std::string& command = "ZADD z ") {
    remove_copy(member);
    members.insert({score, member});
    scores[member] = score;
    server(command + std::to_string(score) + " " + member);
  }
  void remove_copy(const std::string& member) {
    const auto found = scores.find(member);
    if (found == scores.end()) return;
    members.erase({found->second, member});
    scores.erase(found);
  }
  Member at(std::size_t rank) const { return *std::next(members.begin(), static_cast<std::ptrdiff_t>(rank)); }
  std::size_t rank_of(const Member& member) const {
    return static_cast<std::size_t>(std::distance(members.begin(), members.find(member)));
  }
  std::size_t below(int score) const {
    return static_cast<std::size_t>(std::distance(members.begin(), members.lower_bound({score, ""})));
  }
  void check() {
    const std::size_t rank = random() % members.size();
    const Member member = at(rank);
    REQUIRE(server("ZRANK z " + member.second) == "(integer) " + std::to_string(rank));
    REQUIRE(server("ZREVRANK z " + member.second) == "(integer) " + std::to_string(members.size() - 1 - rank));
    REQUIRE(server("ZRANGE z " + std::to_string(rank) + " " + std::to_string(rank)) == "[\"" + member.second + "\"]");
    const int low = static_cast<int>(random() % 1'000), high = low + static_cast<int>(random() % 500);
    const std::size_t counted = below(high + 1) - below(low);
    const std::string range = std::to_string(low) + " " + std::to_string(high);
    REQUIRE(server("ZCOUNT z " + range) == "(integer) " + std::to_string(counted));
    if (counted > 700) {
      const std::size_t skip = 300 + random() % 300;
      REQUIRE(server("ZRANGEBYSCORE z " + range + " LIMIT " + std::to_string(skip) + " 1") ==
              "[\"" + at(below(low) + skip).second + "\"]");
      REQUIRE(server("ZRANGE z " + std::to_string(high) + " " + std::to_string(low) + " BYSCORE REV LIMIT " +
                     std::to_string(skip) + " 2") ==
              "[\"" + at(below(high + 1) - 1 - skip).second + "\", \"" + at(below(high + 1) - 2 - skip).second + "\"]");
    }
  }

  CommandHarness server;
  std::mt19937_64 random;
  std::set<Member> members;
  std::map<std::string, int> scores;
};

/// Returns the number of entries that iterators visit for a command.
std::uint64_t steps(CommandHarness& server, const std::string& command) {
  const auto before = server.db->workload(0)->since_open.range_entries;
  server(command);
  return server.db->workload(0)->since_open.range_entries - before;
}

TEST_CASE("large sorted set is written by all kinds of commands: ranks, counts and ranges are exact") {
  Ranked z(GENERATE(1, 2, 3));
  for (std::uint64_t i = 0; i < 3'000; ++i) z.set_score(z.name(i), static_cast<int>(z.random() % 1'000));
  for (int turn = 0; turn < 1'500; ++turn) {
    const std::string member = z.name(z.random() % 4'000);
    const int score = static_cast<int>(z.random() % 1'000);
    switch (z.random() % 12) {
      case 0:
        z.server("ZREM z " + member);
        z.remove_copy(member);
        break;
      case 1: {
        const Member first = *z.members.begin();
        REQUIRE(z.server("ZPOPMIN z").find(first.second) != std::string::npos);
        z.remove_copy(first.second);
        break;
      }
      case 2: {
        const std::size_t from = z.random() % (z.members.size() - 20);
        z.server("ZREMRANGEBYRANK z " + std::to_string(from) + " " + std::to_string(from + 9));
        for (int i = 0; i < 10; ++i) z.remove_copy(z.at(from).second);
        break;
      }
      case 3:
        z.server("MULTI");
        z.set_score(member, score);
        z.set_score(z.name(5'000 + static_cast<std::uint64_t>(turn)), score);
        z.server("EXEC");
        break;
      case 4:
        z.set_score(member, score, "EVAL \"return redis.call('ZADD', 'z', ARGV[1], ARGV[2])\" 0 ");
        break;
      case 5:
        z.server.settle();
        if (z.random() % 10 == 0) REQUIRE(z.server.db->flush(0).is_ok());
        break;
      default:
        z.set_score(member, score);
    }
    z.check();
  }
  z.server.reopen();
  z.check();
}

TEST_CASE("sorted set is deleted, created again, moved or stored: ZRANK returns the ranks of its present members") {
  Ranked z(4);
  const auto fill = [&](int factor) {
    for (std::uint64_t i = 0; i < 1'000; ++i) z.set_score(z.name(i), static_cast<int>(i) * factor % 1'009);
  };
  const auto empty = [&] {
    z.members.clear();
    z.scores.clear();
  };
  fill(1);
  z.check();
  z.server("DEL z");
  empty();
  fill(3);
  z.check();
  z.server("RENAME z other");
  z.server("RENAME other z");
  z.check();
  z.server("ZUNIONSTORE z 1 z");
  z.check();
  z.server("SELECT 1");
  z.server("ZADD z 1 elsewhere");
  z.server("SELECT 0");
  z.server("SWAPDB 0 1");
  CHECK(z.server("ZRANK z elsewhere") == "(integer) 0");
  z.server("SWAPDB 0 1");
  z.check();
  z.server("FLUSHDB");
  empty();
  fill(7);
  z.check();
}

TEST_CASE("ZRANK is called repeatedly on a large sorted set: the first call may read all members, later calls read few") {
  Ranked z(5);
  std::string command;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    z.members.insert({static_cast<int>(i), z.name(i)});
    command += " " + std::to_string(i) + " " + z.name(i);
    if (i % 1'000 != 999) continue;
    z.server("ZADD z" + command);
    command.clear();
  }
  CHECK(z.server("ZRANK z " + z.name(19'999)) == "(integer) 19999");
  for (const std::uint64_t i : {15'000u, 3u, 9'999u}) {
    CHECK(z.server("ZRANK z " + z.name(i)) == "(integer) " + std::to_string(i));
    CHECK(steps(z.server, "ZRANK z " + z.name(i)) < 400);
    CHECK(steps(z.server, "ZRANGE z " + std::to_string(i) + " " + std::to_string(i)) < 400);
    CHECK(steps(z.server, "ZCOUNT z 3 " + std::to_string(i)) < 1'200);
    CHECK(steps(z.server, "ZRANDMEMBER z") < 400);
  }
  z.server("ZADD z 7000 new");
  CHECK(steps(z.server, "ZRANK z new") < 400);
  CHECK(z.server("ZRANK z new") == "(integer) 7001");
  CHECK(z.server("ZREVRANK z " + z.name(19'999)) == "(integer) 0");
}

TEST_CASE("random members of a large sorted set are requested: each member may come, and a command reads few members") {
  CommandHarness server(command_families());
  std::string command;
  for (int i = 0; i < 6'000; ++i) {
    command += " m" + std::to_string(i);
    if (i % 1'000 != 999) continue;
    server("SADD s" + command);
    command.clear();
  }
  for (int i = 0; i < 20; ++i) server("SRANDMEMBER s");  // their walks make the index
  CHECK(steps(server, "SRANDMEMBER s") < 600);
  std::set<std::string> popped;
  for (int i = 0; i < 5'000; ++i) popped.insert(server("SPOP s"));
  CHECK(popped.size() == 5'000);
  CHECK(server("SCARD s") == "(integer) 1000");
}

TEST_CASE("transaction or script reads ranks: unchanged sets are read by their rank index, and its own writes are seen") {
  Ranked z(6);
  std::string command;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    command += " " + std::to_string(i) + " " + z.name(i);
    if (i % 1'000 != 999) continue;
    z.server("ZADD z" + command);
    command.clear();
  }
  CHECK(z.server("ZRANK z " + z.name(19'999)) == "(integer) 19999");  // makes the index
  const std::string rank = "ZRANK z " + z.name(9'000), script = "EVAL \"return redis.call('ZRANK', KEYS[1], ARGV[1])\" 1 z ";
  z.server("SET before 1");
  z.server("MULTI");
  z.server("SET other 1");
  z.server(rank);
  z.server("ZRANGE z 12000 12000");
  CHECK(steps(z.server, "EXEC") < 800);
  CHECK(z.server(script + z.name(9'000)) == "(integer) 9000");
  CHECK(steps(z.server, script + z.name(9'000)) < 400);

  z.server("MULTI");
  z.server(rank);
  z.server("ZADD z -1 new");
  z.server(rank);
  z.server("ZREM z new " + z.name(0));
  z.server(rank);
  CHECK(z.server("EXEC") == "[(integer) 9000, (integer) 1, (integer) 9001, (integer) 2, (integer) 8999]");
  z.server("MULTI");
  z.server("SWAPDB 0 1");
  z.server(rank);
  z.server("SWAPDB 0 1");
  z.server(rank);
  CHECK(z.server("EXEC") == "[OK, (nil), OK, (integer) 8999]");
  z.server("MULTI");
  z.server("DEL z");
  z.server(rank);
  CHECK(z.server("EXEC") == "[(integer) 1, (nil)]");
}

}  // namespace TEST_FILE
