#include "filter/monkey.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/invariant.h"
#include "filter/bloom.h"

namespace ebbtide {
namespace {

constexpr double kLn2Squared = 0.480453013918201424667;

/// ln p as a function of the bits per entry, made of straight lines that become flatter. So p is convex, and -p' has each value
/// only once.
class ConvexCurve {
 public:
  /// Computes the lower hull of `points`, each a pair (bits, ln p). The hull starts at (0, 0).
  explicit ConvexCurve(const std::vector<std::pair<double, double>>& points) {
    for (const auto& point : points) {
      while (knots_.size() > 1 && slope(knots_[knots_.size() - 2], knots_.back()) >= slope(knots_.back(), point))
        knots_.pop_back();
      knots_.push_back(point);
    }
    for (std::size_t knot = 1; knot < knots_.size(); ++knot) steepness_.push_back(fall(knot) * std::exp(knots_[knot].second));
  }

  /// Returns the bits of the first point of the input after (0, 0) that lies on the hull. Filters with fewer bits have a higher
  /// false positive rate than the hull, so they save fewer page reads than the hull says.
  [[nodiscard]] double first_touch() const { return knots_[1].first; }

  /// Returns the bits at which -p' is `steepness` > 0. Returns 0 if -p' is smaller everywhere, and the end of the curve if it
  /// is larger everywhere.
  [[nodiscard]] double bits_at(double steepness) const {
    // Finds the first line at whose end -p' is at most `steepness`.
    const auto at = std::partition_point(steepness_.begin(), steepness_.end(), [&](double end) { return end > steepness; });
    const auto low = static_cast<std::size_t>(at - steepness_.begin()) + 1;
    if (low == knots_.size()) return knots_.back().first;
    const double over = std::log(fall(low) / steepness) + knots_[low - 1].second;
    return knots_[low - 1].first + std::max(0.0, over / fall(low));
  }

 private:
  static double slope(const std::pair<double, double>& a, const std::pair<double, double>& b) {
    return (b.second - a.second) / (b.first - a.first);
  }
  /// Returns -d ln p / d bits on the line that ends at a knot.
  [[nodiscard]] double fall(std::size_t knot) const { return -slope(knots_[knot - 1], knots_[knot]); }

