#include "tools/simulate_report.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace ebbtide {
namespace {

__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof(text), pattern, arguments);
  va_end(arguments);
  return text;
}

/// Maps values to positions on an axis, from 0 to 1.
class Axis {
 public:
  Axis(bool log, double low, double high) : log_(log && low > 0), low_(low), high_(std::max(high, low + 1e-9)) {}
  [[nodiscard]] double place(double value) const {
    if (log_) return std::clamp(std::log(value / low_) / std::log(high_ / low_), 0.0, 1.0);
    return std::clamp((value - low_) / (high_ - low_), 0.0, 1.0);
  }
  [[nodiscard]] double value(double place) const {
    return log_ ? low_ * std::pow(high_ / low_, place) : low_ + (high_ - low_) * place;
  }

 private:
  bool log_;
  double low_, high_;
};

struct Axes {
  Axis x, y;
};

Axes axes_of(const std::vector<SimulationSeries>& series, const SimulationMetric& metric, bool log) {
  double least = 1e300, most = 0, first = 1e300, last = 1;
  for (const SimulationSeries& one : series) {
    for (const SimulationSample& sample : one.samples) {
      least = std::min(least, metric.value(sample));
      most = std::max(most, metric.value(sample));
      first = std::min(first, static_cast<double>(sample.flushes));
      last = std::max(last, static_cast<double>(sample.flushes));
    }
  }
  // A linear axis begins at 0, so that heights can be compared.
  return {Axis(log, log ? first : 0, last), Axis(log, log ? least : 0, most)};
}

char letter_of(std::size_t i) { return static_cast<char>(i < 26 ? 'a' + i : i < 52 ? 'A' + (i - 26) : '#'); }

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

constexpr const char* kColours[] = {"#1b6ca8", "#d1495b", "#2e8b57", "#b8860b", "#6a4c93", "#333333", "#00868b", "#c71585"};

}  // namespace

const std::vector<SimulationMetric>& simulation_metrics() {
  static const std::vector<SimulationMetric> metrics = {
      {"write_amp", "write amplification", [](const SimulationSample& s) { return s.write_amp; }},
      {"avg_runs", "sorted runs, average", [](const SimulationSample& s) { return s.avg_runs; }},
      {"max_runs", "sorted runs, worst", [](const SimulationSample& s) { return static_cast<double>(s.max_runs); }},
      {"space_amp", "space amplification", [](const SimulationSample& s) { return s.space_amp; }},
      {"transient_space_amp", "transient space amplification", [](const SimulationSample& s) { return s.transient_space_amp; }},
  };
  return metrics;
}

const SimulationMetric* find_simulation_metric(const std::string& name) {
  for (const SimulationMetric& metric : simulation_metrics()) {
    if (name == metric.name) return &metric;
  }
  return nullptr;
}

std::string csv_text(const std::vector<SimulationSeries>& series) {
  std::string out = "policy,flushes,write_amp,avg_runs,max_runs,space_amp,transient_space_amp\n";
  for (const SimulationSeries& one : series) {
    for (const SimulationSample& s : one.samples) {
      out += one.label + format(",%llu,%.6f,%.6f,%llu,%.6f,%.6f\n", static_cast<unsigned long long>(s.flushes), s.write_amp,
                                s.avg_runs, static_cast<unsigned long long>(s.max_runs), s.space_amp, s.transient_space_amp);
    }
  }
  return out;
}

std::string table_text(const std::vector<SimulationSeries>& series) {
  std::size_t width = 6;
  for (const SimulationSeries& one : series) width = std::max(width, one.label.size());
  std::string out =
      "policy" + std::string(width - 6, ' ') + "     flushes  write amp  avg runs  max runs  space amp  transient\n";
  for (const SimulationSeries& one : series) {
    for (const SimulationSample& s : one.samples) {
      out += one.label + std::string(width - one.label.size(), ' ') +
             format("  %10llu  %9.3f  %8.3f  %8llu  %9.3f  %9.3f\n", static_cast<unsigned long long>(s.flushes), s.write_amp,
                    s.avg_runs, static_cast<unsigned long long>(s.max_runs), s.space_amp, s.transient_space_amp);
    }
  }
  return out;
}

