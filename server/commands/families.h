// All commands: one array per family, one file per family.
#pragma once

#include <span>

#include "dispatch/spec.h"
#include "resp/reply.h"

namespace ebbtide {

std::span<const CommandSpec> connection_commands();    ///< connection.cc
std::span<const CommandSpec> client_commands();        ///< client.cc: CLIENT
std::span<const CommandSpec> acl_commands();           ///< acl.cc: ACL
std::span<const CommandSpec> transaction_commands();   ///< transactions.cc
std::span<const CommandSpec> diagnostics_commands();   ///< diagnostics.cc: SLOWLOG, LATENCY, MEMORY, LOLWUT
std::span<const CommandSpec> pubsub_commands();        ///< pubsub.cc
std::span<const CommandSpec> string_commands();        ///< strings.cc
std::span<const CommandSpec> counter_commands();       ///< counters.cc: strings as numbers
std::span<const CommandSpec> lcs_commands();           ///< lcs.cc
std::span<const CommandSpec> bitmap_commands();        ///< bitmaps.cc
std::span<const CommandSpec> bitfield_commands();      ///< bitfields.cc
std::span<const CommandSpec> hyperloglog_commands();   ///< hyperloglog.cc
std::span<const CommandSpec> hash_commands();          ///< hashes.cc
std::span<const CommandSpec> field_expiry_commands();  ///< field_expiry.cc: fields of hashes that expire
std::span<const CommandSpec> set_commands();           ///< sets.cc
std::span<const CommandSpec> sorted_set_commands();    ///< zsets.cc
std::span<const CommandSpec> zset_range_commands();    ///< zset_ranges.cc: ZRANGE and other ranges of sorted sets
std::span<const CommandSpec> zset_combine_commands();  ///< zset_combinations.cc: ZUNION, ZINTER, ZDIFF
std::span<const CommandSpec> geo_commands();           ///< geo.cc: places in sorted sets
std::span<const CommandSpec> list_commands();          ///< lists.cc
std::span<const CommandSpec> key_commands();           ///< keys.cc
std::span<const CommandSpec> sort_commands();          ///< sort.cc: SORT, SORT_RO
std::span<const CommandSpec> transfer_commands();      ///< transfer.cc: RENAME, COPY, MOVE
std::span<const CommandSpec> dump_commands();          ///< dump.cc: DUMP, RESTORE
std::span<const CommandSpec> object_commands();        ///< object.cc: OBJECT
std::span<const CommandSpec> wait_commands();          ///< wait.cc: WAIT, WAITAOF
std::span<const CommandSpec> scan_commands();          ///< scan.cc: SCAN, KEYS, RANDOMKEY, DBSIZE
std::span<const CommandSpec> database_commands();      ///< databases.cc: FLUSHDB, FLUSHALL, SWAPDB
std::span<const CommandSpec> debug_commands();         ///< debug.cc: DEBUG
std::span<const CommandSpec> server_commands();        ///< server.cc: CONFIG, TIME, SHUTDOWN
std::span<const CommandSpec> info_commands();          ///< info.cc: INFO
std::span<const CommandSpec> command_commands();       ///< command_info.cc: COMMAND
std::span<const CommandSpec> range_delete_commands();  ///< range_deletes.cc: DELRANGE, DELPREFIX, COUNTRANGE
std::span<const CommandSpec> tree_commands();          ///< trees.cc: TREE.*
std::span<const CommandSpec> tuning_commands();        ///< tuning.cc: TUNE.*, the workload and advice for it
std::span<const CommandSpec> purge_commands();         ///< purge.cc: PURGE.*, whether deleted data has left the files
std::span<const CommandSpec> script_commands();        ///< scripts.cc: EVAL, EVALSHA, SCRIPT
std::span<const CommandSpec> stamp_commands();         ///< stamps.cc: STAMP.*, keys by stamp
std::span<const CommandSpec> index_commands();         ///< indexes.cc: INDEX.*, records by a field
std::span<const CommandSpec> spatial_commands();       ///< spatial.cc: SPATIAL.*, records by a place

/// Returns the families above, for CommandTable.
std::span<const std::span<const CommandSpec>> command_families();

/// Handles HELP of a container command (help.cc).
Status container_help(Ctx& ctx);
/// Writes the lines of HELP for a container command.
void reply_help(Reply& reply, Bytes container);

}  // namespace ebbtide
