// Prints the results of ebbtide-tune as aligned tables.
#pragma once

#include <string>
#include <vector>

#include <engine/status.h>
#include "model/monkey_design.h"
#include "model/what_if.h"
#include "tools/tune_inputs.h"

namespace ebbtide {

/// Returns a number as text, in a format of printf().
std::string formatted(double value, const char* format = "%.4g");

/// Returns the rows with aligned columns: the first column is aligned left, the other columns right.
std::string aligned_table(const std::vector<std::vector<std::string>>& rows);

/// Returns a tuning as text: "leveling, T = 6, buffer 64 MiB, filters 9.40 bits an entry".
std::string tuning_text(const Tuning& tuning, const System& system);
/// Returns the costs of each operation, the levels, and the bytes and space of the longest merge.
std::string model_text(const TuneRequest& request, const Advice& advice);
/// Like model_text(), for a policy whose costs come from a simulation; `report` has the policy's runs instead of levels.
std::string simulated_text(const TuneInputs& inputs, const CostReport& report);
/// Returns one row per layout, the best first, and the settings for the best layout.
std::string advices_text(const TuneRequest& request, const std::vector<Advice>& advices);
/// Returns the keys of ebbtide.yaml for a tuning. The server accepts this file if check_engine_settings() accepts the tuning.
std::string yaml_text(const TuneRequest& request, const Tuning& tuning);
/// Returns kInvalidArgument if a value is out of the engine's range. The message has the value and the allowed values.
Status check_engine_settings(const TuneRequest& request, const Tuning& tuning);
/// Returns yaml_text() below a heading, and, if the engine refuses the settings, the reason.
std::string settings_text(const TuneRequest& request, const Tuning& tuning);

/// Returns Monkey's designs in the paper's terms: that of monkey_design(), whose T need not be a whole number, and that of
/// monkey_navigation(). If a design does not exist, returns the reason instead.
std::string monkey_text(const TuneRequest& request, const MonkeyDesign& design, const Result<MonkeyDesign>& navigated);

struct Answer {
  std::string question;  ///< "memory=2GiB"
  TuneRequest after;     ///< the request after the change
  WhatIf effect;
};
/// Returns one row for the costs before any change, and rows for each question.
std::string what_if_text(const TuneRequest& request, const std::vector<Answer>& answers);

}  // namespace ebbtide