std::string plot_text(const std::vector<SimulationSeries>& series, const SimulationMetric& metric, bool log) {
  constexpr std::size_t kRows = 24, kColumns = 72;
  const Axes axes = axes_of(series, metric, log);
  std::vector<std::string> grid(kRows, std::string(kColumns, ' '));
  for (std::size_t i = 0; i < series.size(); ++i) {
    for (const SimulationSample& sample : series[i].samples) {
      const auto x = static_cast<std::size_t>(std::lround(axes.x.place(static_cast<double>(sample.flushes)) * (kColumns - 1)));
      const auto y = static_cast<std::size_t>(std::lround(axes.y.place(metric.value(sample)) * (kRows - 1)));
      grid[kRows - 1 - y][x] = letter_of(i);
    }
  }
  std::string out = std::string(metric.title) + " over flushes" + (log ? ", both logarithmic" : "") + "\n";
  for (std::size_t row = 0; row < kRows; ++row) {
    const double place = 1 - static_cast<double>(row) / (kRows - 1);
    const std::string label = row % 6 == 0 || row + 1 == kRows ? format("%10.4g", axes.y.value(place)) : std::string(10, ' ');
    out += label + " |" + grid[row].substr(0, grid[row].find_last_not_of(' ') + 1) + "\n";
  }
  out += std::string(11, ' ') + "+" + std::string(kColumns, '-') + "\n";
  const std::string left = format("%.4g", axes.x.value(0)), right = format("%.4g", axes.x.value(1));
  out += std::string(12, ' ') + left + std::string(kColumns - left.size() - right.size(), ' ') + right + "\n";
  for (std::size_t i = 0; i < series.size(); ++i) out += std::string("  ") + letter_of(i) + "  " + series[i].label + "\n";
  return out;
}

std::string svg_text(const std::vector<SimulationSeries>& series, const SimulationMetric& metric, bool log) {
  constexpr double kLeft = 70, kTop = 40, kWidth = 640, kHeight = 360;
  const Axes axes = axes_of(series, metric, log);
  const double bottom = kTop + kHeight;
  std::string out = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"960\" height=\"%.0f\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      std::max(bottom + 50, kTop + 20 * static_cast<double>(series.size()) + 20));
  out += format("<text x=\"%.0f\" y=\"24\" font-size=\"15\">%s over flushes</text>\n", kLeft, metric.title);
  for (int tick = 0; tick <= 5; ++tick) {
    const double place = tick / 5.0, x = kLeft + place * kWidth, y = bottom - place * kHeight;
    out += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#dddddd\"/>\n", kLeft, y, kLeft + kWidth, y);
    out += format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n", kLeft - 6, y + 4, axes.y.value(place));
    out += format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.4g</text>\n", x, bottom + 18, axes.x.value(place));
  }
  for (std::size_t i = 0; i < series.size(); ++i) {
    const char* colour = kColours[i % std::size(kColours)];
    out += "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"" + std::string(colour) + "\" points=\"";
    for (const SimulationSample& sample : series[i].samples) {
      out += format("%.1f,%.1f ", kLeft + axes.x.place(static_cast<double>(sample.flushes)) * kWidth,
                    bottom - axes.y.place(metric.value(sample)) * kHeight);
    }
    out += "\"/>\n";
    const double y = kTop + 20 * static_cast<double>(i);
    out += format("<rect x=\"%.0f\" y=\"%.0f\" width=\"12\" height=\"12\" fill=\"%s\"/>", kLeft + kWidth + 16, y, colour);
    out += format("<text x=\"%.0f\" y=\"%.0f\">", kLeft + kWidth + 34, y + 11) + escaped(series[i].label) + "</text>\n";
  }
  return out + "</svg>\n";
}

}  // namespace ebbtide
