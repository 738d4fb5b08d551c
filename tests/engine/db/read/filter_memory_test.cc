// Tests of filter bits by run, for the tree as it will be, and of filter slices in memory, for the tree as it is.
#include "db/read/filter_memory.h"

#include <catch2/catch.hpp>

#include "engine/db/read/read_fixture.h"
#include "table/index_cache.h"
#include "table/loaded_filter.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::test;

double sum_of(const std::vector<double>& slices) {
  double bits = 0;
  for (const double slice : slices) bits += slice;
  return bits;
}

/// A large old run below a small run, with filters of two slices each.
struct TwoRuns : ReadFixture {
  TwoRuns() {
    filter_slices = {8, 4};
    for (int i = 0; i < 4000; ++i) put(numbered(i), "value");
    flush();
    for (int i = 0; i < 100; ++i) put(numbered(40 * i), "value");
    flush();
    set_levels({0, 1});
    needs.allocation = FilterAllocation::kMonkey;
  }
  [[nodiscard]] std::uint32_t slices_of(std::size_t run) { return tree()->tables->runs[run].reader(0).filter()->slices(); }
  bool fit(std::uint64_t budget_bits_per_key) {
    needs.bits_per_key = static_cast<double>(budget_bits_per_key);
    TablesView view = *tree()->tables;
    return fit_filters(view, needs, {clock, bench.epoch, [this](const std::string& text) { warnings.push_back(text); }});
  }
  FilterNeeds needs;
  SimulatedClock clock{1};
  std::vector<std::string> warnings;
};

TEST_CASE("tables of a run have different pages per tile: the run's pages per tile are their average, weighted by keys") {
  TiledKeys run;
  CHECK(run.pages_per_tile() == 1);
  run.add(300, 1);
  CHECK(run.pages_per_tile() == 1);
  run.add(100, 9);
  CHECK(run.pages_per_tile() == 3);
  TiledKeys taken;
  taken.add(300, 1);
  run -= taken;
  CHECK(run.keys == 100);
  CHECK(run.pages_per_tile() == 9);
}

TEST_CASE("memtable is flushed: the allocation monkey gives its filters more bits than the largest run's filters") {
  TwoRuns f;
  const auto bits = filters_after_flush(*f.tree()->tables, 100, f.needs);
  const RunId flushed = 3, largest = 1;
  REQUIRE(bits.count(flushed) == 1);
  CHECK(sum_of(bits.at(flushed)) > sum_of(bits.at(largest)) + 2);
  f.needs.allocation = FilterAllocation::kUniform;
  CHECK(filters_after_flush(*f.tree()->tables, 100, f.needs).empty());
  f.needs.memory = 500 * 4200 / 8;  // more memory for each entry than a filter may have
  CHECK(sum_of(filters_after_flush(*f.tree()->tables, 100, f.needs).at(flushed)) == f.needs.bits_for_each(4200));
}

/// Returns the slices of the run that a merge of all runs makes on a level.
std::vector<double> slices_after_merge_to(int level, TwoRuns& f) {
  const auto tree = f.tree();
  Merge merge;
  for (const Run& run : tree->tables->version->runs) merge.inputs.push_back({run.id, {run.files[0]->data_file}});
  merge.target.level = level;
  Plan plan;
  plan.action = std::move(merge);
  return filters_after(*tree->tables, plan, f.needs).at(3);
}

TEST_CASE("plan merges all runs on their level: the output gets the filters of a tree that has all entries in one run") {
  TwoRuns f;
  ReadFixture empty;
  CHECK(slices_after_merge_to(0, f) == filters_after_flush(*empty.tree()->tables, 4100, f.needs).at(1));
}

TEST_CASE("levels are merged into the next one: its new filters leave memory for the filters of the levels above") {
  TwoRuns f;
  const std::vector<double> alone = slices_after_merge_to(0, f), full = slices_after_merge_to(2, f);
  CHECK(full.front() < alone.front() - 0.1);
}

TEST_CASE("filter budget falls and grows again: the larger run drops more slices, and then all are loaded") {
  TwoRuns f;
  CHECK(f.slices_of(0) == 2);
  CHECK(f.fit(6));
  CHECK(f.slices_of(0) > 0);
  CHECK(f.slices_of(1) < 2);
  CHECK(f.fit(0));
  CHECK(f.slices_of(1) == 0);
  CHECK(f.fit(20));
  CHECK(f.slices_of(0) == 2);
  CHECK(f.slices_of(1) == 2);
  CHECK(f.warnings.empty());
}

