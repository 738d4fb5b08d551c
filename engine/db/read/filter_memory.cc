#include "db/read/filter_memory.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/invariant.h"
#include "filter/slices.h"
#include "table/loaded_filter.h"

namespace ebbtide {
namespace {

// Most filters that one call loads: each load reads a metadata file, about a hundredth of a table, while the manifest mutex is
// held.
constexpr int kLoadsAtOnce = 16;
// With up to this many tables, the slices are chosen again after each change, since that costs little.
constexpr std::size_t kFewTables = 256;
constexpr std::uint64_t kFitShare = 32;
constexpr std::uint64_t kFilterRetryNs = 60'000'000'000;

FilterRun filter_run(const TiledKeys& has, int level, const FilterNeeds& needs) {
  return {has.keys, has.pages_per_tile(), needs.arrivals[lookup_level(level)]};
}

/// A run as it will be after a plan.
struct RunAfter {
  RunId id;
  int level;
  TiledKeys has{};
};

/// Returns the pages per tile of a table; for a table that was not read yet, the pages per tile of new files.
std::uint32_t tile_pages(const OpenTable& table, const FilterNeeds& needs) {
  const std::uint32_t known = table.reader->pages_per_tile();
  return known != 0 ? known : needs.pages_per_tile;
}

/// Returns all runs, including those without files, which a view leaves out: a plan may write to them.
std::vector<RunAfter> runs_of(const TablesView& view, const FilterNeeds& needs) {
  std::map<RunId, TiledKeys> tables;
  for (const RunView& run : view.runs) {
    const TableSums sums = run.sums();
    tables[run.id()] = {sums.keys, sums.tile_pages + (sums.keys - sums.read_keys) * needs.pages_per_tile};
  }
  std::vector<RunAfter> runs;
  for (const Run& run : view.version->runs) runs.push_back({run.id, run.level, tables[run.id]});
  return runs;
}

std::map<RunId, std::vector<double>> cut_all(const std::vector<RunAfter>& after, const FilterNeeds& needs) {
  std::vector<FilterRun> runs;
  std::uint64_t keys = 0;
  for (const RunAfter& run : after) {
    runs.push_back(filter_run(run.has, run.level, needs));
    keys += run.has.keys;
  }
  const double bits = needs.bits_for_each(keys);
  const bool uniform = needs.allocation == FilterAllocation::kUniform;
  std::vector<std::vector<double>> cut = uniform ? std::vector(after.size(), std::vector<double>{bits}) : cut_filters(runs, bits);
  std::map<RunId, std::vector<double>> slices;
  for (std::size_t r = 0; r < after.size(); ++r) slices[after[r].id] = std::move(cut[r]);
  return slices;
}

/// True if the last choice of slices for the whole tree still applies: the needs are the same, and few keys have changed since.
bool is_fitted(const TablesView& view, const FilterNeeds& needs) {
  if (view.fitted == nullptr || view.fitted->needs != needs) return false;
  std::size_t tables = 0;
  std::uint64_t keys = 0, changed = 0;
  std::map<RunId, std::uint64_t> before = view.fitted->keys;
  for (const RunView& run : view.runs) {
    const std::uint64_t now = run.sums().keys;
    const std::uint64_t then = std::exchange(before[run.id()], 0);
    tables += run.tables().size();
    keys += now;
    changed += now < then ? then - now : now - then;
  }
  for (const auto& [run, then] : before) changed += then;  // keys of runs that no longer exist
  return tables > kFewTables && changed <= keys / kFitShare;
}

/// True if all files get the same bits per key, whatever the shape of the tree.
bool all_get_the_same(const FilterNeeds& needs) { return needs.allocation == FilterAllocation::kUniform && needs.memory == 0; }

}  // namespace

TiledKeys& TiledKeys::operator+=(const TiledKeys& other) {
  keys += other.keys;
  pages += other.pages;
  return *this;
}

TiledKeys& TiledKeys::operator-=(const TiledKeys& other) {
  // A plan that removes a file twice must not make the number negative here; the executor will refuse the plan.
  keys -= std::min(keys, other.keys);
  pages -= std::min(pages, other.pages);
  return *this;
}

double TiledKeys::pages_per_tile() const { return keys == 0 ? 1 : static_cast<double>(pages) / static_cast<double>(keys); }

double FilterNeeds::bits_for_each(std::uint64_t keys) const {
  if (memory == 0) return bits_per_key;
  return std::min(kMaxBitsPerKey, 8 * static_cast<double>(memory) / static_cast<double>(std::max<std::uint64_t>(keys, 1)));
}

std::map<RunId, std::vector<double>> filters_after(const TablesView& view, const Plan& plan, const FilterNeeds& needs) {
  if (all_get_the_same(needs)) return {};
  std::vector<RunAfter> runs = runs_of(view, needs);
  const PlanTarget* target = target_of(plan);
  // A slice, or a plan without a target, leaves the sizes of runs nearly as they are.
  if (target == nullptr || std::holds_alternative<Slice>(plan.action)) return cut_all(runs, needs);
  std::uint64_t written = 0;
  std::map<RunId, const RunView*> views;
  for (const RunView& run : view.runs) views[run.id()] = &run;
  std::map<RunId, RunAfter*> left;
  for (RunAfter& run : runs) left[run.id] = &run;
  for (const PlanInput& input : inputs_of(plan)) {
    const auto run = views.find(input.run);
    if (run == views.end()) continue;  // the executor refuses the plan
    TiledKeys taken;
    for (const FileNum num : std::set<FileNum>(input.files.begin(), input.files.end())) {
      const FileMetaPtr file = view.version->find(num);
      const OpenTable* const table = file == nullptr ? nullptr : run->second->table_of(*file);
      if (table != nullptr) taken.add(table->meta->stats.filter_keys(), tile_pages(*table, needs));
    }
    written += taken.keys;
    RunAfter& from = *left.at(input.run);
    // Levels above the target refill before the next merge of the target. So their keys stay counted, and the target's filters
    // do not take the memory of those levels.
    if (from.level >= target->level) from.has -= taken;
  }
  TiledKeys moved;
  moved.add(written, needs.pages_per_tile);
  if (target->run == 0) {
    runs.push_back({view.version->next_run, target->level, moved});
  } else {
    for (RunAfter& run : runs) {
      if (run.id == target->run) run.has += moved;
    }
  }
  return cut_all(runs, needs);
}

std::map<RunId, std::vector<double>> filters_after_flush(const TablesView& view, std::uint64_t entries,
                                                         const FilterNeeds& needs) {
  if (all_get_the_same(needs)) return {};
  std::vector<RunAfter> runs = runs_of(view, needs);
  RunAfter flushed{view.version->next_run, 0};
  flushed.has.add(entries, needs.pages_per_tile);
  runs.push_back(flushed);
  return cut_all(runs, needs);
}

std::vector<std::vector<std::uint32_t>> slices_to_keep(const TablesView& view, const FilterNeeds& needs) {
  std::vector<FilterRun> runs;
  std::vector<SlicedTable> tables;
  std::vector<std::vector<SliceWorth>> worths;  // by table: the worth of each slice; `tables` points into this list
  std::uint64_t all = 0;
  for (const RunView& run : view.runs) {
    TiledKeys has;
    for (const OpenTablePtr& table : run.tables()) {
      std::vector<SliceWorth>& worth = worths.emplace_back();
      for (const SliceInfo& slice : table->reader->slices()) {
        worth.push_back({static_cast<double>(slice.bits - slice.block_bits / 2), slice.rate});
      }
      tables.push_back({runs.size(), table->meta->stats.filter_keys(), {}, table->reader->kept_slices()});
      has.add(table->meta->stats.filter_keys(), tile_pages(*table, needs));
      if (table->reader->pages_per_tile() != 0) all += table->meta->stats.filter_keys();  // only tables that were read
    }
    runs.push_back(filter_run(has, run.level(), needs));
  }
  for (std::size_t t = 0; t < tables.size(); ++t) tables[t].have = worths[t];
  const double bits = needs.bits_for_each(all);
  const std::vector<std::uint32_t> chosen = needs.allocation == FilterAllocation::kUniform
                                                ? choose_slices_evenly(tables, bits)
                                                : choose_slices(runs, tables, bits * static_cast<double>(all));
  std::vector<std::vector<std::uint32_t>> keep;
  std::size_t at = 0;
  for (const RunView& run : view.runs) {
    std::optional<std::uint32_t> most;
    std::vector<std::uint32_t>& of_run = keep.emplace_back();
    for (std::size_t t = 0; t < run.tables().size(); ++t) {
      of_run.push_back(chosen[at + t]);
      if (!worths[at + t].empty()) most = std::max(most.value_or(0), chosen[at + t]);
    }
    for (std::size_t t = 0; t < run.tables().size(); ++t, ++at) {
      if (worths[at].empty()) of_run[t] = most.value_or(kAllSlices);
    }
  }
  return keep;
}

TreeSettings table_settings(const Tree& tree) {
  TreeSettings settings = tree.settings;
  if (settings.pages_per_tile == 0) settings.pages_per_tile = tree.tile_size.pages();
  return settings;
}

FilterNeeds filter_needs(const Tree& tree) {
  const TreeSettings s = table_settings(tree);
  return {s.filter_allocation, s.filter_bits_per_key, s.filter_memory, s.pages_per_tile,
          s.filter_lookups == FilterLookups::kMeasured ? tree.arrivals : all_arrive()};
}

// Computes the tree's arrivals (tree_lookups.h) from the lookups since their last update.
void measure_lookups(Tree& tree) {
  const TablesView& tables = *tree.view_owner->tables;
  std::array<std::uint64_t, kLookupLevels> runs{}, uncounted{};  // of each level
  for (std::size_t r = 0; r < tables.runs.size(); ++r) {
    ++(r < RunsAsked::kRuns ? runs : uncounted)[lookup_level(tables.runs[r].level())];
  }
  tree.tile_size.follow(tree.lookups->tile_use(), tables.file_bytes / tree.settings.page_size, tables.runs.size());
  const LookupsByLevel total = tree.lookups->total();
  LookupsByLevel since = total;
  for (std::size_t l = 0; l < kLookupLevels; ++l) {
    since[l].denied -= tree.lookups_measured[l].denied;
    since[l].in_vain -= tree.lookups_measured[l].in_vain;
    since[l].found -= tree.lookups_measured[l].found;
    // If all runs of a level are beyond the counted ones, only found keys are counted there, which say nothing about arrivals.
    if (runs[l] == 0 && uncounted[l] != 0) since[l] = {};
  }
  const std::optional<Arrivals> now = measured_arrivals(tree.arrivals, since, runs);
  if (!now) return;
  tree.arrivals = *now;
  tree.lookups_measured = total;
}

namespace {

/// Drops slices, and lists the slices to load.
std::shared_ptr<FilterFit> decide(TablesView& view, const FilterNeeds& needs,
                                  std::vector<std::shared_ptr<const void>>* replaced) {
  const std::vector<std::vector<std::uint32_t>> keep = slices_to_keep(view, needs);
  auto fit = std::make_shared<FilterFit>();
  auto loads = std::make_shared<std::vector<FilterFit::Load>>();
  fit->needs = needs;
  for (std::size_t r = 0; r < view.runs.size(); ++r) {
    RunView& run = view.runs[r];
    if (run.sums().read_keys != run.sums().keys) run.measure();
    fit->keys[run.id()] = run.sums().keys;
    std::size_t t = 0;
    for (const OpenTablePtr& table : run.tables()) {
      const std::uint32_t want = keep[r][t++];
      if (want > table->reader->kept_slices() && !table->reader->slices().empty()) {
        loads->push_back({table, want});
      } else if (auto old = table->reader->keep_slices(want); old.is_ok() && *old != nullptr) {
        replaced->push_back(std::move(*old));
      }
    }
  }
  fit->loads = std::move(loads);
  return fit;
}

/// Loads the next slices of the list, kLoadsAtOnce at most.
void load_some(FilterFit* fit, const FilterFitEnv& env, std::vector<std::shared_ptr<const void>>* replaced) {
  const std::uint64_t now_ns = env.clock.mono_ns();
  for (int loads = 0; fit->next < fit->loads->size(); ++fit->next) {
    const FilterFit::Load& load = (*fit->loads)[fit->next];
    const OpenTablePtr table = load.table.lock();
    if (table == nullptr || load.slices <= table->reader->kept_slices()) continue;
    if (now_ns < table->filter_retry_ns.load(std::memory_order_relaxed)) continue;
    if (loads++ == kLoadsAtOnce) return;
    auto old = table->reader->keep_slices(load.slices);
    if (!old.is_ok()) {
      table->filter_retry_ns.store(now_ns + kFilterRetryNs, std::memory_order_relaxed);
      env.warn("a filter slice cannot be read, so lookups work without it: " + old.status().to_string());
      continue;
    }
    if (*old != nullptr) replaced->push_back(std::move(*old));
  }
}

}  // namespace

bool fit_filters(TablesView& view, const FilterNeeds& needs, const FilterFitEnv& env) {
  std::vector<std::shared_ptr<const void>> replaced;
  const bool known = is_fitted(view, needs);
  if (known && view.fitted->next == view.fitted->loads->size()) return true;
  auto fit = known ? std::make_shared<FilterFit>(*view.fitted) : decide(view, needs, &replaced);
  load_some(fit.get(), env, &replaced);
  const bool all = fit->next == fit->loads->size();
  view.fitted = std::move(fit);
  if (!replaced.empty()) env.epoch.retire([replaced = std::move(replaced)] {});
  return all;
}

FilterNeeds filter_needs(const Tree& tree, Mutex& state_mutex) {
  MutexLock lock(state_mutex);
  return filter_needs(tree);
}

bool measure_and_fit_filters(Tree& tree, TablesView& tables, Mutex& state_mutex, const FilterFitEnv& env) {
  FilterNeeds needs;
  {
    MutexLock lock(state_mutex);
    if (tree.view_owner != nullptr) measure_lookups(tree);
    needs = filter_needs(tree);
  }
  return fit_filters(tables, needs, env);
}

}  // namespace ebbtide
