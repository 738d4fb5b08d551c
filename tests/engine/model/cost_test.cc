// Compares the cost model with figures and closed forms of the papers, and with properties that hold for any tree.
#include "model/cost.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.h"
#include "filter/monkey.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr PerOperation kEven = {0.25, 0.25, 0.25, 0.25};
constexpr double kBits = 8.0 * 1024;  // the size of an entry, in bits

/// Returns Endure's system: 10 billion entries of 1 KB, pages of 4 KB, 10 bits an entry.
System endure_system() {
  System s;
  s.entries = 1e10;
  s.entry_bytes = 1024;
  s.memory_bits = 1e11;
  return s;
}

Tuning tuning_of(Layout layout, double size_ratio, double filter_bits_per_entry, const System& s) {
  Tuning t;
  t.layout = layout;
  t.size_ratio = size_ratio;
  t.filter_bits = filter_bits_per_entry * s.entries;
  t.buffer_bits = s.memory_bits - t.filter_bits;
  return t;
}

Tuning klsm(std::vector<double> runs, double size_ratio, double filter_bits_per_entry, const System& s) {
  Tuning t = tuning_of(Layout::kKlsm, size_ratio, filter_bits_per_entry, s);
  t.runs = std::move(runs);
  return t;
}

void check_equal(const CostReport& a, const CostReport& b) {
  for (std::size_t i = 0; i < kOperations; ++i) CHECK(a.costs[i] == Approx(b.costs[i]));
}

// The layouts are those of Endure, Table 3.
TEST_CASE("layouts of Endure's Table 3 have the runs of a K-LSM: their costs equal those of the K-LSM") {
  const System s = endure_system();
  for (const Equations equations : {Equations::kPaper, Equations::kPaperRelaxed}) {
    for (const double t : {2.0, 5.0, 10.0}) {
      const double most = t - 1;
      const auto cost = [&](const Tuning& tuning) { return costs_of(s, tuning, kEven, equations); };
      const int levels = levels_needed(s, klsm({1}, t, 5, s), equations);
      CHECK(levels == static_cast<int>(std::ceil(std::log(1e10 * kBits / 5e10 + 1) / std::log(t))));
      std::vector<double> lazy(static_cast<std::size_t>(levels), most);
      lazy.back() = 1;
      check_equal(cost(tuning_of(Layout::kLeveling, t, 5, s)), cost(klsm({1}, t, 5, s)));
      check_equal(cost(tuning_of(Layout::kTiering, t, 5, s)), cost(klsm({most}, t, 5, s)));
      check_equal(cost(tuning_of(Layout::kLazyLeveling, t, 5, s)), cost(klsm(lazy, t, 5, s)));
      check_equal(cost(tuning_of(Layout::kOneLeveling, t, 5, s)), cost(klsm({most, 1}, t, 5, s)));
      Tuning fluid = tuning_of(Layout::kFluid, t, 5, s);
      fluid.runs = {most, 1};
      check_equal(cost(fluid), cost(tuning_of(Layout::kLazyLeveling, t, 5, s)));
      CHECK(cost(klsm({1000}, t, 5, s)).costs[kRange] == Approx(cost(klsm({most}, t, 5, s)).costs[kRange]));
    }
  }
}

// Endure, Eqs. 3 to 9, computed by hand for T = 4 and m_filt = 5 bits: N E / m_buf = 1638.4, so there are 6 levels.
TEST_CASE("Endure's equations are evaluated: the costs equal values calculated by hand") {
  System s = endure_system();
  s.range_selectivity = 1e-9;
  s.write_asymmetry = 3;
  s.sequential_cost = 0.5;
  const CostReport report = costs_of(s, klsm({2}, 4, 5, s), kEven, Equations::kPaper);
  REQUIRE(report.levels == 6);
  const double last = std::pow(4, 4.0 / 3) / 4 * std::exp(-5 * std::log(2) * std::log(2));
  double empty = 0, read = 0;
  for (int i = 1; i <= 6; ++i) {
    const double f = last / std::pow(4, 6 - i);
    read += 3 * std::pow(4, i - 1) / 4095 * (1 + empty + f / 2);
    empty += 2 * f;
  }
  CHECK(report.costs[kEmptyRead] == Approx(empty));
  CHECK(report.costs[kRead] == Approx(read));
  CHECK(report.costs[kRange] == Approx(12 + 0.5 * 1e-9 * 1e10 / 4));
  CHECK(report.costs[kWrite] == Approx(0.5 * 4 / 4 * 6 * 1.25));
  // There are log_4(1639.4) = 5.339 levels instead of 6.
  const CostReport relaxed = costs_of(s, klsm({2}, 4, 5, s), kEven, Equations::kPaperRelaxed);
  CHECK(relaxed.level_count == Approx(5.3394).epsilon(1e-4));
  CHECK(relaxed.costs[kWrite] == Approx(report.costs[kWrite] * relaxed.level_count / 6));
  CHECK(relaxed.costs[kEmptyRead] == report.costs[kEmptyRead]);
}

