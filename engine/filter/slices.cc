#include "filter/slices.h"

#include <algorithm>
#include <cmath>
#include <queue>

#include "base/invariant.h"
#include "filter/bloom.h"

namespace ebbtide {
namespace {

// The smallest slice, in bits per key. A smaller filter has only one probe, so it avoids the fewest page reads per bit of memory
// (monkey.h). And each slice costs a lookup one more cache line.
constexpr double kLeastSliceBits = 1.5;
// If the tree grows by a level below a run, the run's filters need log2(T) / ln 2 more bits per key: 3.7 at T = 6, and 4.8 at T =
// 10. The constant is about the mean. A table needs no reserve for a second level: compactions rewrite the table before the tree
// grows again.
constexpr double kReserveBits = 4;
// The worth of a slice that is in memory is multiplied by this factor, so that slices are not loaded and dropped repeatedly.
constexpr double kStay = 1.25;
constexpr double kOverBudget = 1.0 / 32;

/// The next slice of a table. Ordered by `worth`, the page reads saved per bit.
struct Candidate {
  double worth;
  std::size_t table;
  bool operator<(const Candidate& other) const {
    // If both have the same worth, the table with the smaller index comes first.
    return worth != other.worth ? worth < other.worth : table > other.table;
  }
};

}  // namespace

std::vector<std::vector<double>> cut_filters(std::span<const FilterRun> runs, double bits_per_key) {
  std::vector<std::vector<double>> slices(runs.size());
  if (!(bits_per_key > 0) || runs.empty()) return slices;
  const FilterBits allocation = allocate_filters_per_key(runs, bits_per_key);
  const auto largest = static_cast<std::size_t>(
      std::max_element(runs.begin(), runs.end(), [](const FilterRun& a, const FilterRun& b) { return a.entries < b.entries; }) -
      runs.begin());
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const double now = allocation.bits_per_entry[run];
    if (runs[run].entries == runs[largest].entries) {
      if (now > 0) slices[run].push_back(now);
      slices[run].push_back(kReserveBits);
      continue;
    }
    const double there = std::min(now, allocation.bits_per_entry[largest]);
    if (there < kLeastSliceBits || now - there < kLeastSliceBits) {
      slices[run] = {std::max(now, kLeastSliceBits)};
    } else {
      slices[run] = {there, now - there};
    }
  }
  return slices;
}

std::vector<std::uint32_t> choose_slices(std::span<const FilterRun> runs, std::span<const SlicedTable> tables,
                                         double budget_bits) {
  std::vector<std::uint32_t> chosen(tables.size(), 0);
  std::vector<double> rates(tables.size(), 1);  // for each table, the false positive rate with the slices chosen so far
  std::priority_queue<Candidate> candidates;
  const double over = budget_bits * kOverBudget;
  double left = budget_bits;
  const auto offer = [&](std::size_t t) {
    const SlicedTable& table = tables[t];
    const FilterRun& run = runs[table.run];
    if (chosen[t] >= table.have.size() || run.entries == 0) return;
    const SliceWorth& slice = table.have[chosen[t]];
    if (!(slice.bits > 0)) return;
    const double share = static_cast<double>(table.entries) / static_cast<double>(run.entries);
    const double spared = run.arrivals * run.pages_per_tile * share * rates[t] * (1 - slice.rate);
    const bool here = chosen[t] < table.loaded;
    if (spared > 0) candidates.push({spared / slice.bits * (here ? kStay : 1), t});
  };
  for (std::size_t t = 0; t < tables.size(); ++t) offer(t);
  while (!candidates.empty()) {
    const std::size_t t = candidates.top().table;
    candidates.pop();
    const SliceWorth& slice = tables[t].have[chosen[t]];
    // If this slice does not fit, the table's later slices are not tried: they are worth less.
    const bool fits = slice.bits <= left + over && (chosen[t] == 0 || left >= slice.bits / 2);
    if (!fits) continue;
    left -= slice.bits;
    rates[t] *= slice.rate;
    ++chosen[t];
    offer(t);
  }
  return chosen;
}

std::vector<std::uint32_t> choose_slices_evenly(std::span<const SlicedTable> tables, double bits_per_key) {
  std::vector<std::uint32_t> chosen;
  for (const SlicedTable& table : tables) {
    std::uint32_t best = 0, count = 0;
    double sum = 0, nearest = 0;
    const double wanted = bits_per_key * static_cast<double>(table.entries);
    for (const SliceWorth& slice : table.have) {
      sum += slice.bits;
      ++count;
      if (wanted > 0 && (best == 0 || std::abs(sum - wanted) < nearest)) {
        best = count;
        nearest = std::abs(sum - wanted);
      }
    }
    chosen.push_back(best);
  }
  return chosen;
}

}  // namespace ebbtide
