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
constexpr double kMostFilterBits = 32;  // of TreeSettings::filter_bits_per_key

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
