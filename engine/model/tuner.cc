#include "model/tuner.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "model/number_text.h"

namespace ebbtide {
namespace {

/// Smallest score of a tuning outside the limits, far above every real cost. Scores grow with the distance from the limits, so
/// that the search moves towards them.
constexpr double kOutside = 1e12;
// Number of points in a range of the buffer: of equally spaced points, and of points of the golden-section search.
constexpr int kCoarse = 6, kFine = 24;
/// A range is not refined if its best coarse point costs more than kHopeless times the best cost so far: within a range the cost
/// is smooth, so a finer search cannot gain that much.
constexpr double kHopeless = 1.1;
// Smallest share of the memory for the buffer, once a tuning within the limits is found.
constexpr double kSmallestShareOfMemory = 1e-3;
constexpr std::size_t kCandidates = 6;  // number of candidates that are compared with the engine's filter curve

double over(double value, double limit) { return value > limit * (1 + 1e-9) ? value / limit : 0; }

double outside(const CostReport& report, const Limits& limits) {
  return over(report.transient_space, limits.transient_space) + over(report.longest_merge_bytes, limits.longest_merge_bytes) +
         over(report.costs[kEmptyRead], limits.point_read) + over(report.costs[kRead], limits.point_read) +
         over(report.costs[kWrite], limits.write);
}

struct Candidate {
  double score = std::numeric_limits<double>::infinity();
  Tuning tuning;
};

/// The search within one layout.
class LayoutSearch {
 public:
  LayoutSearch(const TuneRequest& request, const System& system) : r_(request), s_(system) {}

  /// Returns the best tuning for each T, c and h.
  std::vector<Candidate> candidates(Layout layout) {
    const std::vector<double> none = {1};
    std::vector<double> tiles = {1};
    if (r_.tile_pages) {
      tiles = {*r_.tile_pages};
    } else if (s_.deletes.secondary_per_operation > 0) {
      tiles = {1, 2, 4, 8, 16, 32, 64};
    }
    std::vector<Candidate> all;
    for (const double tile_pages : tiles) {
      for (const double c : layout == Layout::kGarnering ? r_.scaling_ratios : none) {
        Tuning tuning;
        tuning.layout = layout;
        tuning.scaling_ratio = c;
        tuning.level0_runs = layout == Layout::kLeveling ? 1 : r_.level0_runs;
        tuning.tile_pages = tile_pages;
        search_size_ratios(tuning, &all);
      }
    }
    return all;
  }

  /// Returns `tuning` with the best division of the memory; the other fields stay.
  Candidate best_memory(Tuning tuning) {
    if (r_.filter_bits) {
      tuning.filter_bits = *r_.filter_bits;
      tuning.buffer_bits = *r_.buffer_bits;
      return with_runs(tuning);
    }
    Candidate best;
    for (int levels = 1; levels <= kMostLevels; ++levels) {
      const double low = std::max(s_.data_bits() / buffers_of_full_tree(tuning, levels, r_.equations), r_.smallest_buffer_bits);
      const double above = levels == 1 ? s_.memory_bits : s_.data_bits() / buffers_of_full_tree(tuning, levels - 1, r_.equations);
      const double high = std::min(above * (1 - 1e-7), s_.memory_bits);
      if (high < r_.smallest_buffer_bits && levels > 1) break;
      // Even smaller buffers would give hardly more memory to the filters.
      if (high < s_.memory_bits * kSmallestShareOfMemory && best.score < kOutside) break;
      if (low > high) continue;
      search(tuning, low, high, &best);
    }
    return best;
  }

 private:
  /// Adds the best tuning for each T that is tried to `all`; the other fields have the values of `tuning`.
  void search_size_ratios(Tuning tuning, std::vector<Candidate>* all) {
    const auto score_at = [&](int t) {
      tuning.size_ratio = t;
      all->push_back(best_memory(tuning));
      best_ = std::min(best_, all->back().score);
      return all->back().score;
    };
    double best = std::numeric_limits<double>::infinity();
    int best_at = 0;
    const auto step_after = [](int t) { return t < kEachSizeRatio ? 1 : std::max(1, t / 20); };
    for (int t = r_.size_ratio_min;; t = std::min(t + step_after(t), r_.size_ratio_max)) {
      if (const double score = score_at(t); score < best) {
        best = score;
        best_at = t;
      }
      if (t == r_.size_ratio_max) break;
    }
    // Halves the distance to the neighbours of the best T.
    for (int step = step_after(best_at) / 2; step >= 1; step /= 2) {
      for (const int t : {best_at - step, best_at + step}) {
        if (t < r_.size_ratio_min || t > r_.size_ratio_max) continue;
        if (const double score = score_at(t); score < best) {
          best = score;
          best_at = t;
        }
      }
    }
  }

