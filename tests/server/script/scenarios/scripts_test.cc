// Tests of EVAL off its loop, of a script that runs again, and of the cache of scripts. tests/contract/test_scripts.py has the
// rest.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "commands/families.h"
#include "dispatch/script_cache.h"
#include "server/dispatch/manual_offload.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

const std::string kSlow = "local x = 0 for i = 1, 500000 do x = x + i end ";

struct Server : CommandHarness {
  Server() : CommandHarness(command_families()) { env.offload = &manual; }

  /// Begins a command of client 1.
  std::unique_ptr<Asked> ask(std::vector<std::string> words) {
    return std::make_unique<Asked>(*dispatcher, client(1), std::move(words));
  }
  /// Runs a command to its end, with all steps that it leaves to other threads, and returns its reply.
  std::string end(Asked& asked) {
    for (int i = 0; i < 40 && !asked.done(); ++i) {
      manual.run_one();
      asked.step();
    }
    REQUIRE(asked.done());
    return asked.reply();
  }

  ManualOffload manual;
};

std::shared_ptr<const Script> script(const std::string& name) {
  return std::make_shared<const Script>(Script{.sha = name, .body = "return 1"});
}

TEST_CASE("script is long: it moves to a thread for scripts, while a short script stays on its event loop") {
  Server server;
  const auto quick = server.ask({"EVAL", "return 'quick'", "0"});
  CHECK(quick->step());
  CHECK(quick->reply() == "\"quick\"");
  const auto slow = server.ask({"EVAL", kSlow + "return 'slow'", "0"});
  REQUIRE_FALSE(slow->step());
  CHECK(server.manual.last() == OffloadClass::kScript);
  CHECK(server.end(*slow) == "\"slow\"");
}

TEST_CASE("another client writes a key of a long script: the script runs again, and no write is lost") {
  Server server;
  const auto asked = server.ask({"EVAL", kSlow + "return redis.call('incr', KEYS[1])", "1", "k"});
  REQUIRE_FALSE(asked->step());
  REQUIRE(server.manual.run_one());  // collects the keys
  asked->step();                     // marks them
  REQUIRE(server.manual.run_one());  // runs the script
  CHECK(server("SET k 10", 2) == "OK");
  CHECK(server.end(*asked) == "(integer) 11");
  CHECK(server("GET k", 2) == "\"11\"");
}

TEST_CASE("another client writes an undeclared key of a long script: the script runs again, and no write is lost") {
  Server server;
  const auto asked = server.ask({"EVAL", kSlow + "return redis.call('incr', 'k')", "0"});
  REQUIRE_FALSE(asked->step());
  REQUIRE(server.manual.run_one());
  asked->step();
  REQUIRE(server.manual.run_one());
  CHECK(server("SET k 10", 2) == "OK");
  CHECK(server.end(*asked) == "(integer) 11");
}

TEST_CASE("script fails after a write: the write stays, and later commands of EXEC see it") {
  Server server;
  CHECK(server("EVAL \"redis.call('set', 'k', 1) error('x')\" 0").starts_with("(error) ERR user_script:1: x script: "));
  CHECK(server("GET k") == "\"1\"");
}

TEST_CASE("script cache is full: it drops the EVAL script that was longest unused, and keeps those of SCRIPT LOAD") {
  ScriptCache cache;
  REQUIRE(cache.add(script("loaded"), true, nullptr));
  REQUIRE(cache.add(script("used"), false, nullptr));
  REQUIRE(cache.add(script("old"), false, nullptr));
  REQUIRE(cache.find("used") != nullptr);  // now "old" is the one longest unused
  for (std::size_t i = 2; i <= ScriptCache::kMostEvaluated; ++i) REQUIRE(cache.add(script(std::to_string(i)), false, nullptr));
  CHECK(cache.find("old") == nullptr);
  CHECK(cache.find("used") != nullptr);
  CHECK(cache.find("loaded") != nullptr);
  CHECK(cache.size() == ScriptCache::kMostEvaluated + 1);
  cache.clear();
  CHECK(cache.size() == 0);
  CHECK(cache.memory() == 0);
}

TEST_CASE("SCRIPT KILL is called: it kills all running scripts, or reports that there is none") {
  ScriptCache cache;
  CHECK_FALSE(cache.kill_all());
  const ScriptCache::Running first(cache), second(cache);
  CHECK(cache.kill_all());
  CHECK(first.is_killed());
  CHECK(second.is_killed());
}

}  // namespace TEST_FILE
