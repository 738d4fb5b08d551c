// Computes how much filter memory each sorted run gets (Monkey: Dayan, Athanassoulis, Idreos, TODS 2018, section 4).
//
// A lookup reaches run r, and does not find its key there, with probability a_r. The lookup then reads h_r p_r pages of the run
// on average, one for each false positive. So the problem is
//
//   minimise    sum over runs of a_r h_r p_r
//   subject to  sum over runs of n_r bits(p_r) = M,   0 < p_r <= 1
//
// For run r, n_r is the number of entries, p_r the false positive rate of a filter, and h_r the number of pages per tile. M is
// the budget in bits. bits(p) are the bits per entry with which a filter has the false positive rate p. An ideal Bloom filter
// has bits(p) = -ln p / ln(2)^2. With Lagrange's multiplier mu the answer is p_r = min(1, mu n_r / (a_r h_r)). The rate is
// proportional to the number of entries, since a false positive costs one page in any run. With all a_r = 1 this is Monkey for
// lookups of absent keys (Eqs. 5 to 8); with a smaller a_r for the last runs it is Monkey for a mix with existing keys (Eqs. 14
// to 20).
//
// Real filters (bloom.h) are a little worse than ideal ones, and more so with more bits. allocate_filters() uses the slope of
// their p(bits): run r gets the bits at which a_r h_r (-p'(bits)) / n_r is mu, or none if that slope is below mu from the first
// bit on. mu is found by bisection. Bisection needs a convex p(bits), so the lower hull of ln p is used: straight lines between
// quarter bits. Above a bit and a half per entry the hull and the filters differ by thousandths. With fewer bits, a filter has
// only one probe and is worse than the hull, so a run gets either no bits or a bit and a half per entry.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ebbtide {

struct FilterRun {
  std::uint64_t entries = 0;  ///< n_r
  double pages_per_tile = 1;  ///< h_r, at least 1
  double arrivals = 1;        ///< a_r: probability, in [0, 1], that a lookup reaches this run and does not find its key in it
};

/// The kind of filter whose p(bits) is used in the computation.
enum class FilterCurve : std::uint8_t {
  kBlocked,  ///< the filters of bloom.h, by a curve fitted to measurements
  kIdeal,    ///< an undivided Bloom filter with ln 2 times its bits per entry as number of probes: p = e^(-bits ln(2)^2)
};

struct FilterBits {
  std::vector<double> bits_per_entry;        ///< for each run, may be a fraction; 0 = no filter
  std::vector<double> false_positive_rates;  ///< for each run; 1 without a filter
  double lookup_pages = 0;                   ///< sum of a_r h_r p_r: pages that a lookup reads because of false positives
  double bits = 0;                           ///< sum of n_r bits_per_entry; at most the budget
};

/// Returns the false positive rate of a filter of this kind with `bits_per_entry`; 1 at 0 bits and below.
double false_positive_rate(FilterCurve curve, double bits_per_entry);

/// Distributes at most `budget_bits` over the runs so that false positives cost the fewest page reads. A filter gets at most
/// kMaxBitsPerKey bits per entry, so a larger budget is not used up. A run without entries, or with a_r = 0, gets no bits.
FilterBits allocate_filters(std::span<const FilterRun> runs, double budget_bits, FilterCurve curve = FilterCurve::kBlocked);
/// Like allocate_filters(), with a budget of `bits_per_key` for every entry of all runs.
FilterBits allocate_filters_per_key(std::span<const FilterRun> runs, double bits_per_key,
                                    FilterCurve curve = FilterCurve::kBlocked);
/// For comparison with Monkey: gives every entry the same number of bits (at most kMaxBitsPerKey).
FilterBits allocate_uniform(std::span<const FilterRun> runs, double budget_bits, FilterCurve curve = FilterCurve::kBlocked);

/// Returns the sum of a_r h_r p_r, with `bits_per_entry` given for each run.
double lookup_pages(std::span<const FilterRun> runs, std::span<const double> bits_per_entry, FilterCurve curve);

/// Input of the paper's closed form, for full trees with ideal filters and entries of equal sizes. Each of the levels 1 to L
/// has T times as many entries as the level before, in one run or in T - 1 runs (tiering). All levels together have N (1 - 1 /
/// T^L) entries. All found keys are in the last level (Eq. 12).
struct FullTree {
  double size_ratio = 2;
  int levels = 1;
  double entries = 0;  ///< N
  bool tiering = false;
  double mix = 0;  ///< v of Eq. 12: number of lookups of existing keys per lookup of an absent key
};
/// Returns L_unfiltered, the number of largest levels that have no filter (Eqs. 8 and 18).
int unfiltered_levels(const FullTree& tree, double budget_bits);
/// Returns Z, the number of pages that a lookup reads, including those of the key that it finds (Eqs. 7, 19, 20).
double lookup_cost(const FullTree& tree, double budget_bits);

}  // namespace ebbtide
