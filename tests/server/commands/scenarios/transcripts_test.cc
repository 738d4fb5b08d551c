// Runs the transcripts (tests/transcripts/*.txt): commands and their replies, in order. Those in long_double/ are for processors whose
// long double is that of x86.
//
//   run [client=N]         each line of the input is a command; the output has a line for each reply
//   pipeline [client=N]    like run, with all commands in one pipeline
//   advance ms=N           time passes
//   flush | settle | reopen
//   password is=TEXT       like CONFIG SET requirepass
//   user name=N is=TEXT    adds a user with this password
//
// Redis gives the same replies to a file whose name starts with redis_: tests/contract/test_differential.py compares it with
// redis-server.
#include <catch2/catch.hpp>
#include <limits>
#include <sstream>

#include "commands/families.h"
#include "server/dispatch/harness.h"
#include "support/datadriven.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

TEST_CASE("transcript file has commands and replies: each command gets its reply from the server") {
  std::unique_ptr<CommandHarness> server;
  const auto start = [&server](const std::string&) {
    server.reset();
    // The stamp modes: write_time in database 0, explicit in 5, expire_time in 6.
    Settings settings = CommandHarness::small();
    for (const auto& [database, mode] : {std::pair{5u, StampMode::kExplicit}, {6u, StampMode::kExpireTime}}) {
      settings.overrides[database] = settings.tree;
      settings.overrides[database].stamp = mode;
    }
    server = std::make_unique<CommandHarness>(command_families(), settings);
  };
  const auto run = [&server](const DataCase& test) -> std::string {
    const int client = std::stoi(test.arg("client", "1"));
    std::vector<std::vector<std::string>> commands;
    std::istringstream lines(test.input);
    for (std::string line; std::getline(lines, line);) commands.push_back(split_line(line));
    std::string out;
    if (test.command == "run") {
      for (const auto& command : commands) {
        const std::string reply = show(server->raw(command, client));
        if (!reply.empty()) out += reply + "\n";
      }
    } else if (test.command == "pipeline") {
      out = show(server->raw_pipeline(commands, client)) + "\n";
    } else if (test.command == "advance") {
      server->advance(std::stoull(test.arg("ms")));
    } else if (test.command == "flush") {
      REQUIRE((*server)("TREE.FLUSH") == "OK");
    } else if (test.command == "settle") {
      server->settle();
    } else if (test.command == "reopen") {
      server->reopen();
    } else if (test.command == "password") {
      server->control.password = test.arg("is");
    } else if (test.command == "user") {
      server->control.passwords[test.arg("name")] = test.arg("is");
    } else {
      FAIL(test.where << ": unknown directive " << test.command);
    }
    return out;
  };
  const std::string transcripts = std::string(EBBTIDE_TEST_DIR) + "/../../transcripts";
  run_datadriven_dir(transcripts, start, run);
  if (std::numeric_limits<long double>::digits == 64) run_datadriven_dir(transcripts + "/long_double", start, run);
}

}  // namespace TEST_FILE
