#include "db/read/filter_memory.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/invariant.h"
#include "filter/slices.h"
#include "table/loaded_filter.h"

namespace ebbtide {
namespace {

// Each load reads a metadata file, about a hundredth of a table, under the manifest mutex.
constexpr int kLoadsAtOnce = 16;
constexpr std::uint64_t kFilterRetryNs = 60'000'000'000;

FilterRun filter_run(const TiledEntries& has, int level, const FilterNeeds& needs) {
  return {has.entries, has.pages_per_tile(), needs.arrivals[lookup_level(level)]};
}

/// A run after a plan.
struct RunAfter {
  RunId id;
  int level;
  TiledEntries has{};
};

/// All runs, also those without files, which a view leaves out: a plan may write to them.
std::vector<RunAfter> runs_of(const TablesView& view) {
  std::map<RunId, TiledEntries> tables;
  for (const RunView& run : view.runs) {
    for (const OpenTablePtr& table : run.tables()) {
      tables[run.id()].add(table->meta->stats.entries, table->reader->pages_per_tile());
    }
  }
  std::vector<RunAfter> runs;
  for (const Run& run : view.version->runs) runs.push_back({run.id, run.level, tables[run.id]});
  return runs;
}

std::map<RunId, std::vector<double>> cut_all(const std::vector<RunAfter>& after, const FilterNeeds& needs) {
  std::vector<FilterRun> runs;
  std::uint64_t entries = 0;
  for (const RunAfter& run : after) {
    runs.push_back(filter_run(run.has, run.level, needs));
    entries += run.has.entries;
  }
  const double bits = needs.bits_for_each(entries);
  std::map<RunId, std::vector<double>> slices;
  for (std::size_t r = 0; r < after.size(); ++r) {
    const bool uniform = needs.allocation == FilterAllocation::kUniform;
    slices[after[r].id] = uniform ? std::vector<double>{bits} : cut_filter(runs, r, bits);
  }
  return slices;
}

/// True if the bits do not depend on the tree.
bool all_get_the_same(const FilterNeeds& needs) { return needs.allocation == FilterAllocation::kUniform && needs.memory == 0; }

}  // namespace

TiledEntries& TiledEntries::operator+=(const TiledEntries& other) {
  entries += other.entries;
  pages += other.pages;
  return *this;
}

TiledEntries& TiledEntries::operator-=(const TiledEntries& other) {
  // The executor will refuse a plan that removes a file twice. Here it must not underflow.
  entries -= std::min(entries, other.entries);
  pages -= std::min(pages, other.pages);
  return *this;
}

double TiledEntries::pages_per_tile() const {
  return entries == 0 ? 1 : static_cast<double>(pages) / static_cast<double>(entries);
}

double FilterNeeds::bits_for_each(std::uint64_t entries) const {
  if (memory == 0) return bits_per_key;
  return std::min(kMaxBitsPerKey, 8 * static_cast<double>(memory) / static_cast<double>(std::max<std::uint64_t>(entries, 1)));
}

std::map<RunId, std::vector<double>> filters_after(const TablesView& view, const Plan& plan, const FilterNeeds& needs) {
  if (all_get_the_same(needs)) return {};
  std::vector<RunAfter> runs = runs_of(view);
  const PlanTarget* target = target_of(plan);
  if (target == nullptr || std::holds_alternative<Slice>(plan.action)) return cut_all(runs, needs);  // sizes stay nearly the same
  std::uint64_t written = 0;
  for (const PlanInput& input : inputs_of(plan)) {
    const auto run = std::find_if(view.runs.begin(), view.runs.end(), [&](const RunView& r) { return r.id() == input.run; });
    if (run == view.runs.end()) continue;  // the executor refuses the plan
    const std::set<FileNum> files(input.files.begin(), input.files.end());
    TiledEntries taken;
    for (const OpenTablePtr& table : run->tables()) {
      if (files.count(table->meta->data_file) == 0) continue;
      taken.add(table->meta->stats.entries, table->reader->pages_per_tile());
    }
    std::find_if(runs.begin(), runs.end(), [&](const RunAfter& r) { return r.id == input.run; })->has -= taken;
    written += taken.entries;
  }
  TiledEntries moved;
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
  std::vector<RunAfter> runs = runs_of(view);
  RunAfter flushed{view.version->next_run, 0};
  flushed.has.add(entries, needs.pages_per_tile);
  runs.push_back(flushed);
  return cut_all(runs, needs);
}

std::vector<std::vector<std::uint32_t>> slices_to_keep(const TablesView& view, const FilterNeeds& needs) {
  std::vector<FilterRun> runs;
  std::vector<SlicedTable> tables;
  std::vector<std::vector<SliceWorth>> worths;  // of each table: `tables` points into it
  std::uint64_t all = 0;
  for (const RunView& run : view.runs) {
    TiledEntries has;
    for (const OpenTablePtr& table : run.tables()) {
      std::vector<SliceWorth>& worth = worths.emplace_back();
      for (const SliceInfo& slice : table->reader->slices()) {
        worth.push_back({static_cast<double>(slice.bits - slice.block_bits / 2), slice.rate});
      }
      tables.push_back({runs.size(), table->meta->stats.entries, {}, table->reader->filter()->slices()});
      has.add(table->meta->stats.entries, table->reader->pages_per_tile());
    }
    runs.push_back(filter_run(has, run.level(), needs));
    all += has.entries;
  }
  for (std::size_t t = 0; t < tables.size(); ++t) tables[t].have = worths[t];
  const double bits = needs.bits_for_each(all);
  const std::vector<std::uint32_t> chosen = needs.allocation == FilterAllocation::kUniform
                                                ? choose_slices_evenly(tables, bits)
                                                : choose_slices(runs, tables, bits * static_cast<double>(all));
  std::vector<std::vector<std::uint32_t>> keep;
  auto at = chosen.begin();
  for (const RunView& run : view.runs) {
    const auto count = static_cast<std::ptrdiff_t>(run.tables().size());
    keep.emplace_back(at, at + count);
    at += count;
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

// Lookups count from the last update of the arrivals.
void measure_lookups(Tree& tree) {
  const TablesView& tables = *tree.view_owner->tables;
  std::array<std::uint64_t, kLookupLevels> runs{};
  for (const RunView& run : tables.runs) ++runs[lookup_level(run.level())];
  tree.tile_size.follow(tree.lookups->tile_use(), tables.file_bytes / tree.settings.page_size, tables.runs.size());
  const LookupsByLevel total = tree.lookups->total();
  LookupsByLevel since = total;
  for (std::size_t l = 0; l < kLookupLevels; ++l) {
    since[l].denied -= tree.lookups_measured[l].denied;
    since[l].in_vain -= tree.lookups_measured[l].in_vain;
    since[l].found -= tree.lookups_measured[l].found;
  }
  const std::optional<Arrivals> now = measured_arrivals(tree.arrivals, since, runs);
  if (!now) return;
  tree.arrivals = *now;
  tree.lookups_measured = total;
}

bool fit_filters(const TablesView& view, const FilterNeeds& needs, const FilterFitEnv& env) {
  const std::vector<std::vector<std::uint32_t>> keep = slices_to_keep(view, needs);
  const std::uint64_t now_ns = env.clock.mono_ns();
  int loads = 0;
  bool all = true;
  std::vector<std::shared_ptr<const void>> replaced;
  for (std::size_t r = 0; r < view.runs.size(); ++r) {
    const std::vector<OpenTablePtr>& tables = view.runs[r].tables();
    for (std::size_t t = 0; t < tables.size(); ++t) {
      TableReader& reader = *tables[t]->reader;
      if (keep[r][t] > reader.filter()->slices()) {
        if (now_ns < tables[t]->filter_retry_ns.load(std::memory_order_relaxed)) continue;
        if (++loads > kLoadsAtOnce) {
          all = false;
          continue;
        }
      }
      auto old = reader.keep_slices(keep[r][t]);
      if (!old.is_ok()) {
        tables[t]->filter_retry_ns.store(now_ns + kFilterRetryNs, std::memory_order_relaxed);
        env.warn("a slice of a filter cannot be read, lookups do without it: " + old.status().to_string());
      } else if (*old != nullptr) {
        replaced.push_back(std::move(*old));
      }
    }
  }
  if (!replaced.empty()) env.epoch.retire([replaced = std::move(replaced)] {});
  return all;
}

}  // namespace ebbtide
