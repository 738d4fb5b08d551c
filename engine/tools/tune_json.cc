#include "tools/tune_json.h"

#include "model/engine_settings.h"
#include "tools/json.h"

namespace ebbtide {
namespace {

JsonObject per_operation(const PerOperation& values) {
  JsonObject out;
  const char* names[kOperations] = {"empty_read", "read", "range", "write"};
  for (std::size_t i = 0; i < kOperations; ++i) out.raw(names[i], json_number(values[i]));
  return out;
}

/// Returns the settings for a server. If the engine does not accept the settings, the field `refused` has the reason.
JsonObject engine_json(const TuneRequest& request, const Tuning& tuning) {
  const EngineSettings settings = engine_settings(request.system, tuning, request.equations);
  JsonObject parameters, out;
  for (const auto& [name, value] : settings.policy.parameters) parameters.raw(name, json_number(value));
  out.add("policy", settings.policy.name).add("parameters", parameters);
  out.add("memtable_bytes", settings.memtable_bytes).raw("bits_per_key", json_number(settings.filter_bits_per_key));
  out.add("pages_per_tile", std::uint64_t{settings.pages_per_tile});
  if (const Status accepted = validate(settings.policy); !accepted.is_ok()) out.add("refused", accepted.to_string());
  return out;
}

JsonObject advice_object(const TuneRequest& request, const Advice& advice) {
  const Tuning& t = advice.tuning;
  const CostReport& report = advice.report;
  JsonArray runs;
  for (int i = 0; i < report.levels; ++i) {
    if (report.first_level + i >= 1) runs.add(json_number(report.level[static_cast<std::size_t>(i)].runs));
  }
  JsonObject out, cost = per_operation(report.costs);
  cost.raw("mean", json_number(advice.mean)).raw("worst", json_number(advice.worst.cost));
  out.add("policy", std::string(layout_name(t.layout))).raw("size_ratio", json_number(t.size_ratio));
  out.raw("filter_bits_per_entry", json_number(t.filter_bits / request.system.entries));
  out.raw("buffer_bytes", json_number(t.buffer_bits / 8)).add("runs_per_level", runs).add("cost", cost);
  if (t.layout == Layout::kGarnering) out.raw("scaling_ratio", json_number(t.scaling_ratio));
  out.raw("write_amplification", json_number(report.write_amplification));
  out.raw("transient_space", json_number(report.transient_space));
  out.raw("longest_merge_bytes", json_number(report.longest_merge_bytes));
  if (request.rho > 0) out.add("worst_workload", per_operation(advice.worst.mix));
  out.add("engine", engine_json(request, t));
  return out;
}

void add_question(const TuneRequest& request, JsonObject* out) {
  out->add("workload", per_operation(request.mix)).raw("rho", json_number(request.rho));
}

}  // namespace

std::string advice_json(const TuneRequest& request, const Advice& advice) { return advice_object(request, advice).str(); }

std::string advices_json(const TuneRequest& request, const std::vector<Advice>& advices) {
  JsonObject out = advice_object(request, advices.front());
  add_question(request, &out);
  JsonArray others;
  for (std::size_t i = 1; i < advices.size(); ++i) others.add(advice_json(request, advices[i]));
  return out.add("alternatives", others).str() + "\n";
}

std::string explain_json(const TuneRequest& request, const Advice& advice) {
  JsonObject out = advice_object(request, advice);
  add_question(request, &out);
  JsonArray levels;
  for (int i = 0; i < advice.report.levels; ++i) {
    const LevelCost& level = advice.report.level[static_cast<std::size_t>(i)];
    JsonObject one;
    one.add("level", static_cast<std::uint64_t>(advice.report.first_level + i)).raw("entries", json_number(level.entries));
    one.raw("runs", json_number(level.runs)).raw("filter_bits_per_entry", json_number(level.bits_per_entry));
    one.raw("false_positive_rate", json_number(level.false_positive_rate)).raw("writes", json_number(level.writes));
    levels.add(one.str());
  }
  return out.add("levels", levels).str() + "\n";
}

}  // namespace ebbtide
