// Compares filter memory by run with Monkey's closed forms, with its Algorithm 2 and with moved bits, and p(bits) with real
// filters.
#include "filter/monkey.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.h"
#include "filter/bloom.h"
#include "filter/slices.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr double kLn2Squared = 0.480453013918201424667;

/// Returns a full tree, smallest level first. The last level has (T - 1) / T of `entries`.
std::vector<FilterRun> full_tree(const FullTree& tree) {
  std::vector<FilterRun> runs;
  const double found = tree.mix / (tree.mix + 1), t = tree.size_ratio;
  for (int level = 1; level <= tree.levels; ++level) {
    const double entries = tree.entries * (t - 1) / t / std::pow(t, tree.levels - level);
    const int count = tree.tiering ? static_cast<int>(t) - 1 : 1;
    FilterRun run;
    run.entries = static_cast<std::uint64_t>(std::llround(entries / count));
    // Eq. 13: with tiering a key that exists is found after half of the last level's runs.
    if (level == tree.levels) run.arrivals = tree.tiering ? 1 - found * t / (t - 1) / 2 : 1 - found;
    runs.insert(runs.end(), static_cast<std::size_t>(count), run);
  }
  return runs;
}

/// Monkey's Algorithms 2 to 4: moves bits between pairs of runs, in ever smaller amounts, while that helps.
double algorithm_2(const std::vector<FilterRun>& runs, double budget) {
  std::vector<double> bits(runs.size(), 0);
  bits[0] = budget;
  const auto rate = [&](std::size_t r, double b) { return std::exp(-b / static_cast<double>(runs[r].entries) * kLn2Squared); };
  const auto total = [&] {
    double sum = 0;
    for (std::size_t r = 0; r < runs.size(); ++r) sum += rate(r, bits[r]);
    return sum;
  };
  for (double delta = budget; delta >= 1;) {
    bool moved = false;
    const auto try_switch = [&](std::size_t to, std::size_t from) {
      const double gain =
          rate(to, bits[to]) + rate(from, bits[from]) - rate(to, bits[to] + delta) - rate(from, bits[from] - delta);
      if (gain <= 0 || bits[from] - delta < 0) return;
      bits[to] += delta;
      bits[from] -= delta;
      moved = true;
    };
    for (std::size_t i = 0; i + 1 < runs.size(); ++i) {
      for (std::size_t j = i + 1; j < runs.size(); ++j) {
        try_switch(i, j);
        try_switch(j, i);
      }
    }
    if (!moved) delta /= 2;
  }
  return total();
}

TEST_CASE("filters are built: their measured false positive rates match p(bits)", "[monkey]") {
  Random random(5);
  for (const double bits : {0.5, 1.0, 1.5, 2.0, 3.3, 5.0, 7.5, 10.0, 12.0}) {
    constexpr std::uint64_t kKeys = 100'000, kQuestions = 1'000'000;
    BloomBuilder builder(1);
    for (std::uint64_t i = 0; i < kKeys; ++i) builder.add(0, random.next());
    const std::string bytes = builder.build(bits, 0);
    const BloomView view = *BloomView::parse(bytes);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < kQuestions; ++i) wrong += view.candidates(random.next());
    const double seen = static_cast<double>(wrong) / kQuestions;
    // Blocks are whole, so a filter has slightly more bits than requested.
    const double real_bits = static_cast<double>(view.bits()) / kKeys;
    const double noise = 4 * std::sqrt(seen / kQuestions);
    INFO(bits << " bits, " << real_bits << " really");
    CHECK(false_positive_rate(FilterCurve::kBlocked, real_bits) == Approx(seen).epsilon(0.04).margin(noise));
  }
}

