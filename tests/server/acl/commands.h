// A few commands, for tests of users' rules.
#pragma once

#include <string>
#include <vector>

#include "acl/catalog.h"

namespace ebbtide::test {

inline std::uint32_t categories(const std::vector<std::string>& names) {
  std::uint32_t bits = 0;
  for (const std::string& name : names) bits |= 1u << acl_category(name).value();
  return bits;
}

enum : std::uint32_t { kGet, kSet, kSelect, kConfig, kConfigGet, kConfigSet, kPublish, kDelrange };

inline const AclCatalog& some_commands() {
  static const AclCatalog kCommands({
      {.name = "get", .categories = categories({"read", "string", "fast"})},
      {.name = "set", .categories = categories({"write", "string", "slow"})},
      {.name = "select", .categories = categories({"connection", "fast"})},
      {.name = "config", .subcommands = {kConfigGet, kConfigSet}, .categories = categories({"slow"})},
      {.name = "config|get", .container = kConfig, .categories = categories({"admin", "dangerous", "slow"})},
      {.name = "config|set", .container = kConfig, .categories = categories({"admin", "dangerous", "slow"})},
      {.name = "publish", .categories = categories({"pubsub", "fast"})},
      {.name = "delrange", .categories = categories({"write", "keyspace", "dangerous", "slow"})},
  });
  return kCommands;
}

}  // namespace ebbtide::test
