// Tests of strings, bitmaps, sketches and transfers as far as they depend on the engine: values on disk, expiries, two databases,
// large ranges.
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "commands/families.h"
#include "server/dispatch/harness.h"
#include "store/dump.h"
#include "store/hyperloglog.h"
#include "store/key_codec.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

/// Moves all data to files, so that none of it is in memory.
void send_to_disk(CommandHarness& server) {
  for (const DatabaseId database : {0u, 1u}) REQUIRE(server.db->flush(database).is_ok());
  server.settle();
  server.reopen();
}

/// Returns true if the command runs off the loop, where it waits for its pages itself.
bool offloaded(Bytes command) { return command.starts_with("LCS "); }

std::uint64_t number(const std::string& reply) {
  REQUIRE(reply.starts_with("(integer) "));
  return std::stoull(reply.substr(10));
}

/// Sets keys from "key:<first>" on, with 7 digits, a thousand per command.
void set_many(CommandHarness& server, int first, int keys) {
  for (int done = 0; done < keys;) {
    std::vector<std::string> command{"MSET"};
    for (int i = 0; i < 1000 && done < keys; ++i, ++done) {
      const std::string digits = std::to_string(first + done);
      command.push_back("key:" + std::string(7 - digits.size(), '0') + digits);
      command.emplace_back("v");
    }
    REQUIRE(show(server.raw(command)) == "OK");
  }
}

