// The steps of recommend() (engine/tuner.h) that the automatic tuner shares.
//
// Pure functions on values; any thread may call them.
#pragma once

#include <engine/tuner.h>

namespace ebbtide {

/// Returns a Recommendation with summary, question and settings. Its verdict says why there can be no advice; "" if there can.
Recommendation inputs_of(const Workload& workload, const RecommendOptions& options);

/// Returns the settings that an advice advises.
TunerSettings settings_of(const TunerAdvice& advice);

/// Returns the settings with the lowest worst cost for a tenth more data than `question` has, and their costs for that. Errors:
/// those of advise().
Result<TunerAdvice> best_settings(const TunerQuestion& question);

inline constexpr double kMillisPerDay = 86'400'000;
/// Filters with this many more bits per key than today's count as larger: their files must be written again.
inline constexpr double kSameBits = 0.05;

}  // namespace ebbtide