TEST_CASE("table of a run is opened later than others: it gets as many filter slices as the run's other tables have") {
  TwoRuns f;
  const auto tree = f.tree();
  IndexCache indexes(f.bench.epoch);
  TableReaderOptions options = f.bench.reader_options();
  options.indexes = &indexes;
  TablesView view;
  view.version = tree->tables->version;
  ObsoleteSink sink = [](const ObsoleteFiles&) {};
  std::vector<OpenTablePtr> tables = {tree->tables->runs[1].tables()[0]};
  const auto cold = TableReader::lazy(options, tables[0]->reader->files(), tables[0]->meta->stats);
  tables.push_back(std::make_shared<OpenTable>(tables[0]->meta, cold, tables[0]->data, &sink));
  view.runs.emplace_back(view.version->runs[1], tables);
  f.needs.bits_per_key = 8;
  const FilterFitEnv env{f.clock, f.bench.epoch, [](const std::string&) {}};
  CHECK(fit_filters(view, f.needs, env));
  const std::uint32_t others = tables[0]->reader->filter()->slices();
  CHECK(others == 1);
  REQUIRE(cold->pinned().is_ok());
  CHECK(cold->filter()->slices() == others);
  CHECK(cold->slices().size() == 2);
}

TEST_CASE("filter slice cannot be read: this is logged once, and the read is tried again a minute later") {
  TwoRuns f;
  CHECK(f.fit(0));
  const std::string path = f.bench.dir + "/" + metadata_file_name(f.table().meta->metadata_file);
  const std::string bytes = read_file(f.bench.fs, path).value();
  const auto write = [&](const std::string& what) {
    if (f.bench.fs.exists(path)) REQUIRE(f.bench.fs.unlink(path).is_ok());
    auto file = f.bench.fs.create(path);
    REQUIRE(((*file)->append(what).is_ok() && (*file)->sync().is_ok()));
  };
  write(std::string(bytes.size(), '!'));
  CHECK(f.fit(20));
  REQUIRE(f.warnings.size() == 1);
  CHECK(f.slices_of(0) == 0);
  write(bytes);
  CHECK(f.fit(20));
  CHECK(f.slices_of(0) == 0);
  f.clock.advance(60'001);
  CHECK(f.fit(20));
  CHECK(f.slices_of(0) == 2);
}

TEST_CASE("settings give no tile size or kind of lookups: filters are computed for the measured ones") {
  SimulatedClock clock{1};
  Tree tree(clock);
  tree.settings.pages_per_tile = 0;
  tree.tile_size = TileSize(8);
  tree.arrivals[0] = 0.5;
  CHECK(table_settings(tree).pages_per_tile == 8);
  CHECK(filter_needs(tree).pages_per_tile == 8);
  CHECK(filter_needs(tree).arrivals[0] == 0.5);
  tree.settings.pages_per_tile = 2;
  tree.settings.filter_lookups = FilterLookups::kZeroResult;
  CHECK(filter_needs(tree).pages_per_tile == 2);
  CHECK(filter_needs(tree).arrivals[0] == 1);
}

TEST_CASE("filters are sized: lookups of the tree's view are measured first") {
  TwoRuns f;
  Tree tree(f.clock);
  tree.settings.filter_allocation = FilterAllocation::kMonkey;
  tree.settings.filter_bits_per_key = 0;
  Mutex state_mutex;
  TablesView tables = *f.tree()->tables;
  const FilterFitEnv env{f.clock, f.bench.epoch, [](const std::string&) {}};
  CHECK(measure_and_fit_filters(tree, tables, state_mutex, env));
  CHECK((f.slices_of(0) == 0 && f.slices_of(1) == 0));
  tree.settings.filter_bits_per_key = 20;
  tree.view_owner = f.tree();
  TreeLookups::Slot& slot = tree.lookups->mine();
  slot.levels[0].denied += 101'000;
  slot.levels[1].found += 101'000;
  CHECK(measure_and_fit_filters(tree, tables, state_mutex, env));
  CHECK((f.slices_of(0) == 2 && tree.arrivals != all_arrive()));
}

TEST_CASE("level lies below more runs than are counted: the probability that a lookup reaches it is not measured") {
  ReadFixture f;
  for (int run = 0; run <= 65; ++run) {
    f.put(numbered(run), "value");
    f.flush();
  }
  std::vector<int> levels(66, 0);
  levels.back() = 1;
  f.set_levels(levels);
  SimulatedClock clock{1};
  Tree tree(clock);
  tree.view_owner = f.tree();
  TreeLookups::Slot& slot = tree.lookups->mine();
  slot.levels[0].denied += 64 * 101'000;
  slot.levels[1].found += 101'000;
  measure_lookups(tree);
  CHECK(tree.arrivals == all_arrive());
}

TEST_CASE("lookups are measured: each is counted once in the probabilities that a lookup reaches a level") {
  TwoRuns f;
  SimulatedClock clock{1};
  Tree tree(clock);
  tree.view_owner = f.tree();
  const auto lookups = [&](std::uint64_t count) {
    TreeLookups::Slot& slot = tree.lookups->mine();
    slot.levels[0].denied += count;
    slot.levels[1].found += count;
  };
  lookups(1000);
  measure_lookups(tree);
  CHECK(tree.arrivals == all_arrive());  // too few lookups
  lookups(100'000);
  measure_lookups(tree);
  const Arrivals measured = tree.arrivals;
  CHECK(measured[1] < measured[0]);
  measure_lookups(tree);
  CHECK(tree.arrivals == measured);
}

}  // namespace TEST_FILE
