#include "model/cost.h"

#include <algorithm>
#include <cmath>

#include "base/invariant.h"
#include "policy/garnering.h"

namespace ebbtide {
namespace {

constexpr double kLn2Squared = 0.480453013918201424667;

/// True if the layout merges whole levels. Endure's leveling and 1-leveling do; the engine's policies of these names move files
/// one by one.
bool whole_levels(const Tuning& tuning, Equations equations) {
  switch (tuning.layout) {
    case Layout::kLeveling:
    case Layout::kOneLeveling:
      return equations != Equations::kEngine;
    case Layout::kGarnering:
      return false;
    default:
      return true;
  }
}

bool engine_filters(const Tuning& tuning, Equations equations) {
  return equations == Equations::kEngine || !whole_levels(tuning, equations);
}

/// Returns R, the number of flushes that merge into level 1 together.
double flushes_per_merge(const Tuning& tuning) { return tuning.layout == Layout::kLeveling ? 1 : tuning.level0_runs; }

/// Returns C_i, the capacity of a level in buffers, in a tree of `levels` levels.
double capacity(const Tuning& t, int levels, int level, bool whole) {
  if (whole) return (t.size_ratio - 1) * std::pow(t.size_ratio, level - 1);
  if (t.layout == Layout::kGarnering) return garnering_capacity({t.size_ratio, t.scaling_ratio, t.level0_runs}, levels, level);
  return std::max(t.size_ratio, flushes_per_merge(t)) * std::pow(t.size_ratio, level - 1);
}

/// Returns K_i, at most T - 1 (Endure, Table 3).
double runs_at(const Tuning& t, int levels, int level) {
  const double most = std::max(1.0, t.size_ratio - 1);
  switch (t.layout) {
    case Layout::kTiering:
      return most;
    case Layout::kLazyLeveling:
      return level == levels ? 1 : most;
    case Layout::kOneLeveling:
      return level == 1 ? most : 1;
    case Layout::kFluid:
      return std::min(most, level == levels ? t.runs[1] : t.runs[0]);
    case Layout::kKlsm:
      return std::min(most, t.runs[std::min<std::size_t>(static_cast<std::size_t>(level), t.runs.size()) - 1]);
    default:
      return 1;
  }
}

/// Returns q, the number of units (outputs of the level above) in a run of a whole level.
double units_per_run(double size_ratio, double runs) { return std::ceil((size_ratio - 1) / runs - 1e-9); }

/// Returns A_i of a whole level of the engine. The first T - 1 units fill runs of q units; the p-th unit of a run counts p, and
/// the T-th unit counts 1. A_i is the sum divided by T.
double writes_of_whole_level(double size_ratio, double runs, bool first) {
  const double q = units_per_run(size_ratio, runs), full = std::floor((size_ratio - 1) / q + 1e-9),
               rest = size_ratio - 1 - full * q;
  double sum = full * q * (q + 1) / 2 + rest * (rest + 1) / 2 + 1;
  // A flush is written before it merges, so a flush that joins a run is written once more.
  if (first) sum += size_ratio - 1 - full - (rest > 0.5 ? 1 : 0);
  return sum / size_ratio;
}

double miss_ratio(const System& system, int level) {
  if (system.miss_ratios.empty()) return 1;
  const auto at = static_cast<std::size_t>(std::max(level, 1)) - 1;
  return system.miss_ratios[std::min(at, system.miss_ratios.size() - 1)];
}

/// Computes the levels of a tree, and from them its costs, step by step.
class Model {
 public:
  Model(const System& system, const Tuning& tuning, const PerOperation& mix, Equations equations)
      : s_(system), t_(tuning), mix_(mix), equations_(equations), whole_(whole_levels(tuning, equations)) {}

  CostReport report() {
    set_levels();
    set_writes();
    set_filters();
    set_costs();
    set_merges();
    return out_;
  }

 private:
  [[nodiscard]] LevelCost& last() { return out_.level[static_cast<std::size_t>(out_.levels) - 1]; }
  template <class F>
  void each(F f) {
    for (int i = 0; i < out_.levels; ++i) f(out_.level[static_cast<std::size_t>(i)], out_.first_level + i);
  }