TEST_CASE("filter memory is allocated: rates are proportional to entries / (pages * probability that a lookup arrives)",
          "[monkey]") {
  const std::vector<FilterRun> runs = {{1'000, 1, 1}, {10'000, 1, 1}, {10'000, 4, 1}, {10'000, 1, 0.5}, {100'000, 8, 0.25}};
  const FilterBits a = allocate_filters_per_key(runs, 8, FilterCurve::kIdeal);
  const auto& p = a.false_positive_rates;
  for (const double rate : p) REQUIRE(rate < 1);
  CHECK(p[1] / p[0] == Approx(10));
  CHECK(p[1] / p[2] == Approx(4));
  CHECK(p[3] / p[1] == Approx(2));
  CHECK(p[4] / p[1] == Approx(10.0 / 8 * 4));
  CHECK(a.bits == Approx(8.0 * 131'000));
  double spent = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) spent += static_cast<double>(runs[r].entries) * a.bits_per_entry[r];
  CHECK(spent == Approx(a.bits));
}

TEST_CASE("tree is full: rates and lookup costs match Monkey's Eqs. 5 to 8 and 14 to 20", "[monkey]") {
  for (const bool tiering : {false, true}) {
    for (const double t : {2.0, 4.0, 10.0}) {
      for (const double mix : {0.0, 0.5, 3.0}) {
        // There are enough levels that the paper's infinite sums can replace finite ones.
        const FullTree tree{t, t == 2 ? 16 : 9, 1e10, tiering, mix};
        const std::vector<FilterRun> runs = full_tree(tree);
        const double last = mix / (mix + 1);
        for (const double bits : {0.02, 0.1, 0.3, 0.7, 1.5, 2.5, 5.0, 10.0}) {
          INFO((tiering ? "tiering" : "leveling") << " T " << t << " v " << mix << " bits " << bits);
          const FilterBits a = allocate_filters(runs, bits * tree.entries, FilterCurve::kIdeal);
          // A found key costs the read of its page. Runs of the last level that are searched before it count in its arrivals.
          CHECK(a.lookup_pages + last == Approx(lookup_cost(tree, bits * tree.entries)).epsilon(0.01));
          const int without = unfiltered_levels(tree, bits * tree.entries);
          const std::size_t per_level = tiering ? static_cast<std::size_t>(t) - 1 : 1;
          for (int level = tree.levels; level >= 1; --level) {
            const double p = a.false_positive_rates[static_cast<std::size_t>(level - 1) * per_level];
            if (level > tree.levels - without) CHECK(p > 0.95);
            if (level < tree.levels - without && level > 1 &&
                a.bits_per_entry[static_cast<std::size_t>(level - 2) * per_level] < 31) {
              // Eqs. 5, 6, 16, 17: the rate is T times smaller one level up.
              CHECK(p / a.false_positive_rates[static_cast<std::size_t>(level - 2) * per_level] == Approx(t).epsilon(0.01));
            }
          }
        }
      }
    }
  }
  // The threshold of Eq. 8 is 1.44 bits an entry at T = 2.
  const FullTree two{2, 16, 1e9, false, 0};
  CHECK(unfiltered_levels(two, 1.45e9) == 0);
  CHECK(unfiltered_levels(two, 1.43e9) == 1);
  CHECK(unfiltered_levels(two, 0) == 16);
  CHECK(lookup_cost(two, 0) == 16);
  // With T = 2 tiering and leveling give the same tree, if no key is found.
  CHECK(lookup_cost({2, 16, 1e9, true, 0}, 5e9) == Approx(lookup_cost(two, 5e9)));
}

TEST_CASE("runs have any sizes: the allocation costs as much as that of Monkey's Algorithm 2", "[monkey]") {
  Random random(11);
  for (int round = 0; round < 20; ++round) {
    std::vector<FilterRun> runs(2 + random.uniform(5));
    double entries = 0;
    for (FilterRun& run : runs) {
      run.entries = 100 + random.uniform(std::uint64_t{1} << (8 + random.uniform(8)));
      entries += static_cast<double>(run.entries);
    }
    const double budget = entries * (0.5 + 9 * random.fraction());
    const double found = algorithm_2(runs, budget);
    const double ours = allocate_filters(runs, budget, FilterCurve::kIdeal).lookup_pages;
    CHECK(ours <= found * (1 + 1e-9));
    CHECK(ours == Approx(found).epsilon(0.005).margin(1e-6));
  }
}

TEST_CASE("filter memory is allocated: moving bits between two runs never reduces page reads", "[monkey]") {
  Random random(17);
  for (int round = 0; round < 50; ++round) {
    std::vector<FilterRun> runs(2 + random.uniform(6));
    for (FilterRun& run : runs) {
      run.entries = 100 + random.uniform(1'000'000);
      run.pages_per_tile = static_cast<double>(1 + random.uniform(8));
      run.arrivals = 0.1 + 0.9 * random.fraction();
    }
    const double per_key = 2 + 12 * random.fraction();
    const FilterBits a = allocate_filters_per_key(runs, per_key);
    double budget = 0;
    for (const FilterRun& run : runs) budget += per_key * static_cast<double>(run.entries);
    CHECK(a.bits <= budget * (1 + 1e-9));
    CHECK(a.bits > budget * (1 - 1e-6));
    for (std::size_t from = 0; from < runs.size(); ++from) {
      for (std::size_t to = 0; to < runs.size(); ++to) {
        const double moved = static_cast<double>(std::min(runs[from].entries, runs[to].entries)) / 4;
        std::vector<double> bits = a.bits_per_entry;
        bits[from] -= moved / static_cast<double>(runs[from].entries);
        bits[to] += moved / static_cast<double>(runs[to].entries);
        if (from == to || bits[from] < 0 || bits[to] > kMaxBitsPerKey) continue;
        // Real filters have whole numbers of probes: their p is convex except for some thousandths, and not at all below a bit.
        CHECK(lookup_pages(runs, bits, FilterCurve::kBlocked) > a.lookup_pages * 0.99);
      }
    }
    CHECK(a.lookup_pages <= allocate_uniform(runs, budget).lookup_pages * (1 + 1e-6));
  }
}

TEST_CASE("filter budget is 0, negative, tiny or huge, or runs are empty: the allocation stays within its limits", "[monkey]") {
  const std::vector<FilterRun> runs = {{1'000, 1, 1}, {0, 1, 1}, {50'000, 1, 0}, {9'000, 2, 1}};
  for (const FilterCurve curve : {FilterCurve::kBlocked, FilterCurve::kIdeal}) {
    const FilterBits none = allocate_filters(runs, 0, curve);
    CHECK(none.bits_per_entry == std::vector<double>{0, 0, 0, 0});
    CHECK(none.lookup_pages == 3);
    CHECK(none.bits == 0);
    CHECK(allocate_filters(runs, -5, curve).bits == 0);
    const FilterBits all = allocate_filters(runs, 1e12, curve);
    CHECK(all.bits_per_entry == std::vector<double>{kMaxBitsPerKey, 0, 0, kMaxBitsPerKey});
    const FilterBits few = allocate_filters(runs, 100, curve);  // a tenth of a bit per entry of the first run
    CHECK(few.bits_per_entry[0] == Approx(0.1));
    CHECK(few.bits_per_entry[3] == 0);
    CHECK(allocate_filters({}, 100, curve).lookup_pages == 0);
  }
  CHECK(allocate_uniform(runs, 60'000 * 40.0).bits_per_entry[0] == kMaxBitsPerKey);
  CHECK(allocate_uniform({}, 10).bits == 0);
}

TEST_CASE("filters get a little more memory: page reads of a lookup fall, even for a tenth of a bit", "[monkey]") {
  const std::vector<FilterRun> runs = full_tree({6, 4, 1e7, false, 0});
  double last = 1e9;
  for (double bits = 0.1; bits < 12; bits += 0.1) {
    const FilterBits a = allocate_filters_per_key(runs, bits);
    CHECK(a.lookup_pages < last);
    last = a.lookup_pages;
  }
  // The paper's promise, at ten bits: less than half of the cost of the same memory spread evenly over four levels.
  const FilterBits monkey = allocate_filters_per_key(runs, 10), even = allocate_uniform(runs, monkey.bits);
  CHECK(monkey.lookup_pages < even.lookup_pages / 2);
}

/// A tree of one table per run. Each table is built for the tree `built`; the tree `now` chooses among the tables' slices.
struct SlicedTree {
  std::vector<std::vector<SliceWorth>> worths;
  std::vector<SlicedTable> tables;

  void add(std::size_t run, std::uint64_t entries, const std::vector<double>& slices) {
    std::vector<SliceWorth>& worth = worths.emplace_back();
    for (const double bits : slices) {
      worth.push_back({bits * static_cast<double>(entries), false_positive_rate(FilterCurve::kBlocked, bits)});
    }
    tables.push_back({run, entries, {}, 0});
  }
  std::vector<std::uint32_t> choose(const std::vector<FilterRun>& runs, double budget) {
    for (std::size_t t = 0; t < tables.size(); ++t) tables[t].have = worths[t];
    return choose_slices(runs, tables, budget);
  }
  [[nodiscard]] double bits(const std::vector<std::uint32_t>& chosen) const {
    double sum = 0;
    for (std::size_t t = 0; t < tables.size(); ++t) {
      for (std::uint32_t s = 0; s < chosen[t]; ++s) sum += worths[t][s].bits;
    }
    return sum;
  }
  [[nodiscard]] double pages(const std::vector<FilterRun>& runs, const std::vector<std::uint32_t>& chosen) const {
    double sum = 0;
    for (std::size_t t = 0; t < tables.size(); ++t) {
      const FilterRun& run = runs[tables[t].run];
      double rate = run.arrivals * static_cast<double>(tables[t].entries) / static_cast<double>(run.entries);
      for (std::uint32_t s = 0; s < chosen[t]; ++s) rate *= worths[t][s].rate;
      sum += rate;
    }
    return sum;
  }
};

double entries_of(const std::vector<FilterRun>& runs) {
  double sum = 0;
  for (const FilterRun& run : runs) sum += static_cast<double>(run.entries);
  return sum;
}

TEST_CASE("filter is cut into slices: the first is a filter for the largest run, all together are one for the table's run",
          "[monkey][slices]") {
  const std::vector<FilterRun> runs = full_tree({6, 4, 1e7, false, 0});
  const FilterBits a = allocate_filters_per_key(runs, 10);
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const std::vector<double> slices = cut_filters(runs, 10)[r];
    REQUIRE(slices.size() == 2);
    CHECK(slices[0] == Approx(a.bits_per_entry[3]));
    if (r < 3) CHECK(slices[0] + slices[1] == Approx(a.bits_per_entry[r]));
  }
  CHECK(cut_filters(runs, 0)[0].empty());
  // There is no memory for the last level: its tables have only the reserve, and those above have all of their bits in one slice.
  REQUIRE(allocate_filters_per_key(runs, 0.2).bits_per_entry[3] == 0);
  CHECK(cut_filters(runs, 0.2)[3].size() == 1);
  CHECK(cut_filters(runs, 0.2)[0].size() == 1);
}

TEST_CASE("level has a thousand runs: for any budget, filters are nearly as good as the ideal allocation", "[monkey][slices]") {
  // Runs of the first level differ by up to a tenth; the second level has 100 times as many entries in ten runs.
  std::vector<FilterRun> runs;
  for (std::uint64_t i = 0; i < 1023; ++i) runs.push_back({100'000 + 10 * i, 1, 1});
  for (int i = 0; i < 10; ++i) runs.push_back({102'400'000, 1, 1});
  for (const double bits : {0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 10.0}) {
    CAPTURE(bits);
    const FilterBits real = allocate_filters_per_key(runs, bits);
    const FilterBits ideal = allocate_filters_per_key(runs, bits, FilterCurve::kIdeal);
    CHECK(real.bits <= bits * entries_of(runs) * (1 + 1e-9));
    CHECK(real.lookup_pages >= ideal.lookup_pages);
    CHECK(real.lookup_pages <= lookup_pages(runs, ideal.bits_per_entry, FilterCurve::kBlocked) * 1.0001);
    CHECK(cut_filters(runs, bits).size() == runs.size());
  }
}

TEST_CASE("tables' filters fit the present tree: all slices but the reserve are in memory, and page reads are fewest",
          "[monkey][slices]") {
  for (const double bits : {2.0, 5.0, 10.0, 16.0}) {
    const std::vector<FilterRun> runs = full_tree({6, 4, 1e7, false, 0});
    SlicedTree tree;
    for (std::size_t r = 0; r < runs.size(); ++r) tree.add(r, runs[r].entries, cut_filters(runs, bits)[r]);
    const std::vector<std::uint32_t> chosen = tree.choose(runs, bits * entries_of(runs));
    CHECK(chosen[3] == 1);
    CHECK(tree.bits(chosen) <= bits * entries_of(runs) * (1 + 1.0 / 32));
    CHECK(tree.pages(runs, chosen) <= allocate_filters_per_key(runs, bits).lookup_pages * 1.05);
  }
}

TEST_CASE("tree grows by a level: other filter slices are kept in memory, and no table is rewritten", "[monkey][slices]") {
  // A level of 36 tables was the last. Then a level six times as large is added below it.
  const std::vector<FilterRun> before = {{60'000, 1, 1}, {360'000, 1, 1}};
  std::vector<FilterRun> after = before;
  after.push_back({2'160'000, 1, 1});
  SlicedTree tree;
  tree.add(0, 60'000, cut_filters(before, 10)[0]);
  for (int i = 0; i < 36; ++i) tree.add(1, 10'000, cut_filters(before, 10)[1]);
  std::vector<std::uint32_t> chosen = tree.choose(before, 10 * entries_of(before));
  const auto with_reserve = [&] { return std::count(chosen.begin() + 1, chosen.begin() + 37, 2u); };
  CHECK(with_reserve() == 0);
  const double expected = tree.pages(before, chosen);
  for (int i = 0; i < 216; ++i) tree.add(2, 10'000, cut_filters(after, 10)[2]);
  chosen = tree.choose(after, 10 * entries_of(after));
  CHECK(with_reserve() == 36);
  CHECK(std::count(chosen.begin() + 37, chosen.end(), 0u) == 0);
  CHECK(tree.bits(chosen) <= 10 * entries_of(after) * (1 + 1.0 / 32));
  CHECK(tree.pages(after, chosen) < allocate_filters_per_key(after, 10).lookup_pages * 1.1);
  CHECK(tree.pages(after, chosen) < expected * 2);
  // The opposite case: a table written for a small run is moved to a large run, and has too many bits there.
  SlicedTree moved;
  const std::vector<FilterRun> small = {{10'000, 1, 1}, {2'160'000, 1, 1}}, large = {{2'160'000, 1, 1}};
  for (int i = 0; i < 216; ++i) moved.add(0, 10'000, cut_filters(small, 10)[0]);
  chosen = moved.choose(large, 10 * entries_of(large));
  CHECK(std::count(chosen.begin(), chosen.end(), 1u) >= 210);
  CHECK(std::count(chosen.begin(), chosen.end(), 0u) == 0);
  CHECK(moved.bits(chosen) <= 10 * entries_of(large) * (1 + 1.0 / 32));
}

TEST_CASE("filter slices are chosen again: loaded ones stay unless others are clearly better", "[monkey][slices]") {
  const std::vector<FilterRun> runs = {{2'000, 1, 1}};
  const std::vector<SliceWorth> one = {{8'000, 0.02}}, other = {{8'000, 0.022}}, better = {{4'000, 0.02}};
  const auto chosen = [&](const std::vector<SliceWorth>& second, double budget) {
    return choose_slices(runs, std::vector<SlicedTable>{{0, 1'000, one, 0}, {0, 1'000, second, 1}}, budget);
  };
  CHECK(chosen(other, 8'000) == std::vector<std::uint32_t>{0, 1});
  CHECK(chosen(better, 4'000) == std::vector<std::uint32_t>{0, 1});
  CHECK(chosen(other, 16'000) == std::vector<std::uint32_t>{1, 1});
  CHECK(chosen(other, 0) == std::vector<std::uint32_t>{0, 0});
  CHECK(choose_slices(runs, std::vector<SlicedTable>{{0, 1'000, better, 1}, {0, 1'000, one, 0}}, 8'000)[0] == 1);
  const std::vector<SliceWorth> three = {{4'000, 0.1}, {4'000, 0.1}, {4'000, 0.1}};
  const std::vector<SlicedTable> table = {{0, 1'000, three, 3}};
  CHECK(choose_slices_evenly(table, 8) == std::vector<std::uint32_t>{2});
  CHECK(choose_slices_evenly(table, 1) == std::vector<std::uint32_t>{1});
  CHECK(choose_slices_evenly(table, 0) == std::vector<std::uint32_t>{0});
  CHECK(choose_slices_evenly(table, 30) == std::vector<std::uint32_t>{3});
}

}  // namespace TEST_FILE
}  // namespace ebbtide
