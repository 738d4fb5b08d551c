// The parameters of the merge policies, for code that shows or sets PolicySettings; engine/docs/policies.md describes them.
#pragma once

#include <string>
#include <vector>

#include <engine/bytes.h>

namespace ebbtide {

struct PolicyParameterInfo {
  std::string name;
  double fallback = 0;  ///< the value if PolicySettings::parameters leaves it out
};

/// Returns the parameters of a policy in the documentation's order, or an empty list if no policy has this name.
std::vector<PolicyParameterInfo> policy_parameters(Bytes policy);

}  // namespace ebbtide
