// Tests of commands that wait for an element: how the wait begins and ends, and that a wake-up reaches a client that can use it.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "commands/families.h"
#include "server/dispatch/manual_offload.h"
#include "support/planted_server.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

struct Server : CommandHarness {
  Server() : CommandHarness(command_families()) {}

  /// Runs the command of a client until it waits.
  std::unique_ptr<Asked> block(int client_number, const std::string& line) {
    auto asked = std::make_unique<Asked>(*dispatcher, client(client_number), split_line(line));
    REQUIRE_FALSE(asked->step());
    return asked;
  }
  /// Runs another client's command, which wakes the client.
  std::string wake(int client_number, const std::string& line) {
    std::string reply = (*this)(line, 99);
    loop.wait(static_cast<std::uint64_t>(client_number));
    return reply;
  }
  [[nodiscard]] std::size_t waiting() const { return key_waiters.size(); }
};

TEST_CASE("element is pushed to a list that a client waits for: the client gets it, and is not blocked any more") {
  Server server;
  const auto pop = server.block(1, "BLPOP other q 0");
  CHECK(pop->retry_ms() == 0);
  CHECK(server.waiting() == 1);
  CHECK(server.blocked.has(1));
  CHECK(server.wake(1, "RPUSH q x y") == "(integer) 2");
  REQUIRE(pop->step());
  CHECK(pop->reply() == "[\"q\", \"x\"]");
  CHECK(server.waiting() == 0);
  CHECK_FALSE(server.blocked.has(1));
  CHECK(server("LRANGE q 0 -1") == "[\"y\"]");
}

TEST_CASE("RESTORE creates a list that a client waits for: the client gets the element") {
  Server server;
  server("RPUSH list x y");
  const std::string reply = server.raw({"DUMP", "list"});
  const std::size_t begin = reply.find('\n') + 1;
  const auto pop = server.block(1, "BLPOP q 0");
  CHECK(show(server.raw({"RESTORE", "q", "0", reply.substr(begin, reply.size() - begin - 2)}, 99)) == "OK");
  server.loop.wait(1);
  REQUIRE(pop->step());
  CHECK(pop->reply() == "[\"q\", \"x\"]");
  CHECK(server("LRANGE q 0 -1") == "[\"y\"]");
}

TEST_CASE("no element comes: BLPOP ends with null after its timeout, and not before") {
  Server server;
  const auto pop = server.block(1, "BLPOP q 1.5");
  CHECK(pop->retry_ms() == 1500);
  server.advance(1499);
  REQUIRE_FALSE(pop->step());
  CHECK(pop->retry_ms() == 1);
  server.advance(1);
  REQUIRE(pop->step());
  CHECK(pop->reply() == "(nil)");
  CHECK(server.waiting() == 0);
}

TEST_CASE("BLPOP timeout is below a millisecond: it is rounded up, since 0 would wait without end") {
  Server server;
  CHECK(server.block(1, "BLPOP q 0.0001")->retry_ms() == 1);
}

TEST_CASE("element comes at the moment of BLPOP's timeout: the client gets it") {
  Server server;
  const auto pop = server.block(1, "BLPOP q 1");
  server.advance(1000);
  server.wake(1, "RPUSH q x");
  REQUIRE(pop->step());
  CHECK(pop->reply() == "[\"q\", \"x\"]");
}

TEST_CASE("two clients wait in BLPOP: one push serves the first, two elements serve both") {
  Server server;
  const auto first = server.block(1, "BLPOP q 0"), second = server.block(2, "BRPOP q 0");
  server.wake(1, "RPUSH q a");
  REQUIRE(first->step());
  REQUIRE_FALSE(second->step());
  const auto third = server.block(3, "BLPOP q 0");
  server.wake(2, "RPUSH q b c");
  REQUIRE(second->step());
  CHECK(second->reply() == "[\"q\", \"c\"]");
  server.loop.wait(3);  // the second has left an element
  REQUIRE(third->step());
  CHECK(third->reply() == "[\"q\", \"b\"]");
}

/// Pushes two elements for two waiting clients. Only the first client is woken by the push; it must wake the second.
void served_client_wakes_the_next() {
  Server server;
  const auto first = server.block(1, "BLPOP q 0"), second = server.block(2, "BLPOP q 0");
  server.wake(1, "RPUSH q a b");
  demand(first->step(), "the first client still waits");
  demand(server.loop.has_resumed(2), "the list has an element, but the second client was not woken");
  demand(second->step(), "the second client still waits");
  demand_same(first->reply() + second->reply(), R"(["q", "a"]["q", "b"])", "what both clients have popped");
}

