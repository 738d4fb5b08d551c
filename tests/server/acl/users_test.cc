#include "acl/users.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "acl/sha256.h"
#include "commands.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

std::string hex(const Sha256& hash) {
  std::string out;
  for (const std::uint8_t byte : hash) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

// The hash of "abc", from the examples of FIPS 180-4.
const std::string kOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

std::string error_of(const std::string& text) {
  const auto users = Users::parse(text, "users.acl", some_commands());
  return users.is_ok() ? "(ok)" : std::string(users.status().message());
}

Users parsed(const std::string& text) {
  auto users = Users::parse(text, "users.acl", some_commands());
  INFO(users.status().to_string());
  REQUIRE(users.is_ok());
  return std::move(users).value();
}

Users changed(const Users& users, Bytes name, const std::vector<Bytes>& rules) {
  auto out = users.with_rules(name, rules, some_commands());
  INFO(out.status().to_string());
  REQUIRE(out.is_ok());
  return std::move(out).value();
}

std::string refusal(Bytes name, const std::vector<Bytes>& rules) {
  return std::string(Users().with_rules(name, rules, some_commands()).status().message());
}

std::string line_of(const Users& users, const std::string& name) { return "user " + name + " " + users.find(name)->text(); }

TEST_CASE("sha256: the examples of FIPS 180-4 have the published hashes", "[acl]") {
  CHECK(hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex(sha256("abc")) == kOfAbc);
  CHECK(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hex(sha256(std::string(1'000'000, 'a'))) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  // Lengths around the end of a block.
  CHECK(hex(sha256(std::string(55, 'a'))) == "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  CHECK(hex(sha256(std::string(56, 'a'))) == "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  CHECK(hex(sha256(std::string(64, 'a'))) == "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

TEST_CASE("no users file is configured: the only user is default, without a password unless one is configured", "[acl]") {
  const Users open;
  CHECK_FALSE(open.password_required());
  CHECK(open.check("default", "anything"));
  CHECK_FALSE(open.check("somebody", "anything"));
  CHECK(open.lines() == std::vector<std::string>{"user default on nopass sanitize-payload ~* &* +@all"});
  const Users closed = open.with_default_password("abc").value();
  CHECK(closed.password_required());
  CHECK(closed.check("default", "abc"));
  for (const char* wrong : {"", "ab", "abcd", "Abc", "abC"}) CHECK_FALSE(closed.check("default", wrong));
  CHECK(closed.lines() == std::vector<std::string>{"user default on sanitize-payload #" + kOfAbc + " ~* &* +@all"});
  CHECK_FALSE(open.with_default_password("").value().password_required());
}

TEST_CASE("users file is read: its users log in with their passwords, unless they are off", "[acl]") {
  const Users users = parsed("# who\n\nuser alice on >one >two ~* &* +@all\r\n  user bob on allkeys allchannels allcommands #" +
                             kOfAbc + "\nuser carol off >one\nuser dave on nopass ~* &* +@all\nuser default off\n");
  CHECK(users.password_required());
  CHECK(users.check("alice", "one"));
  CHECK(users.check("alice", "two"));
  CHECK_FALSE(users.check("alice", "abc"));
  CHECK(users.check("bob", "abc"));
  CHECK_FALSE(users.check("carol", "one"));
  CHECK(users.check("dave", "whatever"));
  CHECK_FALSE(users.check("default", ""));
  CHECK_FALSE(users.check("erin", std::string(32, '\0')));
  CHECK(users.names() == std::vector<std::string>{"alice", "bob", "carol", "dave", "default"});
}

TEST_CASE("users are printed as lines of a users file: reading these lines gives the same users", "[acl]") {
  const Users users = parsed(
      "user alice on >one ~a:* %R~b:* &news.* +@read -get +select|0 (~c* +set) ( %W~d* +get )\n"
      "user bob off nopass skip-sanitize-payload +@all -@dangerous ~* &*\n");
  CHECK(line_of(users, "alice") == "user alice on sanitize-payload #" + hex(sha256("one")) +
                                       " ~a:* %R~b:* resetchannels &news.* -@all +@read -get +select|0"
                                       " (~c* resetchannels -@all +set) (%W~d* resetchannels -@all +get)");
  CHECK(line_of(users, "bob") == "user bob off nopass skip-sanitize-payload ~* &* +@all -@dangerous");
  std::string printed;
  for (const std::string& line : users.lines()) printed += line + "\n";
  const Users again = parsed(printed);
  CHECK(again.names_changed_in(users).empty());
  CHECK(users.names_changed_in(again).empty());
}

TEST_CASE("users file has the user default: a configured password is refused, unless it equals the password in the file",
          "[acl]") {
  const Users alice = parsed("user alice on >one ~* &* +@all");
  CHECK_FALSE(alice.password_required());
  const Users both = alice.with_default_password("abc").value();
  CHECK(both.password_required());
  CHECK(both.check("default", "abc"));
  CHECK(both.check("alice", "one"));
  const Users named = parsed("user default off");
  CHECK(named.with_default_password("abc").status().message() ==
        "a password and the user default in users.acl are both set; only one of them is allowed");
  CHECK(named.with_default_password("").is_ok());
  // The same password in the file and in the configuration is no conflict.
  const Users equal = parsed("user default on >abc ~* +@all");
  CHECK(equal.with_default_password("abc").value().find("default")->text() == equal.find("default")->text());
  CHECK_FALSE(equal.with_changed_password("other").is_ok());
}

TEST_CASE("configured password is changed: the rights of the user default stay", "[acl]") {
  const Users limited = changed(Users(), "default", {"-@dangerous"});
  const Users closed = limited.with_changed_password("abc").value();
  CHECK(line_of(closed, "default") == "user default on sanitize-payload #" + kOfAbc + " ~* &* +@all -@dangerous");
  CHECK(closed.with_changed_password("").value().lines() == limited.lines());
}

TEST_CASE("users file has a mistake: reading fails, and the error names the line", "[acl]") {
  CHECK(error_of("usr a") == "users.acl:1: expected 'user NAME RULE ...'");
  CHECK(error_of("\nuser") == "users.acl:2: expected 'user NAME RULE ...'");
  CHECK(
      error_of("user a on >x ~* &* +nothing")
          .starts_with("users.acl:1: the rule '+nothing': Unknown command or category name in ACL; allowed are on, off, nopass"));
  CHECK(error_of("user a on <secret ~* &* +@all").starts_with("users.acl:1: the rule <: The password you are trying to remove"));
  CHECK(error_of("user a on #1234 ~* &* +@all")
            .starts_with("users.acl:1: the rule #: The password hash must be exactly 64 characters"));
  CHECK(error_of("user a off\nuser b off\nuser a off") == "users.acl:3: user a is in line 1 already");
  CHECK(error_of("user a (~x +get") == "users.acl:1: the parenthesis of '(~x' is not closed");
  CHECK(error_of("user a (on)").starts_with("users.acl:1: the rule '(on)': Syntax error"));
}

TEST_CASE("users file is read again: changed and removed users are listed, so that their sessions can be updated", "[acl]") {
  const Users before = parsed("user a on >1 ~* &* +@all\nuser b on >1 ~* &* +@all\nuser c on >1 ~* &* +@all");
  const Users after = parsed("user a on >1 ~* &* +@all\nuser b on >1 ~* &* +@all -get\nuser d on >1 ~* &* +@all");
  CHECK(before.names_changed_in(after) == std::vector<std::string>{"b", "c"});
}

TEST_CASE("ACL SETUSER has several rules: they apply in order", "[acl]") {
  Users users = changed(Users(), "a", {});
  CHECK(line_of(users, "a") == "user a off sanitize-payload resetchannels -@all");
  users = changed(users, "a", {"ON", ">abc", ">abc", ">x", "<x", "~k*", "+get", "(~x", "+set)", ""});
  CHECK(line_of(users, "a") ==
        "user a on sanitize-payload #" + kOfAbc + " ~k* resetchannels -@all +get (~x resetchannels -@all +set)");
  CHECK(line_of(changed(users, "a", {Bytes("!" + kOfAbc)}), "a").find('#') == std::string::npos);
  CHECK(line_of(changed(users, "a", {"nopass"}), "a").starts_with("user a on nopass sanitize-payload ~k*"));
  CHECK(line_of(changed(users, "a", {"resetpass", "clearselectors"}), "a") ==
        "user a on sanitize-payload ~k* resetchannels -@all +get");
  CHECK(line_of(changed(users, "a", {"reset"}), "a") == "user a off sanitize-payload resetchannels -@all");
  CHECK(changed(users, "a", {"nopass", ">x"}).check("a", "abc") == false);
}

TEST_CASE("ACL SETUSER has a wrong rule: the error text is Redis's", "[acl]") {
  CHECK(refusal("a b", {}) == "ERR Usernames can't contain spaces or null characters");
  CHECK(refusal("a", {"on", "+nothing"}) ==
        "ERR Error in ACL SETUSER modifier '+nothing': Unknown command or category name in ACL");
  CHECK(refusal("a", {"(~a", "+get"}) == "ERR Unmatched parenthesis in acl selector starting at '(~a'.");
  CHECK(refusal("a", {"<no"}) ==
        "ERR Error in ACL SETUSER modifier '<no': The password you are trying to remove from the user does not exist");
  CHECK(refusal("a", {"~*", "~b"}).starts_with("ERR Error in ACL SETUSER modifier '~b': Adding a pattern after the * pattern"));
}

TEST_CASE("ACL DELUSER names unknown users and default: unknown users are not counted, and default cannot be removed", "[acl]") {
  std::uint64_t removed = 0;
  const Users users = parsed("user a off\nuser b off");
  CHECK(users.without(std::vector<Bytes>{"a", "absent", "a"}, &removed).value().names() ==
        std::vector<std::string>{"b", "default"});
  CHECK(removed == 1);
  CHECK(users.without(std::vector<Bytes>{"a", "default"}, &removed).status().message() ==
        "ERR The 'default' user cannot be removed");
}

TEST_CASE("user has several selectors: a command is allowed if one selector allows both the command and its keys", "[acl]") {
  const Users users = parsed("user a on ~a* +get (~b* +set)");
  const User& user = *users.find("a");
  const auto check = [&](std::uint32_t command, Bytes key) {
    const Bytes arguments[] = {"name", key};
    const AclRequest::Key keys[] = {{1, kAclRead}};
    AclRequest request;
    request.command = command;
    request.arguments = arguments;
    request.keys = keys;
    AclBudget no_limit;
    return user.check(request, no_limit).value();
  };
  CHECK(check(kGet, "a1").allowed());
  CHECK(check(kSet, "b1").allowed());
  CHECK(check(kSet, "a1").denial == AclDenial::kKey);
  CHECK(check(kGet, "b1").denial == AclDenial::kKey);
  CHECK(check(kSelect, "a1").denial == AclDenial::kCommand);
  CHECK(user.limits_keys());
  CHECK_FALSE(user.unrestricted());
  CHECK(Users().find("default")->unrestricted());
}

TEST_CASE("users are saved while a password is configured: the file can be read again together with that password", "[acl]") {
  const Users plain = Users().with_default_password("abc").value();
  CHECK(plain.file_text("abc").value().empty());  // the configured password alone restores this user
  CHECK(Users().file_text("").value() == "user default on nopass sanitize-payload ~* &* +@all\n");
  const Users limited = changed(plain, "default", {"-@dangerous"});
  const std::string text = limited.file_text("abc").value();
  CHECK(parsed(text).with_default_password("abc").value().lines() == limited.lines());
  const Users other = changed(plain, "default", {">second"});
  CHECK(other.file_text("abc").status().message().starts_with("the user default has a password other than the configured one"));
}

TEST_CASE("users change: their charged memory grows and shrinks with their rules, and is released with a removed user", "[acl]") {
  const Users none;
  Users users = changed(none, "a", {"on"});
  const std::uint64_t small = users.memory_bytes();
  CHECK(small > none.memory_bytes());
  std::vector<std::string> texts;
  for (int i = 0; i < 1000; ++i) texts.push_back("~" + std::string(100, 'k') + std::to_string(i));
  const std::vector<Bytes> rules(texts.begin(), texts.end());
  users = changed(users, "a", rules);
  CHECK(users.memory_bytes() > small + 1000 * 100);
  CHECK(users.memory_bytes() < none.memory_bytes() + Users::most_memory_of(rules));
  CHECK(changed(users, "a", {"resetkeys"}).memory_bytes() == small);
  std::uint64_t removed = 0;
  CHECK(users.without(std::vector<Bytes>{"a"}, &removed).value().memory_bytes() == none.memory_bytes());
}

TEST_CASE("users file needs more memory than is allowed: reading fails, and the error names the line", "[acl]") {
  std::string text = "# users\n";
  for (int i = 0; i < 100; ++i) text += "user u" + std::to_string(i) + " on ~" + std::string(1000, 'k') + "\n";
  CHECK(Users::parse(text, "users.acl", some_commands(), 1 << 20).is_ok());
  const auto refused = Users::parse(text, "users.acl", some_commands(), 20'000);
  REQUIRE_FALSE(refused.is_ok());
  const std::string why(refused.status().message());
  INFO(why);
  CHECK(why.starts_with("users.acl:1"));
  CHECK(why.find("20000 are allowed; raise storage.memory_budget, or remove users or rules") != std::string::npos);
}

TEST_CASE("user has as many patterns or passwords as are allowed: a rule that adds one more is refused", "[acl]") {
  const auto refused = [](Bytes begin, std::size_t most) {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < most; ++i) texts.push_back(std::string(begin) + std::to_string(i));
    const Users full = changed(Users(), "a", {texts.begin(), texts.end()});
    CHECK(changed(full, "a", {Bytes(texts[0])}).memory_bytes() == full.memory_bytes());  // a known rule adds nothing
    const std::string one_more = std::string(begin) + "more";
    return std::string(full.with_rules("a", std::vector<Bytes>{Bytes(one_more)}, some_commands()).status().message());
  };
  CHECK(refused("~k", AclSelector::kMostPatterns).find("at most 16384 patterns") != std::string::npos);
  CHECK(refused("&c", AclSelector::kMostPatterns).find("at most 16384 patterns") != std::string::npos);
  CHECK(refused(">p", User::kMostPasswords).find("at most 4096 passwords") != std::string::npos);
}

}  // namespace TEST_FILE
