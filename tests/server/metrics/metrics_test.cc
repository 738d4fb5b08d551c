// Tests of the text of a scrape.
#include <catch2/catch.hpp>

#include <set>
#include <sstream>

#include "metrics/metrics.h"

namespace TEST_FILE {

using namespace ebbtide;

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

MetricsSnapshot sample() {
  MetricsSnapshot s;
  s.version = "9.9";
  s.commands = {{"get", 10, 1, 2, {{0.001, 0.01}, {7, 2, 1}, 2}}, {"config|get", 0, 0, 0, {{0.001, 0.01}, {0, 0, 0}, 0}}};
  s.stages = {{"disk", {{0.001, 0.01}, {3, 1, 0}, 0.25}}};
  s.passes.bounds = {0.001, 0.01};
  s.passes.buckets = {5, 3, 2};
  s.passes.sum_seconds = 0.5;
  s.clients = 7;
  s.expired_reported = 12;
  s.scan_steps = {{10, 100}, {3, 2, 1}, 345};
  return s;
}

TEST_CASE("database is being opened: metrics of the server are served, without those of the engine") {
  MetricsSnapshot s = sample();
  s.loading = true;
  const std::string text = metrics_text(s);
  CHECK(has_line(text, "ebbtide_info{version=\"9.9\"} 1"));
  CHECK(has_line(text, "ebbtide_loading 1"));
  CHECK(has_line(text, "ebbtide_commands_total{cmd=\"get\"} 10"));
  CHECK(has_line(text, "ebbtide_commands_total{cmd=\"config|get\"} 0"));
  CHECK(has_line(text, "# TYPE ebbtide_command_seconds histogram"));
  CHECK(has_line(text, "ebbtide_command_seconds_bucket{cmd=\"get\",le=\"0.001\"} 7"));
  CHECK(has_line(text, "ebbtide_command_seconds_bucket{cmd=\"get\",le=\"0.01\"} 9"));
  CHECK(has_line(text, "ebbtide_command_seconds_bucket{cmd=\"get\",le=\"+Inf\"} 10"));
  CHECK(has_line(text, "ebbtide_command_seconds_count{cmd=\"get\"} 10"));
  CHECK(has_line(text, "ebbtide_command_seconds_sum{cmd=\"get\"} 2"));
  CHECK(text.find("ebbtide_command_seconds_count{cmd=\"config|get\"}") == std::string::npos);
  CHECK(has_line(text, "ebbtide_command_stage_seconds_bucket{stage=\"disk\",le=\"0.01\"} 4"));
  CHECK(has_line(text, "ebbtide_command_stage_seconds_sum{stage=\"disk\"} 0.25"));
  CHECK(has_line(text, "ebbtide_commands_failed_total{cmd=\"get\",how=\"rejected\"} 1"));
  CHECK(has_line(text, "ebbtide_connected_clients 7"));
  CHECK(has_line(text, "ebbtide_expired_keys_total 12"));
  CHECK(has_line(text, "# TYPE ebbtide_scan_steps histogram"));
  CHECK(has_line(text, "ebbtide_scan_steps_bucket{le=\"10\"} 3"));
  CHECK(has_line(text, "ebbtide_scan_steps_bucket{le=\"100\"} 5"));
  CHECK(has_line(text, "ebbtide_scan_steps_count 6"));
  CHECK(has_line(text, "ebbtide_scan_steps_sum 345"));
  CHECK(has_line(text, "ebbtide_pass_seconds_bucket{le=\"0.001\"} 5"));
  CHECK(has_line(text, "ebbtide_pass_seconds_bucket{le=\"0.01\"} 8"));
  CHECK(has_line(text, "ebbtide_pass_seconds_bucket{le=\"+Inf\"} 10"));
  CHECK(has_line(text, "ebbtide_pass_seconds_count 10"));
  CHECK(text.find("ebbtide_wal") == std::string::npos);
}

TEST_CASE("database is open: metrics of the engine are served, with values for each level") {
  MetricsSnapshot s = sample();
  Stats stats;
  stats.user_bytes_written = 100;
  stats.wal_bytes_written = 110;
  stats.flush_bytes_written = 90;
  stats.compaction_bytes_written = 200;
  stats.stall_micros_runs = 2'500'000;
  stats.engine_time = 100'000;
  stats.merges_by_reason = {{"size", 3, 400, 200}, {"deadline", 1, 50, 40}};
  stats.delete_persist_seconds = {{1, 2}, {3, 0, 1}, 12.5};
  stats.gets = 8;
  stats.runs_probed = {{0, 1}, {6, 2, 0}, 2};
  stats.garbage_leaving = 77;
  stats.wal_oldest_record = 98'000;
  stats.oldest_snapshot = 60'000;
  stats.disk_used_ratio = 0.25;
  stats.clock_step_refused = true;
  s.engine = stats;
  TreeInfo tree;
  tree.database = 3;
  RunInfo a, b;
  a.level = b.level = 1;
  a.files = 2;
  b.files = 3;
  a.entries = 100;
  a.filter_bits = 1000;
  a.tombstones = 4;
  a.oldest_tombstone_birth = 90'000;
  b.oldest_tombstone_birth = 95'000;
  a.bytes = 300;
  RunInfo last;
  last.level = 2;
  last.bytes = 600;
  tree.runs = {a, b, last};
  FilterInfo filter;
  filter.level = 1;
  filter.expected = 0.25;
  filter.denied = 30;
  filter.in_vain = 10;
  FilterInfo unasked;
  unasked.level = 2;
  tree.filters = {filter, unasked};
  tree.delete_deadline = 30'000;
  tree.delete_io_budget = 65'536;
  tree.pages_per_tile = 8;
  s.trees = {tree};
  const std::string text = metrics_text(s);
  CHECK(has_line(text, "ebbtide_write_amplification_ratio 4"));
  CHECK(has_line(text, "ebbtide_clock_step_refused 1"));
  CHECK(has_line(text, "ebbtide_read_amplification_ratio 0.25"));
  CHECK(has_line(text, "ebbtide_write_stall_seconds_total{reason=\"runs\"} 2.5"));
  CHECK(has_line(text, "ebbtide_level_runs{db=\"3\",level=\"1\"} 2"));
  CHECK(has_line(text, "ebbtide_level_files{db=\"3\",level=\"1\"} 5"));
  CHECK(has_line(text, "ebbtide_filter_bits_per_key{db=\"3\",level=\"1\"} 10"));
  CHECK(has_line(text, "ebbtide_filter_false_positive_ratio{db=\"3\",level=\"1\",kind=\"expected\"} 0.25"));
  CHECK(has_line(text, "ebbtide_filter_false_positive_ratio{db=\"3\",level=\"1\",kind=\"observed\"} 0.25"));
  CHECK(has_line(text, "ebbtide_filter_false_positive_ratio{db=\"3\",level=\"2\",kind=\"expected\"} 1"));
  CHECK(text.find("level=\"2\",kind=\"observed\"") == std::string::npos);
  CHECK(has_line(text, "ebbtide_tombstones{db=\"3\",level=\"1\",kind=\"point\"} 4"));
  CHECK(has_line(text, "ebbtide_oldest_tombstone_age_seconds{db=\"3\",level=\"1\"} 10"));
  CHECK(has_line(text, "ebbtide_delete_deadline_seconds{db=\"3\"} 30"));
  CHECK(has_line(text, "ebbtide_delete_persist_seconds_bucket{le=\"2\"} 3"));
  CHECK(has_line(text, "ebbtide_delete_persist_seconds_bucket{le=\"+Inf\"} 4"));
  CHECK(has_line(text, "ebbtide_delete_persist_seconds_sum 12.5"));
  CHECK(has_line(text, "ebbtide_runs_probed_per_get_bucket{le=\"1\"} 8"));
  CHECK(has_line(text, "ebbtide_garbage_bytes{kind=\"leaving\"} 77"));
  CHECK(has_line(text, "ebbtide_wal_oldest_record_age_seconds 2"));
  CHECK(has_line(text, "ebbtide_snapshot_oldest_age_seconds 40"));
  CHECK(has_line(text, "ebbtide_disk_used_ratio 0.25"));
  CHECK(has_line(text, "ebbtide_delete_io_budget_bytes_per_second{db=\"3\"} 65536"));
  CHECK(has_line(text, "ebbtide_pages_per_tile{db=\"3\"} 8"));
  CHECK(has_line(text, "ebbtide_space_amplification_ratio{db=\"3\"} 1.5"));
  CHECK(has_line(text, "ebbtide_compactions_total{reason=\"size\"} 3"));
  CHECK(has_line(text, "ebbtide_compactions_total{reason=\"deadline\"} 1"));
  CHECK(has_line(text, "ebbtide_compaction_bytes_total{reason=\"size\",direction=\"read\"} 400"));
  CHECK(has_line(text, "ebbtide_compaction_bytes_total{reason=\"deadline\",direction=\"write\"} 40"));
  s.trees[0].delete_deadline = s.trees[0].delete_io_budget = 0;
  CHECK(metrics_text(s).find("ebbtide_delete_deadline_seconds{") == std::string::npos);
  CHECK(metrics_text(s).find("ebbtide_delete_io_budget_bytes_per_second{") == std::string::npos);
}

TEST_CASE("metrics are served: every family has help, type and prefix once, and names of counters end in _total") {
  MetricsSnapshot s = sample();
  s.engine = Stats{};
  std::istringstream lines(metrics_text(s));
  std::set<std::string> families;
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string hash, what, name, type;
    words >> hash >> what >> name >> type;
    if (hash != "#") {
      CHECK(line.rfind("ebbtide_", 0) == 0);
      continue;
    }
    CHECK(name.rfind("ebbtide_", 0) == 0);
    if (what != "TYPE") continue;
    INFO(name);
    CHECK(families.insert(name).second);
    const bool total = name.size() > 6 && name.substr(name.size() - 6) == "_total";
    CHECK(total == (type == "counter"));
  }
  CHECK(families.size() > 40);
}

