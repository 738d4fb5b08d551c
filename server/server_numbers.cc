// Gathers the numbers that INFO, the metrics and the console show: counters of the loops and commands, and the engine's
// statistics.
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "admin/console.h"
#include "index/index_catalog.h"
#include "machine/machine.h"
#include "server.h"

namespace ebbtide {
namespace {

/// How many purge tickets are shown: the oldest ones, which are due first.
constexpr std::size_t kShownTickets = 3;

std::vector<TreeInfo> trees_of(Db& db, DatabaseId databases) {
  std::vector<TreeInfo> trees;
  for (DatabaseId database = 0; database < databases; ++database) {
    auto tree = db.tree_info(database);
    if (tree.is_ok() && tree->tree != kNoTree) trees.push_back(std::move(tree).value());
  }
  return trees;
}

std::vector<IndexTree> index_trees_of(Db& db, const IndexCatalog& catalog, DatabaseId databases) {
  std::vector<IndexTree> trees;
  for (DatabaseId database = 0; catalog.any() && database < databases; ++database) {
    for (const auto& [name, index] : *catalog.of(database)) {
      auto tree = db.tree_info(index.tree(database));
      if (!tree.is_ok() || tree->tree == kNoTree) continue;
      trees.push_back({.name = name, .building = index.building_from.has_value(), .info = std::move(tree).value()});
    }
  }
  return trees;
}

std::vector<MetricsSnapshot::DatabaseWorkload> workloads_of(Db& db, const std::vector<TreeInfo>& trees,
                                                            const TuningBoard& board) {
  std::vector<MetricsSnapshot::DatabaseWorkload> out;
  for (const TreeInfo& tree : trees) {
    const auto workload = board.workload(db, tree.database);
    if (!workload.is_ok()) continue;
    MetricsSnapshot::DatabaseWorkload& one = out.emplace_back();
    one.database = tree.database;
    one.since_open = workload->since_open;
    one.summary = summarize(workload->windows);
    one.costs = costs_now(*workload);
    one.settings = settings_now(*workload);
    const TuningBoard::Changes changes = board.changes(tree.database);
    one.changes_by_command = changes.by_command;
    one.changes_by_itself = changes.by_itself;
    const auto state = board.state(tree.database);
    one.decided = state && state->known;
    if (!one.decided) continue;
    one.decision = state->decision;
    one.own_pages = state->own_pages;
    one.base_pages = state->base_pages;
  }
  return out;
}

void add_tickets(Db& db, ConsoleSnapshot* s) {
  const std::vector<PurgeTicket> open = db.open_tickets();
  s->open_tickets = open.size();
  for (std::size_t i = 0; i < open.size() && i < kShownTickets; ++i) {
    const auto status = db.purge_status(open[i]);
    if (status.is_ok()) {
      s->tickets.push_back({format_ticket(open[i]), status->done, status->deadline, status->files(), status->bytes()});
    }
  }
}

}  // namespace

Server::NetTotals Server::net_totals() const {
  NetTotals t;
  t.connections = net_.accepted;
  t.rejected = net_.rejected_max_clients + net_.rejected_protected + net_.rejected_strangers;
  t.auth_failures = auth_failures_;
  for (std::size_t i = 0; i < denials_.size(); ++i) t.denials[i] = denials_[i];
  for (const auto& loop : loops_) {
    const LoopCounters& c = loop->counters();
    t.in += c.bytes_in.get();
    t.out += c.bytes_out.get();
    t.query_limit += c.query_limit_closes.get();
    t.output_limit += c.output_limit_closes.get();
  }
  return t;
}

void Server::reset_stats() {
  stats_.reset();
  const NetTotals now = net_totals();
  std::lock_guard lock(base_mutex_);
  base_ = now;
}

void Server::sample_rates() {
  const std::uint64_t now = mono_nanos();
  const NetTotals net = net_totals();
  const std::uint64_t commands = stats_.totals().commands;
  std::lock_guard lock(base_mutex_);
  command_rate_.sample(now, commands);
  input_rate_.sample(now, net.in);
  output_rate_.sample(now, net.out);
}

ServerInfo Server::info() const {
  const Config config = config_.get();
  ServerInfo info;
  info.version = EBBTIDE_VERSION;
  info.run_id = run_id_;
  info.executable = executable_;
  info.config_file = config.file;
  info.os = system_name();
  info.compiler = std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__) + "." + std::to_string(__GNUC_PATCHLEVEL__);
  info.multiplexing = "epoll";
  info.process_id = static_cast<std::uint64_t>(::getpid());
  info.port = listener_->port();
  info.start_unix_micros = start_micros_;
  info.uptime_micros = uptime_micros();
  info.loops = static_cast<std::uint32_t>(loops_.size());
  info.databases = engine_settings_.databases;
  info.max_clients = effective(config).max_clients;
  info.loading_total_bytes = recovery_bytes_;
  info.loading_loaded_bytes = recovered_bytes_;
  info.connected_clients = net_.clients;
  info.blocked_clients = blocked_.size();
  for (const auto& loop : loops_) {
    info.waiting_clients += loop->waiting();
    info.net_reads += loop->counters().reads.get();
    info.net_writes += loop->counters().writes.get();
    info.clients_bytes += loop->client_bytes();
    info.max_input_buffer = std::max(info.max_input_buffer, loop->max_input());
    info.max_output_buffer = std::max(info.max_output_buffer, loop->max_output());
  }
  const NetTotals now = net_totals();
  {
    std::lock_guard lock(base_mutex_);
    info.connections_received = now.connections - base_.connections;
    info.connections_rejected = now.rejected - base_.rejected;
    info.net_input_bytes = now.in - base_.in;
    info.net_output_bytes = now.out - base_.out;
    info.commands_per_second = command_rate_.per_second();
    info.net_input_per_second = input_rate_.per_second();
    info.net_output_per_second = output_rate_.per_second();
    info.query_buffer_limit_disconnections = now.query_limit - base_.query_limit;
    info.output_buffer_limit_disconnections = now.output_limit - base_.output_limit;
    info.acl_access_denied_auth = now.auth_failures - base_.auth_failures;
    const auto denied = [&](AclDenial denial) {
      const auto i = static_cast<std::size_t>(denial);
      return now.denials[i] - base_.denials[i];
    };
    info.acl_access_denied_cmd = denied(AclDenial::kCommand);
    info.acl_access_denied_key = denied(AclDenial::kKey);
    info.acl_access_denied_channel = denied(AclDenial::kChannel);
  }
  info.allocator = allocator_name();
  info.resident_bytes = resident_bytes();
  info.peak_resident_bytes = peak_resident_bytes();
  info.system_memory = memory_.bytes;
  const CpuTimes cpu = cpu_times();
  info.cpu_sys = cpu.system;
  info.cpu_user = cpu.user;
  info.cpu_sys_children = cpu.system_children;
  info.cpu_user_children = cpu.user_children;
  return info;
}