TEST_CASE("planted bug wakes no further client after one was served: the test of two clients finds it", "[planted]") {
  must_catch(PlantedServerBug::kDropBaton, served_client_wakes_the_next);
}

TEST_CASE("woken BLPOP client has disconnected: the next client gets the element") {
  Server server;
  const auto first = server.block(1, "BLPOP q 0"), second = server.block(2, "BLPOP q 0");
  server.wake(1, "RPUSH q a");
  first->close();
  server.loop.wait(2);
  REQUIRE(second->step());
  CHECK(second->reply() == "[\"q\", \"a\"]");
}

TEST_CASE("CLIENT UNBLOCK ERROR ends the wait of a woken BLPOP client: the next client gets the element") {
  Server server;
  const auto first = server.block(1, "BLPOP q 0"), second = server.block(2, "BLPOP q 0");
  server.wake(1, "RPUSH q a");
  CHECK(server("CLIENT UNBLOCK 1 ERROR", 99) == "(integer) 1");
  REQUIRE(first->step());
  CHECK(first->reply() == "(error) UNBLOCKED client unblocked via CLIENT UNBLOCK");
  server.loop.wait(2);
  REQUIRE(second->step());
}

TEST_CASE("CLIENT UNBLOCK is called for a waiting client: the wait ends with null") {
  Server server;
  const auto pop = server.block(1, "BZMPOP 0 1 q MIN");
  CHECK(server("CLIENT UNBLOCK 1", 99) == "(integer) 1");
  REQUIRE(pop->step());
  CHECK(pop->reply() == "(nil)");
}

TEST_CASE("command of a woken BLPOP client fails: the next client gets the element") {
  Server server;
  REQUIRE(server("SET string v", 99) == "OK");
  const auto first = server.block(1, "BLMOVE q string LEFT LEFT 0"), second = server.block(2, "BLPOP q 0");
  server.wake(1, "RPUSH q a");
  REQUIRE(first->step());
  CHECK(first->reply().find("WRONGTYPE") != std::string::npos);
  server.loop.wait(2);
  REQUIRE(second->step());
  CHECK(second->reply() == "[\"q\", \"a\"]");
}

TEST_CASE("key has another type: a new BLPOP fails, and a waiting BLPOP ignores the key") {
  Server server;
  const auto pop = server.block(1, "BLPOP wrong q 0");
  REQUIRE(server("SET wrong v", 99) == "OK");
  server.wake(1, "RPUSH q a");
  REQUIRE(pop->step());
  CHECK(pop->reply() == "[\"q\", \"a\"]");
  CHECK(server("BLPOP wrong q 0").find("WRONGTYPE") != std::string::npos);
  CHECK(server("BZPOPMIN wrong 0").find("WRONGTYPE") != std::string::npos);
}

TEST_CASE("client waits for a list, and a set is stored at its key: the client continues to wait") {
  Server server;
  const auto pop = server.block(1, "BLPOP q 0");
  server.wake(1, "SADD q m");
  REQUIRE_FALSE(pop->step());
  CHECK(server("DEL q", 99) == "(integer) 1");
  server.wake(1, "RPUSH q a");
  REQUIRE(pop->step());
}

TEST_CASE("RENAME, COPY, MOVE, SWAPDB or EXEC creates a list: the client that waits for the list is woken") {
  Server server;
  const auto serves = [&](const std::vector<std::string>& commands) {
    const auto pop = server.block(1, "BLPOP q 0");
    for (std::size_t i = 0; i + 1 < commands.size(); ++i) server(commands[i], 99);
    server.wake(1, commands.back());
    REQUIRE(pop->step());
    return pop->reply() == "[\"q\", \"x\"]";
  };
  CHECK(serves({"RPUSH s x", "RENAME s q"}));
  CHECK(serves({"RPUSH s x", "COPY s q"}));
  CHECK(serves({"SELECT 3", "RPUSH q x", "MOVE q 0"}));
  CHECK(serves({"RPUSH q x", "SWAPDB 0 3"}));
  CHECK(serves({"SELECT 0", "MULTI", "RPUSH q x", "RPUSH q2 x", "EXEC"}));
}

