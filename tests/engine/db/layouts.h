// Layouts for tests whose property must hold for all of them: every merge policy, with parameters that give a small tree several
// levels or runs; every partitioning; tiles of one page and of several.
#pragma once

#include <cstdint>
#include <string>
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

/// A policy, a partitioning and a tile size. Consecutive turns have different policies. In the next cycle each policy has another
/// partitioning and tile size. Six cycles have all combinations.
struct Layout {
  PolicySettings policy;
  Partitioning partitioning = Partitioning::kSize;
  std::uint32_t pages_per_tile = 1;

  void set(TreeSettings* tree) const {
    tree->policy = policy;
    tree->partitioning = partitioning;
    tree->pages_per_tile = pages_per_tile;
  }
};
inline Layout layout_of(std::uint64_t turn) {
  const std::uint64_t policies = small_policies().size(), around = turn / policies;
  return {small_policies()[turn % policies], static_cast<Partitioning>((turn + around) % 3), around % 2 == 0 ? 1u : 8u};
}
inline std::string text_of(const Layout& layout) {
  return layout.policy.name + ", partitioning " + std::to_string(static_cast<int>(layout.partitioning)) + ", tiles of " +
         std::to_string(layout.pages_per_tile);
}

/// Returns the policy to which the tree of layout_of(turn) changes. It is never the tree's own policy, and another one in each
/// cycle. So eleven cycles have all ordered pairs.
inline const PolicySettings& next_policy(std::uint64_t turn) {
  const std::uint64_t policies = small_policies().size();
  return small_policies()[(turn + 1 + turn / policies % (policies - 1)) % policies];
}

}  // namespace ebbtide
