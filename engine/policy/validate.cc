// The public check of policy settings, for whoever reads a configuration.
#include <engine/options.h>

#include "policy/policy.h"

namespace ebbtide {

Status validate(const PolicySettings& settings) { return make_policy(settings).status(); }

}  // namespace ebbtide
