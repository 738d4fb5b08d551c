// Tests of users' rights to commands: checks, sessions, transactions, the log.
#include "dispatch/permissions.h"

#include <catch2/catch.hpp>
#include <string>

#include "commands/families.h"
#include "dispatch/command_keys.h"
#include "server/dispatch/harness.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

struct Harness : CommandHarness {
  Harness() : CommandHarness(command_families()) {}
  /// Makes client 2 act as a user with these rules from now on.
  void log_in(const std::string& rules) {
    REQUIRE((*this)("ACL SETUSER app on >pw " + rules) == "OK");
    REQUIRE((*this)("AUTH app pw", 2) == "OK");
  }
  std::string app(Bytes line) { return (*this)(line, 2); }
};

const std::string kNoKey = "(error) NOPERM No permissions to access a key";

std::string no_command(const std::string& name) {
  return "(error) NOPERM User app has no permissions to run the '" + name + "' command";
}

TEST_CASE("user has all rights: its commands run unchecked, unlike those of other users", "[acl]") {
  Harness server;
  CHECK(server("PING") == "PONG");
  CHECK((session_of(server.client()).modes & Session::kChecked) == 0);
  server.log_in("~* &* +@all");
  CHECK((session_of(server.client(2)).modes & Session::kChecked) == 0);
  server("ACL SETUSER app -flushall");
  CHECK(server.app("FLUSHALL") == no_command("flushall"));
  CHECK((session_of(server.client(2)).modes & Session::kChecked) != 0);
  server("ACL SETUSER app +@all");
  CHECK(server.app("FLUSHALL") == "OK");
  CHECK((session_of(server.client(2)).modes & Session::kChecked) == 0);
}

TEST_CASE("command has keys: the user needs the right to read or write each key as the command does", "[acl]") {
  Harness server;
  server.log_in("+@all %R~r:* %W~w:* ~b:*");
  CHECK(server.app("GET r:1") == "(nil)");
  CHECK(server.app("GET w:1") == kNoKey);
  CHECK(server.app("SET w:1 x") == "OK");
  CHECK(server.app("SET r:1 x") == kNoKey);
  CHECK(server.app("SET w:1 x GET") == kNoKey);
  CHECK(server.app("SET b:1 x GET") == "(nil)");
  CHECK(server.app("MSET b:1 x w:2 y") == "OK");
  CHECK(server.app("MSET b:1 x r:2 y") == kNoKey);
  CHECK(server.app("COPY r:1 w:1") == "(integer) 0");
  CHECK(server.app("COPY w:1 r:1") == kNoKey);
  CHECK(server.app("BITFIELD r:1 GET u8 0") == "[(integer) 0]");
  CHECK(server.app("BITFIELD r:1 SET u8 0 1") == kNoKey);
  CHECK(server.app("BITOP AND w:3 r:1 b:1") == "(integer) 1");
  CHECK(server.app("BITOP AND w:3 r:1 w:1") == kNoKey);
  CHECK(server.app("EXISTS w:1") == "(integer) 1");  // any right to the key is enough
  CHECK(server.app("EXISTS x") == kNoKey);
}

TEST_CASE("command deletes a range: the user needs the right to all keys of the range", "[acl]") {
  Harness server;
  server.log_in("+@all ~app:* %R~log:*");
  CHECK(server.app("DELRANGE app:1 app:2").starts_with("\"purge-"));
  CHECK(server.app("DELPREFIX app:x").starts_with("\"purge-"));
  CHECK(server.app("COUNTRANGE log:1 log:2") == "(integer) 0");
  for (const char* line : {"DELRANGE app:1 +", "DELRANGE - app:2", "DELRANGE log:1 log:2", "DELPREFIX ap", "DELPREFIX ''",
                           "DELPREFIX log:", "COUNTRANGE - +", "STAMP.DELRANGE - +", "STAMP.COUNT 1 2", "STAMP.SCAN - + 0"}) {
    INFO(line);
    CHECK(server.app(line) == kNoKey);
  }
  server("ACL SETUSER app allkeys");
  CHECK(server.app("STAMP.COUNT 1 2") == "(integer) 0");
}

