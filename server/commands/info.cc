// INFO: Redis's sections and field names, so that redis_exporter and its dashboards work, and three sections that Redis does not
// have.
//
// A field without a meaning here is printed only if tools expect it, with the value that Redis shows for an unused feature. The
// key counts under Keyspace are the engine's estimates (`keyspace_keys_exact:0` says so); DBSIZE is exact for up to a million
// entries.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <engine/tuner.h>
#include "commands/families.h"
#include "commands/server_docs.h"
#include "dispatch/arg_cursor.h"
#include "dispatch/command_env.h"
#include "dispatch/context.h"
#include "dispatch/server_stats.h"
#include "dispatch/table.h"
#include "pubsub/pubsub.h"
#include "store/numbers.h"
#include "tuning/tuning_board.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kMicros = 1'000'000;

/// The text of INFO: "name:value" lines under "# Section" headings.
class InfoText {
 public:
  void section(Bytes title) {
    if (!text_.empty()) text_ += "\r\n";
    text_ += "# " + std::string(title) + "\r\n";
  }
  void field(Bytes name, Bytes value) {
    text_ += name;
    text_ += ':';
    text_ += value;
    text_ += "\r\n";
  }
  void field(Bytes name, const char* value) { field(name, Bytes(value)); }
  void field(Bytes name, std::uint64_t value) { field(name, std::to_string(value)); }
  void field(Bytes name, double value, int digits) { field(name, decimal(value, digits)); }
  static std::string decimal(double value, int digits) {
    char buffer[64];
    std::snprintf(buffer, sizeof(buffer), "%.*f", digits, value);
    return buffer;
  }
  static std::string shortest(double value) {
    char buffer[64];
    return {buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr};
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Formats bytes like Redis's bytesToHuman: "1.50M".
std::string human_bytes(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "K", "M", "G", "T", "P"};
  if (bytes < 1024) return std::to_string(bytes) + "B";
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return InfoText::decimal(value, 2) + kUnits[unit];
}

/// The facts that the sections print, collected once.
struct Facts {
  CommandEnv& env;
  ServerInfo server;
  Stats engine;
  std::uint64_t now_micros;
  TrackingTable::Counts tracking;