std::string Server::not_ready() const {
  const Db* db = ready_.load();
  if (stopping_) return "stopping";
  if (db == nullptr) return "the database is being opened";
  const Status status = db->write_status();
  return status.is_ok() ? std::string() : status.to_string();
}

void Server::add_net(MetricsSnapshot* s) const {
  s->clients = net_.clients;
  s->blocked_clients = blocked_.size();
  s->unauthenticated_clients = net_.strangers;
  s->connections = net_.accepted;
  s->rejected_max_clients = net_.rejected_max_clients;
  s->rejected_protected = net_.rejected_protected;
  s->rejected_strangers = net_.rejected_strangers;
  s->evicted_strangers = net_.evicted_strangers;
  s->authentication_failures = auth_failures_;
  s->certificate_expires_at = static_cast<double>(certificate_expires_at_.load());
  s->denied_commands = denials_[static_cast<std::size_t>(AclDenial::kCommand)];
  s->denied_keys = denials_[static_cast<std::size_t>(AclDenial::kKey)];
  s->denied_channels = denials_[static_cast<std::size_t>(AclDenial::kChannel)];
  MetricsSnapshot::Durations& passes = s->passes;
  passes.buckets.assign(LoopCounters::kPassBuckets, 0);
  for (int i = 0; i + 1 < LoopCounters::kPassBuckets; ++i)
    passes.bounds.push_back(1.024e-6 * static_cast<double>(std::uint64_t{1} << i));
  for (const auto& loop : loops_) {
    const LoopCounters& c = loop->counters();
    s->waiting_clients += loop->waiting();
    s->client_bytes += loop->client_bytes();
    s->net_in_bytes += c.bytes_in.get();
    s->net_out_bytes += c.bytes_out.get();
    s->net_reads += c.reads.get();
    s->net_writes += c.writes.get();
    s->net_waits += c.waits.get();
    s->tls_handshakes += c.tls_handshakes.get();
    s->tls_failures += c.tls_failures.get();
    s->closed_query_limit += c.query_limit_closes.get();
    s->closed_output_limit += c.output_limit_closes.get();
    s->closed_idle += c.idle_closes.get();
    s->closed_auth_timeout += c.auth_timeout_closes.get();
    s->protocol_errors += c.protocol_errors.get() + c.security_closes.get();
    passes.sum_seconds += static_cast<double>(c.pass_nanos.get()) / 1e9;
    for (int i = 0; i < LoopCounters::kPassBuckets; ++i) passes.buckets[static_cast<std::size_t>(i)] += c.pass_bucket[i].get();
  }
}

