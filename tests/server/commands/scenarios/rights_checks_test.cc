// Tests of checks of rights that are made off the loop, since keys are compared with many patterns.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "commands/families.h"
#include "dispatch/permissions.h"
#include "dispatch/rights_check.h"
#include "server/dispatch/manual_offload.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

const std::string kNoKey = "(error) NOPERM No permissions to access a key";
const std::string kNoChannel = "(error) NOPERM No permissions to access a channel";

/// Keys that take long to compare with the patterns. Only the pattern that is compared last matches the first.
const std::string kAllowed = std::string(40'000, 'x') + ":tenant0:", kDenied = std::string(40'000, 'x');

struct Server : CommandHarness {
  Server() : CommandHarness(command_families()) { env.offload = &manual; }

  /// Makes client 2 act as a user with patterns that take long to compare.
  void log_in(const std::string& rules = "") {
    std::vector<std::string> words{"ACL", "SETUSER", "app", "on", ">pw", "+@all"};
    for (int i = 0; i < 1000; ++i) {
      words.push_back("~*:tenant" + std::to_string(i) + ":*");
      words.push_back("&*:tenant" + std::to_string(i) + ":*");
    }
    for (const std::string& rule : split_line(rules)) words.push_back(rule);
    set(words);
    REQUIRE((*this)("AUTH app pw", 2) == "OK");
  }
  /// Changes users. ACL SETUSER runs off its loop.
  void set(const std::vector<std::string>& words) {
    Asked asked(*dispatcher, client(1), words);
    REQUIRE_FALSE(asked.step());
    REQUIRE(manual.run_one());
    REQUIRE(asked.step());
    REQUIRE(asked.reply() == "OK");
  }
  std::unique_ptr<Asked> ask(std::vector<std::string> words) {
    return std::make_unique<Asked>(*dispatcher, client(2), std::move(words));
  }
  /// Runs a command whose check is made off the loop, and returns its reply.
  std::string checked(std::vector<std::string> words) {
    const auto asked = ask(std::move(words));
    REQUIRE_FALSE(asked->step());
    REQUIRE(manual.queued() == 1);
    for (int i = 0; i < 10 && !asked->done(); ++i) {
      REQUIRE(manual.run_one());
      asked->step();
    }
    return asked->reply();
  }

  ManualOffload manual;
};

TEST_CASE("rights check takes long: it is made off the event loop, and then the command runs or is denied", "[acl]") {
  Server server;
  server.log_in();
  CHECK(server.checked({"SET", kAllowed, "1"}) == "OK");
  CHECK(server.checked({"GET", kAllowed}) == "\"1\"");
  CHECK(server.checked({"GET", kDenied}) == kNoKey);
  CHECK(server.checked({"PUBLISH", kAllowed, "m"}) == "(integer) 0");
  CHECK(server.checked({"PUBLISH", kDenied, "m"}) == kNoChannel);
  CHECK(server.manual.queued() == 0);
  CHECK(server.control.denials.size() == 2);
  CHECK((session_of(server.client(2)).modes & Session::kInCheck) == 0);
}

TEST_CASE("rights check is short: it is made on the event loop", "[acl]") {
  Server server;
  server.log_in();
  const auto asked = server.ask({"GET", "a:tenant7:b"});
  CHECK(asked->step());
  CHECK(asked->reply() == "(nil)");
}

TEST_CASE("command has more arguments than an event loop collects: its rights check is made off the loop", "[acl]") {
  Server server;
  server.log_in();
  std::vector<std::string> words(Dispatcher::kLoopArguments + 1, "a:tenant7:b");
  words[0] = "EXISTS";
  CHECK(server.checked(words) == "(integer) 0");
  words.back() = "x";
  CHECK(server.checked(words) == kNoKey);
}

TEST_CASE("rights check takes very long: it continues on a thread for long work", "[acl]") {
  Server server;
  std::vector<std::string> words{"ACL", "SETUSER", "app", "~*x" + std::string(300, '?') + "y*x?"};
  server.set(words);
  server.log_in();
  const auto asked = server.ask({"GET", std::string(1 << 20, 'x')});
  REQUIRE_FALSE(asked->step());
  CHECK(server.manual.last() == OffloadClass::kCheck);
  REQUIRE(server.manual.run_one());
  REQUIRE_FALSE(asked->step());
  CHECK(server.manual.last() == OffloadClass::kLongCheck);
  asked->close();
}

TEST_CASE("administrative command leaves its loop: it runs on threads that no rights check and no read uses", "[acl]") {
  Server server;
  for (const Bytes line :
       {"CLIENT KILL USER app", "CLIENT LIST", "CONFIG SET slowlog-max-len 9", "ACL SETUSER app on", "ACL DELUSER app"}) {
    INFO(line);
    const auto asked = server.ask(split_line(line));
    REQUIRE_FALSE(asked->step());
    CHECK(server.manual.last() == (line.starts_with("CLIENT") ? OffloadClass::kClients : OffloadClass::kControl));
    REQUIRE(server.manual.run_one());
    CHECK(asked->step());
  }
}

