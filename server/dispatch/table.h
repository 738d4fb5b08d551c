// The table of commands, by name.
//
// The table is open-addressed, at most a quarter full, and hashed over the name's bytes with the case bit set. So a look-up takes
// one multiplication per byte, one probe and one comparison, and allocates nothing. The table is built once, then immutable and
// thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "dispatch/spec.h"
#include "resp/args.h"

namespace ebbtide {

/// A spec in the table. Commands and subcommands are numbered from 0: `index`, for arrays of counters.
struct Command {
  const CommandSpec* spec = nullptr;
  std::uint32_t index = 0;
  std::uint32_t first_subcommand = 0;  ///< index of the first subcommand; the others follow it
  std::string full_name;               ///< "get", "config|get"
  bool may_leave_loop = false;         ///< CommandSpec::may_leave_loop()
};

class CommandTable {
 public:
  /// The specs must outlive the table. No two names may be equal.
  explicit CommandTable(std::span<const std::span<const CommandSpec>> families);

  /// Returns the command of a name, in any case. Returns null if there is none, or if the name belongs to a subcommand.
  [[nodiscard]] const Command* find(Bytes name) const;
  /// Returns the container's subcommand with this name, in any case; null if it has none.
  [[nodiscard]] const Command* find_subcommand(const Command& container, Bytes name) const;
  /// Like find(), but finds names such as "config|get" too.
  [[nodiscard]] const Command* find_full(Bytes name) const;
  /// Returns all commands by index; subcommands follow their container.
  [[nodiscard]] const std::vector<Command>& all() const { return commands_; }
  /// Returns the commands except for subcommands, in order of definition.
  [[nodiscard]] const std::vector<const Command*>& top_level() const { return top_level_; }

 private:
  static std::uint32_t hash(Bytes name);

  std::vector<Command> commands_;
  std::vector<const Command*> top_level_;
  std::vector<const Command*> slots_;
  std::uint32_t mask_ = 0;
  std::size_t longest_ = 0;  ///< length of the longest name in slots_
};

/// Finds commands for a thread whose clients use the same few commands repeatedly. Remembers the latest short names, spelled as
/// by the client. Not thread-safe.
class RecentCommands {
 public:
  [[nodiscard]] const Command* find(const CommandTable& table, Bytes name) {
    if (name.size() - 1 >= kMaxName) return table.find(name);
    const std::uint64_t word = word_of(name);
    Recent& recent = recent_[(word * 0x9e3779b97f4a7c15u) >> (64 - kLog2)];
    if (recent.word == word && recent.size == name.size()) [[likely]]
      return recent.command;
    const Command* command = table.find(name);
    if (command != nullptr) recent = {word, name.size(), command};
    return command;
  }

 private:
  static constexpr std::size_t kMaxName = 8;
  static constexpr unsigned kLog2 = 4;
  struct Recent {
    std::uint64_t word = 0;
    std::size_t size = 0;
    const Command* command = nullptr;
  };
  /// Returns a word that identifies a name of 1 to 8 bytes among the names of its length.
  static std::uint64_t word_of(Bytes name) {
    const std::size_t n = name.size();
    if (n >= 4) {
      std::uint32_t first = 0, last = 0;
      std::memcpy(&first, name.data(), 4);
      std::memcpy(&last, name.data() + n - 4, 4);
      return first | std::uint64_t{last} << 32;
    }
    const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(name[i])); };
    return byte(0) | byte(n / 2) << 8 | byte(n - 1) << 16;
  }

  std::array<Recent, std::size_t{1} << kLog2> recent_{};
};

/// Returns Redis's error for an unknown command, which quotes the beginning of its arguments.
Status unknown_command(const Args& args);
/// Returns the error for an unknown subcommand of a container.
Status unknown_subcommand(const Command& container, Bytes name);
/// Returns the error for a known subcommand (argument 1) with arguments that it does not take.
Status wrong_subcommand_arguments(const Command& command, const Args& args);
/// Returns the error for a wrong number of arguments.
Status wrong_arity(const Command& command);

/// Returns the ACL categories of a command, each with its '@': "@read @string @fast".
std::vector<std::string_view> acl_categories(const CommandSpec& spec);
/// Returns true if the command is in a category, which is named without '@' and in any case.
bool in_category(const Command& command, Bytes category);
/// Returns the group's name: "string", "generic", ...
std::string_view group_name(Group group);

}  // namespace ebbtide
