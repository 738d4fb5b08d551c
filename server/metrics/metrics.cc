#include "metrics/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <iterator>
#include <map>
#include <utility>

namespace ebbtide {
namespace {

using Labels = std::vector<prometheus::ClientMetric::Label>;

/// Converts a snapshot to metric families. Prometheus's registry requires a Collectable.
class Collector final : public prometheus::Collectable {
 public:
  explicit Collector(const MetricsSnapshot& snapshot) : s_(snapshot) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    families_.clear();
    service();
    network();
    if (s_.engine) {
      engine();
      deletes_and_shape();
      indexes();
      workload();
      tuning();
    }
    return {std::make_move_iterator(families_.begin()), std::make_move_iterator(families_.end())};
  }

 private:
  prometheus::MetricFamily& family(const char* name, const char* help, prometheus::MetricType type) const {
    return families_.emplace_back(prometheus::MetricFamily{std::string("ebbtide_") + name, help, type, {}});
  }
  static void add(prometheus::MetricFamily& family, double value, Labels labels = {}) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    (family.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    family.metric.push_back(std::move(metric));
  }
  static void add(prometheus::MetricFamily& family, const MetricsSnapshot::Durations& d, Labels labels = {}) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < d.buckets.size(); ++i) {
      count += d.buckets[i];
      if (i < d.bounds.size()) metric.histogram.bucket.push_back({count, d.bounds[i]});
    }
    metric.histogram.sample_count = count;
    metric.histogram.sample_sum = d.sum_seconds;
    family.metric.push_back(std::move(metric));
  }
  void histogram(const char* name, const char* help, const HistogramInfo& h) const {
    add(family(name, help, kHistogram), MetricsSnapshot::Durations{h.bounds, h.buckets, h.sum});
  }
  void counter(const char* name, const char* help, double value) const {
    add(family(name, help, prometheus::MetricType::Counter), value);
  }
  void gauge(const char* name, const char* help, double value) const {
    add(family(name, help, prometheus::MetricType::Gauge), value);
  }
  void counter(const char* name, const char* help, std::uint64_t value) const { counter(name, help, static_cast<double>(value)); }
  void gauge(const char* name, const char* help, std::uint64_t value) const { gauge(name, help, static_cast<double>(value)); }
  struct Labelled {
    Labels labels;
    std::uint64_t value;
  };
  void many(const char* name, const char* help, prometheus::MetricType type, const std::vector<Labelled>& values) const {
    auto& f = family(name, help, type);
    for (const auto& v : values) add(f, static_cast<double>(v.value), v.labels);
  }
  static constexpr auto kCounter = prometheus::MetricType::Counter;
  static constexpr auto kGauge = prometheus::MetricType::Gauge;
  static constexpr auto kHistogram = prometheus::MetricType::Histogram;

  void service() const {
    add(family("info", "Version of the server.", kGauge), 1, {{"version", s_.version}});
    gauge("start_time_seconds", "Unix time of the start.", s_.start_seconds);
    gauge("uptime_seconds", "Time since the start.", s_.uptime_seconds);
    gauge("loading", "1 while the database is being opened.", std::uint64_t{s_.loading ? 1u : 0u});
    auto& calls = family("commands_total", "Commands run.", kCounter);
    for (const auto& c : s_.commands) add(calls, static_cast<double>(c.calls), {{"cmd", c.name}});
    auto& failed =
        family("commands_failed_total",
               "Commands that were rejected before they ran, and commands that ran and replied with an error.", kCounter);
    for (const auto& c : s_.commands) {
      if (c.rejected + c.failed == 0) continue;
      add(failed, static_cast<double>(c.rejected), {{"cmd", c.name}, {"how", "rejected"}});
      add(failed, static_cast<double>(c.failed), {{"cmd", c.name}, {"how", "failed"}});
    }
    auto& times =
        family("command_seconds", "Time spent running a command, without waits for pages, threads and syncs.", kHistogram);
    for (const auto& c : s_.commands) {
      // A histogram has seventeen lines, so commands without calls get none.
      if (c.calls > 0) add(times, c.times, {{"cmd", c.name}});
    }
    auto& stages = family(
        "command_stage_seconds",
        "Time of commands until their reply leaves, by stage. queue: waiting for earlier commands; memory: running, with all "
        "pages in memory; both measured for the last command of each pass. disk: waiting for pages; thread: running on "
        "another thread; stall: delayed by the write stall; each wait counts. wal: waiting for the log, measured for one "
        "pass of an event loop at a time, and for each command whose reply waits for a sync.",
        kHistogram);
    for (const auto& stage : s_.stages) add(stages, stage.times, {{"stage", stage.name}});
    add(family("pass_seconds", "Duration of a pass: the commands of all connections that were ready, and the write to the log.",
               kHistogram),
        s_.passes);
    counter("errors_total", "Error replies.", s_.errors);
    many("keyspace_lookups_total", "Look-ups of keys by commands that read.", kCounter,
         {{{{"result", "hit"}}, s_.keyspace_hits}, {{{"result", "miss"}}, s_.keyspace_misses}});
    counter("expired_keys_total",
            "Expirations that clients were notified of, by an event or an invalidation. Other expirations are not counted, since "
            "the engine performs no operation at an expiry.",
            s_.expired_reported);
    histogram("scan_steps", "Keys, and versions and tombstones between them, that a call of SCAN read.", s_.scan_steps);
    counter("disk_waits_total", "Times a command waited for pages from the disk.", s_.waits_for_disk);
    gauge("process_resident_bytes", "Resident memory of the process.", s_.resident_bytes);
    auto& cpu = family("process_cpu_seconds_total", "Processor time of the process.", kCounter);
    add(cpu, s_.cpu_user_seconds, {{"mode", "user"}});
    add(cpu, s_.cpu_system_seconds, {{"mode", "system"}});
  }

  void network() const {
    gauge("connected_clients", "Connected clients.", s_.clients);
    gauge("blocked_clients", "Connections whose command blocks until its timeout or the event that it waits for.",
          s_.blocked_clients);
    gauge("waiting_clients", "Connections whose command waits for pages from the disk or for another thread.",
          s_.waiting_clients);
    gauge("unauthenticated_clients", "Connections that have not authenticated.", s_.unauthenticated_clients);
    gauge("max_clients", "The setting server.max_clients.", s_.max_clients);
    gauge("client_bytes", "Memory for input and output of clients.", s_.client_bytes);
    counter("connections_total", "Connections accepted.", s_.connections);
    many("connections_rejected_total", "Connections refused, by reason.", kCounter,
         {{{{"reason", "max_clients"}}, s_.rejected_max_clients},
          {{{"reason", "protected_mode"}}, s_.rejected_protected},
          {{{"reason", "unauthenticated_clients"}}, s_.rejected_strangers}});
    counter("authentication_failures_total", "AUTH and HELLO commands with a wrong name or password.",
            s_.authentication_failures);
    many("tls_handshakes_total", "TLS handshakes of clients, by result.", kCounter,
         {{{{"result", "ok"}}, s_.tls_handshakes}, {{{"result", "failed"}}, s_.tls_failures}});
    gauge("tls_certificate_expiry_seconds", "Unix time at which the certificate of server.tls expires; 0 without TLS.",
          s_.certificate_expires_at);
    many("commands_denied_total", "Commands that their user has no right to run, by the missing right.", kCounter,
         {{{{"reason", "command"}}, s_.denied_commands},
          {{{"reason", "key"}}, s_.denied_keys},
          {{{"reason", "channel"}}, s_.denied_channels}});
    many("connections_closed_total", "Connections that the server closed, by reason.", kCounter,
         {{{{"reason", "query_buffer"}}, s_.closed_query_limit},
          {{{"reason", "output_buffer"}}, s_.closed_output_limit},
          {{{"reason", "idle"}}, s_.closed_idle},
          {{{"reason", "unauthenticated_clients"}}, s_.evicted_strangers},
          {{{"reason", "authentication_timeout"}}, s_.closed_auth_timeout},
          {{{"reason", "protocol"}}, s_.protocol_errors}});
    many("net_bytes_total", "Bytes received from and sent to clients.", kCounter,
         {{{{"direction", "in"}}, s_.net_in_bytes}, {{{"direction", "out"}}, s_.net_out_bytes}});
    many("net_calls_total", "System calls for clients' sockets.", kCounter,
         {{{{"call", "read"}}, s_.net_reads}, {{{"call", "write"}}, s_.net_writes}, {{{"call", "wait"}}, s_.net_waits}});
  }

  void engine() const {
    writes_and_merges();
    engine_operations();
    stalls_and_deadlines();
    engine_state();
    engine_memory();
    engine_files();
    ratios();
  }

  void writes_and_merges() const {
    const Stats& e = *s_.engine;
    counter("user_bytes_written_total", "Bytes of keys and values written by users.", e.user_bytes_written);
    counter("wal_bytes_written_total", "Bytes written to the log.", e.wal_bytes_written);
    counter("wal_writes_total", "Writes to the log.", e.wal_writes);
    counter("wal_syncs_total", "Syncs of the log.", e.wal_syncs);
    counter("flushes_total", "Memtables written to tables.", e.flushes);
    counter("flush_bytes_total", "Bytes of tables written by flushes.", e.flush_bytes_written);
    auto& jobs = family("compactions_total", "Merges and other compactions, by reason.", kCounter);
    for (const ReasonInfo& r : e.merges_by_reason) add(jobs, static_cast<double>(r.jobs), {{"reason", r.reason}});
    counter("trivial_moves_total", "Files moved to another run without being read.", e.trivial_moves);
    counter("sub_merges_total", "Key-range parts into which merges were split to run in parallel.", e.sub_merges);
    counter("files_dropped_total", "Table files removed without being read, since deletes cover all their entries.",
            e.files_dropped);
    many("pages_dropped_total",
         "Pages dropped by deletes: whole, without being read, or in part, replaced by a page with the remaining entries.",
         kCounter, {{{{"mode", "full"}}, e.pages_dropped_full}, {{{"mode", "partial"}}, e.pages_dropped_partial}});
    many("reclaimed_bytes_total", "Bytes that drops returned to the file system.", kCounter,
         {{{{"how", "unlink"}}, e.reclaimed_bytes_unlinked}, {{{"how", "punch"}}, e.reclaimed_bytes_punched}});
    auto& merged = family("compaction_bytes_total", "Bytes read and written by merges, by reason.", kCounter);
    for (const ReasonInfo& r : e.merges_by_reason) {
      add(merged, static_cast<double>(r.bytes_read), {{"reason", r.reason}, {"direction", "read"}});
      add(merged, static_cast<double>(r.bytes_written), {{"reason", r.reason}, {"direction", "write"}});
    }
  }

  void engine_operations() const {
    const Stats& e = *s_.engine;
    counter("engine_gets_total", "Point reads of the engine.", e.gets);
    counter("engine_writes_total", "Operations written.", e.writes);
    counter("secondary_range_deletes_total", "Deletes by stamp.", e.secondary_deletes);
    counter("engine_batches_total", "Batches committed.", e.batches);
    counter("engine_iterators_total", "Iterators opened.", e.iterators);
    many("cache_lookups_total", "Uses of pages that the block cache had (hit), and pages that were read for it (miss).", kCounter,
         {{{{"result", "hit"}}, e.cache_hits}, {{{"result", "miss"}}, e.cache_misses}});
    counter("pages_read_total", "Pages read from files, because the block cache did not have them.", e.pages_read);
    counter("fetches_total", "Batches of missing pages that were read for waiting commands.", e.fetches);
    many("filter_results_total", "Look-ups that a filter answered with no (negative), and false positives.", kCounter,
         {{{{"result", "negative"}}, e.filter_negatives}, {{{"result", "false_positive"}}, e.filter_false_positives}});
    histogram("runs_probed_per_get", "Runs whose tables or filters a point read checked.", e.runs_probed);
  }

  void stalls_and_deadlines() const {
    const Stats& e = *s_.engine;
    const auto seconds = [](std::uint64_t micros) { return static_cast<double>(micros) / 1e6; };
    auto& stalls = family("write_stall_seconds_total", "Time that writes were delayed or stopped.", kCounter);
    add(stalls, seconds(e.stall_micros_memtable), {{"reason", "memtable"}});
    add(stalls, seconds(e.stall_micros_runs), {{"reason", "runs"}});
    add(stalls, seconds(e.stall_micros_pending_bytes), {{"reason", "pending_bytes"}});
    add(stalls, seconds(e.stall_micros_deadline), {{"reason", "deadline"}});
    many("delete_deadline_missed_total", "Deletes whose data was still in a file after their deadline.", kCounter,
         {{{{"reason", "down"}}, e.deadlines_missed_down},
          {{{"reason", "clock"}}, e.deadlines_missed_clock},
          {{{"reason", "disk"}}, e.deadlines_missed_disk},
          {{{"reason", "damage"}}, e.deadlines_missed_damage},
          {{{"reason", "load"}}, e.deadlines_missed_load}});
    gauge("delete_deadline_least_feasible_seconds",
          "The shortest deadline that merges can keep at their measured rate; 0 if unknown.",
          seconds(1000 * e.least_feasible_deadline));
    gauge("delete_deadline_work_bytes", "Estimated bytes that merges must still read to meet the delete deadlines.",
          e.deadline_work_bytes);
    histogram("delete_persist_seconds",
              "Time from a delete until it was purged from all files; for deletes purged together, the time of the oldest.",
              e.delete_persist_seconds);
    many("garbage_bytes",
         "Bytes of files that are no longer needed: entries hidden by deletes (an estimate), dropped pages, files to be removed.",
         kGauge,
         {{{{"kind", "deleted"}}, e.garbage_deleted},
          {{{"kind", "dropped_pages"}}, e.garbage_dropped_pages},
          {{{"kind", "leaving"}}, e.garbage_leaving}});
  }

  void engine_state() const {
    const Stats& e = *s_.engine;
    gauge("wal_oldest_record_age_seconds", "Age of the oldest record in the log's files.", seconds_since(e.wal_oldest_record));
    gauge("write_stalled", "1 while writes are delayed or stopped.", std::uint64_t{e.write_stalled ? 1u : 0u});
    gauge("clock_step_refused",
          "1 while the wall clock is more than a day ahead of engine time, which deadlines and expiries use.",
          std::uint64_t{e.clock_step_refused ? 1u : 0u});
    gauge("read_only", "1 while writes are refused.", std::uint64_t{e.read_only ? 1u : 0u});
    gauge("compactions_running", "Merges under way.", e.compactions_running);
  }

  void engine_memory() const {
    const Stats& e = *s_.engine;
    gauge("memory_budget_bytes", "The memory budget.", e.memory_budget);
    many("memory_bytes", "Memory by owner.", kGauge,
         {{{{"owner", "memtable"}}, e.memtable_bytes},
          {{{"owner", "cache"}}, e.cache_bytes},
          {{{"owner", "tables"}}, e.table_bytes},
          {{{"owner", "clients"}}, e.connection_bytes},
          {{{"owner", "values"}}, e.large_value_bytes},
          {{{"owner", "fetched_pages"}}, e.pinned_page_bytes},
          {{{"owner", "commands"}}, e.command_bytes}});
    gauge("cache_capacity_bytes", "Memory that the block cache may use.", e.cache_capacity);
    gauge("index_bytes", "Memory of the indexes and filters of tables that are in memory; part of the owner \"tables\".",
          e.index_bytes);
    gauge("index_capacity_bytes", "Memory that indexes and filters of tables may use.", e.index_capacity);
    gauge("indexed_tables", "Tables whose index is in memory.", e.indexed_tables);
    counter("index_loads_total", "Times that a table's index came into memory, because the table was written or searched.",
            e.index_loads);
    counter("index_unloads_total", "Times that a table's index left memory to make room.", e.index_unloads);
  }

  void engine_files() const {
    const Stats& e = *s_.engine;
    many("disk_bytes", "Disk space by kind of file.", kGauge,
         {{{{"kind", "wal"}}, e.wal_live_bytes}, {{{"kind", "table"}}, e.table_live_bytes}});
    gauge("disk_used_ratio", "Used share of the disk, or of storage.max_disk_bytes if that share is larger.", e.disk_used_ratio);
    gauge("snapshots", "Open leased views. The files that a view reads are kept until the view ends.", e.snapshots);
    gauge("snapshot_oldest_age_seconds", "Age of the oldest open view (lease).", seconds_since(e.oldest_snapshot));
    gauge("table_files", "Files of tables that are in use.", e.table_files);
    gauge("table_files_open", "Files of tables that are open: at most storage.max_open_files.", e.table_files_open);
    counter("table_files_reopened_total", "Times that a read had to open the file of its table again.", e.table_files_reopened);
    counter("scrub_bytes_total", "Bytes of tables that the scrub has read from the drive and checked.", e.scrub_bytes);
    counter("scrub_errors_total", "Faults of tables found by the scrub and TREE.VERIFY.", e.scrub_errors);
    counter(
        "merge_bounds_broken_total",
        "Times that a tree was outside the bounds of its merge policy although the policy requested no merge, which is a bug.",
        e.bounds_broken);
    counter("snapshots_revoked_total", "Open views (leases) that were revoked to meet a delete deadline.", e.leases_revoked);
  }

  void ratios() const {
    const Stats& e = *s_.engine;
    const double user = static_cast<double>(e.user_bytes_written);
    if (user > 0) {
      gauge("write_amplification_ratio", "Bytes written to disk for each byte written by users, since the start.",
            static_cast<double>(e.wal_bytes_written + e.flush_bytes_written + e.compaction_bytes_written) / user);
    }
    if (e.gets > 0) {
      gauge("read_amplification_ratio", "Runs whose tables or filters a point read checked, on average since the start.",
            e.runs_probed.sum / static_cast<double>(e.gets));
    }
    many("sequence", "The newest sequence number that readers see, that the log has, and that is synced.", kGauge,
         {{{{"kind", "visible"}}, e.visible_seq}, {{{"kind", "logged"}}, e.logged_seq}, {{{"kind", "synced"}}, e.synced_seq}});
  }

  /// Returns the seconds since an engine time; 0 if `since` is 0.
  [[nodiscard]] double seconds_since(Millis since) const {
    const Millis now = s_.engine->engine_time;
    return static_cast<double>(since == 0 ? 0 : now - std::min(since, now)) / 1000;
  }

  struct Level {
    std::uint64_t runs = 0, files = 0, bytes = 0, entries = 0, tombstones = 0, range_tombstones = 0, filter_bits = 0;
    Millis oldest_tombstone = 0;
  };

  static std::map<int, Level> levels_of(const TreeInfo& tree) {
    std::map<int, Level> levels;
    for (const RunInfo& run : tree.runs) {
      Level& l = levels[run.level];
      ++l.runs;
      l.files += run.files;
      l.bytes += run.bytes;
      l.entries += run.entries;
      l.tombstones += run.tombstones;
      l.range_tombstones += run.range_tombstones;
      l.filter_bits += run.filter_bits;
      if (run.oldest_tombstone_birth != 0) {
        l.oldest_tombstone =
            l.oldest_tombstone == 0 ? run.oldest_tombstone_birth : std::min(l.oldest_tombstone, run.oldest_tombstone_birth);
      }
    }
    return levels;
  }

  static Labels with(Labels labels, std::initializer_list<prometheus::ClientMetric::Label> more) {
    labels.insert(labels.end(), more);
    return labels;
  }
  static Labels labels_of(const IndexTree& index) {
    return {{"db", std::to_string(owner_of(index.info.database))}, {"index", index.name}};
  }
  /// Returns all trees with their labels. Those of an index have its name, too.
  [[nodiscard]] std::vector<std::pair<const TreeInfo*, Labels>> labelled_trees() const {
    std::vector<std::pair<const TreeInfo*, Labels>> out;
    for (const TreeInfo& tree : s_.trees) out.emplace_back(&tree, Labels{{"db", std::to_string(tree.database)}});
    for (const IndexTree& index : s_.index_trees) out.emplace_back(&index.info, labels_of(index));
    return out;
  }

  void deletes_and_shape() const {
    auto& runs = family("level_runs", "Sorted runs of a level.", kGauge);
    auto& files = family("level_files", "Table files of a level.", kGauge);
    auto& bytes = family("level_bytes", "Bytes of the tables of a level.", kGauge);
    auto& entries = family("level_entries", "Entries, tombstones included.", kGauge);
    auto& bits = family("filter_bits_per_key", "Filter memory per entry, in bits.", kGauge);
    auto& wrong =
        family("filter_false_positive_ratio",
               "Part of the look-ups of absent keys in a run of the level that were false positives: expected from the filters' "
               "sizes, and observed since the start.",
               kGauge);
    auto& tombstones = family("tombstones", "Tombstones in tables.", kGauge);
    auto& oldest =
        family("oldest_tombstone_age_seconds",
               "Age of the oldest delete whose data is still in tables; an expiry that has passed counts as a delete.", kGauge);
    auto& records = family("secondary_records", "Deletes by stamp that may still cover entries.", kGauge);
    auto& pending = family("compaction_pending_bytes", "Bytes that must be merged until the tree satisfies its policy.", kGauge);
    auto& keys = family("estimated_keys", "Estimated number of keys.", kGauge);
    auto& space =
        family("space_amplification_ratio", "Bytes of all tables for each byte of the tables of the last level.", kGauge);
    auto& deadlines = family("delete_deadline_seconds", "The delete deadline; databases without a promise are left out.", kGauge);
    auto& tiles = family("pages_per_tile", "Pages per delete tile of new files.", kGauge);
    auto& budgets = family("delete_io_budget_bytes_per_second",
                           "I/O limit of merges for delete deadlines; databases without a limit are left out.", kGauge);
    auto& quarantined = family("quarantined_files", "Tables that are damaged or missing: TREE.INFO names them.", kGauge);
    for (const auto& [info, tree_labels] : labelled_trees()) {
      const TreeInfo& tree = *info;
      add(quarantined, static_cast<double>(tree.quarantined.size()), tree_labels);
      const std::map<int, Level> levels = levels_of(tree);
      for (const auto& [number, l] : levels) {
        const Labels labels = with(tree_labels, {{"level", std::to_string(number)}});
        add(runs, static_cast<double>(l.runs), labels);
        add(files, static_cast<double>(l.files), labels);
        add(bytes, static_cast<double>(l.bytes), labels);
        add(entries, static_cast<double>(l.entries), labels);
        if (l.entries > 0) add(bits, static_cast<double>(l.filter_bits) / static_cast<double>(l.entries), labels);
        add(tombstones, static_cast<double>(l.tombstones), with(labels, {{"kind", "point"}}));
        add(tombstones, static_cast<double>(l.range_tombstones), with(labels, {{"kind", "range"}}));
        add(oldest, seconds_since(l.oldest_tombstone), labels);
      }
      for (const FilterInfo& filter : tree.filters) {
        const Labels labels = with(tree_labels, {{"level", std::to_string(filter.level)}});
        add(wrong, filter.expected, with(labels, {{"kind", "expected"}}));
        if (filter.denied + filter.in_vain > 0) add(wrong, filter.observed(), with(labels, {{"kind", "observed"}}));
      }
      add(records, static_cast<double>(tree.records), tree_labels);
      add(pending, static_cast<double>(tree.pending_compaction_bytes), tree_labels);
      std::uint64_t all = 0;
      for (const auto& [number, l] : levels) all += l.bytes;
      if (all > 0 && levels.rbegin()->second.bytes > 0) {
        add(space, static_cast<double>(all) / static_cast<double>(levels.rbegin()->second.bytes), tree_labels);
      }
      if (tree.delete_deadline != 0) add(deadlines, static_cast<double>(tree.delete_deadline) / 1000, tree_labels);
      if (tree.pages_per_tile != 0) add(tiles, static_cast<double>(tree.pages_per_tile), tree_labels);
      if (tree.delete_io_budget != 0) add(budgets, static_cast<double>(tree.delete_io_budget), tree_labels);
      if (tree_labels.size() == 1) add(keys, static_cast<double>(tree.estimated_keys), tree_labels);
    }
  }

  void indexes() const {
    auto& entries = family("index_entries", "Estimated number of an index's entries.", kGauge);
    auto& building = family("index_building", "1 while an index is being built, and cannot be searched.", kGauge);
    for (const IndexTree& index : s_.index_trees) {
      const Labels labels = labels_of(index);
      add(entries, static_cast<double>(index.info.estimated_keys), labels);
      add(building, index.building ? 1 : 0, labels);
    }
  }

  /// Adds a value for each kind of operation, with the kind as label.
  static void add_kinds(prometheus::MetricFamily& family, const std::string& db, const OperationFigures& figures) {
    const std::pair<const char*, double> kinds[] = {
        {"empty_read", figures.empty_read}, {"read", figures.read}, {"range", figures.range}, {"write", figures.write}};
    for (const auto& [kind, value] : kinds) add(family, value, {{"db", db}, {"kind", kind}});
  }

  void workload() const {
    auto& operations =
        family("operations_total",
               "Operations of the engine by kind: point reads of absent and of existing keys, range reads, writes.", kCounter);
    auto& entries = family("range_entries_total", "Entries that range reads visited.", kCounter);
    auto& mix = family("workload_mix_ratio", "Share of each kind of operation, averaged over the last week.", kGauge);
    auto& divergence =
        family("workload_divergence_nats",
               "Kullback-Leibler divergence of the newest windows, at least 1,000 operations, from the mean mix.", kGauge);
    auto& rho = family("workload_rho_nats", "The largest divergence of a window of the week from the mean mix.", kGauge);
    auto& costs = family("operation_cost_pages",
                         "Page reads of an operation with the present settings, as the cost model predicts them.", kGauge);
    for (const auto& w : s_.workloads) {
      const std::string db = std::to_string(w.database);
      const OperationCounts& c = w.since_open;
      add_kinds(operations, db,
                {static_cast<double>(c.empty_reads), static_cast<double>(c.reads), static_cast<double>(c.ranges),
                 static_cast<double>(c.writes)});
      add(entries, static_cast<double>(c.range_entries), {{"db", db}});
      if (w.costs) add_kinds(costs, db, w.costs->costs);
      if (!w.summary.enough) continue;
      add_kinds(mix, db, w.summary.mean);
      add(divergence, w.summary.divergence, {{"db", db}});
      add(rho, w.summary.rho, {{"db", db}});
    }
  }

  void tuning() const {
    auto& mode = family("tuning_auto", "The setting tuning.auto. 0: off, 1: advise, 2: apply.", kGauge);
    add(mode, static_cast<double>(s_.tuning_auto));
    auto& setting =
        family("tuning_setting", "Settings that the tuner chooses: parameters of the policy, memtable, filters.", kGauge);
    auto& changes =
        family("tuning_changes_total", "Changes of the settings by TUNE.APPLY (command) and by tuning.auto (auto).", kCounter);
    auto& advised = family("tuning_advised", "1 while tuning.auto advises a change.", kGauge);
    auto& cost = family(
        "tuning_cost_pages",
        "Page reads of an operation of the newest window by the cost model: with the settings now, and with the best ones.",
        kGauge);
    auto& divergence = family(
        "tuning_divergence_nats",
        "Kullback-Leibler divergence of the newest window from tuning.expected_workload, or from the window before.", kGauge);
    auto& pages = family("tuning_pages_total",
                         "Page reads by the cost model since tuning.auto began: with the settings in effect and all changes, and "
                         "as if the first settings had stayed.",
                         kCounter);
    for (const auto& w : s_.workloads) {
      const std::string db = std::to_string(w.database);
      for (const auto& [name, value] : w.settings.policy.parameters) add(setting, value, {{"db", db}, {"setting", name}});
      add(setting, static_cast<double>(w.settings.memtable_bytes), {{"db", db}, {"setting", "memtable_size"}});
      add(setting, w.settings.filter_bits_per_key, {{"db", db}, {"setting", "filter_bits_per_key"}});
      add(changes, static_cast<double>(w.changes_by_command), {{"db", db}, {"by", "command"}});
      add(changes, static_cast<double>(w.changes_by_itself), {{"db", db}, {"by", "auto"}});
      if (!w.decided) continue;
      add(advised, w.decision.advised ? 1 : 0, {{"db", db}});
      add(cost, w.decision.cost_now, {{"db", db}, {"settings", "now"}});
      add(cost, w.decision.advice.mean_cost, {{"db", db}, {"settings", "best"}});
      add(divergence, w.decision.divergence, {{"db", db}});
      add(pages, w.own_pages, {{"db", db}, {"settings", "in_effect"}});
      add(pages, w.base_pages, {{"db", db}, {"settings", "first"}});
    }
  }

  const MetricsSnapshot& s_;
  mutable std::deque<prometheus::MetricFamily> families_;  // a deque, since family() returns references to elements
};

}  // namespace

std::string metrics_text(const MetricsSnapshot& snapshot) {
  return prometheus::TextSerializer().Serialize(Collector(snapshot).Collect());
}

}  // namespace ebbtide
