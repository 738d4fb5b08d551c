#include "acl/selector.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <initializer_list>
#include <string>
#include <vector>

#include "commands.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

AclSelector selector(std::initializer_list<Bytes> rules) {
  AclSelector out;
  for (const Bytes rule : rules) {
    INFO(rule);
    REQUIRE(out.apply(some_commands(), rule) == "");
  }
  return out;
}

std::string fault(std::initializer_list<Bytes> rules) {
  AclSelector out;
  Bytes last;
  for (const Bytes rule : rules) last = out.apply(some_commands(), rule);
  return std::string(last);
}

AclVerdict check(const AclSelector& s, const AclRequest& request) {
  AclBudget no_limit;
  return s.check(request, no_limit).value();
}

/// Returns true if the selector allows a command without keys.
bool runs(const AclSelector& s, std::uint32_t command, std::vector<Bytes> arguments = {"name"}) {
  AclRequest request;
  request.command = command;
  request.arguments = arguments;
  return check(s, request).allowed();
}

bool key_allowed(const AclSelector& s, Bytes key, std::uint8_t access) {
  const Bytes arguments[] = {"get", key};
  const AclRequest::Key keys[] = {{1, access}};
  AclRequest request;
  request.command = kGet;
  request.arguments = arguments;
  request.keys = keys;
  return check(s, request).allowed();
}

bool range_allowed(const AclSelector& s, Bytes start, std::optional<Bytes> end, std::uint8_t access = kAclWrite) {
  const AclRequest::Range range{{start, end}, access, 1};
  const Bytes arguments[] = {"delrange", "a", "b"};
  AclRequest request;
  request.command = kDelrange;
  request.arguments = arguments;
  request.range = &range;
  return check(s, request).allowed();
}

TEST_CASE("ACL selector is new: it allows nothing, until rules such as +@all ~* &* allow everything", "[acl]") {
  const AclSelector none;
  CHECK_FALSE(runs(none, kGet));
  CHECK(none.text() == "resetchannels -@all");
  const AclSelector all = selector({"ALLCOMMANDS", "allkeys", "AllChannels"});
  CHECK(all.unrestricted());
  CHECK(all.text() == "~* &* +@all");
  CHECK(key_allowed(all, "any", kAclRead | kAclWrite));
}

TEST_CASE("several ACL rules concern one command: they apply in order, so the last one decides", "[acl]") {
  CHECK(runs(selector({"+get"}), kGet));
  CHECK_FALSE(runs(selector({"+get"}), kSet));
  CHECK_FALSE(runs(selector({"+get", "-GET"}), kGet));
  CHECK(runs(selector({"+@all", "-set"}), kGet));
  CHECK_FALSE(runs(selector({"+@all", "-set"}), kSet));
  CHECK_FALSE(selector({"+@all", "-set", "+set"}).unrestricted());
  CHECK(runs(selector({"+@all", "-set", "+set"}), kSet));
  CHECK_FALSE(runs(selector({"+@all", "-@string"}), kSet));
  CHECK(runs(selector({"+@all", "-@string", "+set"}), kSet));
  CHECK_FALSE(runs(selector({"+set", "nocommands"}), kSet));
}

TEST_CASE("ACL rule names a container: it applies to all subcommands, unlike a rule that names one subcommand", "[acl]") {
  CHECK(runs(selector({"+config"}), kConfigSet));
  CHECK(runs(selector({"+config|get"}), kConfigGet));
  CHECK_FALSE(runs(selector({"+config|get"}), kConfigSet));
  CHECK_FALSE(runs(selector({"+config", "-config|set"}), kConfigSet));
  CHECK(runs(selector({"+config", "-config|set"}), kConfigGet));
  CHECK_FALSE(runs(selector({"+config", "-@dangerous"}), kConfigGet));
  CHECK(selector({"+config|get", "+config"}).commands_text() == "-@all +config");
  CHECK(selector({"+Config|GET", "-config|set"}).commands_text() == "-@all +config|get -config|set");
}

