// Tests of groups of overwrites (dispatch/write_group.cc). The commands of a group have the same batch, so that their clients
// have the same seen_seq afterwards.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "commands/families.h"
#include "server/dispatch/harness.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

/// Commands of several clients that a loop receives at once.
class Pass {
 public:
  Pass(CommandHarness& server, std::vector<std::pair<int, std::string>> lines) : server_(server) {
    for (const auto& [client, line] : lines) words_.push_back(split_line(line));
    for (const auto& words : words_) argv_.emplace_back(words.begin(), words.end());
    pending_.resize(lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      pending_[i].client = &server.client(lines[i].first);
      pending_[i].args.list = argv_[i];
    }
  }
  void run() { server_.dispatcher->run_pass(pending_); }
  /// Returns the replies that a client has got.
  std::string replies(int client) { return show(server_.client(client).out.to_string()); }
  PendingCommand::State state(std::size_t i) const { return pending_[i].state; }

 private:
  CommandHarness& server_;
  std::vector<std::vector<std::string>> words_;
  std::vector<std::vector<Bytes>> argv_;
  std::vector<PendingCommand> pending_;
};

/// Opens a server whose clients 1 and 2 have all rights, and whose database has a tree.
CommandHarness& ready(CommandHarness& server) {
  server("SET made 1", 1);
  server("PING", 2);
  return server;
}

bool grouped(CommandHarness& server) { return server.client(1).seen_seq == server.client(2).seen_seq; }

TEST_CASE("SETs of two clients are consecutive in a pass: they commit together, and each client gets its replies") {
  CommandHarness server(command_families());
  Pass pass(ready(server), {{1, "SET a 1"}, {1, "SETEX b 100 2"}, {2, "PSETEX c 100000 3"}, {2, "SET a 4"}, {1, "SET d 5"}});
  pass.run();
  CHECK(pass.replies(1) == "OK\nOK\nOK");
  CHECK(pass.replies(2) == "OK\nOK");
  CHECK(grouped(server));
  CHECK(server("MGET a b c d", 3) == R"(["4", "2", "3", "5"])");
  CHECK(server("TTL b", 3) == "(integer) 100");
}

TEST_CASE("GET is between two SETs of a key: GET returns the value of the SET before, not of the SET after") {
  CommandHarness server(command_families());
  Pass pass(ready(server), {{1, "SET a 1"}, {1, "SET a 2"}, {2, "GET a"}, {2, "SET a 3"}, {1, "SET a 4"}, {1, "INCR a"}});
  pass.run();
  CHECK(pass.replies(1) == "OK\nOK\nOK\n(integer) 5");
  CHECK(pass.replies(2) == "\"2\"\nOK");
}

TEST_CASE("overwrite of a group fails: this overwrite's reply is an error, and the others take effect") {
  CommandHarness server(command_families());
  Pass pass(ready(server), {{1, "SET a 1"}, {1, "SETEX b 0 2"}, {1, "SET c 3"}, {2, "SET d 4"}, {2, "SET e"}, {2, "SET f 6"}});
  pass.run();
  CHECK(pass.replies(1) == "OK\n(error) ERR invalid expire time in 'setex' command\nOK");
  CHECK(pass.replies(2) == "OK\n(error) ERR wrong number of arguments for 'set' command\nOK");
  CHECK(server("MGET a b c d f", 3) == R"(["1", (nil), "3", "4", "6"])");
}