// Monkey, Eqs. 7 and 19, are closed forms for a full tree with many levels.
TEST_CASE("tree is full: the engine's cost of point reads matches Monkey's closed form") {
  System s = endure_system();
  for (const double t : {2.0, 4.0, 10.0}) {
    for (const double bits : {0.4, 1.0, 2.0, 5.0, 10.0}) {
      for (const Layout layout : {Layout::kLeveling, Layout::kTiering}) {
        if (layout == Layout::kTiering && t == 2) continue;  // this is the same as leveling
        Tuning tuning = layout == Layout::kTiering ? tuning_of(layout, t, bits, s) : klsm({1}, t, bits, s);
        tuning.buffer_bits = s.data_bits() / (std::pow(t, 14) - 1);
        const CostReport report = costs_of(s, tuning, {1, 0, 0, 0});
        REQUIRE(report.levels == 14);
        const FullTree tree{t, 14, s.entries, layout == Layout::kTiering, 0};
        CAPTURE(t, bits, layout_name(layout));
        CHECK(report.costs[kEmptyRead] == Approx(lookup_cost(tree, tuning.filter_bits)).epsilon(0.02));
      }
    }
  }
}

TEST_CASE("filter curve is ideal: the cost model's allocation agrees with the engine's allocator") {
  Random random(3);
  for (int round = 0; round < 50; ++round) {
    System s = endure_system();
    s.entries = 1e7 + static_cast<double>(random.uniform(1'000'000'000));
    const double t = 2 + static_cast<double>(random.uniform(9));
    Tuning tuning = klsm({1 + static_cast<double>(random.uniform(5)), 2}, t, static_cast<double>(random.uniform(100)) / 8, s);
    tuning.buffer_bits = 1e8;
    tuning.tile_pages = 1 + static_cast<double>(random.uniform(4));
    const PerOperation mix = {0.6, 0.3, 0.05, 0.05};
    const CostReport report = costs_of(s, tuning, mix);
    std::vector<FilterRun> runs;
    double before = 0, memory = 0, ours = 0;
    for (int i = 0; i < report.levels; ++i) {
      const LevelCost& level = report.level[static_cast<std::size_t>(i)];
      const double share = level.entries / s.entries, arrivals = 1 - (before + share * (level.runs + 1) / 2 / level.runs) / 3;
      before += share;
      runs.push_back({static_cast<std::uint64_t>(level.entries), level.runs * tuning.tile_pages, arrivals});
      memory += level.entries * level.bits_per_entry;
      ours += arrivals * level.runs * tuning.tile_pages * level.false_positive_rate;
    }
    CAPTURE(round, t);
    CHECK(memory <= tuning.filter_bits * (1 + 1e-9));
    CHECK(ours == Approx(allocate_filters(runs, tuning.filter_bits, FilterCurve::kIdeal).lookup_pages).epsilon(1e-6));
  }
}

// Autumn, section 3.2, has c = 0.8, T = 2 and six levels: level 1 has 0.18 % of the data and 30 % of the writes.
TEST_CASE("Autumn's example is modelled: level 1 has 0.18 % of the data and about 30 % of the writes") {
  System s = endure_system();
  Tuning t = tuning_of(Layout::kGarnering, 2, 5, s);
  t.scaling_ratio = 0.8;
  t.level0_runs = 1;
  t.buffer_bits = s.data_bits() / buffers_of_full_tree(t, 6, Equations::kEngine);
  const CostReport report = costs_of(s, t, {1, 0, 0, 0});
  REQUIRE(report.levels == 7);  // including level 0, which is empty at rest
  const LevelCost& first = report.level[1];
  CHECK(first.entries / s.entries == Approx(0.0018).margin(0.0001));
  CHECK(first.writes / (report.write_amplification - 1) == Approx(0.30).margin(0.1));
  // Eq. 9: the false positive rates are proportional to the capacities.
  for (std::size_t i = 2; i <= 6; ++i) {
    CHECK(report.level[i].false_positive_rate / report.level[i - 1].false_positive_rate ==
          Approx(report.level[i].entries / report.level[i - 1].entries).epsilon(1e-6));
  }
}

// Lethe, section 4.2.4, has 400 GB, 4 KB pages, 50 M point reads at 2 % and 10 K short ranges between two range deletes: h is
// about 100.
TEST_CASE("Lethe's example is modelled: about a hundred pages per tile cost as much as one page") {
  constexpr double kPages = 1e8, kPoints = 5e7, kRanges = 1e4, kLevels = 8, kRate = 0.02;
  const auto cost = [&](double h) { return kPoints * kRate * h + kRanges * kLevels * h + kPages / h; };
  CHECK(cost(92.59) == Approx(cost(1)).epsilon(1e-3));
  // The model has the same trade-off: reads grow in proportion to h, and secondary deletes become cheaper.
  System s = endure_system();
  s.write_asymmetry = 0;
  Tuning t = klsm({1}, 10, 0, s);
  const CostReport flat = costs_of(s, t, kEven);
  t.tile_pages = 8;
  const CostReport tiled = costs_of(s, t, kEven);
  CHECK(tiled.costs[kRange] == Approx(8 * flat.costs[kRange]));
  CHECK(tiled.costs[kEmptyRead] == Approx(8 * flat.costs[kEmptyRead]));
  CHECK(flat.secondary_delete == Approx(s.entries / 4));
  CHECK(tiled.secondary_delete == Approx(s.entries / 32));
}

TEST_CASE("memory grows: the mean cost of an operation never rises") {
  System s = endure_system();
  for (const FilterCurve curve : {FilterCurve::kIdeal, FilterCurve::kBlocked}) {
    s.filter_curve = curve;
    for (const Layout layout : kLayouts) {
      Tuning t = tuning_of(layout, 6, 2, s);
      t.runs = {3, 2};
      double before = 1e300;
      for (double bits = 0; bits <= 12; bits += curve == FilterCurve::kIdeal ? 0.25 : 2) {
        t.filter_bits = bits * s.entries;
        const double cost = mean_cost(kEven, costs_of(s, t, kEven).costs);
        CAPTURE(layout_name(layout), bits);
        CHECK(cost <= before * (1 + 1e-3));
        before = cost;
      }
      t.filter_bits = 5 * s.entries;
      before = 1e300;
      for (double buffer = 1e7; buffer < 1e12; buffer *= 1.7) {
        t.buffer_bits = buffer;
        // With merges of single files the last level has less weight as the others grow with the buffer, so writes are not
        // compared there.
        if (layout == Layout::kGarnering) break;
        const CostReport report = costs_of(s, t, kEven, Equations::kPaper);
        CHECK(report.costs[kWrite] <= before * (1 + 1e-9));
        before = report.costs[kWrite];
      }
    }
  }
}

TEST_CASE("levels have more runs: writes are cheaper, and reads are dearer") {
  const System s = endure_system();
  for (const Equations equations : {Equations::kEngine, Equations::kPaper}) {
    CostReport before = costs_of(s, klsm({1}, 13, 5, s), kEven, equations);
    for (const double runs : {2.0, 3.0, 4.0, 6.0, 12.0}) {
      const CostReport now = costs_of(s, klsm({runs}, 13, 5, s), kEven, equations);
      CHECK(now.costs[kWrite] < before.costs[kWrite]);
      CHECK(now.costs[kRange] > before.costs[kRange]);
      CHECK(now.costs[kEmptyRead] >= before.costs[kEmptyRead]);
      CHECK(now.costs[kRead] >= before.costs[kRead]);
      before = now;
    }
  }
}

// Runs are never split, so T = 6 and K = 2 give runs of three and two units (Endure, Figure 2b), and K = 4 gives three runs of
// two.
TEST_CASE("level merges as a whole: effective_runs() returns the runs that it has at most, such as 3 for T = 6 and K = 4") {
  CHECK(effective_runs(6, 1) == 1);
  CHECK(effective_runs(6, 2) == 2);
  CHECK(effective_runs(6, 3) == 3);
  CHECK(effective_runs(6, 4) == 3);
  CHECK(effective_runs(6, 5) == 5);
  CHECK(effective_runs(2, 1) == 1);
}

TEST_CASE("tuning is random: all levels together have all entries, and each false positive rate is a probability") {
  Random random(11);
  for (int round = 0; round < 300; ++round) {
    System s = endure_system();
    s.entries = 1 + static_cast<double>(random.uniform(1'000'000'000));
    s.filter_curve = round % 10 == 0 ? FilterCurve::kBlocked : FilterCurve::kIdeal;
    Tuning t = tuning_of(kLayouts[random.uniform(7)], 2 + static_cast<double>(random.uniform(60)), 0, s);
    t.runs = {1 + static_cast<double>(random.uniform(9)), 1 + static_cast<double>(random.uniform(9))};
    t.filter_bits = static_cast<double>(random.uniform(12)) * s.entries;
    t.buffer_bits = 1e5 * static_cast<double>(1 + random.uniform(1'000'000));
    t.scaling_ratio = 0.25 + static_cast<double>(random.uniform(76)) / 100;
    const CostReport report = costs_of(s, t, kEven);
    double held = 0;
    for (int i = 0; i < report.levels; ++i) {
      const LevelCost& level = report.level[static_cast<std::size_t>(i)];
      held += level.entries;
      CHECK(level.entries >= 0);
      CHECK(level.false_positive_rate > 0);
      CHECK(level.false_positive_rate <= 1);
      CHECK((level.writes > 0 || level.entries == 0));
    }
    CAPTURE(round, layout_name(t.layout), t.size_ratio);
    CHECK(held == Approx(s.entries));
    for (const double cost : report.costs) CHECK((std::isfinite(cost) && cost >= 0));
    CHECK(report.transient_space <= 2 + 1e-9);
  }
}

TEST_CASE("level is cached in part: its page reads are multiplied by its miss ratio") {
  System s = endure_system();
  const Tuning t = klsm({2}, 8, 5, s);
  const CostReport cold = costs_of(s, t, kEven);
  s.miss_ratios = {0.5};
  const CostReport warm = costs_of(s, t, kEven);
  for (const Operation read : {kEmptyRead, kRead, kRange}) CHECK(warm.costs[read] == Approx(cold.costs[read] / 2));
  CHECK(warm.costs[kWrite] == cold.costs[kWrite]);
  s.miss_ratios = {0, 1};  // only level 1 is cached
  CHECK(costs_of(s, t, kEven).costs[kRange] == cold.costs[kRange] - 2);
}

TEST_CASE("deletes have a deadline: their cost is rewrites of the last level, unless ordinary merges rewrite it in time") {
  System s = endure_system();
  s.entries = 1e8;
  s.deletes.share = 0.1;
  Tuning t = klsm({1}, 10, 5, s);
  t.buffer_bits = 1e8;
  CHECK(costs_of(s, t, kEven).delete_work == 0);
  s.deletes.writes_per_deadline = 1e6;  // a hundredth of the entries is written within each deadline
  const CostReport report = costs_of(s, t, kEven);
  CHECK(report.delete_work > 0);
  // All of the last level is rewritten within each deadline plus the wait for a file's next delete.
  const LevelCost& last = report.level[static_cast<std::size_t>(report.levels - 1)];
  const double wait = last.entries / s.deletes.entries_per_file / 0.1;
  CHECK(report.delete_work == Approx(2 / s.entries_per_page() * (last.entries / (1e6 + wait) - last.writes)));
  s.deletes.writes_per_deadline = 1e8;
  CHECK(costs_of(s, t, kEven).delete_work == 0);
}

TEST_CASE("last level has one run: the longest merge rewrites the whole level, otherwise a part of it") {
  const System s = endure_system();
  const double data = s.entries * s.entry_bytes;
  Tuning one = klsm({1}, 47, 5, s);
  one.buffer_bits = s.data_bits() / (47 * 47 - 1);
  CHECK(costs_of(s, one, kEven).transient_space > 1.9);
  Tuning many = one;
  many.runs = {46};
  CHECK(costs_of(s, many, kEven).longest_merge_bytes == Approx(data * 47 / (47 * 47 - 1)));
  Tuning by_file = one;
  by_file.layout = Layout::kLeveling;
  CHECK(costs_of(s, by_file, kEven).transient_space < 1.1);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
