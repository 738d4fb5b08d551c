// Settings that depend on the machine: the values of `auto`, and shares of the memory budget.
#pragma once

#include <cstdint>

#include <engine/auto_tuner.h>
#include <engine/options.h>

#include "config/config.h"
#include "tuning/auto_tuning.h"

namespace ebbtide {

/// Returns the number of event loops.
unsigned loop_count(const Config& config);
/// Returns the engine's settings, with `auto` resolved; only the number of open files is resolved later. `memory`: bytes of the
/// machine or the control group.
Settings resolved_settings(const Config& config, std::uint64_t memory);
TuningSettings tuning_settings(const Config& config);
/// Limits the free blocks that all threads share to a small part of the memory budget.
void share_blocks_within(std::uint64_t budget);

}  // namespace ebbtide
