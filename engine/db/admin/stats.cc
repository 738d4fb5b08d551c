#include "db/admin/stats.h"

#include <algorithm>

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
  out.buckets[0] =
      gets - std::min(gets, some);  // gets that searched no table: a memtable had the key, or no run's bounds contained it
  return out;
}

}  // namespace

void add_counters(const Counters& counters, Stats* s) {
  for (const ThreadCounters& c : counters.slots()) {
    s->gets += c.gets.load(std::memory_order_relaxed);
    s->get_hits += c.get_hits.load(std::memory_order_relaxed);
    s->batches += c.commits.load(std::memory_order_relaxed);
    s->writes += c.operations.load(std::memory_order_relaxed);
    s->secondary_deletes += c.secondary_deletes.load(std::memory_order_relaxed);
    s->user_bytes_written += c.user_bytes.load(std::memory_order_relaxed);
    s->iterators += c.iterators.load(std::memory_order_relaxed);
    s->fetches += c.fetches.load(std::memory_order_relaxed);
    s->pages_read += c.pages_read.load(std::memory_order_relaxed);
    s->filter_negatives += c.filter_negatives.load(std::memory_order_relaxed);
    s->filter_false_positives += c.filter_false_positives.load(std::memory_order_relaxed);
  }
  s->get_misses = s->gets - std::min(s->gets, s->get_hits);
  s->runs_probed = probes_of(counters, s->gets);
}

void add_compactions(const CompactionTotals& totals, Stats* s) {
  s->compactions = totals.jobs;
  s->compaction_bytes_read = totals.bytes_read;
  s->compaction_bytes_written = totals.bytes_written;
  s->trivial_moves = totals.files_moved;
  s->sub_merges = totals.sub_merges;
  s->files_dropped = totals.files_dropped;
  s->pages_dropped_full = totals.pages_dropped;
  s->pages_dropped_partial = totals.pages_dropped_in_part;
  s->reclaimed_bytes_unlinked = totals.dropped_bytes;
  for (std::size_t i = 0; i < kReasons; ++i) {
    if (static_cast<Reason>(i) == Reason::kFlush) continue;
    s->merges_by_reason.push_back(
        {reason_name(static_cast<Reason>(i)), totals.jobs_by_reason[i], totals.read_by_reason[i], totals.written_by_reason[i]});
  }
}

void add_charges(const MemoryAccount& account, Stats* s) {
  s->connection_bytes = account.charged(MemoryAccount::Kind::kConnections);
  s->large_value_bytes = account.charged(MemoryAccount::Kind::kLargeValues);
  s->pinned_page_bytes = account.charged(MemoryAccount::Kind::kPages);
  s->command_bytes = account.charged(MemoryAccount::Kind::kCommands);
  s->memtable_bytes = account.charged(MemoryAccount::Kind::kMemTables);
}

void add_stalls(const WriteController& writes, Stats* s) {
  s->stall_micros_memtable = writes.stalled_ns(StallReason::kMemTable) / 1000;
  s->stall_micros_runs = writes.stalled_ns(StallReason::kRuns) / 1000;
  s->stall_micros_pending_bytes = writes.stalled_ns(StallReason::kPendingBytes) / 1000;
  s->stall_micros_deadline = writes.stalled_ns(StallReason::kDeadline) / 1000;
  s->write_stalled = writes.stopped();
}

void add_log(const GroupCommit& log, Stats* s) {
  s->wal_bytes_written = log.bytes_written();
  s->wal_writes = log.writes();
  s->wal_syncs = log.syncs();
  s->wal_live_bytes = log.live_bytes();
  s->wal_oldest_record = log.oldest_record();
  s->logged_seq = log.logged_seq();
  s->synced_seq = log.synced_seq();
}

void add_files(const OpenFiles::Counts& files, Stats* s) {
  s->table_files = files.files;
  s->table_files_open = files.open;
  s->table_files_reopened = files.reopened;
}

void add_missed(const MissedDeadlines& missed, Stats* s) {
  s->deadlines_missed_down = missed.count(MissReason::kDown);
  s->deadlines_missed_clock = missed.count(MissReason::kClock);
  s->deadlines_missed_disk = missed.count(MissReason::kDisk);
  s->deadlines_missed_load = missed.count(MissReason::kLoad);
  s->deadlines_missed_damage = missed.count(MissReason::kDamage);
}

void add_trees(const std::vector<TreeLoad>& loads, Stats* s) {
  for (const TreeLoad& load : loads) {
    const TablesView& tables = *load.view->tables;
    s->memtable_bytes += load.uncharged_bytes();
    s->table_bytes += tables.memory_bytes;
    s->table_live_bytes += tables.file_bytes;
    s->quarantined_files += tables.quarantined.size();
    const FileSums sums = tables.version->sums();
    s->garbage_dropped_pages += sums.not_punched;
    if (sums.entries != 0) s->garbage_deleted += sums.live_bytes / sums.entries * std::min(sums.entries, sums.tombstones);
  }
}

void add_leaving(const std::vector<PurgeLedger::Leaving>& files, Stats* s) {
  for (const PurgeLedger::Leaving& file : files) s->garbage_leaving += file.bytes;
}

}  // namespace ebbtide
