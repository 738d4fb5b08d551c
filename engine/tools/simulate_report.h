// Prints the results of simulations: an aligned table, CSV, a plot of characters, an SVG.
#pragma once

#include <string>
#include <vector>

#include "tools/simulate.h"

namespace ebbtide {

/// The results of one policy over time. All series of a report have the same moments.
struct SimulationSeries {
  std::string label;
  std::vector<SimulationSample> samples;
};

/// A result that can be plotted.
struct SimulationMetric {
  const char* name;  ///< the name in the CSV's header
  const char* title;
  double (*value)(const SimulationSample& sample);
};
const std::vector<SimulationMetric>& simulation_metrics();
/// Returns null if no metric has this name.
const SimulationMetric* find_simulation_metric(const std::string& name);

/// Returns CSV, a line for each policy and moment: policy,flushes,write_amp,avg_runs,max_runs,space_amp,transient_space_amp.
std::string csv_text(const std::vector<SimulationSeries>& series);
std::string table_text(const std::vector<SimulationSeries>& series);
/// Plots `metric` over flushes, with a letter for each policy. Both axes are logarithmic if `log` is true.
std::string plot_text(const std::vector<SimulationSeries>& series, const SimulationMetric& metric, bool log);
/// Like plot_text(), as an SVG document.
std::string svg_text(const std::vector<SimulationSeries>& series, const SimulationMetric& metric, bool log);

}  // namespace ebbtide