TEST_CASE("large collection is overwritten twice in a pass: its elements are deleted, and other keys get their values") {
  CommandHarness server(command_families());
  ready(server);
  std::string fields;
  for (int i = 0; i < 2'000; ++i) fields += " f" + std::to_string(i) + " v";
  REQUIRE(server("HSET h" + fields) == "(integer) 2000");
  Pass pass(server, {{1, "SET a 1"}, {1, "SET h 2"}, {2, "SET h 3"}, {2, "SET c 4"}});
  const SeqNum before = server.db->visible_seq();
  pass.run();
  CHECK(server.db->visible_seq() - before == 5);  // the elements are deleted once
  CHECK(pass.replies(1) == "OK\nOK");
  CHECK(pass.replies(2) == "OK\nOK");
  CHECK(server("MGET a h c", 3) == R"(["1", "3", "4"])");
  CHECK(server("DEL h", 3) == "(integer) 1");
  CHECK(server("HGETALL h", 3) == "[]");
}

TEST_CASE("clients have different databases: their overwrites are not grouped") {
  CommandHarness server(command_families());
  ready(server);
  server("SELECT 1", 2);
  Pass pass(server, {{1, "SET a 1"}, {1, "SET b 1"}, {2, "SET a 2"}, {2, "SET b 2"}});
  pass.run();
  CHECK_FALSE(grouped(server));
  CHECK(server("MGET a b", 1).ends_with(R"(["1", "1"])"));
  CHECK(server("MGET a b", 2).ends_with(R"(["2", "2"])"));
}

TEST_CASE("client is blocked in BLPOP: overwrites are not grouped, and SET of the key does not wake the client") {
  CommandHarness server(command_families());
  ready(server);
  Pass blocked(server, {{3, "BLPOP a 0"}});
  blocked.run();
  REQUIRE(blocked.state(0) == PendingCommand::State::kWaiting);
  Pass pass(server, {{1, "SET a 1"}, {2, "SET b 2"}, {1, "SET c 3"}});
  pass.run();
  CHECK_FALSE(grouped(server));
  CHECK(pass.replies(1) == "OK\nOK");
  CHECK(pass.replies(2) == "OK");
  CHECK(blocked.replies(3).empty());
}

TEST_CASE("client has MULTI, CLIENT REPLY OFF or no rights: its overwrites are not grouped") {
  CommandHarness server(command_families());
  ready(server);
  SECTION("MULTI") {
    server("MULTI", 2);
    Pass pass(server, {{1, "SET a 1"}, {2, "SET a 2"}, {2, "SET b 2"}, {1, "SET c 3"}});
    pass.run();
    CHECK(pass.replies(2) == "QUEUED\nQUEUED");
    CHECK(server("GET a", 3) == "\"1\"");
  }
  SECTION("CLIENT REPLY OFF") {
    server("CLIENT REPLY OFF", 2);
    Pass pass(server, {{1, "SET a 1"}, {2, "SET b 2"}, {2, "SET c 2"}, {1, "SET d 3"}});
    pass.run();
    CHECK(pass.replies(2).empty());
    CHECK(server("MGET a b c d", 3) == R"(["1", "2", "2", "3"])");
  }
  SECTION("user has rights to some keys only") {
    server("ACL SETUSER default resetkeys ~a*", 1);
    Pass pass(server, {{1, "SET a 1"}, {2, "SET b 2"}, {2, "SET a2 2"}});
    pass.run();
    CHECK(pass.replies(1) == "OK");
    CHECK(pass.replies(2) == "(error) NOPERM No permissions to access a key\nOK");
  }
}

TEST_CASE("a client tracks keys: overwrites are not grouped, since each has invalidations of its own") {
  CommandHarness server(command_families());
  ready(server);
  server("HELLO 3", 3);
  server("CLIENT TRACKING ON", 3);
  Pass pass(server, {{1, "SET a 1"}, {2, "SET b 2"}, {1, "SET c 3"}});
  pass.run();
  CHECK_FALSE(server.client(1).seen_seq == server.client(2).seen_seq);
  CHECK(pass.replies(1) == "OK\nOK");
}

TEST_CASE("writes are stopped: grouped SETs have no effect, and wait until they can run again") {
  CommandHarness server(command_families());
  ready(server);
  server.stop_writes();
  Pass pass(server, {{1, "SET a 1"}, {1, "SET b 1"}, {2, "SET c 2"}});
  pass.run();
  CHECK(pass.state(0) == PendingCommand::State::kWaiting);
  CHECK(pass.state(1) == PendingCommand::State::kNotRun);
  CHECK(pass.state(2) == PendingCommand::State::kWaiting);
  CHECK(pass.replies(1).empty());
  CHECK(server("EXISTS a b c", 3) == "(integer) 0");
}

TEST_CASE("pass has 200 overwrites, more than one group takes: all take effect in order") {
  CommandHarness server(command_families());
  ready(server);
  std::vector<std::pair<int, std::string>> lines;
  for (int i = 0; i < 200; ++i) lines.emplace_back(1 + i % 2, "SET k" + std::to_string(i % 50) + " " + std::to_string(i));
  Pass pass(server, lines);
  pass.run();
  for (int i = 0; i < 50; ++i) CHECK(server("GET k" + std::to_string(i), 3) == "\"" + std::to_string(150 + i) + "\"");
}

TEST_CASE("overwrites have large values: a group takes no more overwrites after 64 KiB") {
  CommandHarness server(command_families());
  const std::string value(20'000, 'v');
  Pass pass(ready(server),
            {{1, "SET a " + value}, {1, "SET b " + value}, {1, "SET c " + value}, {1, "SET d " + value}, {2, "SET e 1"}});
  pass.run();
  CHECK(pass.replies(1) == "OK\nOK\nOK\nOK");
  CHECK_FALSE(grouped(server));
  CHECK(server("STRLEN d", 3) == "(integer) 20000");
}

}  // namespace TEST_FILE
