// The steps of recommend() (engine/tuner.h) that the automatic tuner shares.
//
// Pure functions on values; any thread may call them.
#pragma once

#include <engine/tuner.h>

namespace ebbtide {

/// Returns the inputs of an advice: a Recommendation with summary, question and settings. If no advice is possible, `verdict` has
/// the reason; otherwise it is "".
Recommendation inputs_of(const Workload& workload, const RecommendOptions& options);

/// Returns the settings that an advice advises.
TunerSettings settings_of(const TunerAdvice& advice);

/// Returns the settings with the lowest worst cost, and their costs, for a tenth more data than `question` has. Returns the
/// errors of advise().
Result<TunerAdvice> best_settings(const TunerQuestion& question);

inline constexpr double kMillisPerDay = 86'400'000;
/// If advised filters have at least this many more bits per key than the present ones, they count as larger. Larger filters need
/// new files.
inline constexpr double kSameBits = 0.05;

}  // namespace ebbtide
