// Every merge policy by name, with its parameters, their ranges and defaults. YAML, engine and simulator use this table; a test
// keeps engine/docs/policies.md consistent with it.
#pragma once

#include <span>

#include "policy/policy.h"

namespace ebbtide {

struct PolicyParameter {
  const char* name;
  double min, max, fallback;  ///< min and max are allowed values; fallback is the default
  bool whole;                 ///< whole numbers only
};

struct PolicyInfo {
  const char* name;
  std::span<const PolicyParameter> parameters;
  bool by_file;  ///< its levels go down file by file, not as a whole
};

/// All policies, in the order of the documentation.
std::span<const PolicyInfo> all_policies();

}  // namespace ebbtide