  std::vector<std::pair<double, double>> knots_;
  std::vector<double> steepness_;  // -p' at the end of each line, descending
};

const ConvexCurve& convex(FilterCurve curve) {
  static const ConvexCurve ideal({{0, 0}, {kMaxBitsPerKey, -kMaxBitsPerKey * kLn2Squared}});
  static const ConvexCurve blocked = [] {
    std::vector<std::pair<double, double>> points = {{0, 0}};
    for (double bits = 0.25; bits <= kMaxBitsPerKey; bits += 0.25)
      points.emplace_back(bits, std::log(expected_false_positive_rate(bits)));
    return ConvexCurve(points);
  }();
  return curve == FilterCurve::kIdeal ? ideal : blocked;
}

double weight(const FilterRun& run) { return run.arrivals * run.pages_per_tile; }

FilterBits finish(std::span<const FilterRun> runs, std::vector<double> bits, FilterCurve curve) {
  FilterBits out;
  out.bits_per_entry = std::move(bits);
  for (std::size_t r = 0; r < runs.size(); ++r) {
    out.false_positive_rates.push_back(false_positive_rate(curve, out.bits_per_entry[r]));
    out.bits += static_cast<double>(runs[r].entries) * out.bits_per_entry[r];
  }
  out.lookup_pages = lookup_pages(runs, out.bits_per_entry, curve);
  return out;
}

using Fixed = std::vector<std::optional<double>>;  // for each run: bits per entry that it must get; no value = free

FilterBits solve(std::span<const FilterRun> runs, double budget_bits, FilterCurve curve, const Fixed& fixed) {
  const ConvexCurve& p = convex(curve);
  std::vector<double> bits(runs.size(), 0);
  const auto spend = [&](double mu) {
    double sum = 0;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const auto entries = static_cast<double>(runs[r].entries);
      bits[r] = fixed[r] ? *fixed[r] : entries > 0 && weight(runs[r]) > 0 ? p.bits_at(mu * entries / weight(runs[r])) : 0;
      sum += entries * bits[r];
    }
    return sum;
  };
  double most = 0;  // above this mu no run gets any bits
  for (const FilterRun& run : runs) {
    ASSERT(run.pages_per_tile >= 1 && run.arrivals >= 0 && run.arrivals <= 1);
    if (run.entries > 0) most = std::max(most, weight(run) / static_cast<double>(run.entries));
  }
  if (most == 0 || !(budget_bits > 0)) return finish(runs, std::vector<double>(runs.size(), 0), curve);
  double low = std::log(most) - 80,
         high = std::log(most);  // bounds of ln mu: at `low` the budget is exceeded, at `high` no bits are used
  if (spend(std::exp(low)) > budget_bits) {
    for (int i = 0; i < 100; ++i) {
      const double middle = (low + high) / 2;
      if (middle == low || middle == high) break;
      (spend(std::exp(middle)) > budget_bits ? low : high) = middle;
    }
    spend(std::exp(high));
  }
  return finish(runs, std::move(bits), curve);
}

constexpr std::size_t kTriedSingly = 16;

/// Rounds filters that are too small to be useful: more than 0 but fewer than `touch` bits per entry. A level of many equal runs
/// can have many. Gives each such run `touch` bits or none, the most useful runs first, within the bits that `now` gives these
/// runs. Returns `fixed` with these values. Returns an empty list for at most kTriedSingly such runs: the caller then tries each
/// run, which costs two solve() calls per run.
Fixed all_or_nothing(std::span<const FilterRun> runs, const FilterBits& now, const Fixed& fixed, double touch) {
  std::vector<std::size_t> few;
  double left = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const double bits = now.bits_per_entry[r];
    if (fixed[r] || bits <= 0 || bits >= touch) continue;
    few.push_back(r);
    left += static_cast<double>(runs[r].entries) * bits;
  }
  if (few.size() <= kTriedSingly) return {};
  const auto worth = [&](std::size_t r) { return weight(runs[r]) / static_cast<double>(runs[r].entries); };
  std::stable_sort(few.begin(), few.end(), [&](std::size_t a, std::size_t b) { return worth(a) > worth(b); });
  Fixed all = fixed;
  for (const std::size_t r : few) {
    const double bits = static_cast<double>(runs[r].entries) * touch;
    all[r] = bits <= left ? touch : 0;
    if (bits <= left) left -= bits;
  }
  return all;
}

double entries_of(std::span<const FilterRun> runs) {
  double sum = 0;
  for (const FilterRun& run : runs) sum += static_cast<double>(run.entries);
  return sum;
}

/// Returns the fraction a of lookups that reach a run of the last level and do not find their key there (Eq. 13).
double last_level_arrivals(const FullTree& tree) {
  const double found = tree.mix / (tree.mix + 1);
  if (!tree.tiering) return 1 - found;
  return 1 - found * tree.size_ratio / (tree.size_ratio - 1) / 2;
}

}  // namespace

double false_positive_rate(FilterCurve curve, double bits_per_entry) {
  if (curve == FilterCurve::kBlocked) return expected_false_positive_rate(bits_per_entry);
  return std::exp(-kLn2Squared * std::clamp(bits_per_entry, 0.0, kMaxBitsPerKey));
}

double lookup_pages(std::span<const FilterRun> runs, std::span<const double> bits_per_entry, FilterCurve curve) {
  ASSERT(runs.size() == bits_per_entry.size());
  double sum = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (runs[r].entries > 0) sum += weight(runs[r]) * false_positive_rate(curve, bits_per_entry[r]);
  }
  return sum;
}

