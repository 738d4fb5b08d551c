// Tests of commands while the database is being opened: those flagged `loading` run, and all others reply -LOADING.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "commands/families.h"
#include "server/dispatch/harness.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

/// The harness, and a dispatcher that has no database.
struct Loading {
  Loading() {
    server.env.db = nullptr;
    server.env.memory = &memory;
    server.dispatcher = std::make_unique<Dispatcher>(server.env, 7);
  }
  std::string operator()(Bytes line) { return server(line); }

  MemoryAccount memory;
  CommandHarness server{command_families()};
};

/// Returns the fewest arguments, after the command's name, that the command takes.
std::vector<std::string> shortest(const Command& command) {
  std::vector<std::string> words;
  const CommandSpec& spec = *command.spec;
  if (!spec.container.empty()) words.emplace_back(spec.container);
  words.emplace_back(spec.name);
  const auto arity = static_cast<std::size_t>(spec.arity < 0 ? -spec.arity : spec.arity);
  while (words.size() < arity) words.emplace_back("1");
  return words;
}

TEST_CASE("database is being opened: commands without the loading flag reply LOADING") {
  Loading loading;
  const std::string refusal = "(error) LOADING Redis is loading the dataset in memory";
  CHECK(loading("GET k") == refusal);
  CHECK(loading("SET k v") == refusal);
  CHECK(loading("PING") == refusal);
  CHECK(loading("FLUSHALL") == refusal);
  CHECK(loading("NOSUCH").starts_with("(error) ERR unknown command"));
}

TEST_CASE("database is being opened: every command with the loading flag replies") {
  Loading loading;
  int ran = 0;
  for (const Command& command : loading.server.table.all()) {
    if (command.spec->run == nullptr || !command.spec->has(kLoading)) continue;
    if (command.spec->name == "monitor" || command.spec->name == "shutdown" || command.spec->name == "quit") continue;
    INFO(command.full_name);
    const std::string reply = loading.server.raw(shortest(command), ran + 10);
    CHECK(reply.find("LOADING") == std::string::npos);
    ++ran;
  }
  CHECK(ran > 60);
}

TEST_CASE("database is being opened: INFO reports that it is loading") {
  Loading loading;
  const std::string info = loading("INFO persistence");
  CHECK(info.find("\\nloading:1") != std::string::npos);
  CHECK(info.find("loading_total_bytes:") != std::string::npos);
}

TEST_CASE("client connects while the database is being opened: its SELECT, WATCH and MULTI stay in effect afterwards") {
  CommandHarness server(command_families());
  REQUIRE(server("SELECT 3") == "OK");
  REQUIRE(server("SET there 1") == "OK");
  Db* const db = server.env.db;
  MemoryAccount* const account = server.env.memory;
  MemoryAccount memory;
  server.env.db = nullptr;
  server.env.memory = &memory;
  server.dispatcher = std::make_unique<Dispatcher>(server.env, 7);
  const int client = 2;
  CHECK(server("SELECT 3", client) == "OK");
  CHECK(server("WATCH there", client) == "OK");
  CHECK(server("MULTI", client) == "OK");
  CHECK(server("ECHO x", client) == "QUEUED");
  CHECK(server("MULTI", 3) == "OK");
  CHECK(server("GET there", 3).starts_with("(error) LOADING"));
  CHECK(server("EXEC", 3).starts_with("(error) EXECABORT"));
  CHECK(server("MULTI", 3) == "OK");
  CHECK(server("ECHO y", 3) == "QUEUED");
  CHECK(server("EXEC", 3) == "[\"y\"]");
  server.env.db = db;
  server.env.memory = account;
  server.dispatcher = std::make_unique<Dispatcher>(server.env, 8);
  // While no database was open, the watched key counted as missing.
  CHECK(server("EXEC", client) == "(nil)");
  CHECK(server("GET there", client) == "\"1\"");
  CHECK(memory.charged() == 0);
  CHECK(server("MULTI", client) == "OK");
  CHECK(server("GET there", client) == "QUEUED");
  CHECK(memory.charged() == 0);
  CHECK(server("EXEC", client) == "[\"1\"]");
}

}  // namespace TEST_FILE
