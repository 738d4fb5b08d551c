// Checks and lists the parameters of policies, for code that reads or shows a configuration.
#include <engine/options.h>
#include <engine/policies.h>

#include "policy/policy.h"
#include "policy/registry.h"

namespace ebbtide {

Status validate(const PolicySettings& settings) { return make_policy(settings).status(); }

std::vector<PolicyParameterInfo> policy_parameters(Bytes policy) {
  std::vector<PolicyParameterInfo> parameters;
  for (const PolicyInfo& known : all_policies()) {
    if (policy != known.name) continue;
    for (const PolicyParameter& parameter : known.parameters) parameters.push_back({parameter.name, parameter.fallback});
  }
  return parameters;
}

}  // namespace ebbtide
