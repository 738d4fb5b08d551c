// Searches files for many strings at once: values that must no longer be in any of them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <engine/types.h>

namespace ebbtide {

/// Returns the needles, of at least 8 bytes each, that occur in the haystack. Optimized and without sanitizers in every build,
/// since it reads gigabytes.
std::set<Bytes> found_of(const std::vector<std::string>& needles, const std::string& haystack);

}  // namespace ebbtide
