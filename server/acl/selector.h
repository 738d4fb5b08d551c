// A selector says which commands may run, with which keys and channels. The rules are Redis 7.2's:
//
//     +get -get            a command; a container with all of its subcommands
//     +config|get          a subcommand
//     +select|0            a command with this first argument, which is otherwise not allowed
//     +@read -@dangerous   a category; +@all and -@all have the names allcommands and nocommands, too
//     ~app:*               keys that match a glob pattern; allkeys is ~*, resetkeys removes all patterns
//     %R~p %W~p %RW~p      a key pattern for commands that read the key, write it, or do either
//     &news.*              channels; allchannels is &*, resetchannels removes all patterns
//
// Rules apply in order, so a later rule overrides earlier ones. A new selector allows nothing. A user has one or more selectors.
// A command may run if one selector alone allows the command, all its keys and all its channels.
//
// A selector has at most kMostPatterns patterns of each kind and kMostFirstArguments first arguments, since each command of the
// user is compared with them. An event loop does so only up to a limit of work (budget.h).
//
// Range commands (DELRANGE and others) do not name single keys. They are allowed if a pattern certainly matches each key of the
// range: `*`, or a plain text followed by `*`. If the range's end is not after its start, it has no keys; even then the pattern
// must match the start.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "acl/catalog.h"
#include "acl/pattern_set.h"

namespace ebbtide {

/// The right that a command lacks. Later values are more specific. If selectors lack different rights, the most specific one is
/// reported.
enum class AclDenial : std::uint8_t { kNone, kCommand, kKey, kChannel };

/// An access to a key. If neither bit is set, any right to the key is enough.
enum AclAccess : std::uint8_t { kAclRead = 1, kAclWrite = 2 };

/// A command as the rules see it.
struct AclRequest {
  struct Key {
    std::size_t argument = 0;  ///< index of the key among the command's arguments
    std::uint8_t access = 0;   ///< bits of AclAccess
  };
  struct Range {
    AclRange keys;
    std::uint8_t access = 0;
    std::size_t argument = 0;  ///< index of the argument that an error names
  };
  struct Channels {
    std::size_t first = 0, end = 0;  ///< indexes of arguments; none if first == end
    bool patterns = false;           ///< the names are patterns; a rule allows a pattern only if it has the same text
  };

  std::uint32_t command = 0;    ///< index in the catalog
  bool always_allowed = false;  ///< AUTH and other commands that every user may run
  std::span<const Bytes> arguments;
  std::span<const Key> keys;
  const Range* range = nullptr;
  Channels channels = {};
};

struct AclVerdict {
  AclDenial denial = AclDenial::kNone;
  std::size_t argument = 0;  ///< index of the argument with the denied key or channel; 0: the command itself is denied
  [[nodiscard]] bool allowed() const { return denial == AclDenial::kNone; }
};

/// The rules of a selector. A value type; const members are thread-safe.
class AclSelector {
 public:
  static constexpr std::size_t kMostPatterns = 16'384, kMostFirstArguments = 4096;

  /// Applies a rule. Returns "" on success. Otherwise returns the error's text, Redis's if Redis has one, and changes nothing.
  Bytes apply(const AclCatalog& commands, Bytes rule);
  /// The forms of rules, as error messages list them.
  static constexpr Bytes kAllowed =
      "+COMMAND, -COMMAND, +@CATEGORY, -@CATEGORY, ~PATTERN, %R~PATTERN, %W~PATTERN, &PATTERN, "
      "allkeys, resetkeys, allchannels, resetchannels, allcommands, nocommands";

  /// Returns if the selector allows the command, and if not, which right is lacking. nullopt: the budget is used up.
  [[nodiscard]] std::optional<AclVerdict> check(const AclRequest& request, AclBudget& budget) const;
  /// Returns true if the selector allows a subscription; nullopt if the budget is used up. `is_pattern`: `channel` is a pattern,
  /// as in AclRequest::Channels.
  [[nodiscard]] std::optional<bool> allows_channel(Bytes channel, bool is_pattern, AclBudget& budget) const;
  [[nodiscard]] bool all_channels() const { return all_channels_; }
  /// Returns true if the selector allows everything, so that no check can fail.
  [[nodiscard]] bool unrestricted() const { return all_commands_ && all_keys_ && all_channels_; }
  [[nodiscard]] bool all_keys() const { return all_keys_; }
  /// Returns the estimated memory of the rules, in bytes.
  [[nodiscard]] std::uint64_t memory_bytes() const;

  // --- texts, as in ACL GETUSER
  [[nodiscard]] std::string commands_text() const;  ///< "-@all +get"
  [[nodiscard]] std::string keys_text() const;      ///< "~a* %R~b*"
  [[nodiscard]] std::string channels_text() const;  ///< "&a*"
  /// Returns all rules in one line, as in ACL LIST. A new selector to which the words of this line are applied is equal to this
  /// one.
  [[nodiscard]] std::string text() const;

  friend bool operator==(const AclSelector&, const AclSelector&) = default;

 private:
  Bytes apply_keys(Bytes rule);
  Bytes apply_channels(Bytes rule);
  Bytes apply_command(const AclCatalog& commands, Bytes name, bool allow);
  Bytes apply_first_argument(const AclCatalog& commands, Bytes name, std::size_t bar);
  Bytes apply_category(const AclCatalog& commands, Bytes name, bool allow);
  void set_all_commands(bool allow);
  void set_command(const AclCatalog& commands, std::uint32_t command, bool allow);
  void set_bit(std::uint32_t command, bool allow);
  void note_rule(Bytes name, bool allow);
  [[nodiscard]] bool has_bit(std::uint32_t command) const {
    const bool excepted = command / 64 < exceptions_.size() && (exceptions_[command / 64] >> (command % 64) & 1) != 0;
    return excepted != began_with_all_;
  }
  [[nodiscard]] std::optional<bool> allows_command(const AclRequest& request, AclBudget& budget) const;

  bool all_commands_ = false;              ///< +@all applies, and no command was denied after it
  bool began_with_all_ = false;            ///< the latest of +@all and -@all was +@all
  std::vector<std::uint64_t> exceptions_;  ///< bit i: the right to command i differs from began_with_all_; missing bits are 0
  std::vector<std::string> rules_;         ///< rules since the last +@all or -@all: "+get", "-@write"
  std::map<std::uint32_t, std::vector<std::string>> first_arguments_;  ///< allowed first arguments, by command, in lower case
  bool all_keys_ = false, all_channels_ = false;
  AclPatternSet keys_, channels_;  ///< channel patterns have no bits of access
};

}  // namespace ebbtide
