#include <engine/tuner.h>

#include <algorithm>

#include "model/engine_settings.h"
#include "model/tuner.h"

namespace ebbtide {
namespace {

PerOperation per_operation(const OperationFigures& figures) {
  return {figures.empty_read, figures.read, figures.range, figures.write};
}
OperationFigures figures_of(const PerOperation& values) {
  return {values[kEmptyRead], values[kRead], values[kRange], values[kWrite]};
}

Result<TuneRequest> request_of(const TunerQuestion& question) {
  TuneRequest request;
  request.system.entries = question.entries;
  request.system.entry_bytes = question.entry_bytes;
  request.system.page_bytes = question.page_bytes;
  request.system.memory_bits = question.memory_bytes * 8;
  request.system.write_asymmetry = question.write_asymmetry;
  request.system.sequential_cost = question.sequential_cost;
  request.system.range_selectivity = question.range_selectivity;
  request.system.filter_curve = FilterCurve::kBlocked;
  request.mix = per_operation(question.workload);
  TRY(check_mix(request.mix));
  request.rho = question.rho;
  if (question.rho > 0) request.mix = with_smallest_share(request.mix);
  request.size_ratio_max = std::min(request.size_ratio_max, engine_size_ratio_max());
  request.smallest_buffer_bits = std::min(request.smallest_buffer_bits, request.system.memory_bits / 2);
  request.limits.transient_space = question.max_transient_space;
  request.limits.longest_merge_bytes = question.max_merge_bytes;
  if (question.layouts.empty()) return request;
  request.layouts.clear();
  for (const std::string& name : question.layouts) {
    const auto layout = parse_layout(name);
    if (!layout)
      return Status::invalid_argument("layout is \"" + name +
                                      "\"; allowed: leveling, tiering, lazy_leveling, one_leveling, fluid, klsm, garnering");
    request.layouts.push_back(*layout);
  }
  return request;
}

}  // namespace

Result<std::vector<TunerAdvice>> advise(const TunerQuestion& question) {
  TRY_ASSIGN(request, request_of(question));
  TRY_ASSIGN(advices, tune(request));
  std::vector<TunerAdvice> out;
  Status refused;
  for (const Advice& advice : advices) {
    const EngineSettings settings = engine_settings(request.system, advice.tuning, request.equations);
    if (Status accepted = validate(settings.policy); !accepted.is_ok()) {
      refused = std::move(accepted);
      continue;
    }
    TunerAdvice one;
    one.layout = layout_name(advice.tuning.layout);
    one.policy = settings.policy;
    one.memtable_bytes = settings.memtable_bytes;
    one.filter_bits_per_key = settings.filter_bits_per_key;
    one.costs = figures_of(advice.report.costs);
    one.mean_cost = advice.mean;
    one.worst_cost = advice.worst.cost;
    one.worst_workload = figures_of(advice.worst.mix);
    one.write_amplification = advice.report.write_amplification;
    one.longest_merge_bytes = advice.report.longest_merge_bytes;
    one.transient_space = advice.report.transient_space;
    out.push_back(std::move(one));
  }
  if (out.empty()) return refused;
  return out;
}

Status set_uncertainty(std::span<const OperationFigures> windows, TunerQuestion* question) {
  std::vector<PerOperation> counts;
  for (const OperationFigures& window : windows) counts.push_back(per_operation(window));
  TRY_ASSIGN(found, uncertainty_from_history(counts));
  question->workload = figures_of(found.expected);
  question->rho = found.rho;
  return Status::ok();
}

}  // namespace ebbtide
