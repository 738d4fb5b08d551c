#include "acl/users.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "acl/sha256.h"

using namespace ebbtide;

namespace {

std::string hex(const Sha256& hash) {
  std::string out;
  for (const std::uint8_t byte : hash) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

// Of FIPS 180-4's examples.
const std::string kOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

std::string error_of(const std::string& text) {
  const auto users = Users::parse(text, "users.acl");
  return users.is_ok() ? "(ok)" : std::string(users.status().message());
}

}  // namespace

TEST_CASE("sha256 of FIPS 180-4's examples", "[acl]") {
  CHECK(hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex(sha256("abc")) == kOfAbc);
  CHECK(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hex(sha256(std::string(1'000'000, 'a'))) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  // Around the end of a block.
  CHECK(hex(sha256(std::string(55, 'a'))) == "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  CHECK(hex(sha256(std::string(56, 'a'))) == "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  CHECK(hex(sha256(std::string(64, 'a'))) == "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

TEST_CASE("no users file: one user, without password until one is set", "[acl]") {
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

TEST_CASE("users are read from a file", "[acl]") {
  const auto users =
      Users::parse("# who\n\nuser alice on >one >two ~* &* +@all\r\n  user bob on allkeys allchannels allcommands #" + kOfAbc +
                       "\nuser carol off >one\nuser dave on nopass ~* &* +@all\nuser default off\n",
                   "f");
  REQUIRE(users.is_ok());
  CHECK(users->password_required());
  CHECK(users->check("alice", "one"));
  CHECK(users->check("alice", "two"));
  CHECK_FALSE(users->check("alice", "abc"));
  CHECK(users->check("bob", "abc"));
  CHECK_FALSE(users->check("carol", "one"));
  CHECK(users->check("dave", "whatever"));
  CHECK_FALSE(users->check("default", ""));
  CHECK_FALSE(users->check("erin", std::string(32, '\0')));
  // What is printed means the same.
  std::string printed;
  for (const std::string& line : users->lines()) printed += line + "\n";
  const auto again = Users::parse(printed, "g");
  REQUIRE(again.is_ok());
  CHECK(again->names_changed_in(*users).empty());
  CHECK(users->names_changed_in(*again).empty());
}

TEST_CASE("users file with and without the user default", "[acl]") {
  const Users alice = Users::parse("user alice on >one ~* &* +@all", "f").value();
  CHECK_FALSE(alice.password_required());
  const Users both = alice.with_default_password("abc").value();
  CHECK(both.password_required());
  CHECK(both.check("default", "abc"));
  CHECK(both.check("alice", "one"));
  const Users named = Users::parse("user default off", "users.acl").value();
  CHECK(named.with_default_password("abc").status().message() ==
        "a password and the user default in users.acl are both set; only one of them is allowed");
  CHECK(named.with_default_password("").is_ok());
}

TEST_CASE("users file with an unsupported rule is refused", "[acl]") {
  CHECK(error_of("usr a") == "users.acl:1: expected 'user NAME RULE ...'");
  CHECK(error_of("\nuser") == "users.acl:2: expected 'user NAME RULE ...'");
  CHECK(error_of("user a on ~* &* +@all") == "users.acl:1: user a is on and has no password: >PASSWORD, #SHA256 or nopass");
  CHECK(error_of("user a on >x") == "users.acl:1: user a is on and needs ~* &* +@all: all users have the same rights");
  CHECK(error_of("user a on >x ~* &* +get") ==
        "users.acl:1: the rule '+get' is not known; allowed are on, off, nopass, >PASSWORD, #SHA256, ~*, &*, +@all");
  CHECK(error_of("user a on <secret ~* &* +@all").find("secret") == std::string::npos);
  CHECK(error_of("user a on > ~* &* +@all").find("the rule > is not known") != std::string::npos);
  CHECK(error_of("user a on #1234 ~* &* +@all") == "users.acl:1: # is followed by a SHA-256, 64 hex digits in lower case");
  CHECK(error_of("user a on nopass >x ~* &* +@all") ==
        "users.acl:1: user a has nopass and a password; only one of them is allowed");
  CHECK(error_of("user a off\nuser b off\nuser a off") == "users.acl:3: user a is in line 1 already");
}

TEST_CASE("changed users are listed after a reload", "[acl]") {
  const auto before = Users::parse("user a on >1 ~* &* +@all\nuser b on >1 ~* &* +@all\nuser c on >1 ~* &* +@all", "f");
  const auto after = Users::parse("user a on >1 ~* &* +@all\nuser b on >2 ~* &* +@all\nuser d on >1 ~* &* +@all", "f");
  CHECK(before->names_changed_in(*after) == std::vector<std::string>{"b", "c"});
}
