// Converts a tuning into the settings of an engine's tree.
//
// Layouts of whole levels become the policy klsm, except tiering and lazy leveling, which are policies themselves. The names
// leveling and 1-leveling have two meanings: the engine's policies move file by file, while Endure's merge whole levels. The set
// of equations says which meaning a tuning has.
//
// Pure functions on values; any thread may call them.
#pragma once

#include <optional>

#include <engine/options.h>
#include "model/cost.h"

namespace ebbtide {

struct EngineSettings {
  PolicySettings policy;
  std::uint64_t memtable_bytes = 0;  ///< a whole number of KiB
  double filter_bits_per_key = 0;    ///< average over all keys, at most 32
  std::uint32_t pages_per_tile = 1;  ///< pages of a delete tile (h)
};

/// Returns the settings for `tuning`. The values may be outside of the engine's ranges: validate() (engine/options.h) checks the
/// policy. check_system() and check_tuning() must accept the arguments.
EngineSettings engine_settings(const System& system, const Tuning& tuning, Equations equations);

/// Returns the tuning that describes the engine's settings, under Equations::kEngine; parameters that `policy` leaves out have
/// their defaults. Returns no value if no layout describes the policy (policies of stacks). validate() must accept the policy.
std::optional<Tuning> tuning_of(const System& system, const PolicySettings& policy, std::uint64_t memtable_bytes,
                                double filter_bits_per_key);

/// Returns the largest T that every policy with a size ratio accepts.
int engine_size_ratio_max();

}  // namespace ebbtide