TEST_CASE("SORT has BY or GET: the user needs the right to read all keys, since the pattern may name any key", "[acl]") {
  Harness server;
  server.log_in("+@all ~l");
  const std::string no_by = "(error) ERR BY option of SORT denied due to insufficient ACL permissions.";
  const std::string no_get = "(error) ERR GET option of SORT denied due to insufficient ACL permissions.";
  server("RPUSH l 2 1");
  CHECK(server.app("SORT l") == "[\"1\", \"2\"]");
  CHECK(server.app("SORT l BY nosort") == "[\"2\", \"1\"]");
  CHECK(server.app("SORT l BY w*") == no_by);
  CHECK(server.app("SORT_RO l BY w*") == no_by);
  CHECK(server.app("SORT l GET #") == no_get);
  CHECK(server.app("SORT l GET w* BY w*") == no_get);
  CHECK(server.app("SORT l x GET #") == "(error) ERR syntax error");
  CHECK(server.app("SORT l STORE other") == kNoKey);
  CHECK(server.app("SORT l STORE other STORE l") == "(integer) 2");
  CHECK(server.app("SORT l STORE l STORE other") == kNoKey);
  CHECK(server.app("SORT other") == kNoKey);
  server.app("MULTI");
  CHECK(server.app("SORT l BY w*") == "QUEUED");
  CHECK(server.app("SORT l") == "QUEUED");
  CHECK(server.app("EXEC") == "[" + no_by + ", [\"1\", \"2\"]]");

  std::vector<std::string> many{"SORT", "l"};  // it runs off the loop
  for (int i = 0; i < 1000; ++i) many.insert(many.end(), {"GET", "x*"});
  CHECK(show(server.raw(many, 2)) == no_get);

  const std::string dry = "ACL DRYRUN app SORT l BY w*";
  CHECK(server(dry) == "\"BY option of SORT denied due to insufficient ACL permissions.\"");
  CHECK(server("ACL DRYRUN app SORT l") == "OK");
  server("ACL SETUSER app %R~* %W~d");
  CHECK(server(dry) == "OK");
  CHECK(server.app("SORT l BY w* GET # STORE d") == "(integer) 2");
  CHECK(server.app("SORT l BY w* GET # STORE e") == kNoKey);
  server("ACL SETUSER app resetkeys %W~* ~l");
  CHECK(server.app("SORT l BY w*") == no_by);
  server("ACL SETUSER app resetkeys ~l (~* -@all +get)");  // no selector has both rights
  CHECK(server.app("SORT l BY w*") == no_by);
  server("ACL SETUSER app clearselectors ~l (~* -@all +sort)");
  CHECK(server.app("SORT l BY w*") == "[\"1\", \"2\"]");
}

TEST_CASE("command is dangerous, such as KEYS, FLUSHALL or DEBUG: it has the ACL category @dangerous", "[acl]") {
  const CommandTable table(command_families());
  for (const char* name : {"delrange", "delprefix", "stamp.delrange", "flushdb", "flushall", "config|set", "config|get", "bgsave",
                           "save", "shutdown", "acl|setuser", "acl|deluser", "acl|load", "acl|save", "debug", "keys", "swapdb"}) {
    INFO(name);
    const Command* command = table.find_full(name);
    REQUIRE(command != nullptr);
    CHECK(in_category(*command, "dangerous"));
  }
}

TEST_CASE("command has keys: its spec states the access, read or write, by which rights are checked", "[acl]") {
  const CommandTable table(command_families());
  for (const Command& command : table.all()) {
    INFO(command.full_name);
    const CommandSpec& spec = *command.spec;
    if (spec.keys.first != 0) CHECK((spec.keys.access & (KeySpec::kRo | KeySpec::kRw | KeySpec::kOw | KeySpec::kRm)) != 0);
    if (spec.has(kWrite) && spec.keys.first == 0) {
      CHECK((spec.scope != KeyScope::kNone || spec.has(kDangerous)));  // a write without keys must have a range or a database
    }
  }
}

TEST_CASE("PUBLISH or SUBSCRIBE has channels: the user needs the right to each of them", "[acl]") {
  Harness server;
  server.log_in("+@all ~* &news.*");
  const std::string no_channel = "(error) NOPERM No permissions to access a channel";
  CHECK(server.app("PUBLISH news.1 x") == "(integer) 0");
  CHECK(server.app("PUBLISH other news.1") == no_channel);
  CHECK(server.app("SPUBLISH other x") == no_channel);
  CHECK(server.app("SUBSCRIBE news.1 other") == no_channel);
  CHECK(server.app("SSUBSCRIBE other") == no_channel);
  CHECK(server.app("PSUBSCRIBE news.1*") == no_channel);
  CHECK(server.app("PSUBSCRIBE news.*") == "[\"psubscribe\", \"news.*\", (integer) 1]");
  CHECK(server.app("PUNSUBSCRIBE other") == "[\"punsubscribe\", \"other\", (integer) 1]");
}

TEST_CASE("user has no right to a queued command: EXEC is aborted, or denies only that command if the right was lost later",
          "[acl]") {
  Harness server;
  server.log_in("+@all -flushall ~a*");
  CHECK(server.app("MULTI") == "OK");
  CHECK(server.app("FLUSHALL") == no_command("flushall"));
  CHECK(server.app("EXEC") == "(error) EXECABORT Transaction discarded because of previous errors.");
  CHECK(server.app("MULTI") == "OK");
  CHECK(server.app("SET a 1") == "QUEUED");
  CHECK(server.app("GET a") == "QUEUED");
  server("ACL SETUSER app -set");
  CHECK(
      server.app("EXEC") ==
      "[(error) NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is "
      "no longer allowed for the following reason: no permission to execute the command or subcommand, (nil)]");
  CHECK(server.control.denials == std::vector<std::string>{"1 app flushall", "1 app set"});
  CHECK(server("GET a") == "(nil)");
}

