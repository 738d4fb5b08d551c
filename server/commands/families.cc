#include "commands/families.h"

#include <algorithm>
#include <array>
#include <string>

#include "command/context.h"
#include "command/table.h"

namespace ebbtide {

std::span<const std::span<const CommandSpec>> command_families() {
  static const std::array families = {
      connection_commands(),  client_commands(),    transaction_commands(), pubsub_commands(), diagnostics_commands(),
      string_commands(),      counter_commands(),   lcs_commands(),         bitmap_commands(), bitfield_commands(),
      hyperloglog_commands(), key_commands(),       transfer_commands(),    dump_commands(),   object_commands(),
      wait_commands(),        scan_commands(),      database_commands(),    server_commands(), info_commands(),
      command_commands(),     extension_commands(), purge_commands(),
  };
  return families;
}

Status container_help(Ctx& ctx) {
  const Command& container = *ctx.env.table->find(ctx.command.spec->container);
  std::string name(container.spec->name);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  ctx.reply.array(1 + 2 * container.spec->subcommands.size());
  ctx.reply.simple(name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
  for (const CommandSpec& sub : container.spec->subcommands) {
    std::string word(sub.name);
    std::transform(word.begin(), word.end(), word.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    ctx.reply.simple(word);
    ctx.reply.simple("    " + std::string(sub.summary));
  }
  return Status::ok();
}

}  // namespace ebbtide
