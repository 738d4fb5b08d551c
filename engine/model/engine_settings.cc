#include "model/engine_settings.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "model/tuner.h"
#include "policy/registry.h"

namespace ebbtide {
namespace {

constexpr int kNamedLevels = 8;         // the parameters runs_0 to runs_7 of klsm
constexpr double kMostFilterBits = 32;  // largest value of TreeSettings::filter_bits_per_key

/// Returns klsm with K_i = runs[i], the first level first. The last value holds for all deeper levels.
PolicySettings klsm(double size_ratio, const std::vector<double>& runs) {
  PolicySettings policy{"klsm", {{"size_ratio", size_ratio}, {"runs", runs.back()}}};
  const int levels = std::min(kNamedLevels, static_cast<int>(runs.size()));
  for (int i = 0; i < levels; ++i) {
    const double here = runs[static_cast<std::size_t>(i)];
    if (here != runs.back()) policy.parameters["runs_" + std::to_string(i)] = here;
  }
  return policy;
}

PolicySettings policy_of(const Tuning& t, Equations equations) {
  const double ratio = t.size_ratio;
  const bool by_file = equations == Equations::kEngine;
  switch (t.layout) {
    case Layout::kLeveling:
      return by_file ? PolicySettings{"leveling", {{"size_ratio", ratio}}} : klsm(ratio, {1});
    case Layout::kOneLeveling:
      return by_file ? PolicySettings{"one_leveling", {{"size_ratio", ratio}, {"level0_runs", t.level0_runs}}}
                     : klsm(ratio, {ratio - 1, 1});
    case Layout::kGarnering:
      return {"garnering", {{"size_ratio", ratio}, {"level0_runs", t.level0_runs}, {"scaling_ratio", t.scaling_ratio}}};
    case Layout::kFluid:
      return {"klsm", {{"size_ratio", ratio}, {"runs", t.runs[0]}, {"last_runs", t.runs[1]}}};
    case Layout::kKlsm:
      return klsm(ratio, t.runs);
    case Layout::kTiering:
    case Layout::kLazyLeveling:
      break;
  }
  return {std::string(layout_name(t.layout)), {{"size_ratio", ratio}}};
}

}  // namespace

EngineSettings engine_settings(const System& system, const Tuning& tuning, Equations equations) {
  EngineSettings out;
  out.policy = policy_of(tuning, equations);
  out.memtable_bytes = static_cast<std::uint64_t>(std::min(tuning.buffer_bits / 8 / 1024, 0x1p43)) * 1024;
  out.filter_bits_per_key = std::min(kMostFilterBits, tuning.filter_bits / system.entries);
  out.pages_per_tile = static_cast<std::uint32_t>(tuning.tile_pages);
  return out;
}

std::optional<Tuning> tuning_of(const System& system, const PolicySettings& policy, std::uint64_t memtable_bytes,
                                double filter_bits_per_key) {
  const auto layout = parse_layout(policy.name);
  if (!layout || *layout == Layout::kFluid) return std::nullopt;
  const auto infos = all_policies();
  const auto info = std::find_if(infos.begin(), infos.end(), [&](const PolicyInfo& each) { return policy.name == each.name; });
  if (info == infos.end()) return std::nullopt;
  const auto value = [&](const std::string& name, double otherwise) {
    if (const auto set = policy.parameters.find(name); set != policy.parameters.end()) return set->second;
    for (const PolicyParameter& parameter : info->parameters) {
      if (name == parameter.name) return parameter.fallback;
    }
    return otherwise;
  };
  Tuning out;
  out.layout = *layout;
  out.size_ratio = value("size_ratio", out.size_ratio);
  out.level0_runs = static_cast<int>(value("level0_runs", out.level0_runs));
  out.scaling_ratio = value("scaling_ratio", out.scaling_ratio);
  out.buffer_bits = static_cast<double>(memtable_bytes) * 8;
  out.filter_bits = filter_bits_per_key * system.entries;
  if (out.layout != Layout::kKlsm) return out;
  const double runs = value("runs", 1), last = value("last_runs", 0);
  for (int level = 0; level < kNamedLevels; ++level) {
    const double here = value("runs_" + std::to_string(level), 0);
    out.runs.push_back(here == 0 ? runs : here);
  }
  out.runs.push_back(runs);
  if (last != 0) {
    const auto levels = static_cast<std::size_t>(levels_needed(system, out, Equations::kEngine));
    out.runs.resize(levels, runs);
    out.runs.back() = last;
  }
  return out;
}

int engine_size_ratio_max() {
  double most = kLargestSizeRatio;
  for (const PolicyInfo& policy : all_policies()) {
    for (const PolicyParameter& parameter : policy.parameters) {
      if (std::string_view(parameter.name) == "size_ratio") most = std::min(most, parameter.max);
    }
  }
  return static_cast<int>(most);
}

}  // namespace ebbtide