  void set_levels() {
    const double buffer = t_.buffer_bits / 8 / s_.entry_bytes;  // entries
    deepest_ = levels_needed(s_, t_, equations_);
    out_.level_count = deepest_;
    out_.first_level = whole_ ? 1 : 0;
    out_.levels = deepest_ + (whole_ ? 0 : 1);
    double left = s_.entries;
    each([&](LevelCost& level, int i) {
      level.miss_ratio = miss_ratio(s_, i);
      level.runs = i == 0 ? flushes_per_merge(t_) - 1 : whole_ ? runs_at(t_, deepest_, i) : 1;
      // A run of the engine is full with q units, so a level may have fewer than K_i runs.
      if (whole_ && equations_ == Equations::kEngine) level.runs = effective_runs(t_.size_ratio, level.runs);
      const double holds = i == 0 ? level.runs * buffer : capacity(t_, deepest_, i, whole_) * buffer;
      // The papers' equations assume full trees.
      level.entries = equations_ != Equations::kEngine && whole_ ? holds : i == deepest_ ? left : std::min(holds, left);
      left = std::max(0.0, left - level.entries);
      // Garnering adds a level when the last level is full, and fills the level before it first: so the last level may be empty.
      if (i > 0 && level.entries <= 0) level.runs = 0;
    });
    if (equations_ == Equations::kPaperRelaxed && whole_)
      out_.level_count = std::log(s_.data_bits() / t_.buffer_bits + 1) / std::log(t_.size_ratio);
  }

  void set_writes() {
    double above = 0;  // capacity of the level above, in buffers
    each([&](LevelCost& level, int i) {
      if (whole_) {
        level.writes = equations_ == Equations::kEngine ? writes_of_whole_level(t_.size_ratio, level.runs, i == 1)
                                                        : (t_.size_ratio - 1 + level.runs) / (2 * level.runs);
        return;
      }
      const double holds = i == 0 ? flushes_per_merge(t_) : std::max(1e-300, level.entries * s_.entry_bytes * 8 / t_.buffer_bits);
      level.writes = i == 0 ? 1 : level.runs == 0 ? 0 : 1 + (i == 1 ? 1 : kOverlap) * holds / above;
      above = i == 0 ? holds : capacity(t_, deepest_, i, false);
    });
    each([&](const LevelCost& level, int) { out_.write_amplification += level.writes; });
    if (equations_ == Equations::kPaperRelaxed) out_.write_amplification *= out_.level_count / deepest_;
  }

  void set_filters() {
    if (!engine_filters(t_, equations_)) {
      const double t = t_.size_ratio, all = std::exp(-t_.filter_bits / s_.entries * kLn2Squared);
      each([&](LevelCost& level, int i) {
        level.false_positive_rate = std::min(1.0, std::pow(t, t / (t - 1)) / std::pow(t, deepest_ + 1 - i) * all);
        level.bits_per_entry = -std::log(level.false_positive_rate) / kLn2Squared;
      });
      return;
    }
    arrivals();
    if (s_.filter_curve == FilterCurve::kIdeal) {
      allocate_ideal();
      return;
    }
    std::vector<FilterRun> runs;
    each([&](const LevelCost& level, int i) {
      const double pages = std::max(1.0, level.runs * t_.tile_pages);
      runs.push_back({static_cast<std::uint64_t>(std::llround(std::min(level.entries, 9e18))), pages,
                      level.runs == 0 ? 0 : arrivals_[static_cast<std::size_t>(i - out_.first_level)]});
    });
    const FilterBits bits = allocate_filters(runs, t_.filter_bits, s_.filter_curve);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      out_.level[i].bits_per_entry = bits.bits_per_entry[i];
      out_.level[i].false_positive_rate = bits.false_positive_rates[i];
    }
  }

  /// Computes a_i: the chance that a point read searches a run of level i and does not find its key there, averaged over the
  /// level's runs.
  void arrivals() {
    const double points = mix_[kEmptyRead] + mix_[kRead], found = points > 0 ? mix_[kRead] / points : 0;
    double before = 0;
    each([&](const LevelCost& level, int i) {
      const double share = level.entries / s_.entries, runs = std::max(1.0, level.runs);
      arrivals_[static_cast<std::size_t>(i - out_.first_level)] =
          std::clamp(1 - found * (before + share * (runs + 1) / 2 / runs), 0.0, 1.0);
      before += share;
    });
  }

  /// Computes p_i = min(1, mu n_i / (a_i h K_i)) (filter/monkey.h) exactly. A level whose p_i is 1 or more gets no filter, and mu
  /// is computed again without the level, until no p_i is above 1. This raises mu, so a level without a filter never needs one
  /// later.
  void allocate_ideal() {
    std::array<bool, kMostLevels + 1> out{};
    const auto weight = [&](const LevelCost& level, std::size_t i) { return arrivals_[i] * t_.tile_pages * level.runs; };
    const auto count = static_cast<std::size_t>(out_.levels);
    for (std::size_t i = 0; i < count; ++i) out[i] = out_.level[i].entries <= 0 || weight(out_.level[i], i) <= 1e-12;
    for (bool again = true; again;) {
      again = false;
      double entries = 0, spent = t_.filter_bits * kLn2Squared;
      for (std::size_t i = 0; i < count; ++i) {
        if (out[i]) continue;
        entries += out_.level[i].entries;
        spent += out_.level[i].entries * std::log(out_.level[i].entries / weight(out_.level[i], i));
      }
      for (std::size_t i = 0; i < count; ++i) {
        LevelCost& level = out_.level[i];
        const double log_rate = out[i] ? 0 : std::log(level.entries / weight(level, i)) - spent / entries;
        if (!out[i] && log_rate > 0) again = out[i] = true;
        level.false_positive_rate = std::exp(std::clamp(log_rate, -kMostBits * kLn2Squared, 0.0));
        level.bits_per_entry = out[i] ? 0 : -std::log(level.false_positive_rate) / kLn2Squared;
      }
    }
  }