MetricsSnapshot Server::snapshot() const {
  MetricsSnapshot s;
  s.version = EBBTIDE_VERSION;
  s.start_seconds = static_cast<double>(start_micros_) / 1e6;
  s.uptime_seconds = static_cast<double>(uptime_micros()) / 1e6;
  s.max_clients = effective(config_.get()).max_clients;
  add_net(&s);
  const auto counts = stats_.commands();
  std::vector<double> bounds;
  for (const std::uint64_t bound : kCallBounds) bounds.push_back(static_cast<double>(bound) / 1e9);
  for (const Command& command : table_.all()) {
    if (command.spec->run == nullptr) continue;
    const CommandCounts& c = counts[command.index];
    MetricsSnapshot::Durations times{bounds, {c.buckets.begin(), c.buckets.end()}, static_cast<double>(c.nanos) / 1e9};
    s.commands.push_back({command.full_name, c.calls, c.rejected, c.failed, std::move(times)});
  }
  const auto stages = stats_.stages();
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageCounts& c = stages[i];
    s.stages.push_back({kStageNames[i], {bounds, {c.buckets.begin(), c.buckets.end()}, static_cast<double>(c.nanos) / 1e9}});
  }
  const TotalCounts totals = stats_.totals();
  s.errors = totals.errors;
  s.keyspace_hits = totals.keyspace_hits;
  s.keyspace_misses = totals.keyspace_misses;
  s.waits_for_disk = totals.waits_for_disk;
  s.expired_reported = observers_.expired_reported();
  const ScanCounts scans = stats_.scans();
  s.scan_steps = {
      {kScanBounds.begin(), kScanBounds.end()}, {scans.buckets.begin(), scans.buckets.end()}, static_cast<double>(scans.steps)};
  s.resident_bytes = resident_bytes();
  const CpuTimes cpu = cpu_times();
  s.cpu_user_seconds = cpu.user;
  s.cpu_system_seconds = cpu.system;
  Db* db = ready_.load();
  s.loading = db == nullptr;
  if (db == nullptr) return s;
  s.engine = db->stats();
  s.trees = trees_of(*db, engine_settings_.databases);
  s.index_trees = index_trees_of(*db, indexes_, engine_settings_.databases);
  s.workloads = workloads_of(*db, s.trees, tuning_board_);
  s.tuning_auto = config_.get().tuning_auto;
  return s;
}

std::optional<std::string> Server::console(DatabaseId database) const {
  if (owner_of(database) >= engine_settings_.databases || index_number(database) > kMostIndexes) return std::nullopt;
  ConsoleSnapshot s;
  s.version = EBBTIDE_VERSION;
  s.not_ready = not_ready();
  s.uptime_ms = uptime_micros() / 1000;
  s.databases = engine_settings_.databases;
  s.clients = net_.clients;
  const NetTotals net = net_totals();
  s.net_in_bytes = net.in;
  s.net_out_bytes = net.out;
  const TotalCounts totals = stats_.totals();
  s.commands = totals.commands;
  s.errors = totals.errors;
  s.resident_bytes = resident_bytes();
  Db* db = ready_.load();
  if (db == nullptr) return console_json(s);
  s.engine = db->stats();
  s.trees = trees_of(*db, engine_settings_.databases);
  s.index_trees = index_trees_of(*db, indexes_, engine_settings_.databases);
  if (auto map = db->tree_map(database, kConsoleCells); map.is_ok()) s.map = std::move(map).value();
  add_tickets(*db, &s);
  if (is_index_tree(database)) return console_json(s);  // only databases have a workload
  if (const auto workload = db->workload(database); workload.is_ok()) s.workload = summarize(workload->windows);
  if (const auto state = tuning_board_.state(database)) s.tuning = state->decision.why;
  return console_json(s);
}

}  // namespace ebbtide