TEST_CASE("user has no rights: AUTH, HELLO and RESET still run, and after RESET the user is default", "[acl]") {
  Harness server;
  server.log_in("-@all");
  CHECK(server.app("ACL WHOAMI") == no_command("acl|whoami"));
  CHECK(server.app("AUTH app pw") == "OK");
  CHECK(server.app("HELLO 3").starts_with("{"));
  CHECK(server.app("RESET") == "RESET");
  CHECK(server.app("ACL WHOAMI") == "\"default\"");
}

TEST_CASE("ACL rule allows a first argument: the otherwise denied command runs with that argument", "[acl]") {
  Harness server;
  server.log_in("+@all -select +select|1");
  CHECK(server.app("SELECT 1") == "OK");
  CHECK(server.app("SELECT 0") == no_command("select"));
}

TEST_CASE("command is denied: ACL LOG lists it beside failed authentications", "[acl]") {
  Harness server;
  server.log_in("+@all -flushall ~a*");
  CHECK(server.app("FLUSHALL") == no_command("flushall"));
  CHECK(server.app("GET secret") == kNoKey);
  CHECK(server.app("AUTH app wrong").starts_with("(error) WRONGPASS"));
  const std::string log = server("ACL LOG");
  CHECK(log.find("\"reason\", \"auth\", \"context\", \"toplevel\", \"object\", \"AUTH\", \"username\", \"app\"") !=
        std::string::npos);
  CHECK(log.find("\"reason\", \"key\", \"context\", \"toplevel\", \"object\", \"secret\", \"username\", \"app\"") !=
        std::string::npos);
  CHECK(log.find("\"reason\", \"command\", \"context\", \"toplevel\", \"object\", \"flushall\", \"username\", \"app\"") !=
        std::string::npos);
}

TEST_CASE("ACL GETUSER or ACL DRYRUN is called: the reply is that of Redis", "[acl]") {
  Harness server;
  server.log_in("~a* %R~b* &c +@read -get (~x +set)");
  CHECK(server("ACL GETUSER carol") == "(nil)");
  CHECK(server("ACL DRYRUN app GET a") == "\"User app has no permissions to run the 'get' command\"");
  CHECK(server("ACL DRYRUN app STRLEN z") == "\"User app has no permissions to access the 'z' key\"");
  CHECK(server("ACL DRYRUN app STRLEN b") == "OK");
  CHECK(server("ACL DRYRUN app SET x 1") == "OK");
  CHECK(server("ACL DRYRUN carol GET a") == "(error) ERR User 'carol' not found");
  CHECK(server("ACL DRYRUN app NOTHING") == "(error) ERR Command 'NOTHING' not found");
  CHECK(server("ACL DRYRUN app GET") == "(error) ERR wrong number of arguments for 'get' command");
  server("HELLO 3");
  CHECK(server("ACL GETUSER app") ==
        "{\"flags\": <\"on\", \"sanitize-payload\">, \"passwords\": "
        "[\"30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4\"], \"commands\": \"-@all +@read -get\", \"keys\": "
        "\"~a* %R~b*\", \"channels\": \"&c\", \"selectors\": [{\"commands\": \"-@all +set\", \"keys\": \"~x\", \"channels\": "
        "\"\"}]}");
  CHECK(server("ACL GETUSER carol") == "(nil)");
}

TEST_CASE("users are changed: ACL SETUSER replies OK or the error, and ACL DELUSER the number of removed users", "[acl]") {
  Harness server;
  CHECK(server("ACL SETUSER a") == "OK");
  CHECK(server("ACL USERS") == "[\"a\", \"default\"]");
  CHECK(server("ACL SETUSER a nonsense") == "(error) ERR Error in ACL SETUSER modifier 'nonsense': Syntax error");
  CHECK(server("ACL DELUSER a carol") == "(integer) 1");
  CHECK(server("ACL DELUSER default") == "(error) ERR The 'default' user cannot be removed");
  CHECK(server("ACL LIST") == "[\"user default on nopass sanitize-payload ~* &* +@all\"]");
  CHECK(server("ACL SETUSER") == "(error) ERR wrong number of arguments for 'acl|setuser' command");
}

TEST_CASE("user was deleted: all commands of its open session are denied", "[acl]") {
  Harness server;
  server.log_in("~* &* +@all");
  CHECK(server("ACL DELUSER app") == "(integer) 1");
  CHECK(server.app("GET a") == no_command("get"));
}

TEST_CASE("user has limited rights: the keys of its long writes and long transactions are checked, too", "[acl]") {
  Harness server;
  server.log_in("+@all ~a*");
  std::vector<std::string> words{"MSET"};
  for (int i = 0; i < 2'000; ++i) {
    words.push_back("a" + std::to_string(i));
    words.emplace_back("v");
  }
  CHECK(show(server.raw(words, 2)) == "OK");
  words[words.size() - 2] = "b";
  CHECK(show(server.raw(words, 2)) == kNoKey);
  words[words.size() - 2] = "a";
  CHECK(server.app("MULTI") == "OK");
  CHECK(show(server.raw(words, 2)) == "QUEUED");
  server("ACL SETUSER app resetkeys");
  CHECK(server.app("EXEC").find("no permission to touch the specified keys") != std::string::npos);
  CHECK(server("EXISTS a") == "(integer) 0");
}

}  // namespace TEST_FILE
