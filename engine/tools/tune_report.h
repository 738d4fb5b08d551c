// Prints what ebbtide-tune finds, as aligned tables.
#pragma once

#include <string>
#include <vector>

#include "model/monkey_design.h"
#include "model/what_if.h"
#include "tools/tune_inputs.h"

namespace ebbtide {

/// Columns side by side: the first is aligned to the left, the others to the right.
std::string aligned_table(const std::vector<std::vector<std::string>>& rows);

/// "T = 6, runs 2,2,1, buffer 64 MiB, filters 9.4 bits".
std::string tuning_text(const Tuning& tuning, const System& system);
/// Costs of each operation, the levels, and what the longest merge needs.
std::string model_text(const TuneRequest& request, const Advice& advice);
/// The same for a policy whose costs come from a simulation; `report` has its runs in place of levels.
std::string simulated_text(const TuneInputs& inputs, const CostReport& report);
/// One row per layout, the best first, and the settings for it.
std::string advices_text(const TuneRequest& request, const std::vector<Advice>& advices);
/// The keys of ebbtide.yaml for a tuning; says what the engine cannot do.
std::string settings_text(const TuneRequest& request, const Tuning& tuning);

/// Monkey's design in its own terms (model/monkey_design.h), whose T need not be whole.
std::string monkey_text(const TuneRequest& request, const MonkeyDesign& design);

struct Answer {
  std::string question;  ///< "memory=2GiB"
  TuneRequest after;     ///< the request after the change
  WhatIf effect;
};
/// One row for now and one per question.
std::string what_if_text(const TuneRequest& request, const std::vector<Answer>& answers);

}  // namespace ebbtide