  Candidate at(Tuning tuning, double buffer_bits) {
    tuning.buffer_bits = buffer_bits;
    tuning.filter_bits = std::max(0.0, s_.memory_bits - buffer_bits);
    return with_runs(tuning);
  }

  /// Searches the best buffer from `low` to `high` bits, and replaces `*best` if it is better.
  void search(const Tuning& tuning, double low, double high, Candidate* best) {
    Candidate here;
    int where = 0;
    for (int i = 0; i <= kCoarse; ++i) {
      Candidate point = at(tuning, low + (high - low) * i / kCoarse);
      if (point.score >= here.score) continue;
      here = std::move(point);
      where = i;
    }
    if (here.score <= kHopeless * std::min(best_, best->score)) {
      const double step = (high - low) / kCoarse;
      double a = low + step * std::max(where - 1, 0), b = low + step * std::min(where + 1, kCoarse);
      constexpr double kGolden = 0.618033988749895;
      double left = b - kGolden * (b - a), right = a + kGolden * (b - a);
      Candidate at_left = at(tuning, left), at_right = at(tuning, right);
      for (int i = 0; i < kFine; ++i) {
        if (at_left.score <= at_right.score) {
          b = right;
          right = left;
          at_right = std::move(at_left);
          left = b - kGolden * (b - a);
          at_left = at(tuning, left);
        } else {
          a = left;
          left = right;
          at_left = std::move(at_right);
          right = a + kGolden * (b - a);
          at_right = at(tuning, right);
        }
      }
      if (at_left.score < here.score) here = std::move(at_left);
      if (at_right.score < here.score) here = std::move(at_right);
    }
    if (here.score < best->score) *best = std::move(here);
  }

  [[nodiscard]] double score(const Tuning& tuning) const {
    const CostReport report = costs_of(s_, tuning, r_.mix, r_.equations);
    const double far = outside(report, r_.limits);
    if (far > 0) return kOutside * (1 + far);
    return worst_case(r_.mix, report.costs, r_.rho).cost + s_.deletes.secondary_per_operation * report.secondary_delete;
  }

  /// Returns `tuning` with the best values of K_i, if its layout has a choice of them.
  Candidate with_runs(Tuning tuning) {
    const bool fluid = tuning.layout == Layout::kFluid;
    if (!fluid && tuning.layout != Layout::kKlsm) return {score(tuning), std::move(tuning)};
    const auto groups = static_cast<std::size_t>(fluid ? 2 : levels_needed(s_, tuning, r_.equations));
    set_choices(tuning.size_ratio);
    // The best runs for the previous point are a good start for this point.
    if (chosen_.size() != groups ||
        std::any_of(chosen_.begin(), chosen_.end(), [&](std::size_t at) { return at >= choices_.size(); }))
      chosen_.assign(groups, 0);
    tuning.runs.resize(groups);
    for (std::size_t i = 0; i < groups; ++i) tuning.runs[i] = choices_[chosen_[i]];
    Candidate best{score(tuning), tuning};
    for (bool moved = choices_.size() > 1; moved;) {
      moved = false;
      for (std::size_t i = 0; i < groups; ++i) moved |= step_one(i, &best);
    }
    return best;
  }

  /// Lists each K for T that gives a different tree: in the engine several K lead to the same runs.
  void set_choices(double size_ratio) {
    if (std::exchange(choices_for_, size_ratio) == size_ratio) return;
    choices_.clear();
    for (double k = 1; k < size_ratio; ++k) {
      if (r_.equations != Equations::kEngine || effective_runs(size_ratio, k) == k) choices_.push_back(k);
    }
  }

  /// Changes one K as long as the score falls, by steps that double. Returns true if K has changed.
  bool step_one(std::size_t i, Candidate* best) {
    bool moved = false;
    const auto last = static_cast<std::ptrdiff_t>(choices_.size()) - 1;
    for (const std::ptrdiff_t direction : {1, -1}) {
      for (std::ptrdiff_t step = 1; step >= 1;) {
        const auto now = static_cast<std::ptrdiff_t>(chosen_[i]);
        const std::ptrdiff_t next = std::clamp<std::ptrdiff_t>(now + direction * step, 0, last);
        Tuning other = best->tuning;
        other.runs[i] = choices_[static_cast<std::size_t>(next)];
        const double cost = next == now ? best->score : score(other);
        if (cost < best->score * (1 - 1e-12)) {
          *best = {cost, std::move(other)};
          chosen_[i] = static_cast<std::size_t>(next);
          moved = true;
          step *= 2;
        } else {
          step = step > 1 ? 1 : 0;
        }
      }
    }
    return moved;
  }

