// Every merge policy by name, with its parameters, their ranges and defaults: the one table behind YAML, engine, simulator, tuner
// and engine/docs/policies.md (a test holds the two together).
#pragma once

#include <span>

#include "policy/policy.h"

namespace ebbtide {

struct PolicyParameter {
  const char* name;
  double min, max, fallback;  ///< both ends allowed; fallback when left out
  bool whole;                 ///< whole numbers only
};

struct PolicyInfo {
  const char* name;
  std::span<const PolicyParameter> parameters;
  bool by_file;  ///< its levels go down file by file, not as a whole
};

/// All there are, in the order of the documentation.
std::span<const PolicyInfo> all_policies();

}  // namespace ebbtide
