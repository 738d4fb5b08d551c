#include "model/workload.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/invariant.h"
#include "model/number_text.h"

namespace ebbtide {
namespace {

double sum_of(const PerOperation& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

void add_to(PerOperation* sum, const PerOperation& values) {
  for (std::size_t i = 0; i < kOperations; ++i) (*sum)[i] += values[i];
}

/// Merges adjacent windows into windows of at least kSmallestWindow operations each.
std::vector<PerOperation> merged_windows(std::span<const PerOperation> windows) {
  std::vector<PerOperation> merged;
  PerOperation open{};
  for (const PerOperation& window : windows) {
    add_to(&open, window);
    if (sum_of(open) < kSmallestWindow) continue;
    merged.push_back(open);
    open = {};
  }
  if (!merged.empty()) add_to(&merged.back(), open);
  return merged;
}

}  // namespace

const char* operation_name(Operation operation) {
  static constexpr std::array<const char*, kOperations> kNames = {"empty read", "read", "range", "write"};
  return kNames.at(operation);
}

Status check_mix(const PerOperation& mix) {
  for (std::size_t i = 0; i < kOperations; ++i) {
    if (!(mix[i] >= 0 && mix[i] <= 1)) {
      return Status::invalid_argument(std::string("the share of ") + operation_name(static_cast<Operation>(i)) + " is " +
                                      number_text(mix[i]) + "; allowed: 0 to 1");
    }
  }
  if (std::abs(sum_of(mix) - 1) > 1e-6)
    return Status::invalid_argument("the shares sum to " + number_text(sum_of(mix)) + "; allowed: 1");
  return Status::ok();
}

PerOperation mix_of_counts(const PerOperation& counts) {
  const double sum = sum_of(counts);
  ASSERT(sum > 0);
  PerOperation mix = counts;
  for (double& share : mix) share /= sum;
  return mix;
}

PerOperation with_smallest_share(const PerOperation& mix, double smallest) {
  ASSERT(smallest >= 0 && smallest * kOperations <= 1);
  PerOperation raised = mix;
  // When the larger shares shrink, another share may fall below the limit; that can happen in at most kOperations rounds.
  std::array<bool, kOperations> fixed{};
  for (std::size_t round = 0; round < kOperations; ++round) {
    double free = 1, rest = 0;
    for (std::size_t i = 0; i < kOperations; ++i) (fixed[i] ? free : rest) += fixed[i] ? -smallest : mix[i];
    bool again = false;
    for (std::size_t i = 0; i < kOperations; ++i) {
      raised[i] = fixed[i] ? smallest : mix[i] * free / rest;
      again |= !fixed[i] && raised[i] < smallest;
    }
    if (!again) break;
    for (std::size_t i = 0; i < kOperations; ++i) fixed[i] = fixed[i] || raised[i] < smallest;
  }
  return raised;
}

double mean_cost(const PerOperation& mix, const PerOperation& costs) {
  double sum = 0;
  for (std::size_t i = 0; i < kOperations; ++i) sum += mix[i] == 0 ? 0 : mix[i] * costs[i];
  return sum;
}

double kl_divergence(const PerOperation& p, const PerOperation& q) {
  double sum = 0;
  for (std::size_t i = 0; i < kOperations; ++i) {
    if (p[i] == 0) continue;
    if (q[i] == 0) return std::numeric_limits<double>::infinity();
    sum += p[i] * std::log(p[i] / q[i]);
  }
  return std::max(sum, 0.0);  // rounding may make the sum negative
}

Result<Uncertainty> uncertainty_from_history(std::span<const PerOperation> windows) {
  for (const PerOperation& window : windows) {
    for (const double count : window) {
      if (!(count >= 0) || std::isinf(count))
        return Status::invalid_argument("a window has a count of " + number_text(count) + "; allowed: 0 or more");
    }
  }
  const std::vector<PerOperation> merged = merged_windows(windows);
  if (merged.empty())
    return Status::invalid_argument("the history has fewer than " + number_text(kSmallestWindow) + " operations");
  PerOperation mean{};
  std::vector<PerOperation> mixes;
  for (const PerOperation& counts : merged) {
    mixes.push_back(with_smallest_share(mix_of_counts(counts)));
    add_to(&mean, mixes.back());
  }
  Uncertainty found{mix_of_counts(mean), 0};
  for (const PerOperation& mix : mixes) found.rho = std::max(found.rho, kl_divergence(mix, found.expected));
  return found;
}

Result<Uncertainty> uncertainty_from_ranges(const PerOperation& low, const PerOperation& high) {
  PerOperation middle{};
  for (std::size_t i = 0; i < kOperations; ++i) {
    if (!(low[i] >= 0 && low[i] <= high[i] && high[i] <= 1)) {
      return Status::invalid_argument(std::string("the range of ") + operation_name(static_cast<Operation>(i)) + " is " +
                                      number_text(low[i]) + " to " + number_text(high[i]) + "; allowed: 0 <= low <= high <= 1");
    }
    middle[i] = (low[i] + high[i]) / 2;
  }
  if (sum_of(low) > 1 + 1e-9 || sum_of(high) < 1 - 1e-9)
    return Status::invalid_argument("no mix lies within the ranges: the low ends sum to " + number_text(sum_of(low)) +
                                    ", the high ends to " + number_text(sum_of(high)));
  Uncertainty found{with_smallest_share(mix_of_counts(middle)), 0};
  // In a corner all shares but one are at an end of their range; the last share is 1 minus the sum of the others.
  for (std::size_t rest = 0; rest < kOperations; ++rest) {
    for (unsigned ends = 0; ends < 1U << kOperations; ++ends) {
      PerOperation corner{};
      for (std::size_t i = 0; i < kOperations; ++i) corner[i] = i == rest ? 0 : (ends >> i & 1) != 0 ? high[i] : low[i];
      const double share = 1 - sum_of(corner);
      if (share < low[rest] - 1e-9 || share > high[rest] + 1e-9) continue;
      corner[rest] = std::max(share, 0.0);
      found.rho = std::max(found.rho, kl_divergence(corner, found.expected));
    }
  }
  return found;
}

Result<Uncertainty> uncertainty_between(const PerOperation& expected, const PerOperation& unlikely) {
  TRY(check_mix(expected));
  TRY(check_mix(unlikely));
  Uncertainty found{with_smallest_share(expected), 0};
  found.rho = kl_divergence(with_smallest_share(unlikely), found.expected);
  return found;
}

}  // namespace ebbtide