TEST_CASE("client waits for a list that one EXEC stores and deletes: the client continues to wait") {
  Server server;
  const auto pop = server.block(1, "BLPOP q 0");
  for (const char* line : {"MULTI", "RPUSH q x", "DEL q"}) server(line, 99);
  server.wake(1, "EXEC");
  REQUIRE_FALSE(pop->step());
  CHECK(server.waiting() == 1);
}

TEST_CASE("blocking command runs inside MULTI: it replies at once") {
  Server server;
  for (const char* line :
       {"MULTI", "BLPOP q 0", "BLMOVE q r LEFT LEFT 0", "BRPOPLPUSH q r 0", "BLMPOP 0 1 q LEFT", "BZPOPMAX q 0"}) {
    server(line);
  }
  CHECK(server("EXEC") == "[(nil), (nil), (nil), (nil), (nil)]");
  CHECK(server.waiting() == 0);
}

TEST_CASE("blocking command has too many keys for its event loop: the command runs on a thread, and gets the element") {
  Server server;
  ManualOffload manual;
  server.env.offload = &manual;
  std::vector<std::string> words{"BLPOP"};
  for (int i = 0; i < 2000; ++i) words.push_back("k" + std::to_string(i));
  words.emplace_back("0");
  Asked pop(*server.dispatcher, server.client(1), words);
  const auto run = [&] {  // runs the command until it waits for another client
    for (bool more = true; more && !pop.step();) {
      more = false;
      while (manual.run_one()) more = true;
    }
  };
  run();
  REQUIRE_FALSE(pop.done());
  CHECK(server.waiting() == 1);
  CHECK_FALSE(server.intents.any());
  server.wake(1, "RPUSH k1999 a");
  run();
  REQUIRE(pop.done());
  CHECK(pop.reply() == "[\"k1999\", \"a\"]");
  CHECK(server.waiting() == 0);
}

TEST_CASE("blocking command names too many keys to wait for: the command fails, unless one of the keys has an element") {
  Server server;
  std::vector<std::string> words{"BLPOP"};
  for (std::size_t i = 0; i <= KeyWaiters::kMaxKeys; ++i) words.push_back("k" + std::to_string(i));
  words.emplace_back("0");
  CHECK(show(server.raw(words)) == "(error) ERR a command can wait for at most 16384 keys");
  REQUIRE(server("RPUSH k16384 a", 99) == "(integer) 1");
  CHECK(show(server.raw(words)) == "[\"k16384\", \"a\"]");
}

TEST_CASE("keys of a blocking command do not fit into the memory budget: the command is refused instead of waiting") {
  Server server;
  std::vector<std::string> words{"BLPOP"};
  for (int i = 0; i < 1000; ++i) words.push_back("k" + std::to_string(i));
  words.emplace_back("0");
  MemoryCharge all;
  std::uint64_t bytes = server.db->memory().room();
  while (!server.db->try_charge(MemoryAccount::Kind::kCommands, bytes)) bytes -= 65'536;
  all.took(server.db->memory(), MemoryAccount::Kind::kCommands, bytes);
  CHECK(show(server.raw(words)).find("OOM") != std::string::npos);
  CHECK(server.waiting() == 0);
}

TEST_CASE("writes are stopped when an element comes: the BLPOP client gets it once writes continue") {
  Server server;
  const auto pop = server.block(2, "BLPOP q 0");
  server.wake(2, "RPUSH q a");
  server.stop_writes();
  REQUIRE_FALSE(pop->step());
  CHECK(pop->retry_ms() != 0);
  server.settle();
  server.advance(1000);
  REQUIRE(pop->step());
  CHECK(pop->reply() == "[\"q\", \"a\"]");
}

TEST_CASE("blocking timeout is not a number, negative, or too large: the error is Redis's") {
  Server server;
  CHECK(server("BLPOP q x") == "(error) ERR timeout is not a float or out of range");
  CHECK(server("BLPOP q nan") == "(error) ERR timeout is not a float or out of range");
  CHECK(server("BLPOP q -1") == "(error) ERR timeout is negative");
  CHECK(server("BLPOP q 1e300") == "(error) ERR timeout is out of range");
  CHECK(server("BLPOP q 9223372036854775") == "(error) ERR timeout is out of range");
}

}  // namespace TEST_FILE
