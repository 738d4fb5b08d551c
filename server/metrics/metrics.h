// The metrics of engine and server, collected at each scrape and written in Prometheus's text format.
//
// This code has no counters: each component has its own, one set per thread, and a scrape sums them. Names begin with ebbtide_,
// have base units, and end with _total for counters. No label contains a key of a user.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <engine/auto_tuner.h>
#include <engine/stats.h>
#include <engine/tuner.h>

namespace ebbtide {

/// The tree of an index.
struct IndexTree {
  std::string name;  ///< the index's name
  bool building = false;
  TreeInfo info;
};

/// The values of all metrics at one moment.
struct MetricsSnapshot {
  /// A histogram of durations: `buckets[i]` counts durations in (bounds[i - 1], bounds[i]] seconds; the last bucket counts those
  /// above all bounds.
  struct Durations {
    std::vector<double> bounds;
    std::vector<std::uint64_t> buckets;
    double sum_seconds = 0;
  };
  struct Command {
    std::string name;
    std::uint64_t calls = 0, rejected = 0, failed = 0;
    Durations times;  ///< running times, one per call
  };
  // Values of the server.
  std::string version;
  double start_seconds = 0, uptime_seconds = 0;
  bool loading = false;
  std::vector<Command> commands;
  struct Stage {
    std::string name;
    Durations times;
  };
  std::vector<Stage> stages;  ///< stages of commands (dispatch/server_stats.h)
  Durations passes;
  std::uint64_t errors = 0, keyspace_hits = 0, keyspace_misses = 0, waits_for_disk = 0;
  std::uint64_t expired_reported = 0;  ///< expirations that clients were notified of
  HistogramInfo scan_steps;
  std::uint64_t clients = 0, blocked_clients = 0, waiting_clients = 0, max_clients = 0, unauthenticated_clients = 0,
                client_bytes = 0;
  std::uint64_t connections = 0, rejected_max_clients = 0, rejected_protected = 0, rejected_strangers = 0, evicted_strangers = 0,
                authentication_failures = 0, denied_commands = 0, denied_keys = 0, denied_channels = 0, tls_handshakes = 0,
                tls_failures = 0;
  double certificate_expires_at = 0;  ///< Unix time; 0: no TLS
  std::uint64_t net_in_bytes = 0, net_out_bytes = 0, net_reads = 0, net_writes = 0, net_waits = 0;
  std::uint64_t closed_query_limit = 0, closed_output_limit = 0, closed_idle = 0, closed_auth_timeout = 0, protocol_errors = 0;
  std::uint64_t resident_bytes = 0;
  double cpu_user_seconds = 0, cpu_system_seconds = 0;
  // The engine, once it is open.
  std::optional<Stats> engine;
  std::vector<TreeInfo> trees;  ///< trees of the databases that have a tree
  std::vector<IndexTree> index_trees;
  struct DatabaseWorkload {
    DatabaseId database = 0;
    OperationCounts since_open;
    WorkloadSummary summary;
    std::optional<TunerAdvice> costs;  ///< costs of the current settings for the mean workload; nullopt if unknown
    TunerSettings settings;
    std::uint64_t changes_by_command = 0, changes_by_itself = 0;  ///< changes of settings by TUNE.APPLY, and by tuning.auto
    bool decided = false;                                         ///< tuning.auto has seen a window whose costs are known
    AutoTuner::Decision decision;                                 ///< decision of tuning.auto for the newest window
    double own_pages = 0, base_pages = 0;                         ///< AutoTuner::own_pages() and base_pages()
  };
  std::vector<DatabaseWorkload> workloads;  ///< workloads of the same databases
  TuningMode tuning_auto = TuningMode::kOff;
};

/// Returns the body of the reply to a scrape.
std::string metrics_text(const MetricsSnapshot& snapshot);

}  // namespace ebbtide