  const TuneRequest& r_;
  const System& s_;
  double best_ = std::numeric_limits<double>::infinity();
  std::vector<double> choices_;      // values of K for the current T, ascending
  double choices_for_ = 0;           // the T to which choices_ belongs
  std::vector<std::size_t> chosen_;  // index into choices_, by group of levels
};

Status check_request(const TuneRequest& r) {
  TRY(check_system(r.system));
  TRY(check_mix(r.mix));
  const auto wrong = [](const std::string& what) { return Status::invalid_argument(what); };
  if (!(r.rho >= 0 && r.rho <= 1e6)) return wrong("rho is " + number_text(r.rho) + "; allowed: 0 or more");
  if (r.layouts.empty()) return wrong("no layout is given");
  if (r.size_ratio_min < 2 || r.size_ratio_max < r.size_ratio_min || r.size_ratio_max > kLargestSizeRatio)
    return wrong("size ratios are " + std::to_string(r.size_ratio_min) + " to " + std::to_string(r.size_ratio_max) +
                 "; allowed: 2 to " + std::to_string(kLargestSizeRatio) + ", the smaller first");
  for (const double c : r.scaling_ratios) {
    if (!(c >= 0.1 && c <= 1)) return wrong("scaling_ratio is " + number_text(c) + "; allowed: 0.1 to 1");
  }
  if (r.level0_runs < 1 || r.level0_runs > 64)
    return wrong("level0_runs is " + std::to_string(r.level0_runs) + "; allowed: 1 to 64");
  if (r.tile_pages && !(*r.tile_pages >= 1 && *r.tile_pages <= 64))
    return wrong("pages_per_tile is " + number_text(*r.tile_pages) + "; allowed: 1 to 64");
  if (r.filter_bits.has_value() != r.buffer_bits.has_value())
    return wrong("filter memory and buffer must both be fixed, or neither");
  if (r.filter_bits && !(*r.filter_bits >= 0 && *r.buffer_bits >= 1))
    return wrong("filter memory must be 0 bytes or more, and buffer above 0 bytes");
  if (!r.filter_bits && !(r.smallest_buffer_bits >= 1 && r.smallest_buffer_bits <= r.system.memory_bits))
    return wrong("memory is " + number_text(r.system.memory_bits / 8) + " bytes; allowed: at least the smallest buffer, " +
                 number_text(r.smallest_buffer_bits / 8));
  return Status::ok();
}

}  // namespace

Advice assess(const TuneRequest& request, const Tuning& tuning) {
  Advice advice;
  advice.tuning = tuning;
  advice.report = costs_of(request.system, tuning, request.mix, request.equations);
  advice.worst = worst_case(request.mix, advice.report.costs, request.rho);
  const double secondary = request.system.deletes.secondary_per_operation;
  advice.mean = advice.report.mean(request.mix, secondary);
  advice.score = advice.worst.cost + secondary * advice.report.secondary_delete;
  return advice;
}

Result<std::vector<Advice>> tune(const TuneRequest& request) {
  TRY(check_request(request));
  System ideal = request.system;
  ideal.filter_curve = FilterCurve::kIdeal;
  std::vector<Advice> advices;
  for (const Layout layout : request.layouts) {
    std::vector<Candidate> candidates = LayoutSearch(request, ideal).candidates(layout);
    std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.score < b.score; });
    candidates.resize(std::min(candidates.size(), kCandidates));
    std::optional<Advice> best;
    for (const Candidate& candidate : candidates) {
      if (candidate.score >= kOutside) continue;
      Advice advice = assess(request, candidate.tuning);
      if (outside(advice.report, request.limits) == 0 && (!best || advice.score < best->score)) best = std::move(advice);
    }
    if (best) advices.push_back(std::move(*best));
  }
  if (advices.empty()) return Status::invalid_argument("no tuning of the given layouts keeps the limits");
  std::stable_sort(advices.begin(), advices.end(), [](const auto& a, const auto& b) { return a.score < b.score; });
  return advices;
}

}  // namespace ebbtide