TEST_CASE("ACL rule is +select|0: SELECT 0 is allowed, and SELECT with any other argument is denied", "[acl]") {
  const AclSelector zero = selector({"+SELECT|0"});
  CHECK(runs(zero, kSelect, {"select", "0"}));
  CHECK_FALSE(runs(zero, kSelect, {"select", "1"}));
  CHECK_FALSE(runs(zero, kSelect, {"select"}));
  CHECK(zero.commands_text() == "-@all +select|0");
  CHECK_FALSE(runs(selector({"+select|0", "-select"}), kSelect, {"select", "0"}));
  CHECK(selector({"+select|0", "-select"}).commands_text() == "-@all -select");
}

TEST_CASE("two ACL rules name the same command or category: the selector's text has only the later rule", "[acl]") {
  CHECK(selector({"+get", "+set", "-get"}).commands_text() == "-@all +set -get");
  CHECK(selector({"+@all", "-@DANGEROUS", "-@dangerous", "+config|get"}).commands_text() == "+@all -@dangerous +config|get");
  CHECK(selector({"-@all", "+@read", "+@all"}).commands_text() == "+@all");
  CHECK(selector({"%R~a", "%w~a", "%R~b", "%wr~c", "~d"}).keys_text() == "~a %R~b ~c ~d");
  CHECK(selector({"&a", "&a", "&b*"}).channels_text() == "&a &b*");
}

TEST_CASE("ACL key pattern is for reads or writes only: it allows no other access", "[acl]") {
  const AclSelector s = selector({"+@all", "%R~r:*", "%W~w:*", "~b:*"});
  CHECK(key_allowed(s, "r:1", kAclRead));
  CHECK_FALSE(key_allowed(s, "r:1", kAclWrite));
  CHECK_FALSE(key_allowed(s, "w:1", kAclRead));
  CHECK(key_allowed(s, "w:1", kAclWrite));
  CHECK(key_allowed(s, "b:1", kAclRead | kAclWrite));
  CHECK_FALSE(key_allowed(s, "r:1", kAclRead | kAclWrite));
  CHECK(key_allowed(s, "r:1", 0));
  CHECK_FALSE(key_allowed(s, "x", 0));
  CHECK_FALSE(key_allowed(selector({"+@all", "~a*", "resetkeys"}), "a", kAclRead));
}

TEST_CASE("command uses a range of keys: it is allowed only if one pattern matches all keys of the range", "[acl]") {
  const AclSelector s = selector({"+@all", "~app:*", "%R~log*"});
  CHECK(range_allowed(s, "app:", "app;"));
  CHECK(range_allowed(s, "app:1", "app:2"));
  CHECK_FALSE(range_allowed(s, "app:1", std::nullopt));
  CHECK_FALSE(range_allowed(s, "", "app:2"));
  CHECK_FALSE(range_allowed(s, "app:1", "app;0"));
  CHECK_FALSE(range_allowed(s, "app", "app:2"));
  CHECK_FALSE(range_allowed(s, "log1", "log2"));
  CHECK(range_allowed(s, "log1", "log2", kAclRead));
  CHECK(range_allowed(selector({"+@all", "allkeys"}), "", std::nullopt));
  CHECK(range_allowed(selector({"+@all", "%W~*"}), "", std::nullopt));
  CHECK_FALSE(range_allowed(selector({"+@all", "%R~*"}), "", std::nullopt));
  // These patterns are not a text followed by a star, so they are not known to match all keys of a range.
  for (const char* pattern : {"~a?*", "~a*b*", "~*a", "~a", "~a\\*", "~[a]*"}) {
    INFO(pattern);
    CHECK_FALSE(range_allowed(selector({"+@all", pattern}), "a", "b"));
  }
  CHECK(range_allowed(selector({"+@all", "~a\\**"}), "a*", "a*z"));
  CHECK(range_allowed(selector({"+@all", "~\xff*"}), "\xff", std::nullopt));
  CHECK(range_allowed(selector({"+@all", "~a\xff*"}), "a\xff", "b"));
  CHECK_FALSE(range_allowed(selector({"+@all", "~a\xff*"}), "a\xff", "ba"));
}

