// Every merge policy, with parameters that give a small tree several levels or runs, and every partitioning: for what has to hold over
// any of them.
#pragma once

#include <cstdint>
#include <vector>

#include <engine/options.h>

namespace ebbtide {

inline const std::vector<PolicySettings>& small_policies() {
  static const std::vector<PolicySettings> all = {
      {"one_leveling", {{"size_ratio", 2}, {"level0_runs", 3}}},
      {"leveling", {{"size_ratio", 2}}},
      {"tiering", {{"size_ratio", 3}}},
      {"lazy_leveling", {{"size_ratio", 3}}},
      {"klsm", {{"size_ratio", 4}, {"runs", 2}}},
      {"garnering", {{"level0_runs", 2}}},
      {"bigtable", {{"k", 3}}},
      {"constant", {{"k", 3}}},
      {"exploring", {{"k", 3}}},
      {"concurrent", {{"k", 4}}},
      {"min_latency", {{"k", 3}}},
      {"binomial", {{"k", 3}}},
  };
  return all;
}

/// A policy and a partitioning. Policies take turns; once around, each has another partitioning, so that a multiple of three times
/// their number has all pairs.
struct Layout {
  PolicySettings policy;
  Partitioning partitioning = Partitioning::kSize;
};
inline Layout layout_of(std::uint64_t turn) {
  const std::uint64_t policies = small_policies().size();
  return {small_policies()[turn % policies], static_cast<Partitioning>((turn + turn / policies) % 3)};
}

}  // namespace ebbtide
