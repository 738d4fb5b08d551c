// The commands that rules of users can name, and their categories.
// Here a command is only a name, a container and a set of categories, without handler and spec. It has the same index as in the
// command table, so that checking a command is a test of one bit.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <engine/bytes.h>

namespace ebbtide {

/// All categories of Redis 7.2, in Redis's order. Some have no command in this server.
inline constexpr std::array<Bytes, 21> kAclCategories = {
    "keyspace", "read",   "write",       "set",       "sortedset",  "list",        "hash",
    "string",   "bitmap", "hyperloglog", "geo",       "stream",     "pubsub",      "admin",
    "fast",     "slow",   "blocking",    "dangerous", "connection", "transaction", "scripting"};

/// Returns the index of a category in kAclCategories; nullopt if there is none. `name` is without '@', in any case.
std::optional<std::size_t> acl_category(Bytes name);

/// The commands that rules can name. Immutable, so thread-safe.
class AclCatalog {
 public:
  struct Command {
    std::string name;                             ///< lower case: "get", "config|get"
    std::optional<std::uint32_t> container = {};  ///< index of a subcommand's container; nullopt for other commands
    std::vector<std::uint32_t> subcommands = {};  ///< indexes of a container's subcommands
    std::uint32_t categories = 0;                 ///< bit i stands for kAclCategories[i]
  };

  AclCatalog() = default;
  /// The index of a command is its position in `commands`.
  explicit AclCatalog(std::vector<Command> commands);

  /// Returns the index of a command or subcommand ("config|get"); nullopt if it does not exist. `name` may be in any case.
  [[nodiscard]] std::optional<std::uint32_t> find(Bytes name) const;
  [[nodiscard]] const std::vector<Command>& commands() const { return commands_; }

 private:
  std::vector<Command> commands_;
  std::unordered_map<std::string, std::uint32_t> by_name_;
};

using AclCatalogPtr = std::shared_ptr<const AclCatalog>;

}  // namespace ebbtide