TEST_CASE("range of keys ends before its start: an ACL pattern must still match the start of the range", "[acl]") {
  const AclSelector s = selector({"+@all", "~app:*"});
  CHECK(range_allowed(s, "app:2", "app:1"));
  CHECK_FALSE(range_allowed(s, "zebra", "app:1"));
}

TEST_CASE("ACL check needs more steps than its limit: the check ends without a verdict", "[acl]") {
  AclSelector s = selector({"+@all"});
  for (int i = 0; i < 1000; ++i) REQUIRE(s.apply(some_commands(), "~*:tenant" + std::to_string(i) + ":*") == "");
  const std::string key(100'000, 'x');
  const Bytes arguments[] = {"get", key};
  const AclRequest::Key keys[] = {{1, kAclRead}};
  AclRequest request;
  request.command = kGet;
  request.arguments = arguments;
  request.keys = keys;
  AclBudget small(10'000);
  CHECK_FALSE(s.check(request, small));
  CHECK(small.left() == 0);
  CHECK(check(s, request).denial == AclDenial::kKey);
  const std::atomic<bool> cancelled{true};
  AclBudget unwanted(1'000'000'000, &cancelled);
  CHECK_FALSE(s.check(request, unwanted));
}

TEST_CASE("ACL rule has a channel pattern: it allows SUBSCRIBE to matching channels, and PSUBSCRIBE to the same pattern",
          "[acl]") {
  const AclSelector s = selector({"+@all", "~*", "&news.*"});
  AclBudget no_limit;
  const auto allows_channel = [&](Bytes name, bool is_pattern) { return s.allows_channel(name, is_pattern, no_limit).value(); };
  CHECK(allows_channel("news.1", false));
  CHECK_FALSE(allows_channel("other", false));
  CHECK(allows_channel("news.*", true));
  CHECK_FALSE(allows_channel("news.1*", true));
  AclRequest request;
  request.command = kPublish;
  const Bytes arguments[] = {"subscribe", "news.1", "other"};
  request.arguments = arguments;
  request.channels = {1, 3, false};
  const AclVerdict verdict = check(s, request);
  CHECK(verdict.denial == AclDenial::kChannel);
  CHECK(verdict.argument == 2);
}

TEST_CASE("ACL rule is invalid: the error text is Redis's", "[acl]") {
  CHECK(fault({"+nonsense"}) == "Unknown command or category name in ACL");
  CHECK(fault({"-nonsense"}) == "Unknown command or category name in ACL");
  CHECK(fault({"+@nonsense"}) == "Unknown command or category name in ACL");
  CHECK(fault({"+config|nonsense"}) == "Unknown command or category name in ACL");
  CHECK(fault({"-select|0"}) == "Unknown command or category name in ACL");
  CHECK(fault({"+select|"}) == "Syntax error");
  CHECK(fault({"+config|get|x"}) == "Allowing first-arg of a subcommand is not supported");
  for (const char* rule : {"%~x", "%x~a", "%RR~a", "%R", "%", "nonsense", "~a b", "&a b", "on"}) {
    INFO(rule);
    CHECK(fault({rule}) == "Syntax error");
  }
  CHECK(fault({"~*", "~a"}).starts_with("Adding a pattern after the * pattern (or the 'allkeys' flag)"));
  CHECK(fault({"&*", "&a"}).starts_with("Adding a pattern after the * pattern (or the 'allchannels' flag)"));
  CHECK(fault({""}).empty());
}

TEST_CASE("ACL selector is parsed from the text of another selector: both selectors are equal", "[acl]") {
  for (const AclSelector& s : {selector({"+@all", "-@dangerous", "+config|get", "~a*", "%R~b", "&c"}),
                               selector({"+select|0", "~*"}), selector({"+config|get", "+@read", "-get", "&*"}), AclSelector()}) {
    AclSelector again;
    std::string word;
    for (const char c : s.text() + " ") {
      if (c != ' ') {
        word += c;
      } else {
        CHECK(again.apply(some_commands(), word) == "");
        word.clear();
      }
    }
    CHECK(again.text() == s.text());
    CHECK(again == s);
  }
}

}  // namespace TEST_FILE
