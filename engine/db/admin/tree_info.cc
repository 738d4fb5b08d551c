#include "db/admin/tree_info.h"

#include <map>
#include <numeric>
#include <vector>

#include "base/number_name.h"
#include "base/oldest.h"
#include "tree/frozen.h"

namespace ebbtide {
namespace {

std::vector<FilterInfo> filters_of(const TablesView& tables, const LookupsByLevel& lookups) {
  std::map<std::size_t, FilterInfo> levels;
  std::map<std::size_t, std::vector<double>> expected;  // by level: the false positive rate of each run
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

RunInfo describe_run(const Run& files, const RunView& run, const RecordSet& records, Millis now) {
  RunInfo r;
  r.id = run.id();
  r.level = run.level();
  auto table = run.tables().begin();
  for (const FileMetaPtr& pointer : files.files) {
    const FileMeta& file = *pointer;
    const TableStats& stats = file.stats;
    ++r.files;
    r.bytes += file.live_bytes();
    r.entries += stats.entries;
    r.tombstones += stats.tombstones;
    r.range_tombstones += stats.range_tombstones;
    r.filter_bits += (*table++)->reader->filter_bits();
    // shape() has deletes that need a merge; oldest_obligation() adds dead bytes that are not punched, and lingering names.
    keep_oldest(&r.oldest_tombstone_birth, file.shape(0, now, records).oldest_birth);
    keep_oldest(&r.oldest_tombstone_birth, file.oldest_obligation());
  }
  return r;
}

}  // namespace

void describe_tree(const TreeFacts& tree, TreeInfo* info) {
  const TreeView& view = tree.view;
  info->tree = view.tree;
  info->policy = tree.policy.name();
  std::uint64_t entries = 0, tombstones = 0;
  for (const auto& memtable : view.memtables) {
    info->memtable_bytes += memtable->memory_bytes();
    info->memtable_entries += memtable->entries();
    entries += memtable->entries();
    tombstones += memtable->tombstones();
    keep_oldest(&info->oldest_obligation, oldest_birth(*memtable, tree.now));
  }
  info->frozen_memtables = view.memtables.size() - 1;
  for (const SharedRecords& records : view.record_sets()) {
    info->records += records->size();
    keep_oldest(&info->oldest_record_birth, records->oldest_birth());
  }
  const Version& version = *view.tables->version;
  std::size_t at = 0;
  for (const Run& files : version.runs) {
    if (files.files.empty()) continue;
    const RunInfo r = describe_run(files, view.tables->runs[at++], *version.records, tree.now);
    keep_oldest(&info->oldest_obligation, r.oldest_tombstone_birth);
    entries += r.entries;
    tombstones += r.tombstones;
    info->runs.push_back(r);
  }
  info->filters = filters_of(*view.tables, tree.lookups);
  // Subtracts two entries for each tombstone: the tombstone, and the entry that it deletes.
  info->estimated_keys = entries > 2 * tombstones ? entries - 2 * tombstones : 0;
  for (const FileMetaPtr& file : view.tables->quarantined) {
    info->quarantined.push_back({file->data_file, file->data_bytes + file->metadata_bytes, file->damage});
  }
  info->delete_deadline = tree.rule.deadline();
  info->delete_io_budget = tree.delete_io_budget;
  const Millis due = info->oldest_obligation == 0 ? DeadlineRule::kNever : tree.rule.due(info->oldest_obligation);
  info->oldest_obligation_deadline = due == DeadlineRule::kNever ? 0 : due;
  info->deadline_work_bytes = tree.deadline_work_bytes;
  TreeShape shape = version.shape_at(tree.memtable_size, tree.file_size, 0);
  leave_out_frozen(&shape);
  info->pending_compaction_bytes = tree.policy.debt_bytes(shape);
}

void measure_tables(const Version& version, Workload* out) {
  out->table_entries = out->table_bytes = 0;
  std::uint64_t file_bytes = 0;
  for (const Run& run : version.runs) {
    for (const FileMetaPtr& file : run.files) {
      out->table_entries += file->stats.entries;
      out->table_bytes += file->stats.key_bytes + file->stats.value_bytes;
      file_bytes += file->live_bytes();
    }
  }
  if (file_bytes != 0)
    out->entries_per_file =
        static_cast<double>(out->table_entries) * static_cast<double>(out->settings.file_size) / static_cast<double>(file_bytes);
}

double miss_ratio(std::uint64_t hits, std::uint64_t misses) {
  return hits + misses == 0 ? 1 : static_cast<double>(misses) / static_cast<double>(hits + misses);
}

void list_damage(DatabaseId database, const TablesView& tables, std::vector<std::string>* lines) {
  for (const FileMetaPtr& file : tables.quarantined) {
    lines->push_back(number_name(database) + ": " + file->damage);
  }
}

}  // namespace ebbtide
