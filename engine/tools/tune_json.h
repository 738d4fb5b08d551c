// Writes the results of ebbtide-tune as JSON.
#pragma once

#include <string>
#include <vector>

#include "model/tuner.h"

namespace ebbtide {

/// Returns the first advice as an object: policy (a layout's name), size_ratio, filter_bits_per_entry, buffer_bytes,
/// runs_per_level (from level 1 on), cost (page reads by kind of operation, mean, worst), and `engine`, the settings for a
/// server. `alternatives` has the other advices in the same form.
std::string advices_json(const TuneRequest& request, const std::vector<Advice>& advices);

/// Returns one advice as an object, as in advices_json().
std::string advice_json(const TuneRequest& request, const Advice& advice);

/// Returns the costs of one tuning, with a list of its levels.
std::string explain_json(const TuneRequest& request, const Advice& advice);

}  // namespace ebbtide