TEST_CASE("database has a workload: metrics give its operations, mix, divergence and costs by kind of operation") {
  MetricsSnapshot s = sample();
  s.engine.emplace();
  MetricsSnapshot::DatabaseWorkload known;
  known.database = 3;
  known.since_open = {.empty_reads = 1, .reads = 2, .ranges = 3, .writes = 4, .range_entries = 50};
  known.summary.enough = true;
  known.summary.mean = {0.125, 0.25, 0.5, 0.125};
  known.summary.divergence = 0.5;
  known.summary.rho = 0.75;
  known.costs.emplace().costs = {0.25, 1.5, 4, 2};
  MetricsSnapshot::DatabaseWorkload fresh;
  fresh.database = 5;
  fresh.since_open.writes = 7;
  s.workloads = {known, fresh};
  const std::string text = metrics_text(s);
  CHECK(has_line(text, "# TYPE ebbtide_operations_total counter"));
  CHECK(has_line(text, "ebbtide_operations_total{db=\"3\",kind=\"empty_read\"} 1"));
  CHECK(has_line(text, "ebbtide_operations_total{db=\"3\",kind=\"range\"} 3"));
  CHECK(has_line(text, "ebbtide_operations_total{db=\"5\",kind=\"write\"} 7"));
  CHECK(has_line(text, "ebbtide_range_entries_total{db=\"3\"} 50"));
  CHECK(has_line(text, "ebbtide_workload_mix_ratio{db=\"3\",kind=\"range\"} 0.5"));
  CHECK(has_line(text, "ebbtide_workload_divergence_nats{db=\"3\"} 0.5"));
  CHECK(has_line(text, "ebbtide_workload_rho_nats{db=\"3\"} 0.75"));
  CHECK(has_line(text, "ebbtide_operation_cost_pages{db=\"3\",kind=\"read\"} 1.5"));
  CHECK(text.find("ebbtide_workload_rho_nats{db=\"5\"}") == std::string::npos);
  CHECK(text.find("ebbtide_operation_cost_pages{db=\"5\"") == std::string::npos);
}

TEST_CASE("database has an index: metrics list the index's tree apart, and do not count its entries as keys") {
  MetricsSnapshot s = sample();
  s.engine.emplace();
  TreeInfo tree;
  RunInfo run;
  run.bytes = 300;
  run.files = 2;
  tree.runs = {run};
  tree.estimated_keys = 40;
  s.trees = {tree};
  tree.database = index_tree(0, 3);
  tree.estimated_keys = 7;
  s.index_trees = {{.name = "towns", .building = true, .info = tree}};
  const std::string text = metrics_text(s);
  CHECK(has_line(text, "ebbtide_level_files{db=\"0\",level=\"0\"} 2"));
  CHECK(has_line(text, "ebbtide_level_files{db=\"0\",index=\"towns\",level=\"0\"} 2"));
  CHECK(has_line(text, "ebbtide_estimated_keys{db=\"0\"} 40"));
  CHECK(text.find("ebbtide_estimated_keys{db=\"0\",index") == std::string::npos);
  CHECK(has_line(text, "ebbtide_index_entries{db=\"0\",index=\"towns\"} 7"));
  CHECK(has_line(text, "ebbtide_index_building{db=\"0\",index=\"towns\"} 1"));
}

}  // namespace TEST_FILE
