// The available merge policies, for code that shows or sets PolicySettings; engine/docs/policies.md describes them.
#pragma once

#include <string>
#include <vector>

#include <engine/bytes.h>

namespace ebbtide {

struct PolicyParameterInfo {
  std::string name;
  double fallback = 0;  ///< the value if it is left out
};

/// The parameters of a policy, in the documentation's order; none if there is no such policy.
std::vector<PolicyParameterInfo> policy_parameters(Bytes policy);

}  // namespace ebbtide