FilterBits allocate_filters(std::span<const FilterRun> runs, double budget_bits, FilterCurve curve) {
  Fixed fixed(runs.size());
  FilterBits best = solve(runs, budget_bits, curve, fixed);
  if (curve == FilterCurve::kIdeal) return best;
  // A filter has at least one probe, so a filter with fewer bits than first_touch() is worse than the hull says. A run with such
  // a filter gets no filter instead, or a filter of first_touch() bits, whichever is better. Unless a level has many runs, rarely
  // more than one run has such a filter.
  const double touch = convex(curve).first_touch();
  const std::size_t tries = 2 * runs.size();  // bits that one run frees may give another run a filter that is too small
  for (std::size_t i = 0; i < tries; ++i) {
    const std::size_t r = i % runs.size();
    if (fixed[r] || best.bits_per_entry[r] <= 0 || best.bits_per_entry[r] >= touch) continue;
    if (const Fixed all = all_or_nothing(runs, best, fixed, touch); !all.empty()) {
      FilterBits other = solve(runs, budget_bits, curve, all);
      const bool better = other.bits <= budget_bits * (1 + 1e-12) && other.lookup_pages < best.lookup_pages;
      return better ? other : best;
    }
    std::optional<double> better;
    for (const double bits : {0.0, touch}) {
      fixed[r] = bits;
      FilterBits other = solve(runs, budget_bits, curve, fixed);
      if (other.bits > budget_bits * (1 + 1e-12) || other.lookup_pages >= best.lookup_pages) continue;
      best = std::move(other);
      better = bits;
    }
    fixed[r] = better;
  }
  return best;
}

FilterBits allocate_filters_per_key(std::span<const FilterRun> runs, double bits_per_key, FilterCurve curve) {
  return allocate_filters(runs, bits_per_key * entries_of(runs), curve);
}

FilterBits allocate_uniform(std::span<const FilterRun> runs, double budget_bits, FilterCurve curve) {
  const double entries = entries_of(runs);
  const double each = entries == 0 ? 0 : std::clamp(budget_bits / entries, 0.0, kMaxBitsPerKey);
  return finish(runs, std::vector<double>(runs.size(), each), curve);
}

// Let x = M ln(2)^2 / N, q = mu n_L, p_{L-i} = q / T^i and p_L = q / a. Then Eq. 4 says x = ln(T) / (T - 1) - ln q + (T - 1) / T
// ln a. So the last level has no filter (q = a) from x = ln(T) / (T - 1) - ln(a) / T on. The tree above it then has N / T
// entries, and all its lookups miss.
int unfiltered_levels(const FullTree& tree, double budget_bits) {
  ASSERT(tree.size_ratio > 1 && tree.levels >= 1 && tree.entries > 0 && tree.mix >= 0);
  const double t = tree.size_ratio, x = std::max(budget_bits, 0.0) * kLn2Squared / tree.entries;
  if (x >= std::log(t) / (t - 1) - std::log(last_level_arrivals(tree)) / t) return 0;
  int levels = 1;
  for (double threshold = std::log(t) / (t - 1) / t; levels < tree.levels && x < threshold; threshold /= t) ++levels;
  return levels;
}

double lookup_cost(const FullTree& tree, double budget_bits) {
  const double t = tree.size_ratio, found = tree.mix / (tree.mix + 1);
  const double x = std::max(budget_bits, 0.0) * kLn2Squared / tree.entries;
  const double runs = tree.tiering ? t - 1 : 1;
  const int without = unfiltered_levels(tree, budget_bits);
  // R, the expected page reads for false positives, is q T / (T - 1) runs, with a = 1 where the last level has no filter.
  const double scale = std::pow(t, t / (t - 1)) * runs / (t - 1);
  if (without == 0) return scale * std::pow(last_level_arrivals(tree), (t - 1) / t) * std::exp(-x) + found;
  const double filtered = without == tree.levels ? 0 : scale * std::exp(-x * std::pow(t, without));
  const double last = tree.tiering ? (1 - found) * (t - 1) + found * t / 2 : 1;
  return filtered + (without - 1) * runs + last;
}

}  // namespace ebbtide
