// The figures of simulations as text: an aligned table, CSV, a plot of characters, an SVG.
#pragma once

#include <string>
#include <vector>

#include "tools/simulate.h"

namespace ebbtide {

/// One policy's figures over time. All series of a report have the same moments.
struct SimulationSeries {
  std::string label;
  std::vector<SimulationSample> samples;
};

/// A figure that can be plotted.
struct SimulationMetric {
  const char* name;  ///< as in the CSV's header
  const char* title;
  double (*value)(const SimulationSample& sample);
};
const std::vector<SimulationMetric>& simulation_metrics();
/// Null if there is none of that name.
const SimulationMetric* find_simulation_metric(const std::string& name);

/// policy,flushes,write_amp,avg_runs,max_runs,space_amp,transient_space_amp: a line for each policy and moment.
std::string csv_text(const std::vector<SimulationSeries>& series);
std::string table_text(const std::vector<SimulationSeries>& series);
/// Flushes to the right, `metric` upwards, a letter for each policy; logarithmic axes if `log`.
std::string plot_text(const std::vector<SimulationSeries>& series, const SimulationMetric& metric, bool log);
/// The same as an SVG document.
std::string svg_text(const std::vector<SimulationSeries>& series, const SimulationMetric& metric, bool log);

}  // namespace ebbtide