  /// Returns the trees of the databases that have one, in order. The first call collects them, since that visits all files.
  [[nodiscard]] const std::vector<TreeInfo>& trees() const {
    if (known_trees) return *known_trees;
    known_trees.emplace();
    for (DatabaseId database = 0; env.db != nullptr && database < env.databases; ++database) {
      if (auto info = env.db->tree_info(database); info.is_ok() && info->tree != kNoTree) {
        known_trees->push_back(std::move(*info));
      }
    }
    return *known_trees;
  }
  mutable std::optional<std::vector<TreeInfo>> known_trees = {};
};

void info_server(const Facts& facts, InfoText& out) {
  const ServerInfo& server = facts.server;
  const std::uint64_t uptime = server.uptime_micros / kMicros;
  out.section("Server");
  out.field("redis_version", "7.2.0");
  out.field("redis_git_sha1", "00000000");
  out.field("redis_git_dirty", "0");
  out.field("redis_build_id", "0");
  out.field("redis_mode", "standalone");
  out.field("ebbtide_version", server.version);
  out.field("os", server.os);
  out.field("arch_bits", std::uint64_t{sizeof(void*) * 8});
  out.field("monotonic_clock", "POSIX clock_gettime");
  out.field("multiplexing_api", server.multiplexing);
  out.field("gcc_version", server.compiler);
  out.field("process_id", server.process_id);
  out.field("process_supervised", "no");
  out.field("run_id", server.run_id);
  out.field("tcp_port", std::uint64_t{server.port});
  out.field("server_time_usec", facts.now_micros);
  out.field("uptime_in_seconds", uptime);
  out.field("uptime_in_days", uptime / 86400);
  out.field("hz", "10");  // the server checks expiries, timeouts and memory limits ten times a second
  out.field("configured_hz", "10");
  out.field("executable", server.executable);
  out.field("config_file", server.config_file);
  out.field("io_threads_active", std::uint64_t{server.loops > 1 ? 1u : 0u});
}

void info_clients(const Facts& facts, InfoText& out) {
  const ServerInfo& server = facts.server;
  out.section("Clients");
  out.field("connected_clients", server.connected_clients);
  out.field("cluster_connections", "0");
  out.field("maxclients", server.max_clients);
  out.field("client_recent_max_input_buffer", server.max_input_buffer);
  out.field("client_recent_max_output_buffer", server.max_output_buffer);
  out.field("blocked_clients", server.blocked_clients);
  out.field("waiting_clients", server.waiting_clients);
  out.field("tracking_clients", std::uint64_t{facts.tracking.clients});
  out.field("clients_in_timeout_table", "0");
}

void info_memory(const Facts& facts, InfoText& out) {
  const Stats& engine = facts.engine;
  const ServerInfo& server = facts.server;
  const std::uint64_t used = engine.memtable_bytes + engine.cache_bytes + engine.table_bytes + engine.connection_bytes +
                             engine.large_value_bytes + engine.pinned_page_bytes + engine.command_bytes;
  const auto both = [&out](const char* name, std::uint64_t bytes) {
    out.field(name, bytes);
    out.field(std::string(name) + "_human", human_bytes(bytes));
  };
  out.section("Memory");
  both("used_memory", used);
  both("used_memory_rss", server.resident_bytes);
  both("used_memory_peak", server.peak_resident_bytes);
  out.field(
      "used_memory_peak_perc",
      InfoText::decimal(
          100.0 * static_cast<double>(used) / static_cast<double>(std::max<std::uint64_t>(server.peak_resident_bytes, 1)), 2) +
          "%");
  out.field("used_memory_overhead", used - std::min(used, engine.memtable_bytes + engine.cache_bytes));
  out.field("used_memory_startup", "0");
  out.field("used_memory_dataset", engine.memtable_bytes + engine.cache_bytes);
  out.field("used_memory_memtables", engine.memtable_bytes);
  out.field("used_memory_block_cache", engine.cache_bytes);
  out.field("used_memory_tables", engine.table_bytes);
  out.field("used_memory_connections", engine.connection_bytes);
  out.field("used_memory_large_values", engine.large_value_bytes);
  out.field("used_memory_pinned_pages", engine.pinned_page_bytes);
  out.field("used_memory_commands", engine.command_bytes);
  both("total_system_memory", server.system_memory);
  const ScriptCache& scripts = *facts.env.scripts;
  out.field("number_of_cached_scripts", std::to_string(scripts.size()));
  out.field("used_memory_scripts", scripts.memory());
  out.field("used_memory_scripts_eval", scripts.memory());
  for (const char* name : {"used_memory_lua", "used_memory_vm_eval", "number_of_functions", "number_of_libraries",
                           "used_memory_vm_functions", "used_memory_vm_total", "used_memory_functions"}) {
    out.field(name, "0");
  }
  both("maxmemory", engine.memory_budget);
  out.field("maxmemory_policy", "noeviction");
  const double ratio = used == 0 ? 1.0 : static_cast<double>(server.resident_bytes) / static_cast<double>(used);
  out.field("mem_fragmentation_ratio", ratio, 2);
  out.field("mem_fragmentation_bytes",
            std::to_string(static_cast<std::int64_t>(server.resident_bytes) - static_cast<std::int64_t>(used)));
  for (const char* name : {"allocator_allocated", "allocator_active", "allocator_resident"})
    out.field(name, server.resident_bytes);
  for (const char* name : {"allocator_frag_ratio", "allocator_rss_ratio", "rss_overhead_ratio"}) out.field(name, "1.00");
  for (const char* name : {"allocator_frag_bytes", "allocator_rss_bytes", "rss_overhead_bytes", "mem_not_counted_for_evict",
                           "mem_total_replication_buffers", "mem_cluster_links"}) {
    out.field(name, "0");
  }
  out.field("mem_clients_normal", server.clients_bytes);
  out.field("mem_clients_slaves", "0");
  out.field("mem_aof_buffer", "0");
  out.field("mem_replication_backlog", "0");
  out.field("mem_allocator", server.allocator);
  out.field("active_defrag_running", "0");
  out.field("lazyfree_pending_objects", "0");
}

void info_persistence(const Facts& facts, InfoText& out) {
  const Stats& engine = facts.engine;
  out.section("Persistence");
  const bool loading = facts.env.db == nullptr;
  out.field("loading", loading ? "1" : "0");
  out.field("async_loading", "0");
  const SaveState save = facts.env.control->save_state();
  out.field("rdb_changes_since_last_save", engine.visible_seq - std::min(engine.visible_seq, save.last_seq));
  const std::uint64_t now = facts.env.control->unix_micros();
  const bool saving = save.running_since_micros != 0;
  for (const char* name :
       {"current_cow_peak", "current_cow_size", "current_cow_size_age", "current_save_keys_processed", "current_save_keys_total",
        "rdb_last_cow_size", "rdb_last_load_keys_expired", "rdb_last_load_keys_loaded", "aof_last_cow_size", "aof_rewrites",
        "module_fork_in_progress", "module_fork_last_cow_size"}) {
    out.field(name, "0");
  }
  out.field("current_fork_perc", "0.00");
  out.field("rdb_bgsave_in_progress", saving ? "1" : "0");
  out.field("rdb_last_save_time", save.last_unix_seconds);
  out.field("rdb_last_bgsave_status", save.last_ok ? "ok" : "err");
  out.field("rdb_last_bgsave_time_sec", std::to_string(save.last_took_seconds));
  out.field("rdb_current_bgsave_time_sec",
            saving ? std::to_string((now - std::min(now, save.running_since_micros)) / 1'000'000) : "-1");
  constexpr const char* kChecks[] = {"none", "running", "ok", "damaged"};
  out.field("backup_verify_status", kChecks[static_cast<std::size_t>(save.check.result)]);
  out.field("backup_damaged_tables", save.last_damaged);
  out.field("backup_last_verified_time", save.check.last_ok_unix_seconds);
  out.field("backup_pruning_stopped", save.check.pruning_held.empty() ? "0" : "1");
  out.field("aof_enabled", "1");
  out.field("aof_rewrite_in_progress", "0");
  out.field("aof_rewrite_scheduled", "0");
  out.field("aof_last_rewrite_time_sec", "-1");
  out.field("aof_current_rewrite_time_sec", "-1");
  out.field("aof_last_bgrewrite_status", "ok");
  out.field("aof_last_write_status", engine.read_only ? "err" : "ok");
  out.field("aof_current_size", engine.wal_live_bytes);
  if (!loading) return;
  const ServerInfo& server = facts.server;
  const double part = server.loading_total_bytes == 0
                          ? 0
                          : static_cast<double>(server.loading_loaded_bytes) / static_cast<double>(server.loading_total_bytes);
  const std::uint64_t seconds = server.uptime_micros / kMicros;
  out.field("loading_start_time", server.start_unix_micros / kMicros);
  out.field("loading_total_bytes", server.loading_total_bytes);
  out.field("loading_loaded_bytes", server.loading_loaded_bytes);
  out.field("loading_loaded_perc", 100 * part, 2);
  out.field("loading_eta_seconds",
            part == 0 ? std::uint64_t{1} : static_cast<std::uint64_t>(static_cast<double>(seconds) * (1 - part) / part));
}

void info_stats(const Facts& facts, InfoText& out) {
  const TotalCounts totals = facts.env.stats->totals();
  const ServerInfo& server = facts.server;
  out.section("Stats");
  out.field("total_connections_received", server.connections_received);
  out.field("total_commands_processed", totals.commands);
  out.field("instantaneous_ops_per_sec", static_cast<std::uint64_t>(server.commands_per_second));
  out.field("total_net_input_bytes", server.net_input_bytes);
  out.field("total_net_output_bytes", server.net_output_bytes);
  out.field("total_net_repl_input_bytes", "0");
  out.field("total_net_repl_output_bytes", "0");
  out.field("instantaneous_input_kbps", server.net_input_per_second / 1024, 2);
  out.field("instantaneous_output_kbps", server.net_output_per_second / 1024, 2);
  out.field("instantaneous_input_repl_kbps", "0.00");
  out.field("instantaneous_output_repl_kbps", "0.00");
  out.field("rejected_connections", server.connections_rejected);
  out.field("sync_full", "0");
  out.field("sync_partial_ok", "0");
  out.field("sync_partial_err", "0");
  out.field("expired_keys", facts.env.observers->expired_reported());
  out.field("expired_stale_perc", "0.00");
  for (const char* name : {"expired_time_cap_reached_count", "expire_cycle_cpu_milliseconds", "evicted_keys", "evicted_clients",
                           "total_eviction_exceeded_time", "current_eviction_exceeded_time"}) {
    out.field(name, "0");
  }
  out.field("keyspace_hits", totals.keyspace_hits);
  out.field("keyspace_misses", totals.keyspace_misses);
  out.field("pubsub_channels", std::uint64_t{facts.env.pubsub->size(PubSub::Kind::kChannel)});
  out.field("pubsub_patterns", std::uint64_t{facts.env.pubsub->size(PubSub::Kind::kPattern)});
  out.field("pubsubshard_channels", std::uint64_t{facts.env.pubsub->size(PubSub::Kind::kShard)});
  out.field("latest_fork_usec", "0");
  out.field("total_forks", "0");
  for (const char* name :
       {"migrate_cached_sockets", "slave_expires_tracked_keys", "active_defrag_hits", "active_defrag_misses",
        "active_defrag_key_hits", "active_defrag_key_misses", "total_active_defrag_time", "current_active_defrag_time",
        "unexpected_error_replies", "dump_payload_sanitizations", "io_threaded_reads_processed", "io_threaded_writes_processed",
        "reply_buffer_shrinks", "reply_buffer_expands"}) {
    out.field(name, "0");
  }
  out.field("tracking_total_keys", std::uint64_t{facts.tracking.keys});
  out.field("tracking_total_items", std::uint64_t{facts.tracking.items});
  out.field("tracking_total_prefixes", std::uint64_t{facts.tracking.prefixes});
  out.field("total_reads_processed", server.net_reads);
  out.field("total_writes_processed", server.net_writes);
  out.field("client_query_buffer_limit_disconnections", server.query_buffer_limit_disconnections);
  out.field("client_output_buffer_limit_disconnections", server.output_buffer_limit_disconnections);
  out.field("acl_access_denied_auth", server.acl_access_denied_auth);
  out.field("acl_access_denied_cmd", server.acl_access_denied_cmd);
  out.field("acl_access_denied_key", server.acl_access_denied_key);
  out.field("acl_access_denied_channel", server.acl_access_denied_channel);
  out.field("total_error_replies", totals.errors);
  out.field("total_passes", totals.passes);
  out.field("total_waits_for_disk", totals.waits_for_disk);
  out.field("total_offloaded", totals.offloaded);
}

void info_replication(const Facts& facts, InfoText& out) {
  out.section("Replication");
  out.field("role", "master");
  out.field("connected_slaves", "0");
  out.field("master_failover_state", "no-failover");
  out.field("master_replid", facts.server.run_id);
  out.field("master_replid2", std::string(40, '0'));
  out.field("master_repl_offset", "0");
  out.field("second_repl_offset", "-1");
  out.field("repl_backlog_active", "0");
  out.field("repl_backlog_size", "0");
  out.field("repl_backlog_first_byte_offset", "0");
  out.field("repl_backlog_histlen", "0");
}

void info_cpu(const Facts& facts, InfoText& out) {
  out.section("CPU");
  out.field("used_cpu_sys", facts.server.cpu_sys, 6);
  out.field("used_cpu_user", facts.server.cpu_user, 6);
  out.field("used_cpu_sys_children", facts.server.cpu_sys_children, 6);
  out.field("used_cpu_sys_main_thread", facts.server.cpu_sys, 6);
  out.field("used_cpu_user_main_thread", facts.server.cpu_user, 6);
  out.field("used_cpu_user_children", facts.server.cpu_user_children, 6);
}

void info_modules(const Facts&, InfoText& out) { out.section("Modules"); }

void info_commandstats(const Facts& facts, InfoText& out) {
  out.section("Commandstats");
  const std::vector<CommandCounts> counts = facts.env.stats->commands();
  for (const Command& command : facts.env.table->all()) {
    const CommandCounts& count = counts[command.index];
    if (count.calls == 0 && count.rejected == 0) continue;
    const double micros = static_cast<double>(count.nanos) / 1000;
    const double per_call = count.calls == 0 ? 0 : micros / static_cast<double>(count.calls);
    out.field("cmdstat_" + command.full_name,
              "calls=" + std::to_string(count.calls) + ",usec=" + std::to_string(count.nanos / 1000) +
                  ",usec_per_call=" + InfoText::decimal(per_call, 2) + ",rejected_calls=" + std::to_string(count.rejected) +
                  ",failed_calls=" + std::to_string(count.failed));
  }
}

void info_errorstats(const Facts& facts, InfoText& out) {
  out.section("Errorstats");
  for (const auto& [code, count] : facts.env.stats->errors_by_code())
    out.field("errorstat_" + code, "count=" + std::to_string(count));
}

void info_latencystats(const Facts& facts, InfoText& out) {
  out.section("Latencystats");
  const ServerStats& stats = *facts.env.stats;
  const std::vector<CommandCounts> counts = stats.commands();
  const std::vector<double> percents = stats.shown_percentiles();
  for (const Command& command : facts.env.table->all()) {
    if (counts[command.index].calls == 0) continue;
    const std::vector<double> nanos = stats.percentiles(command.index, percents);
    std::string text;
    for (std::size_t i = 0; i < percents.size(); ++i) {
      text += (i == 0 ? "p" : ",p") + InfoText::shortest(percents[i]) + "=" + InfoText::decimal(nanos[i] / 1000, 3);
    }
    out.field("latency_percentiles_usec_" + command.full_name, text);
  }
}

void info_cluster(const Facts&, InfoText& out) {
  out.section("Cluster");
  out.field("cluster_enabled", "0");
}

void info_keyspace(const Facts& facts, InfoText& out) {
  out.section("Keyspace");
  for (const TreeInfo& info : facts.trees()) {
    if (info.estimated_keys == 0) continue;
    out.field("db" + std::to_string(info.database), "keys=" + std::to_string(info.estimated_keys) + ",expires=0,avg_ttl=0");
  }
}

/// Writes, for each database, how many tombstones memtables and tables have, and the deadline by which their data must be purged.
/// The fields are not named `db0`, since client libraries put all sections into one dictionary.
void info_deletes(const Facts& facts, InfoText& out) {
  out.section("Deletes");
  for (const TreeInfo& info : facts.trees()) {
    std::uint64_t tombstones = 0, ranges = 0;
    const Millis oldest = info.oldest_obligation;
    for (const RunInfo& run : info.runs) {
      tombstones += run.tombstones;
      ranges += run.range_tombstones;
    }
    const Millis now = facts.engine.engine_time;
    out.field("deletes_db" + std::to_string(info.database),
              "tombstones=" + std::to_string(tombstones) + ",range_tombstones=" + std::to_string(ranges) + ",oldest_birth_ms=" +
                  std::to_string(oldest) + ",oldest_age_ms=" + std::to_string(oldest == 0 ? 0 : now - std::min(oldest, now)) +
                  ",oldest_deadline_ms=" + std::to_string(info.oldest_obligation_deadline) +
                  ",deadline_ms=" + std::to_string(info.delete_deadline));
  }
}

/// Writes the newest decision of tuning.auto for a database, unless tuning.auto is off.
void tuning_fields(const Facts& facts, DatabaseId database, InfoText& out) {
  const auto state = facts.env.tuning->state(database);
  if (!state) return;
  const TuningBoard::Changes changes = facts.env.tuning->changes(database);
  out.field("tuning_db" + std::to_string(database),
            std::string("auto=") + (state->mode == TuningMode::kApply ? "apply" : "advise") +
                ",advised=" + (state->decision.advised ? "1" : "0") + ",changes=" + std::to_string(changes.by_itself) +
                ",cost=" + InfoText::decimal(state->decision.cost_now, 4) +
                ",best_cost=" + InfoText::decimal(state->decision.advice.mean_cost, 4) +
                ",divergence=" + InfoText::decimal(state->decision.divergence, 3));
  out.field("tuning_decision_db" + std::to_string(database), state->decision.why);
}

/// Writes, for each database, its operations by kind since the start, and how much their mix varies. TUNE.WORKLOAD has the
/// history.
void info_workload(const Facts& facts, InfoText& out) {
  out.section("Workload");
  for (const TreeInfo& info : facts.trees()) {
    const auto workload = facts.env.db->workload(info.database);
    if (!workload.is_ok()) continue;
    const OperationCounts& c = workload->since_open;
    const WorkloadSummary summary = summarize(workload->windows);
    out.field("workload_db" + std::to_string(info.database),
              "empty_reads=" + std::to_string(c.empty_reads) + ",reads=" + std::to_string(c.reads) +
                  ",ranges=" + std::to_string(c.ranges) + ",writes=" + std::to_string(c.writes) +
                  ",range_entries=" + std::to_string(c.range_entries) +
                  ",divergence=" + InfoText::decimal(summary.divergence, 3) + ",rho=" + InfoText::decimal(summary.rho, 3));
    tuning_fields(facts, info.database, out);
  }
}

void info_ebbtide(const Facts& facts, InfoText& out) {
  const Stats& engine = facts.engine;
  out.section("Ebbtide");
  out.field("keyspace_keys_exact", "0");
  out.field("engine_time_ms", std::uint64_t{engine.engine_time});
  out.field("visible_seq", engine.visible_seq);
  out.field("logged_seq", engine.logged_seq);
  out.field("synced_seq", engine.synced_seq);
  out.field("read_only", std::uint64_t{engine.read_only ? 1u : 0u});
  if (engine.read_only) out.field("read_only_reason", engine.read_only_reason);
  out.field("user_bytes_written", engine.user_bytes_written);
  out.field("wal_bytes_written", engine.wal_bytes_written);
  out.field("wal_live_bytes", engine.wal_live_bytes);
  out.field("wal_writes", engine.wal_writes);
  out.field("wal_syncs", engine.wal_syncs);
  out.field("table_live_bytes", engine.table_live_bytes);
  out.field("flushes", engine.flushes);
  out.field("flush_bytes_written", engine.flush_bytes_written);
  out.field("compactions", engine.compactions);
  out.field("compactions_running", engine.compactions_running);
  out.field("compaction_bytes_read", engine.compaction_bytes_read);
  out.field("compaction_bytes_written", engine.compaction_bytes_written);
  out.field("gets", engine.gets);
  out.field("get_hits", engine.get_hits);
  out.field("get_misses", engine.get_misses);
  out.field("cache_hits", engine.cache_hits);
  out.field("cache_misses", engine.cache_misses);
  out.field("pages_read", engine.pages_read);
  out.field("filter_negatives", engine.filter_negatives);
  out.field("filter_false_positives", engine.filter_false_positives);
  out.field("snapshots", engine.snapshots);
  out.field("snapshots_revoked", engine.leases_revoked);
  out.field("indexed_tables", engine.indexed_tables);
  out.field("index_bytes", engine.index_bytes);
  out.field("index_capacity_bytes", engine.index_capacity);
  out.field("index_loads", engine.index_loads);
  out.field("index_unloads", engine.index_unloads);
  out.field("table_files", engine.table_files);
  out.field("table_files_open", engine.table_files_open);
  out.field("table_files_reopened", engine.table_files_reopened);
  out.field("scrub_bytes", engine.scrub_bytes);
  out.field("scrub_errors", engine.scrub_errors);
  out.field("quarantined_files", engine.quarantined_files);
  out.field("merge_bounds_broken", engine.bounds_broken);
  std::uint64_t records = 0;
  for (const TreeInfo& info : facts.trees()) records += info.records;
  out.field("secondary_records", records);
  out.field("secondary_range_deletes", engine.secondary_deletes);
  out.field("write_stalled", std::uint64_t{engine.write_stalled ? 1u : 0u});
  out.field("write_stall_usec_memtable", engine.stall_micros_memtable);
  out.field("write_stall_usec_runs", engine.stall_micros_runs);
  out.field("write_stall_usec_pending_bytes", engine.stall_micros_pending_bytes);
  out.field("write_stall_usec_deadline", engine.stall_micros_deadline);
  out.field("delete_deadline_missed_down", engine.deadlines_missed_down);
  out.field("delete_deadline_missed_clock", engine.deadlines_missed_clock);
  out.field("delete_deadline_missed_disk", engine.deadlines_missed_disk);
  out.field("delete_deadline_missed_damage", engine.deadlines_missed_damage);
  out.field("delete_deadline_missed_load", engine.deadlines_missed_load);
  out.field("delete_deadline_work_bytes", engine.deadline_work_bytes);
  out.field("delete_deadline_least_feasible_ms", engine.least_feasible_deadline);
}

struct Section {
  Bytes name;
  void (*print)(const Facts&, InfoText&);
  bool by_default;
};

constexpr Section kSections[] = {
    {"server", info_server, true},
    {"clients", info_clients, true},
    {"memory", info_memory, true},
    {"persistence", info_persistence, true},
    {"stats", info_stats, true},
    {"replication", info_replication, true},
    {"cpu", info_cpu, true},
    {"modules", info_modules, true},
    {"commandstats", info_commandstats, false},
    {"errorstats", info_errorstats, true},
    {"latencystats", info_latencystats, false},
    {"cluster", info_cluster, true},
    {"keyspace", info_keyspace, true},
    {"deletes", info_deletes, true},
    {"workload", info_workload, true},
    {"ebbtide", info_ebbtide, true},
};

Status info(Ctx& ctx) {
  const auto asked = [&ctx](Bytes name) {
    return std::any_of(ctx.args.begin() + 1, ctx.args.end(), [name](Bytes word) { return equal_ignoring_case(word, name); });
  };
  const bool all = asked("all") || asked("everything");
  const bool defaults = ctx.argc() == 1 || asked("default");
  const Facts facts{env_of(ctx), ctx.server().info(), env_of(ctx).db == nullptr ? Stats{} : env_of(ctx).db->stats(),
                    ctx.server().unix_micros(), env_of(ctx).observers->tracking.counts()};
  InfoText out;
  for (const Section& section : kSections) {
    if (all || (defaults && section.by_default) || asked(section.name)) section.print(facts, out);
  }
  ctx.reply.verbatim("txt", out.text());
  return Status::ok();
}

constexpr CommandSpec kInfo[] = {
    {.name = "info",
     .arity = at_least(1),
     .flags = kLoading | kStale | kDangerous | kOffload,
     .run = info,
     .since = "1.0.0",
     .complexity = "O(1)",
     .summary = "Returns information and statistics about the server.",
     .group = Group::kServer,
     .arguments = kInfoArguments},
};

}  // namespace

std::span<const CommandSpec> info_commands() { return kInfo; }

}  // namespace ebbtide
