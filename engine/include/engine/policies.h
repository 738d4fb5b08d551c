// What merge policies there are to choose from, for whoever shows or sets PolicySettings; engine/docs/policies.md says what they do.
#pragma once

#include <string>
#include <vector>

#include <engine/bytes.h>

namespace ebbtide {

struct PolicyParameterInfo {
  std::string name;
  double fallback = 0;  ///< what it is when left out
};

/// The parameters of a policy, in the documentation's order; none if there is no such policy.
std::vector<PolicyParameterInfo> policy_parameters(Bytes policy);

}  // namespace ebbtide
