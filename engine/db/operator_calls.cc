// The calls of Db for operators: statistics, tree shapes, verification, checkpoints. Collects the values that admin/ works on.
#include "db/admin/checkpoint.h"
#include "db/admin/stats.h"
#include "db/admin/tree_info.h"
#include "db/admin/tree_map.h"
#include "db/db_impl.h"

namespace ebbtide {

Stats DbImpl::stats() {
  Stats s;
  add_counters(reads_.counters, &s);
  if (fetcher_ != nullptr) s.pages_read += fetcher_->pages_read();
  add_log(*log_, &s);
  s.disk_used_ratio = disk_.used_ratio();
  s.flush_bytes_written = flush_job_.bytes_written();
  s.flushes = flush_job_.flushes();
  add_compactions(compaction_totals_, &s);
  s.reclaimed_bytes_punched = hole_puncher_.punched_bytes();
  s.compactions_running = scheduler_.running();
  s.cache_hits = cache_->hits();
  s.cache_misses = cache_->misses();
  s.cache_bytes = cache_->usage();
  s.cache_capacity = cache_->capacity();
  s.memory_budget = budget_.bytes();
  add_charges(*memory_, &s);
  add_stalls(writes_, &s);
  s.deadline_rate_needed = deadlines_.needed_permille() / 1000.0;
  s.least_feasible_deadline = deadlines_.least_deadline();
  s.snapshots = leases_.count();
  s.leases_revoked = leases_.revoked();
  s.scrub_bytes = scrubber_.bytes_read();
  s.scrub_errors = scrubber_.errors();
  add_files(open_files_->counts(), &s);
  s.bounds_broken = scheduler_.bounds_broken();
  s.oldest_snapshot = leases_.oldest_taken();
  add_missed(retention_.missed(), &s);
  s.dropped_trees = trees_.pending_drops();
  s.visible_seq = published_.visible_seq();
  s.engine_time = time_.now();
  s.clock_step_refused = time_.step_refused();
  s.delete_persist_seconds = purges_.persist_times();
  const std::vector<TreeLoad> loads = tree_loads();
  add_trees(loads, &s);
  const IndexCache::Counts indexes = indexes_.counts();
  s.table_bytes += indexes.bytes;
  s.index_bytes = indexes.bytes;
  s.index_capacity = indexes.capacity;
  s.indexed_tables = indexes.tables;
  s.index_loads = indexes.loads;
  s.index_unloads = indexes.unloads;
  add_leaving(ledger_.leaving(), &s);
  for (const TreeLoad& load : loads) s.deadline_work_bytes += deadlines_.work_bytes(load.tree->id);
  const Status error = health_.error();
  s.read_only = !error.is_ok();
  if (s.read_only) s.read_only_reason = error.to_string();
  return s;
}

Result<TreeInfo> DbImpl::tree_info(DatabaseId database) {
  TreeInfo info;
  info.database = database;
  const TreePtr tree = trees_.tree_of(database);
  if (tree == nullptr) {
    info.policy = trees_.configured_policy(database);
    return info;
  }
  std::shared_ptr<const TreeView> view;
  std::shared_ptr<const Policy> policy;
  std::uint64_t file_size = 0, memtable_size = 0;
  DeadlineRule rule;
  {
    MutexLock lock(trees_.state_mutex);
    if (tree->view_owner == nullptr) return info;
    rule = tree->deadlines;
    view = tree->view_owner;
    policy = tree->policy;
    file_size = tree->settings.file_size;
    memtable_size = tree->settings.memtable_size;
    info.pages_per_tile = table_settings(*tree).pages_per_tile;
  }
  describe_tree({.view = *view,
                 .policy = *policy,
                 .rule = rule,
                 .lookups = tree->lookups->total(),
                 .memtable_size = memtable_size,
                 .file_size = file_size,
                 .delete_io_budget = tree->budget.rate(),
                 .deadline_work_bytes = deadlines_.work_bytes(tree->id),
                 .now = time_.now()},
                &info);
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

Result<Workload> DbImpl::workload(DatabaseId database) {
  if (database >= settings_.databases) return Status::invalid_argument("there is no database " + std::to_string(database));
  Workload out;
  out.database = database;
  out.since_open = reads_.counters.operations(database);
  out.windows = workload_.windows(database);
  out.cache_miss_ratio = miss_ratio(cache_->hits(), cache_->misses());
  TreePtr tree;
  {
    MutexLock lock(trees_.commit_mutex);
    out.settings = trees_.settings_of(database);
    tree = trees_.mapped(database);
  }
  if (out.settings.pages_per_tile != 0) out.pages_per_tile = out.settings.pages_per_tile;
  const auto tables = tree == nullptr ? nullptr : trees_.live_tables(tree->id);
  if (tables == nullptr) return out;
  {
    MutexLock lock(trees_.state_mutex);
    out.pages_per_tile = table_settings(*tree).pages_per_tile;
    out.measured_pages_per_tile = tree->tile_size.pages();
  }
  measure_tables(*tables->version, &out);
  return out;
}

std::vector<std::string> DbImpl::damage() {
  std::vector<std::string> lines;
  for (const auto& [number, id] : trees_.mapping()) {
    if (const auto tables = trees_.live_tables(id); tables != nullptr) list_damage(number, *tables, &lines);
  }
  return lines;
}

Result<VerifyReport> DbImpl::verify(DatabaseId database) {
  const std::shared_ptr<Lease> lease = lease_of(trees_.tree_of(database));
  return lease == nullptr ? VerifyReport{} : scrubber_.verify(*lease);
}

Result<CheckpointReport> DbImpl::checkpoint(const std::string& target) {
  const CheckpointEnv env{.fs = &fs_,
                          .dir = settings_.dir,
                          .link_mutex = &link_mutex_,
                          .visible_seq = [this] { return published_.visible_seq(); },
                          .now = [this] { return time_.now(); },
                          .wait_synced = [this](SeqNum seq) { return log_->wait_synced(seq); },
                          .take = [this](SeqNum visible_seq) { return checkpoint_state(visible_seq); },
                          .unpin = [this](const std::shared_ptr<LogPin>& pin) { manifest_.unpin(pin); },
                          .closing = [this] { return closing_.load(); }};
  auto report = make_checkpoint(env, target);
  obsolete_files_.remove_queued();  // removes replaced files that only the checkpoint's leases kept
  return report;
}

// Records the state for a checkpoint. The log has every operation on which the manifest's state relies, and every operation up to
// `visible_seq`.
Result<CheckpointState> DbImpl::checkpoint_state(SeqNum visible_seq) {
  MutexLock manifest(manifest_.mutex);
  TRY(versions_->status());
  CheckpointState state;
  state.manifest = versions_->new_file();
  state.record = versions_->snapshot_record();
  {
    MutexLock commit(trees_.commit_mutex);
    MutexLock lock(trees_.state_mutex);
    const auto pin = [&](const Tree& tree) {
      if (versions_->tree(tree.id) != nullptr && tree.view_owner != nullptr)
        state.trees.push_back(leases_.lease(tree.view_owner, visible_seq, time_.now()));
    };
    for (const auto& [id, tree] : trees_.live()) pin(*tree);
    for (const TreePtr& tree : trees_.dropped()) pin(*tree);
  }
  TRY(log_->status());
  const FileNum oldest = versions_->oldest_log();
  state.segments = log_->segments();
  std::erase_if(state.segments, [&](const LogSegment& segment) { return segment.file < oldest; });
  state.log_pin = log_pins_.pin(state.segments.front().file, state.segments.back().file);
  return state;
}

}  // namespace ebbtide