TEST_CASE("values are on disk: each command finds its values, whichever pages are missing at first") {
  CommandHarness server(command_families());
  const std::string large(100'000, 'x');
  const auto prepare = [&] {
    REQUIRE(server("FLUSHALL") == "OK");
    REQUIRE(server("MSET a ohmytext b mynewtext c \"\\xff\\x0f\" n 41") == "OK");
    REQUIRE(show(server.raw({"SET", "large", large, "EX", "1000"})) == "OK");
    REQUIRE(server("PFADD h 1 2 3") == "(integer) 1");
    REQUIRE(server("PFADD g 3 4 5") == "(integer) 1");
    REQUIRE(server("COPY a there DB 1") == "(integer) 1");
    send_to_disk(server);
  };
  struct Case {
    const char *command, *reply, *then, *then_reply;
  };
  const Case cases[] = {
      {"RENAME a b", "OK", "MGET a b", "[(nil), \"ohmytext\"]"},
      {"RENAMENX a b", "(integer) 0", "MGET a b", "[\"ohmytext\", \"mynewtext\"]"},
      {"RENAME large b", "OK", "TTL b", "(integer) 1000"},
      {"RENAME large b", "OK", "STRLEN b", "(integer) 100000"},
      {"COPY a b REPLACE", "(integer) 1", "MGET a b", "[\"ohmytext\", \"ohmytext\"]"},
      {"COPY a there DB 1", "(integer) 0", "GET a", "\"ohmytext\""},
      {"COPY large there DB 1 REPLACE", "(integer) 1", "TTL large", "(integer) 1000"},
      {"MOVE b 1", "(integer) 1", "EXISTS b", "(integer) 0"},
      {"BITOP XOR r a b c", "(integer) 9", "BITCOUNT r", "(integer) 30"},
      {"BITOP OR a none", "(integer) 0", "EXISTS a", "(integer) 0"},
      {"SETBIT c 15 0", "(integer) 1", "GET c", "\"\\xff\\x0e\""},
      {"BITFIELD c GET u8 0 SET u8 8 1", "[(integer) 255, (integer) 15]", "GET c", "\"\\xff\\x01\""},
      {"BITPOS c 0", "(integer) 8", "BITCOUNT c 8 -1 BIT", "(integer) 4"},
      {"PFMERGE h g", "OK", "PFCOUNT h", "(integer) 5"},
      {"PFCOUNT h g", "(integer) 5", "PFCOUNT h", "(integer) 3"},
      {"PFADD h 9", "(integer) 1", "PFCOUNT h", "(integer) 4"},
      {"LCS a b", "\"mytext\"", "LCS a b LEN", "(integer) 6"},
      {"OBJECT ENCODING n", "\"int\"", "OBJECT ENCODING large", "\"raw\""},
      {"MSETNX new 1 a 2", "(integer) 0", "MGET new a", "[(nil), \"ohmytext\"]"},
      {"SETRANGE large 99999 yz", "(integer) 100001", "GETRANGE large 99998 -1", "\"xyz\""},
      {"GETRANGE large 5 9", "\"xxxxx\"", "STRLEN large", "(integer) 100000"},
      {"GETBIT large 799999", "(integer) 0", "GETBIT large 1", "(integer) 1"},
      {"SETBIT large 800007 1", "(integer) 0", "BITCOUNT large", "(integer) 400001"},
      {"SETBIT large 799999 1", "(integer) 0", "GETRANGE large 99998 -1", "\"xy\""},
      {"BITPOS large 1 99999", "(integer) 799993", "BITPOS large 0 0 0", "(integer) 0"},
      {"BITFIELD_RO large GET u8 0 GET u8 #99999 GET u8 #100000", "[(integer) 120, (integer) 120, (integer) 0]", "EXISTS large",
       "(integer) 1"},
      {"BITFIELD large SET u8 #70000 65 GET u8 #69999", "[(integer) 120, (integer) 120]", "GETRANGE large 69999 70001",
       "\"xAx\""},
      {"BITOP NOT r large", "(integer) 100000", "BITCOUNT r", "(integer) 400000"},
      {"BITOP AND r large b", "(integer) 100000", "BITCOUNT r", "(integer) 27"},
      {"APPEND large yz", "(integer) 100002", "GETRANGE large 99999 -1", "\"xyz\""},
      {"EXPIRE large 50", "(integer) 1", "TTL large", "(integer) 50"},
      {"PERSIST large", "(integer) 1", "TTL large", "(integer) -1"},
      {"GETEX large EX 5", nullptr, "TTL large", "(integer) 5"},
      {"DEL large", "(integer) 1", "EXISTS large", "(integer) 0"},
      {"INCRBYFLOAT n 0.5", "\"41.5\"", "GET n", "\"41.5\""},
  };
  for (const Case& test : cases) {
    prepare();
    INFO(test.command);
    const std::uint64_t before = server.db->stats().fetches;
    const std::string reply = server(test.command);
    if (test.reply != nullptr) CHECK(reply == test.reply);
    if (!offloaded(test.command)) CHECK(server.db->stats().fetches > before);
    CHECK(server(test.then) == test.then_reply);
    send_to_disk(server);
    CHECK(server(test.then) == test.then_reply);
  }
}

TEST_CASE("large value is on disk: DUMP and RESTORE copy it unchanged") {
  CommandHarness server(command_families());
  std::string large(300'000, 'x');
  for (std::size_t i = 0; i < large.size(); i += 7) large[i] = static_cast<char>(i);
  REQUIRE(show(server.raw({"SET", "k", large})) == "OK");
  send_to_disk(server);
  const std::string reply = server.raw({"DUMP", "k"});
  const std::string payload = reply.substr(reply.find('\n') + 1, dump_string(large).size());
  CHECK(show(server.raw({"RESTORE", "copy", "0", payload})) == "OK");
  send_to_disk(server);
  CHECK(show(server.raw({"GET", "copy"})) == show(server.raw({"GET", "k"})));
}

TEST_CASE("large collection is on disk: DUMP and RESTORE copy it unchanged, off their event loop if they take long") {
  CommandHarness server(command_families());
  std::vector<std::string> push{"RPUSH", "k"};
  for (int i = 0; i < 16'000; ++i) push.push_back("element " + std::to_string(i));
  REQUIRE(show(server.raw(push)) == "(integer) 16000");
  send_to_disk(server);
  const std::string reply = server.raw({"DUMP", "k"});
  const std::size_t begin = reply.find('\n') + 1;
  const std::string payload = reply.substr(begin, reply.size() - begin - 2);
  CHECK(show(server.raw({"RESTORE", "copy", "0", payload})) == "OK");
  send_to_disk(server);
  CHECK(show(server.raw({"LRANGE", "copy", "0", "-1"})) == show(server.raw({"LRANGE", "k", "0", "-1"})));
  CHECK(show(server.raw({"RESTORE", "copy", "0", payload})) == "(error) BUSYKEY Target key name already exists.");
  CHECK(show(server.raw({"RESTORE", "copy", "1000", payload, "REPLACE"})) == "OK");
  CHECK(server("PTTL copy") == "(integer) 1000");
  server.advance(1001);
  CHECK(server("EXISTS copy") == "(integer) 0");
}

TEST_CASE("target key of MOVE or COPY has expired: the command succeeds; RENAME and COPY keep the source's expiry") {
  CommandHarness server(command_families());
  CHECK(server("SET k here") == "OK");
  CHECK(server("SELECT 1") == "OK");
  CHECK(server("SET k there PX 50") == "OK");
  CHECK(server("SELECT 0") == "OK");
  CHECK(server("MOVE k 1") == "(integer) 0");
  CHECK(server("COPY k k DB 1") == "(integer) 0");
  server.advance(51);
  CHECK(server("MOVE k 1") == "(integer) 1");
  CHECK(server("EXISTS k") == "(integer) 0");
  CHECK(server("SELECT 1") == "OK");
  CHECK(server("GET k") == "\"here\"");
  CHECK(server("TTL k") == "(integer) -1");
  CHECK(server("SET soon v PX 50") == "OK");
  CHECK(server("RENAME soon later") == "OK");
  CHECK(server("COPY later last") == "(integer) 1");
  CHECK(server("PTTL last") == "(integer) 50");
  server.advance(51);
  CHECK(server("RENAME later x") == "(error) ERR no such key");
  CHECK(server("EXISTS last") == "(integer) 0");
}

TEST_CASE("PFCOUNT counts a sketch with an expiry: the sketch gets the count, and keeps its expiry") {
  CommandHarness server(command_families());
  const auto value = [&] {
    const std::string reply = server.raw({"GET", "h"});
    return reply.substr(reply.find('\n') + 1, reply.size() - reply.find('\n') - 3);
  };
  CHECK(server("PFADD h a b c") == "(integer) 1");
  CHECK(server("EXPIRE h 100") == "(integer) 1");
  CHECK(hll::cached_count(value()) == std::nullopt);
  const SeqNum before = server.db->visible_seq();
  CHECK(server("PFCOUNT h") == "(integer) 3");
  CHECK(hll::cached_count(value()) == 3);
  CHECK(server.db->visible_seq() > before);
  const SeqNum after = server.db->visible_seq();
  CHECK(server("PFCOUNT h") == "(integer) 3");
  CHECK(server.db->visible_seq() == after);
  CHECK(server("PFCOUNT h h") == "(integer) 3");
  CHECK(server("TTL h") == "(integer) 100");
  CHECK(server("PFADD h a") == "(integer) 0");
  CHECK(hll::cached_count(value()) == 3);
  CHECK(server("PFADD h d") == "(integer) 1");
  CHECK(hll::cached_count(value()) == std::nullopt);
  CHECK(server("PFCOUNT h") == "(integer) 4");
}

TEST_CASE("writes are stopped: PFCOUNT replies, and does not store its count") {
  CommandHarness server(command_families());
  REQUIRE(server("PFADD h a b c") == "(integer) 1");
  server.stop_writes();
  const SeqNum before = server.db->visible_seq();
  CHECK(server("PFCOUNT h") == "(integer) 3");
  CHECK(server.db->visible_seq() == before);
  CHECK(server.stats.totals().stalled == 0);
}

TEST_CASE("one loop runs PFADD while the other runs PFCOUNT: no element is lost") {
  // No flush runs in this test, so all sketches must fit into one memtable; otherwise writes would be stopped.
  Settings settings = CommandHarness::small();
  settings.tree.memtable_size = 64 << 20;
  settings.memory_budget = 512 << 20;
  CommandHarness server(command_families(), settings);
  constexpr int kRounds = 1000, kBefore = 5000;
  // The sketches are dense, so that counting takes a while.
  std::vector<std::string> many{"PFADD", "h"};
  for (int i = 0; i < kBefore; ++i) many.push_back(std::to_string(i));
  REQUIRE(show(server.raw(many)) == "(integer) 1");
  Dispatcher other(server.env, 7);
  const auto run = [&](Dispatcher& dispatcher, std::uint64_t id, const auto& next_command) {
    FakeLoop loop;
    Client client;
    client.id = id;
    client.loop = &loop;
    for (std::vector<std::string> words = next_command(); !words.empty(); words = next_command()) {
      const std::vector<Bytes> command(words.begin(), words.end());
      std::vector<PendingCommand> span(1);
      span[0].client = &client;
      span[0].args.list = command;
      dispatcher.run_pass(span);
      if (span[0].state != PendingCommand::State::kDone) std::abort();
      server.db->write_log();
    }
  };
  using Words = std::vector<std::string>;
  std::atomic<int> added{0};
  std::thread adds([&] {
    run(*server.dispatcher, 100, [&] {
      const int i = added.fetch_add(1);
      return i < kRounds ? Words{"PFADD", "h", std::to_string(kBefore + i)} : Words{};
    });
  });
  std::thread counts([&] { run(other, 101, [&] { return added < kRounds ? Words{"PFCOUNT", "h"} : Words{}; }); });
  adds.join();
  counts.join();
  std::string expected = hll::make_empty();
  for (int i = 0; i < kBefore + kRounds; ++i) REQUIRE(hll::add(&expected, std::to_string(i)));
  CHECK(server("PFCOUNT h") == "(integer) " + std::to_string(*hll::count(expected)));
}

TEST_CASE("range is large: COUNTRANGE estimates its keys; with EXACT or for a small range, it counts them") {
  CommandHarness server(command_families());
  set_many(server, 0, 130'000);
  CHECK(number(server("COUNTRANGE - + EXACT")) == 130'000);
  CHECK(number(server("COUNTRANGE key:0000100 key:0099000")) == 98'900);
  REQUIRE(server.db->flush(0).is_ok());
  server.settle();
  CHECK(number(server("COUNTRANGE - + EXACT")) == 130'000);
  CHECK(number(server("COUNTRANGE key:0000100 key:0099000")) == 98'900);
  const std::uint64_t all = number(server("COUNTRANGE - +"));
  CHECK(all > 125'000);
  CHECK(all < 135'000);
  const std::uint64_t most = number(server("COUNTRANGE key:0010000 key:0125000"));
  CHECK(most > 110'000);
  CHECK(most < 120'000);
}

TEST_CASE("COUNTRANGE estimates a range: the estimate includes memtables, runs and tombstones, and only this range") {
  CommandHarness server(command_families());
  const auto estimate = [&](Bytes start, Bytes end) { return server.db->estimate_keys(0, engine_range(start, end)); };
  CHECK(estimate("a", "z") == 0);
  set_many(server, 0, 10'000);
  CHECK(estimate("key:0001000", "key:0002000") == 1000);
  REQUIRE(server.db->flush(0).is_ok());
  set_many(server, 10'000, 10'000);
  REQUIRE(server.db->flush(0).is_ok());
  const auto near = [](std::uint64_t value, std::uint64_t expected) {
    return value * 100 > expected * 93 && value * 100 < expected * 107;
  };
  CHECK(near(estimate("a", "z"), 20'000));
  CHECK(near(estimate("key:0005000", "key:0015000"), 10'000));
  CHECK(near(estimate("key:0002000", "key:0004000"), 2000));
  CHECK(estimate("a", "b") == 0);
  CHECK(estimate("x", "z") == 0);
  for (int i = 0; i < 5000; i += 100) {
    std::vector<std::string> command{"DEL"};
    for (int k = i; k < i + 100; ++k) {
      const std::string digits = std::to_string(k);
      command.push_back("key:" + std::string(7 - digits.size(), '0') + digits);
    }
    REQUIRE(show(server.raw(command)) == "(integer) 100");
  }
  CHECK(near(estimate("a", "z"), 15'000));
  CHECK(estimate("key:0000000", "key:0005000") < 300);
}

}  // namespace TEST_FILE
