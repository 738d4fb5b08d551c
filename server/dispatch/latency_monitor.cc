#include "dispatch/latency_monitor.h"

#include <algorithm>

namespace ebbtide {
namespace {

constexpr std::size_t kRows = 4, kColumns = 80;
/// The character at the top of a column, by its height within the row. Below the top, columns are drawn as bars.
constexpr Bytes kTops = "_o#";

std::string age_text(std::int64_t seconds) {
  constexpr std::pair<std::int64_t, char> kUnits[] = {{86'400, 'd'}, {3'600, 'h'}, {60, 'm'}};
  for (const auto& [unit, letter] : kUnits) {
    if (seconds >= unit) return std::to_string(seconds / unit) + letter;
  }
  return std::to_string(seconds) + "s";
}

}  // namespace

void LatencyMonitor::add(Bytes event, std::uint64_t ms, std::int64_t unix_seconds) {
  const std::uint64_t threshold = threshold_ms();
  if (threshold == 0 || ms < threshold) return;
  std::lock_guard lock(mutex_);
  auto it = events_.find(event);
  if (it == events_.end()) it = events_.emplace(std::string(event), Event{}).first;
  auto& [samples, max_ms] = it->second;
  max_ms = std::max(max_ms, ms);
  if (!samples.empty() && samples.back().unix_seconds == unix_seconds) {
    samples.back().ms = std::max(samples.back().ms, ms);
    return;
  }
  if (samples.size() == kSamples) samples.erase(samples.begin());
  samples.push_back({unix_seconds, ms});
}

std::map<std::string, LatencyMonitor::Event> LatencyMonitor::events() const {
  std::lock_guard lock(mutex_);
  return {events_.begin(), events_.end()};
}

LatencyMonitor::Event LatencyMonitor::event(Bytes name) const {
  std::lock_guard lock(mutex_);
  const auto it = events_.find(name);
  return it == events_.end() ? Event{} : it->second;
}

bool LatencyMonitor::reset(Bytes name) {
  std::lock_guard lock(mutex_);
  const auto it = events_.find(name);
  if (it == events_.end()) return false;
  events_.erase(it);
  return true;
}

std::size_t LatencyMonitor::reset_all() {
  std::lock_guard lock(mutex_);
  const std::size_t n = events_.size();
  events_.clear();
  return n;
}

std::string draw_latency(Bytes name, const LatencyMonitor::Event& event, std::int64_t now_unix_seconds) {
  const auto& samples = event.samples;
  const auto [low, high] =
      std::minmax_element(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.ms < b.ms; });
  std::string out = std::string(name) + " - high " + std::to_string(high->ms) + " ms, low " + std::to_string(low->ms) +
                    " ms (all time high " + std::to_string(event.max_ms) + " ms)\n" + std::string(kColumns, '-') + "\n";
  const double span = std::max<double>(1, static_cast<double>(high->ms - low->ms));
  const std::size_t steps = kTops.size() * kRows;
  for (std::size_t from = 0; from < samples.size(); from += kColumns) {
    const std::size_t n = std::min(kColumns, samples.size() - from);
    if (from != 0) out += "\n";
    for (std::size_t row = 0; row < kRows; ++row) {
      const std::size_t below = (kRows - row - 1) * kTops.size();
      for (std::size_t i = from; i < from + n; ++i) {
        const auto step =
            std::min(static_cast<std::size_t>(static_cast<double>((samples[i].ms - low->ms) * steps) / span), steps - 1);
        out += step < below ? ' ' : step - below < kTops.size() ? kTops[step - below] : '|';
      }
      out += "\n";
    }
    out += "\n";
    std::vector<std::string> labels;
    std::size_t longest = 0;
    for (std::size_t i = from; i < from + n; ++i) {
      longest = std::max(longest, labels.emplace_back(age_text(now_unix_seconds - samples[i].unix_seconds)).size());
    }
    for (std::size_t row = 0; row < longest; ++row) {
      for (const std::string& label : labels) out += row < label.size() ? label[row] : ' ';
      out += "\n";
    }
  }
  return out;
}

}  // namespace ebbtide
