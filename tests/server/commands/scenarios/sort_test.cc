// Tests of SORT beyond its replies (tests/transcripts/redis_sort.txt): values on disk, memory, limits, random orders.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "commands/families.h"
#include "dispatch/random.h"
#include "server/dispatch/harness.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

/// Pushes the numbers below `count` to the list "list", in descending order.
void push_numbers(CommandHarness& server, int count) {
  for (int left = count; left > 0;) {
    std::vector<std::string> words{"RPUSH", "list"};
    for (int i = 0; i < 1000 && left > 0; ++i) words.push_back(std::to_string(--left));
    REQUIRE(show(server.raw(words)).starts_with("(integer)"));
  }
}

void send_to_disk(CommandHarness& server) {
  REQUIRE(server.db->flush(0).is_ok());
  server.settle();
  server.reopen();
}

TEST_CASE("SORT with BY and GET needs keys on disk: the pages of the keys are read together") {
  CommandHarness server(command_families());
  constexpr int kKeys = 500;
  push_numbers(server, kKeys);
  for (int i = 0; i < kKeys; ++i) {
    const std::string n = std::to_string(i);
    REQUIRE(show(server.raw({"SET", "w" + n, std::to_string(kKeys - i)})) == "OK");
    REQUIRE(show(server.raw({"HSET", "h" + n, "f", "value " + n + std::string(200, '.')})) == "(integer) 1");
  }
  send_to_disk(server);
  const std::uint64_t before = server.db->stats().fetches;
  CHECK(server("SORT list BY w* LIMIT 0 2") == "[\"499\", \"498\"]");
  CHECK(server.db->stats().fetches - before <= 3);  // the list, then the keys of BY
  CHECK(server("SORT list BY w* LIMIT 0 1 GET h*->f STORE d") == "(integer) 1");
  CHECK(server("LRANGE d 0 -1") == "[\"value 499" + std::string(200, '.') + "\"]");
}

TEST_CASE("values of BY do not fit into memory together: SORT ALPHA fails, but a SORT by numbers succeeds") {
  CommandHarness server(command_families());  // its budget is 64 MiB
  const std::string number = std::string(2 << 20, '0');
  push_numbers(server, 40);
  for (int i = 0; i < 40; ++i) {
    REQUIRE(show(server.raw({"SET", "w" + std::to_string(i), number + std::to_string(40 - i)})) == "OK");
    if (i % 8 == 7) send_to_disk(server);
  }
  send_to_disk(server);
  CHECK(server("SORT list BY w* LIMIT 0 2") == "[\"39\", \"38\"]");
  const std::string failed = server("SORT list BY w* ALPHA LIMIT 0 2");
  CHECK(failed.starts_with("(error) OOM command not allowed"));
  CHECK(server("SORT list BY w* ALPHA STORE d").starts_with("(error) OOM command not allowed"));
  CHECK(server("EXISTS d") == "(integer) 0");
  CHECK(server("SORT list LIMIT 0 1 GET w* STORE d") == "(integer) 1");  // an element of 2 MiB
  CHECK(server("SORT list LIMIT 0 2") == "[\"0\", \"1\"]");
}

TEST_CASE("result of SORT with STORE is larger than one entry: the result becomes a large list") {
  CommandHarness server(command_families());
  push_numbers(server, 6000);
  server("SET d text");
  CHECK(server("SORT list GET # GET # GET none* STORE d") == "(integer) 18000");
  CHECK(server("LRANGE d 0 3") == "[\"0\", \"0\", \"\", \"1\"]");
  CHECK(show(server.raw({"SET", "w1", std::string(600 << 10, 'x')})) == "OK");
  CHECK(server("SORT list LIMIT 1 1 GET w* GET w* STORE d") == "(integer) 2");
  CHECK(server("LLEN d") == "(integer) 2");
  CHECK(server("SORT list GET # GET none* STORE d") == "(integer) 12000");
}

TEST_CASE("key of BY expires: SORT treats the key as missing") {
  CommandHarness server(command_families());
  server("RPUSH list 1 2");
  server("SET w1 5 PX 100");
  CHECK(server("SORT list BY w*") == "[\"2\", \"1\"]");
  CHECK(server("SORT list GET w*") == "[\"5\", (nil)]");
  server.advance(100);
  CHECK(server("SORT list BY w*") == "[\"1\", \"2\"]");
  CHECK(server("SORT list GET w*") == "[(nil), (nil)]");
}