  void set_costs() {
    const double per_page = s_.entries_per_page(), h = t_.tile_pages;
    PerOperation& costs = out_.costs;
    double all = 0, before = 0, range = 0;  // `before`: sum of the false positives of earlier levels
    each([&](const LevelCost& level, int) { all += level.entries; });
    each([&](const LevelCost& level, int) {
      const double wrong = h * level.false_positive_rate * level.miss_ratio;
      costs[kRead] += level.entries / all * (level.miss_ratio + before + std::max(0.0, level.runs - 1) / 2 * wrong);
      before += level.runs * wrong;
      range += level.runs * h * level.miss_ratio;
    });
    if (equations_ == Equations::kPaperRelaxed) range *= out_.level_count / deepest_;
    costs[kEmptyRead] = before;
    costs[kRange] = range + s_.sequential_cost * s_.range_selectivity * s_.entries / per_page;
    const double page_written = s_.sequential_cost * (1 + s_.write_asymmetry);
    costs[kWrite] = page_written / per_page * out_.write_amplification;
    out_.secondary_delete = page_written * s_.entries / per_page / h;
    const DeleteWork& deletes = s_.deletes;
    if (deletes.share == 0 || deletes.writes_per_deadline == 0) return;
    const double held = std::max(1.0, last().entries), file = std::min(deletes.entries_per_file, held);
    const double period = deletes.writes_per_deadline + held / file / deletes.share;
    out_.delete_work = page_written / per_page * std::max(0.0, held / period - last().writes);
    costs[kWrite] += out_.delete_work;
  }

  void set_merges() {
    const double buffer = t_.buffer_bits / 8, data = s_.entries * s_.entry_bytes;
    if (whole_) {
      const double unit = std::pow(t_.size_ratio, deepest_ - 1) * buffer;
      out_.longest_merge_bytes = std::min(data, units_per_run(t_.size_ratio, last().runs) * unit);
    } else {
      out_.longest_merge_bytes = std::min(data, (capacity(t_, deepest_, 1, false) + flushes_per_merge(t_)) * buffer);
    }
    out_.transient_space = 1 + out_.longest_merge_bytes / data;
  }

  static constexpr double kMostBits = 32;  // equal to kMaxBitsPerKey
  const System& s_;
  const Tuning& t_;
  const PerOperation& mix_;
  const Equations equations_;
  const bool whole_;
  int deepest_ = 1;  // L
  std::array<double, kMostLevels + 1> arrivals_{};
  CostReport out_;
};

}  // namespace

double effective_runs(double size_ratio, double runs) {
  return std::ceil((size_ratio - 1) / units_per_run(size_ratio, runs) - 1e-9);
}

double buffers_of_full_tree(const Tuning& tuning, int levels, Equations equations) {
  const bool whole = whole_levels(tuning, equations);
  if (whole) return std::pow(tuning.size_ratio, levels) - 1;
  double sum = flushes_per_merge(tuning) - 1;
  for (int i = 1; i <= levels; ++i) sum += capacity(tuning, levels, i, false);
  return sum;
}

int levels_needed(const System& system, const Tuning& tuning, Equations equations) {
  const double buffers = system.data_bits() / tuning.buffer_bits;
  if (whole_levels(tuning, equations)) {
    const double levels = std::log(buffers + 1) / std::log(tuning.size_ratio);
    return std::clamp(static_cast<int>(std::ceil(levels - 1e-9)), 1, kMostLevels);
  }
  int levels = 1;
  while (levels < kMostLevels && buffers_of_full_tree(tuning, levels, equations) < buffers * (1 - 1e-9)) ++levels;
  return levels;
}

CostReport costs_of(const System& system, const Tuning& tuning, const PerOperation& mix, Equations equations) {
  ASSERT(tuning.buffer_bits > 0 && tuning.size_ratio >= 2 && tuning.tile_pages >= 1);
  return Model(system, tuning, mix, equations).report();
}

}  // namespace ebbtide
