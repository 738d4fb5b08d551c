// Tests that random elements are uniform: HRANDFIELD, SRANDMEMBER, ZRANDMEMBER and SPOP choose each element, and each pair of
// elements, equally often. Small and large collections are tested.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "commands/families.h"
#include "server/dispatch/harness.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

std::string name(std::size_t i) {
  const std::string digits = std::to_string(i);
  return "n" + std::string(4 - digits.size(), '0') + digits;
}

/// Adds elements with these numbers.
void add(CommandHarness& server, const std::string& command, std::size_t first, std::size_t end) {
  std::vector<std::string> words{command, "k"};
  for (std::size_t i = first; i < end; ++i) {
    if (command == "ZADD") words.push_back(std::to_string(i % 10));
    words.push_back(name(i));
    if (command == "HSET") words.emplace_back("v");
  }
  REQUIRE(show(server.raw(words)).starts_with("(integer)"));
}

/// Returns the names in a reply.
std::vector<std::string> names_in(const std::string& reply) {
  std::vector<std::string> names;
  for (std::size_t at = reply.find('n'); at != std::string::npos; at = reply.find('n', at + 1))
    names.push_back(reply.substr(at, 5));
  return names;
}

/// Checks that the counts are those of a uniform choice among `outcomes`: the sum of squared deviations (chi-square) is within
/// five standard deviations of the expected sum.
void check_uniform(const std::map<std::string, std::size_t>& counts, std::size_t outcomes) {
  std::size_t all = 0;
  for (const auto& [outcome, count] : counts) all += count;
  const double expected = static_cast<double>(all) / static_cast<double>(outcomes);
  double squares = expected * static_cast<double>(outcomes - counts.size());  // outcomes that never came
  for (const auto& [outcome, count] : counts) squares += std::pow(static_cast<double>(count) - expected, 2) / expected;
  const double freedom = static_cast<double>(outcomes) - 1;
  CHECK(counts.size() <= outcomes);
  CHECK(std::abs(squares - freedom) < 5 * std::sqrt(2 * freedom));
}

struct Kind {
  const char *add, *remove, *random;
};
constexpr Kind kKinds[] = {{"HSET", "HDEL", "HRANDFIELD"}, {"SADD", "SREM", "SRANDMEMBER"}, {"ZADD", "ZREM", "ZRANDMEMBER"}};

TEST_CASE("random element is chosen: each element is equally likely, also after others were removed and added") {
  for (const Kind& kind : kKinds) {
    for (const std::size_t size : {std::size_t{60}, std::size_t{400}}) {
      INFO(kind.random << " of " << size);
      CommandHarness server(command_families());
      add(server, kind.add, 0, 2 * size);
      for (std::size_t i = 0; i < 2 * size; i += 2) REQUIRE(server(kind.remove + (" k " + name(i))) == "(integer) 1");
      if (size > 256) REQUIRE(server.db->flush(0).is_ok());
      add(server, kind.add, 2 * size, 2 * size + 20);
      std::map<std::string, std::size_t> one, several, repeated;
      for (int turn = 0; turn < 4'000; ++turn) {
        for (const std::string& chosen : names_in(server(std::string(kind.random) + " k"))) ++one[chosen];
        if (turn % 4 != 0) continue;
        const auto distinct = names_in(server(std::string(kind.random) + " k 5"));
        REQUIRE(distinct.size() == 5);
        for (const std::string& chosen : distinct) ++several[chosen];
        for (const std::string& chosen : names_in(server(std::string(kind.random) + " k -5"))) ++repeated[chosen];
      }
      check_uniform(one, size + 20);
      check_uniform(repeated, size + 20);
      // Distinct elements vary a little less than independent ones.
      check_uniform(several, size + 20);
    }
  }
}

TEST_CASE("several random elements are chosen without repeats: each combination is equally likely, not only each element") {
  for (const Kind& kind : kKinds) {
    INFO(kind.random);
    CommandHarness server(command_families());
    add(server, kind.add, 0, 20);
    std::map<std::string, std::size_t> pairs;
    for (int turn = 0; turn < 8'000; ++turn) ++pairs[server(std::string(kind.random) + " k 2")];
    check_uniform(pairs, 20 * 19 / 2);
  }
}

TEST_CASE("SPOP pops from a small or large set: each member is equally likely to be popped first") {
  for (const std::size_t size : {std::size_t{60}, std::size_t{300}}) {
    INFO(size);
    CommandHarness server(command_families());
    add(server, "SADD", 0, size);
    std::map<std::string, std::size_t> popped;
    for (int turn = 0; turn < 6'000; ++turn) {
      const std::string reply = turn % 3 == 0 ? server("SPOP k 1") : server("SPOP k");
      const auto names = names_in(reply);
      REQUIRE(names.size() == 1);
      ++popped[names.front()];
      REQUIRE(server("SADD k " + names.front()) == "(integer) 1");
    }
    check_uniform(popped, size);
  }
}

}  // namespace TEST_FILE
