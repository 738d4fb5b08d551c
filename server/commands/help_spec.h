// The spec of the subcommand HELP, for each container command.
#pragma once

#include <string_view>

#include "commands/families.h"

namespace ebbtide {

/// Returns the spec of HELP for `container`. `since`: the Redis version that has this subcommand.
constexpr CommandSpec help_of(std::string_view container, std::string_view since, Group group = Group::kGeneric,
                              std::string_view extra_acl = {}) {
  return {.name = "help",
          .arity = exactly(2),
          .flags = kLoading | kStale,
          .run = container_help,
          .since = since,
          .complexity = "O(1)",
          .summary = "Returns helpful text about the different subcommands.",
          .group = group,
          .container = container,
          .extra_acl = extra_acl};
}

}  // namespace ebbtide
