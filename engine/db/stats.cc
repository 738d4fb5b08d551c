// The engine's numbers, gathered on demand.
#include <numeric>

#include "base/oldest.h"
#include "db/admin/tree_map.h"
#include "db/db_impl.h"
#include "tree/frozen.h"

namespace ebbtide {

namespace {

HistogramInfo probes_of(const Counters& counters, std::uint64_t gets) {
  HistogramInfo out;
  out.bounds.push_back(0);
  out.bounds.insert(out.bounds.end(), ThreadCounters::kProbeBounds.begin(), ThreadCounters::kProbeBounds.end());
  out.buckets.resize(out.bounds.size() + 1);
  for (const ThreadCounters& c : counters.slots()) {
    for (std::size_t i = 0; i < c.probes.size(); ++i) out.buckets[i + 1] += c.probes[i].load(std::memory_order_relaxed);
    out.sum += static_cast<double>(c.runs_probed.load(std::memory_order_relaxed));
  }
  std::uint64_t some = 0;
  for (const std::uint64_t count : out.buckets) some += count;
  out.buckets[0] = gets - std::min(gets, some);  // a memtable knew, or no run's bounds have the key
  return out;
}

}  // namespace

// Estimates the bytes that no reader can see: each tombstone counts as an entry of average size.
void DbImpl::add_garbage(const std::vector<TreeLoad>& loads, Stats* s) const {
  for (const TreeLoad& load : loads) {
    std::uint64_t entries = 0, deletes = 0, bytes = 0;
    for (const Run& run : load.view->tables->version->runs) {
      for (const FileMetaPtr& file : run.files) {
        entries += file->stats.entries;
        deletes += file->stats.tombstones + file->stats.range_tombstones;
        bytes += file->live_bytes();
        s->garbage_dropped_pages += file->dead_bytes - file->punched_bytes;
      }
    }
    if (entries != 0) s->garbage_deleted += bytes / entries * std::min(entries, deletes);
  }
  for (const PurgeLedger::Leaving& file : ledger_.leaving()) s->garbage_leaving += file.bytes;
}

Stats DbImpl::stats() {
  Stats s;
  for (const ThreadCounters& c : reads_.counters.slots()) {
    s.gets += c.gets.load(std::memory_order_relaxed);
    s.get_hits += c.get_hits.load(std::memory_order_relaxed);
    s.batches += c.commits.load(std::memory_order_relaxed);
    s.writes += c.operations.load(std::memory_order_relaxed);
    s.secondary_deletes += c.secondary_deletes.load(std::memory_order_relaxed);
    s.user_bytes_written += c.user_bytes.load(std::memory_order_relaxed);
    s.iterators += c.iterators.load(std::memory_order_relaxed);
    s.fetches += c.fetches.load(std::memory_order_relaxed);
    s.pages_read += c.pages_read.load(std::memory_order_relaxed);
    s.filter_negatives += c.filter_negatives.load(std::memory_order_relaxed);
    s.filter_false_positives += c.filter_false_positives.load(std::memory_order_relaxed);
  }
  if (fetcher_ != nullptr) s.pages_read += fetcher_->pages_read();
  s.get_misses = s.gets - std::min(s.gets, s.get_hits);
  s.runs_probed = probes_of(reads_.counters, s.gets);
  s.wal_bytes_written = log_->bytes_written();
  s.wal_writes = log_->writes();
  s.wal_syncs = log_->syncs();
  s.wal_live_bytes = log_->live_bytes();
  s.wal_oldest_record = log_->oldest_record();
  s.disk_used_ratio = disk_.used_ratio();
  s.flush_bytes_written = flush_job_.bytes_written();
  s.flushes = flush_job_.flushes();
  s.compactions = compaction_totals_.jobs;
  s.compaction_bytes_read = compaction_totals_.bytes_read;
  s.compaction_bytes_written = compaction_totals_.bytes_written;
  s.trivial_moves = compaction_totals_.files_moved;
  s.sub_merges = compaction_totals_.sub_merges;
  s.files_dropped = compaction_totals_.files_dropped;
  s.pages_dropped_full = compaction_totals_.pages_dropped;
  s.pages_dropped_partial = compaction_totals_.pages_dropped_in_part;
  s.reclaimed_bytes_unlinked = compaction_totals_.dropped_bytes;
  s.reclaimed_bytes_punched = hole_puncher_.punched_bytes();
  s.compactions_running = scheduler_.running();
  s.cache_hits = cache_->hits();
  s.cache_misses = cache_->misses();
  s.cache_bytes = cache_->usage();
  s.cache_capacity = cache_->capacity();
  s.memory_budget = budget_.bytes();
  s.connection_bytes = memory_->charged(MemoryAccount::Kind::kConnections);
  s.large_value_bytes = memory_->charged(MemoryAccount::Kind::kLargeValues);
  s.pinned_page_bytes = memory_->charged(MemoryAccount::Kind::kPages);
  s.command_bytes = memory_->charged(MemoryAccount::Kind::kCommands);
  s.memtable_bytes = memory_->charged(MemoryAccount::Kind::kMemTables);
  s.stall_micros_memtable = writes_.stalled_ns(StallReason::kMemTable) / 1000;
  s.stall_micros_runs = writes_.stalled_ns(StallReason::kRuns) / 1000;
  s.stall_micros_pending_bytes = writes_.stalled_ns(StallReason::kPendingBytes) / 1000;
  s.stall_micros_deadline = writes_.stalled_ns(StallReason::kDeadline) / 1000;
  s.deadline_rate_needed = deadlines_.needed_permille() / 1000.0;
  s.least_feasible_deadline = deadlines_.least_deadline();
  for (std::size_t i = 0; i < kReasons; ++i) {
    if (static_cast<Reason>(i) == Reason::kFlush) continue;
    s.merges_by_reason.push_back({reason_name(static_cast<Reason>(i)), compaction_totals_.jobs_by_reason[i],
                                  compaction_totals_.read_by_reason[i], compaction_totals_.written_by_reason[i]});
  }
  s.write_stalled = writes_.stopped();
  s.snapshots = leases_.count();
  s.leases_revoked = leases_.revoked();
  s.scrub_bytes = scrubber_.bytes_read();
  s.scrub_errors = scrubber_.errors();
  s.bounds_broken = scheduler_.bounds_broken();
  s.oldest_snapshot = leases_.oldest_taken();
  const MissedDeadlines& missed = retention_.missed();
  s.deadlines_missed_down = missed.count(MissReason::kDown);
  s.deadlines_missed_clock = missed.count(MissReason::kClock);
  s.deadlines_missed_disk = missed.count(MissReason::kDisk);
  s.deadlines_missed_load = missed.count(MissReason::kLoad);
  s.deadlines_missed_damage = missed.count(MissReason::kDamage);
  s.dropped_trees = trees_.pending_drops();
  s.visible_seq = published_.visible_seq();
  s.logged_seq = log_->logged_seq();
  s.synced_seq = log_->synced_seq();
  s.engine_time = time_.now();
  s.clock_step_refused = time_.step_refused();
  const std::vector<TreeLoad> loads = tree_loads();
  add_garbage(loads, &s);
  s.delete_persist_seconds = purges_.persist_times();
  for (const TreeLoad& load : loads) s.deadline_work_bytes += deadlines_.work_bytes(load.tree->id);
  for (const TreeLoad& load : loads) {
    s.memtable_bytes += load.uncharged_bytes();
    s.table_bytes += load.view->tables->memory_bytes;
    s.table_live_bytes += load.view->tables->file_bytes;
    s.quarantined_files += load.view->tables->quarantined.size();
  }
  const Status error = health_.error();
  s.read_only = !error.is_ok();
  if (s.read_only) s.read_only_reason = error.to_string();
  return s;
}

namespace {

std::vector<FilterInfo> filters_of(const TablesView& tables, const LookupsByLevel& lookups) {
  std::map<std::size_t, FilterInfo> levels;
  std::map<std::size_t, std::vector<double>> expected;  // by run
  for (const RunView& run : tables.runs) {
    const std::size_t level = lookup_level(run.level());
    FilterInfo& info = levels[level];
    std::uint64_t entries = 0;
    double weighted = 0;
    for (const OpenTablePtr& table : run.tables()) {
      entries += table->meta->stats.entries;
      weighted += static_cast<double>(table->meta->stats.entries) * table->reader->false_positive_rate();
      info.bits += table->reader->filter_bits();
    }
    info.entries += entries;
    if (entries > 0) expected[level].push_back(weighted / static_cast<double>(entries));
  }
  std::vector<FilterInfo> out;
  for (auto& [level, info] : levels) {
    info.level = static_cast<int>(level);
    const std::vector<double>& rates = expected[level];
    if (!rates.empty()) info.expected = std::accumulate(rates.begin(), rates.end(), 0.0) / static_cast<double>(rates.size());
    info.denied = lookups[level].denied;
    info.in_vain = lookups[level].in_vain;
    info.found = lookups[level].found;
    out.push_back(info);
  }
  return out;
}

}  // namespace

Result<TreeInfo> DbImpl::tree_info(DatabaseId database) {
  TreeInfo info;
  info.database = database;
  TreePtr tree = trees_.tree_of(database);
  if (tree == nullptr) {
    info.policy = trees_.configured_policy(database);
    return info;
  }
  std::shared_ptr<const TreeView> owner;
  std::shared_ptr<const Policy> policy;
  std::uint64_t file_size = 0;
  DeadlineRule rule;
  {
    MutexLock lock(trees_.state_mutex);
    if (tree->view_owner == nullptr) return info;
    rule = tree->deadlines;
    owner = tree->view_owner;
    policy = tree->policy;
    file_size = tree->settings.file_size;
    info.pages_per_tile = table_settings(*tree).pages_per_tile;
  }
  info.tree = tree->id;
  info.policy = policy->name();
  const TreeView& view = *owner;
  const Millis now = time_.now();
  std::uint64_t entries = 0, tombstones = 0;
  for (const auto& memtable : view.memtables) {
    info.memtable_bytes += memtable->memory_bytes();
    info.memtable_entries += memtable->entries();
    entries += memtable->entries();
    tombstones += memtable->tombstones();
    keep_oldest(&info.oldest_obligation, oldest_birth(*memtable, now));
  }
  info.frozen_memtables = view.memtables.size() - 1;
  for (const SharedRecords& records : view.record_sets()) {
    info.records += records->size();
    for (const Record& record : records->records()) keep_oldest(&info.oldest_record_birth, record.birth);
  }
  const Version& version = *view.tables->version;
  std::size_t at = 0;
  for (const Run& files : version.runs) {
    if (files.files.empty()) continue;
    const RunView& run = view.tables->runs[at++];
    RunInfo r;
    r.id = run.id();
    r.level = run.level();
    for (std::size_t i = 0; i < files.files.size(); ++i) {
      const FileMeta& file = *files.files[i];
      const TableStats& stats = file.stats;
      ++r.files;
      r.bytes += file.live_bytes();
      r.entries += stats.entries;
      r.tombstones += stats.tombstones;
      r.range_tombstones += stats.range_tombstones;
      r.filter_bits += run.tables()[i]->reader->filter_bits();
      // To what a delete by stamp covers, dropped pages that are not punched and names that linger, too.
      keep_oldest(&r.oldest_tombstone_birth, file.shape(0, now, *version.records).oldest_birth);
      keep_oldest(&r.oldest_tombstone_birth, file.oldest_obligation());
    }
    keep_oldest(&info.oldest_obligation, r.oldest_tombstone_birth);
    entries += r.entries;
    tombstones += r.tombstones;
    info.runs.push_back(r);
  }
  info.filters = filters_of(*view.tables, tree->lookups->total());
  // A tombstone is an entry that exists no more, and so is what it deletes.
  info.estimated_keys = entries > 2 * tombstones ? entries - 2 * tombstones : 0;
  TreeShape shape = view.tables->version->shape(settings_.memtable_size, file_size, 0, 0, [](FileNum) { return false; });
  leave_out_frozen(&shape);
  for (const FileMetaPtr& file : view.tables->quarantined) {
    info.quarantined.push_back({file->data_file, file->data_bytes + file->metadata_bytes, file->damage});
  }
  info.delete_deadline = rule.deadline();
  info.delete_io_budget = tree->budget.rate();
  const Millis due = info.oldest_obligation == 0 ? DeadlineRule::kNever : rule.due(info.oldest_obligation);
  info.oldest_obligation_deadline = due == DeadlineRule::kNever ? 0 : due;
  info.deadline_work_bytes = deadlines_.work_bytes(tree->id);
  info.pending_compaction_bytes = policy->debt_bytes(shape);
  return info;
}

Result<TreeMap> DbImpl::tree_map(DatabaseId database, std::size_t max_cells) {
  TreeMap map;
  map.database = database;
  const TreePtr tree = trees_.tree_of(database);
  map.policy = trees_.configured_policy(database);
  if (tree == nullptr) return map;
  std::shared_ptr<const TreeView> view;
  {
    MutexLock lock(trees_.state_mutex);
    if (tree->view_owner == nullptr) return map;
    view = tree->view_owner;
    map.policy = tree->policy->name();
    map.delete_deadline = tree->settings.delete_deadline;
  }
  map.tree = tree->id;
  draw_tree(*view, tree->jobs.now(), time_.now(), max_cells, &map);
  return map;
}

}  // namespace ebbtide
