#include "commands/families.h"

#include <array>

namespace ebbtide {

std::span<const std::span<const CommandSpec>> command_families() {
  static const std::array families = {
      connection_commands(),   client_commands(),  transaction_commands(),  pubsub_commands(),     diagnostics_commands(),
      string_commands(),       counter_commands(), lcs_commands(),          bitmap_commands(),     bitfield_commands(),
      hyperloglog_commands(),  hash_commands(),    set_commands(),          sorted_set_commands(), zset_range_commands(),
      zset_combine_commands(), list_commands(),    key_commands(),          transfer_commands(),   dump_commands(),
      object_commands(),       wait_commands(),    scan_commands(),         database_commands(),   server_commands(),
      info_commands(),         command_commands(), range_delete_commands(), tree_commands(),       purge_commands(),
      debug_commands(),        stamp_commands(),   acl_commands(),          sort_commands(),       tuning_commands(),
      geo_commands(),          script_commands(),  field_expiry_commands(), index_commands(),      spatial_commands(),
  };
  return families;
}

}  // namespace ebbtide