TEST_CASE("pattern of BY or GET gives keys that are longer than allowed: SORT treats the keys as missing") {
  CommandHarness server(command_families());
  const std::string element(40'000, 'e'), half(40'000, 'h');
  REQUIRE(show(server.raw({"RPUSH", "list", element, std::string(40'000, '\0')})) == "(integer) 2");
  CHECK(show(server.raw({"SORT", "list", "BY", half + "*", "GET", "*" + half, "GET", half + "*->f"})) ==
        "[(nil), (nil), (nil), (nil)]");
}

TEST_CASE("lists and weights are random: SORT returns the order of std::sort, on its event loop and off it") {
  std::uint64_t seed = 5;
  const auto below = [&seed](std::uint64_t n) { return next_random(&seed) % n; };
  for (int round = 0; round < 20; ++round) {
    CommandHarness server(command_families());
    const std::uint64_t count = below(round % 4 == 3 ? 5000 : 50) + 1;
    std::map<std::string, int> weights;
    std::vector<std::string> elements, words{"RPUSH", "list"};
    std::vector<std::string> sets{"MSET"};
    for (std::uint64_t i = 0; i < count; ++i) {
      elements.push_back(std::to_string(below(10'000)));
      if (below(3) == 0) continue;
      const int weight = static_cast<int>(below(100)) - 50;
      sets.insert(sets.end(), {"w" + elements.back(), std::to_string(weight)});
      weights[elements.back()] = weight;
    }
    words.insert(words.end(), elements.begin(), elements.end());
    server.raw(words);
    server.raw(sets);
    const bool descending = below(2) == 0;
    std::sort(elements.begin(), elements.end(), [&](const std::string& a, const std::string& b) {
      const int x = weights[a], y = weights[b];
      return descending ? (x != y ? x > y : a > b) : (x != y ? x < y : a < b);
    });
    const std::uint64_t first = below(count), length = below(count) + 1;
    std::string expected = "[";
    for (std::uint64_t i = first; i < std::min(count, first + length); ++i) expected += "\"" + elements[i] + "\", ";
    expected.replace(expected.size() - 2, 2, "]");
    const std::string line = std::string("SORT list BY w* ") + (descending ? "DESC" : "ASC") + " LIMIT " + std::to_string(first) +
                             " " + std::to_string(length);
    CHECK(server(line) == expected);
    server(line + " STORE d");
    CHECK(server("LRANGE d 0 -1") == expected);
  }
}

TEST_CASE("key of BY is written during SORT with STORE on another loop: the stored order includes all earlier writes") {
  Settings settings = CommandHarness::small();  // no flush runs in this test, so all writes must fit into one memtable
  settings.tree.memtable_size = 64 << 20;
  settings.memory_budget = 512 << 20;
  CommandHarness server(command_families(), settings);
  push_numbers(server, 500);
  constexpr int kRounds = 150;
  Dispatcher other(server.env, 7);
  const auto run = [&server](Dispatcher& dispatcher, Client& client, const std::vector<std::string>& words) {
    const std::vector<Bytes> command(words.begin(), words.end());
    std::vector<PendingCommand> span(1);
    span[0].client = &client;
    span[0].args.list = command;
    dispatcher.run_pass(span);
    if (span[0].state != PendingCommand::State::kDone) std::abort();
    server.db->write_log();
    std::string reply = client.out.to_string();
    client.out.consume(client.out.size());
    return reply;
  };
  FakeLoop loops[2];
  Client clients[2];
  for (int i = 0; i < 2; ++i) {
    clients[i].id = 100 + static_cast<std::uint64_t>(i);
    clients[i].loop = &loops[i];
  }
  std::atomic<bool> over{false};
  std::atomic<int> sorts{0};
  std::thread sorting([&] {
    const auto sort = split_line("SORT list BY w* DESC LIMIT 0 1 GET w* STORE d");
    for (; !over; ++sorts) {
      if (run(other, clients[1], sort) != ":1\r\n") std::abort();
    }
  });
  int older = 0;
  for (int i = 1; i <= kRounds; ++i) {
    const std::string n = std::to_string(2 * i), now = "*1\r\n$" + std::to_string(n.size()) + "\r\n" + n + "\r\n";
    const auto read = [&] { return run(*server.dispatcher, clients[0], {"LRANGE", "d", "0", "-1"}); };
    run(*server.dispatcher, clients[0], {"SET", "w7", std::to_string(2 * i - 1)});
    for (int reads = 0; reads < 10; ++reads) read();  // a SORT begins, and reads the first of the two values
    run(*server.dispatcher, clients[0], {"SET", "w7", n});
    const std::string first = read();
    std::string later = first;
    for (const int before = sorts; sorts < before + 2;) {
      later = read();
      if (later != first && later != now) ++older;
    }
    if (read() != now) ++older;  // a whole SORT has run since the SET, so its result must have the new value
  }
  over = true;
  sorting.join();
  CHECK(older == 0);
}

}  // namespace TEST_FILE
