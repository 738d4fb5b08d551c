// Every merge policy by name, with its parameters, their ranges and defaults. YAML, engine and simulator use this table; a test
// keeps engine/docs/policies.md consistent with it.
#pragma once

#include <span>

#include "policy/policy.h"

namespace ebbtide {

struct PolicyParameter {
  const char* name;
  double min, max, fallback;  ///< min and max are allowed values; fallback is the default
  bool whole;                 ///< true if only whole numbers are allowed
};

struct PolicyInfo {
  const char* name;
  std::span<const PolicyParameter> parameters;
  bool by_file;  ///< true if levels go down file by file, not as a whole
};

/// Returns all policies in the order of the documentation.
std::span<const PolicyInfo> all_policies();

}  // namespace ebbtide
