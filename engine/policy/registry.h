// Every merge policy by name, with its parameters, their ranges and defaults. The configuration, the engine and the simulator
// use this table; a test checks that engine/docs/policies.md agrees with it.
#pragma once

#include <span>

#include "policy/policy.h"

namespace ebbtide {

struct PolicyParameter {
  const char* name;
  double min, max, fallback;  ///< smallest and largest allowed value; default
  bool whole;                 ///< true if only whole numbers are allowed
};

struct PolicyInfo {
  const char* name;
  std::span<const PolicyParameter> parameters;
  bool by_file;  ///< the result of Policy::by_file()
};

/// Returns all policies in the order of the documentation.
std::span<const PolicyInfo> all_policies();

}  // namespace ebbtide
