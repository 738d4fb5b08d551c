#include "dispatch/table.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace TEST_FILE {

using namespace ebbtide;

// Short names with common beginnings, ends, lengths or bytes, and a name that is too long for RecentCommands.
constexpr std::array kNames = {"a", "aa", "aaa", "aaaa", "get", "set", "getx", "gget", "aabbccdd", "aabbccde", "gettttttt"};

CommandTable make_table(std::vector<CommandSpec>* specs) {
  for (const char* name : kNames) specs->push_back({.name = name});
  const std::array<std::span<const CommandSpec>, 1> families = {*specs};
  return CommandTable(families);
}

std::string upper(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return static_cast<char>(c - 'a' + 'A'); });
  return name;
}

TEST_CASE("commands repeat in any spelling and order: RecentCommands finds the same command as the command table") {
  std::vector<CommandSpec> specs;
  const CommandTable table = make_table(&specs);
  RecentCommands recent;
  for (int round = 0; round < 3; ++round) {
    for (const std::string name : kNames) {
      CAPTURE(name);
      REQUIRE(table.find(name)->full_name == name);
      CHECK(recent.find(table, name) == table.find(name));
      CHECK(recent.find(table, upper(name)) == table.find(name));
      CHECK(recent.find(table, name) == table.find(name));
    }
  }
}

TEST_CASE("texts resemble names of commands: RecentCommands finds no command") {
  std::vector<CommandSpec> specs;
  const CommandTable table = make_table(&specs);
  RecentCommands recent;
  for (const std::string name : kNames) REQUIRE(recent.find(table, name) != nullptr);
  for (const std::string name : {"", "g", "ge", "gett", "aaaaa", "aabbxxcc", "aabbccdx", "getttttttt"}) {
    CAPTURE(name);
    CHECK(recent.find(table, name) == nullptr);
    CHECK(recent.find(table, name) == nullptr);
  }
  using namespace std::string_literals;
  CHECK(recent.find(table, "\0"s) == nullptr);
  CHECK(recent.find(table, "a\0"s) == nullptr);
}

}  // namespace TEST_FILE
