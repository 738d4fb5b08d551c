#include "db/background/flush_job.h"

#include <algorithm>
#include <utility>

#include "tree/frozen.h"

namespace ebbtide {
namespace {
constexpr double kSmallFlush = 0.5;  // a static schedule ignores flushes of fewer full memtables than this
}  // namespace

double full_memtables(const std::vector<FrozenMemTable>& frozen, std::uint64_t memtable_size, std::uint64_t empty_bytes) {
  const double room = static_cast<double>(memtable_size) - static_cast<double>(empty_bytes);
  if (room <= 0) return 0;
  double full = 0;
  for (const FrozenMemTable& f : frozen) {
    const double used = static_cast<double>(f.memtable->memory_bytes()) - static_cast<double>(empty_bytes);
    full += used >= 2 * room ? used / room : std::clamp(used / room, 0.0, 1.0);
  }
  return full;
}

Status FlushJob::build(const TreePtr& tree, std::size_t most, Millis now, BuiltFlush* built) {
  std::vector<FrozenMemTable> frozen;
  CompactionContext context;
  std::shared_ptr<const Policy> policy;
  std::shared_ptr<const TablesView> tables;
  {
    MutexLock lock(*env_.state_mutex);
    if (tree->view_owner != nullptr) tables = tree->view_owner->tables;
    frozen.assign(tree->frozen.begin(), tree->frozen.begin() + static_cast<std::ptrdiff_t>(std::min(most, tree->frozen.size())));
    context.settings = env_.settings(*tree);
    policy = tree->policy;
  }
  if (frozen.empty() || tables == nullptr) return Status::ok();
  const Version& version = *tables->version;
  env_.await_visible(frozen.back().last_seq);
  context.now = now;
  context.stamp = tree->stamp;
  context.reaped = tree->reaped();
  context.visible_seq = env_.visible_seq();
  context.last_seq = frozen.back().last_seq;
  std::vector<std::unique_ptr<InternalIterator>> iterators;
  std::vector<FlushInput> inputs;
  std::uint64_t entries = 0;
  for (auto it = frozen.rbegin(); it != frozen.rend(); ++it) {
    iterators.push_back(it->memtable->new_iterator());
    inputs.push_back({iterators.back().get(), it->memtable->range_tombstones(), it->memtable->records().snapshot()});
    entries += it->memtable->entries();
  }
  context.filters = env_.filters(*tree, *tables, entries);
  TRY_ASSIGN(result,
             flush_to_run(inputs, version, context, env_.installer->compaction_env(tables, {}, &tree->dropped, &built->opened)));
  TreeEdit& edit = result.edit;
  edit.tree = tree->id;
  const double full = full_memtables(frozen, context.settings.memtable_size, env_.empty_memtable_bytes());
  if (full > 0) {
    std::uint64_t written = 0;
    for (const FileMeta& table : result.outputs) written += table.data_bytes + table.metadata_bytes;
    edit.flush_share = tree->flush_size.add(full, written, context.settings.memtable_size, version.flush_share);
  }
  if (policy->by_schedule()) edit.flushes = count_flush(*policy, full, version, context.settings);
  built->relies_on = std::max(built->relies_on, frozen.back().last_seq);
  built->edit.trees.push_back(std::move(edit));
  built->of.push_back({tree, frozen.size(), std::move(result.outputs)});
  bytes_ += result.bytes_written;
  flushes_ += 1;
  tree->flush_rate.note(result.bytes_written, now);
  return Status::ok();
}

// Returns the new count of flushes for a static schedule, which counts only flushes of full memtables. A small flush, for a
// deadline or on request, is merged into the newest run, which the previous flush wrote. Large deletes reset the count.
std::uint64_t FlushJob::count_flush(const Policy& policy, double full, const Version& version,
                                    const TreeSettings& settings) const {
  TreeShape shape = version.shape_at(settings.memtable_size, settings.file_size, 0);
  leave_out_frozen(&shape);
  const std::uint64_t before = policy.flushes(shape);
  return before + (full < kSmallFlush && before > 0 ? 0 : 1);
}

}  // namespace ebbtide