TEST_CASE("command is resumed before its rights check is done: the command continues to wait", "[acl]") {
  Server server;
  server.log_in();
  const auto asked = server.ask({"GET", kAllowed});
  REQUIRE_FALSE(asked->step());
  REQUIRE_FALSE(asked->step());
  CHECK(server.manual.queued() == 1);
  REQUIRE(server.manual.run_one());
  CHECK(asked->step());
  CHECK(asked->reply() == "(nil)");
}

TEST_CASE("user's rights change during a rights check: the new rights decide", "[acl]") {
  Server server;
  server.log_in();
  const auto change_to = [&](Bytes rule, const std::string& key, const std::string& reply) {
    const auto asked = server.ask({"GET", key});
    REQUIRE_FALSE(asked->step());
    REQUIRE(server.control.set_user("app", std::vector{rule}, 0).is_ok());
    REQUIRE(server.manual.run_one());
    REQUIRE_FALSE(asked->step());  // the check is made again
    REQUIRE(server.manual.run_one());
    REQUIRE(asked->step());
    CHECK(asked->reply() == reply);
  };
  change_to("resetkeys", kAllowed, kNoKey);
  server.log_in();
  change_to("allkeys", kDenied, "(nil)");
}

TEST_CASE("user gets all rights during a rights check: the command still waits for the checking thread", "[acl]") {
  Server server;
  server.log_in();
  const auto asked = server.ask({"GET", kDenied});
  REQUIRE_FALSE(asked->step());
  REQUIRE(server.control.set_user("app", std::vector<Bytes>{"allkeys", "allchannels"}, 0).is_ok());
  Session& session = session_of(server.client(2));
  CHECK(rights_of(session, server.control).unrestricted());
  CHECK((session.modes & Session::kChecked) == 0);
  REQUIRE_FALSE(asked->step());
  while (server.manual.run_one()) asked->step();
  CHECK(asked->reply() == "(nil)");
  CHECK(session.modes == 0);
}

TEST_CASE("client disconnects during its rights check: the check is dropped", "[acl]") {
  Server server;
  server.log_in();
  const auto asked = server.ask({"GET", kAllowed});
  REQUIRE_FALSE(asked->step());
  asked->close();
  CHECK(server.manual.run_one());
  CHECK(server.manual.queued() == 0);
}

TEST_CASE("rights check of a command in MULTI takes long: the check is made when the command is queued, not again by EXEC",
          "[acl]") {
  Server server;
  server.log_in();
  CHECK(server("MULTI", 2) == "OK");
  CHECK(server.checked({"SET", kAllowed, "1"}) == "QUEUED");
  CHECK(server.checked({"GET", kAllowed}) == "QUEUED");
  CHECK(server("EXEC", 2) == "[OK, \"1\"]");
  CHECK(server("MULTI", 2) == "OK");
  CHECK(server.checked({"SET", kDenied, "1"}) == kNoKey);
  CHECK(server("EXEC", 2) == "(error) EXECABORT Transaction discarded because of previous errors.");
}

TEST_CASE("user's rights change after a command was queued: EXEC checks it again, off the event loop if that takes long",
          "[acl]") {
  Server server;
  server.log_in();
  CHECK(server("MULTI", 2) == "OK");
  CHECK(server.checked({"SET", kAllowed, "1"}) == "QUEUED");
  server.set({"ACL", "SETUSER", "app", "~other"});
  const auto exec = server.ask({"EXEC"});
  REQUIRE_FALSE(exec->step());
  for (int i = 0; i < 10 && !exec->done(); ++i) {
    REQUIRE(server.manual.run_one());
    exec->step();
  }
  CHECK(exec->reply() == "[OK]");
  CHECK(server("MULTI", 2) == "OK");
  CHECK(server.checked({"SET", kAllowed, "1"}) == "QUEUED");
  server.set({"ACL", "SETUSER", "app", "resetkeys"});
  CHECK(server("EXEC", 2).starts_with("[(error) NOPERM ACLs rules changed"));
}

TEST_CASE("rights check of ACL DRYRUN takes long: the check runs off the event loop", "[acl]") {
  Server server;
  server.log_in();
  CHECK(server.checked({"ACL", "DRYRUN", "app", "GET", kAllowed}) == "OK");
  CHECK(server.checked({"ACL", "DRYRUN", "app", "GET", std::string(30'000, 'x')}).starts_with("\"User app has no permissions"));
}

}  // namespace TEST_FILE
