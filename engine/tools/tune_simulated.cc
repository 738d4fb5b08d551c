#include "tools/tune_simulated.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/simulate.h"

namespace ebbtide {
namespace {

constexpr double kMoments = 256;  // approximate number of moments at which reads are counted
constexpr double kGoldenRatio = 0.618033988749895;

/// Computes the costs of point and range reads for one shape of the tree.
class ShapeReads {
 public:
  ShapeReads(const System& system, double filter_bits, const PerOperation& mix) : s_(system), filter_bits_(filter_bits) {
    const double points = mix[kEmptyRead] + mix[kRead];
    found_ = points > 0 ? mix[kRead] / points : 0;
  }

  void add_to(PerOperation* costs, const TreeShape& shape) {
    runs_.clear();
    std::vector<FilterRun> filters;
    double all = 0, before = 0, wrong = 0;
    for (const RunShape& run : shape.runs) all += static_cast<double>(run.bytes());
    // Entries per simulated byte. At later moments the simulated data are larger, but the filter bits per entry are the same.
    const double entries = s_.entries / all;
    for (const RunShape& run : shape.runs) {
      if (run.bytes() == 0) continue;
      LevelCost cost;
      cost.entries = static_cast<double>(run.bytes()) * entries;
      const double share = cost.entries / s_.entries;
      const auto level = static_cast<std::size_t>(run.level);
      cost.miss_ratio = s_.miss_ratios.empty() ? 1 : s_.miss_ratios[std::min(level, s_.miss_ratios.size() - 1)];
      filters.push_back(
          {static_cast<std::uint64_t>(std::llround(cost.entries)), 1, std::clamp(1 - found_ * (before + share), 0.0, 1.0)});
      before += share;
      runs_.push_back(cost);
    }
    const FilterBits bits = allocate_filters(filters, filter_bits_, s_.filter_curve);
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      runs_[r].bits_per_entry = bits.bits_per_entry[r];
      runs_[r].false_positive_rate = bits.false_positive_rates[r];
      (*costs)[kRead] += runs_[r].entries / s_.entries * (runs_[r].miss_ratio + wrong);
      wrong += runs_[r].false_positive_rate * runs_[r].miss_ratio;
      (*costs)[kRange] += runs_[r].miss_ratio;
    }
    (*costs)[kEmptyRead] += wrong;
  }
  [[nodiscard]] const std::vector<LevelCost>& runs() const { return runs_; }

 private:
  const System& s_;
  const double filter_bits_;
  double found_ = 0;
  std::vector<LevelCost> runs_;  // the runs of the last shape
};

}  // namespace

Result<CostReport> simulated_costs(const System& system, const PolicySettings& policy, double filter_bits, double buffer_bits,
                                   const PerOperation& mix) {
  const double buffers = std::ceil(system.data_bits() / buffer_bits - 1e-9);
  if (buffers > kMostSimulatedFlushes)
    return Status::invalid_argument("the data has " + std::to_string(static_cast<std::uint64_t>(std::min(buffers, 1e18))) +
                                    " buffers; a simulation takes at most " +
                                    std::to_string(static_cast<std::uint64_t>(kMostSimulatedFlushes)) + ": give a larger buffer");
  SimulationSettings settings;
  settings.policy = policy;
  settings.as_engine = true;
  TRY_ASSIGN(simulation, Simulation::make(settings));
  const auto flushes = std::max<std::uint64_t>(static_cast<std::uint64_t>(buffers), 2), half = flushes / 2;
  for (std::uint64_t i = 0; i < half; ++i) TRY(simulation->flush());
  const double written_before = simulation->sample().write_amp * static_cast<double>(half);
  CostReport report;
  ShapeReads reads(system, filter_bits, mix);
  // Multiples of the golden ratio have evenly spread fractions. With a fixed step, reads would always be counted with the same
  // levels.
  const double chosen = kMoments / static_cast<double>(flushes - half);
  double moments = 0;
  for (std::uint64_t i = half; i < flushes; ++i) {
    TRY(simulation->flush());
    const double place = static_cast<double>(i - half) * kGoldenRatio;
    if (place - std::floor(place) >= chosen) continue;
    reads.add_to(&report.costs, simulation->shape());
    ++moments;
  }
  for (double& cost : report.costs) cost /= moments;
  const double all = static_cast<double>(flushes), page_written = system.sequential_cost * (1 + system.write_asymmetry);
  report.write_amplification = (simulation->sample().write_amp * all - written_before) / (all - static_cast<double>(half));
  report.costs[kRange] += system.sequential_cost * system.range_selectivity * system.entries / system.entries_per_page();
  report.costs[kWrite] = page_written / system.entries_per_page() * report.write_amplification;
  report.secondary_delete = page_written * system.entries / system.entries_per_page();
  report.transient_space = simulation->sample().transient_space_amp;
  report.longest_merge_bytes = (report.transient_space - 1) * system.entries * system.entry_bytes;
  PerOperation ignored{};
  reads.add_to(&ignored, simulation->shape());  // for the report: the runs at the end of the simulation
  report.levels = static_cast<int>(std::min(reads.runs().size(), report.level.size()));
  report.level_count = report.levels;
  std::copy_n(reads.runs().begin(), report.levels, report.level.begin());
  return report;
}

}  // namespace ebbtide
