// How much filter memory each sorted run gets (Monkey: Dayan, Athanassoulis, Idreos, TODS 2018, section 4).
//
// A lookup that gets as far as run r without finding its key there (chance a_r) reads each page of a tile whose filter errs: h_r
// p_r pages on average. So
//
//   minimise    sum over runs of a_r h_r p_r
//   subject to  sum over runs of n_r bits(p_r) = M,   0 < p_r <= 1
//
// where n_r is the number of entries and bits(p) the bits per entry at which a filter errs with chance p. With Lagrange's
// multiplier mu, and an ideal Bloom filter's bits(p) = -ln p / ln(2)^2, the answer is p_r = min(1, mu n_r / (a_r h_r)): in
// proportion to the entries, as reading a page costs the same whatever the size of its run. All a_r = 1 is Monkey for lookups of
// keys that are not there (Eqs. 5 to 8), a smaller a of the last runs Monkey for a mix with keys that are (Eqs. 14 to 20).
//
// The filters that there are (bloom.h) are a little worse than ideal, the more bits the more. allocate_filters() works on bits,
// with the slope of p(bits) where it stands: run r gets the bits at which a_r h_r (-p'(bits)) / n_r is mu, none if that is below
// mu from the first bit on, and mu follows by bisection. For that p(bits) must be convex, which ln p as straight lines between
// quarter bits is once its lower hull is taken; the hull and the filters differ by thousandths above a bit and a half. Below that
// a filter with its one probe does less than its share, and a run gets either none or so much.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ebbtide {

struct FilterRun {
  std::uint64_t entries = 0;  ///< n_r
  double pages_per_tile = 1;  ///< h_r, at least 1
  double arrivals = 1;        ///< a_r, in [0, 1]: chance that a lookup gets here and does not find its key here
};

/// What filters p(bits) is about.
enum class FilterCurve : std::uint8_t {
  kBlocked,  ///< bloom.h, as measured and fitted
  kIdeal,    ///< an undivided Bloom filter with ln 2 bits probes each: e^(-bits ln(2)^2)
};

struct FilterBits {
  std::vector<double> bits_per_entry;        ///< by run, fractions count; 0 = no filter
  std::vector<double> false_positive_rates;  ///< by run; 1 without a filter
  double lookup_pages = 0;                   ///< sum a_r h_r p_r: pages read for nothing, a lookup
  double bits = 0;                           ///< sum n_r bits_per_entry; at most the budget
};

/// Chance that a filter errs at `bits_per_entry`, on `curve`. 1 at 0 bits and below.
double false_positive_rate(FilterCurve curve, double bits_per_entry);
/// Its inverse: bits per entry at which a filter errs with chance `rate`, in (0, 1]; kMaxBitsPerKey if no filter is so good.
double bits_for_rate(FilterCurve curve, double rate);

/// Spreads at most `budget_bits` over the runs so that lookups read the fewest pages for nothing. A filter gets at most
/// kMaxBitsPerKey bits an entry; what is then left is not spent. A run without entries, or that no lookup misses in (a_r = 0),
/// gets none.
FilterBits allocate_filters(std::span<const FilterRun> runs, double budget_bits, FilterCurve curve = FilterCurve::kBlocked);
/// As above, the budget as `bits_per_key` for every entry of all runs.
FilterBits allocate_filters_per_key(std::span<const FilterRun> runs, double bits_per_key,
                                    FilterCurve curve = FilterCurve::kBlocked);
/// For comparison: the same bits for every entry (capped at kMaxBitsPerKey).
FilterBits allocate_uniform(std::span<const FilterRun> runs, double budget_bits, FilterCurve curve = FilterCurve::kBlocked);

/// Sum of a_r h_r p_r for given bits per entry.
double lookup_pages(std::span<const FilterRun> runs, std::span<const double> bits_per_entry, FilterCurve curve);

/// The closed form for full trees of even entries and ideal filters: level i = 1 .. L of T times as many entries as the one
/// before, N entries in all but for the 1 / T^L that a tree of L levels lacks; with T - 1 runs a level (tiering) or one. `mix` is
/// v, found keys for each absent one, all in the last level (Eq. 12).
struct FullTree {
  double size_ratio = 2;
  int levels = 1;
  double entries = 0;  ///< N
  bool tiering = false;
  double mix = 0;  ///< v
};
/// L_unfiltered, the largest levels that have no filter (Eqs. 8 and 18).
int unfiltered_levels(const FullTree& tree, double budget_bits);
/// Z, the pages that a lookup reads, those of the key that it finds included (Eqs. 7, 19, 20).
double lookup_cost(const FullTree& tree, double budget_bits);

}  // namespace ebbtide
