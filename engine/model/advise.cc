#include <engine/tuner.h>

#include <algorithm>
#include <cmath>

#include "model/engine_settings.h"
#include "model/figures.h"
#include "model/number_text.h"
#include "model/recommend_inputs.h"
#include "model/transition.h"
#include "model/tuner.h"

namespace ebbtide {
namespace {

Result<TuneRequest> request_of(const TunerQuestion& question) {
  TuneRequest request;
  request.system.entries = question.entries;
  request.system.entry_bytes = question.entry_bytes;
  request.system.page_bytes = question.page_bytes;
  request.system.memory_bits = question.memory_bytes * 8;
  request.system.write_asymmetry = question.write_asymmetry;
  request.system.sequential_cost = question.sequential_cost;
  request.system.range_selectivity = question.range_selectivity;
  request.system.miss_ratios = question.miss_ratios;
  request.system.filter_curve = FilterCurve::kBlocked;
  request.system.deletes = {.share = question.delete_share,
                            .writes_per_deadline = question.writes_per_deadline,
                            .entries_per_file = question.entries_per_file,
                            .secondary_per_operation = question.stamp_deletes};
  if (question.pages_per_tile != 0) request.tile_pages = question.pages_per_tile;
  request.mix = per_operation(question.workload);
  TRY(check_mix(request.mix));
  if (!(question.rho >= 0) || std::isinf(question.rho))
    return Status::invalid_argument("rho is " + number_text(question.rho) + "; allowed: 0 or more");
  request.rho = question.rho;
  if (question.rho > 0) request.mix = with_smallest_share(request.mix);
  request.size_ratio_max = engine_size_ratio_max();
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

TunerAdvice advice_of(const Advice& advice) {
  TunerAdvice out;
  out.layout = layout_name(advice.tuning.layout);
  out.costs = figures_of(advice.report.costs);
  out.delete_work = advice.report.delete_work;
  out.stamp_delete_cost = advice.report.secondary_delete;
  out.mean_cost = advice.mean;
  out.worst_cost = advice.score;
  out.worst_workload = figures_of(advice.worst.mix);
  out.write_amplification = advice.report.write_amplification;
  out.longest_merge_bytes = advice.report.longest_merge_bytes;
  out.transient_space = advice.report.transient_space;
  return out;
}

/// Returns the tuning that describes `settings`. kUnsupported: the model has no formula for their policy.
Result<Tuning> checked_tuning(const TuneRequest& request, const TunerSettings& settings) {
  TRY(validate(settings.policy));
  TRY(check_system(request.system));
  auto tuning = tuning_of(request.system, settings.policy, settings.memtable_bytes, settings.filter_bits_per_key);
  if (!tuning) return Status::unsupported("the model has no formula for the policy " + settings.policy.name);
  tuning->tile_pages = settings.pages_per_tile;
  TRY(check_tuning(*tuning));
  return *tuning;
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
    TunerAdvice one = advice_of(advice);
    one.policy = settings.policy;
    one.memtable_bytes = settings.memtable_bytes;
    one.filter_bits_per_key = settings.filter_bits_per_key;
    one.pages_per_tile = settings.pages_per_tile;
    out.push_back(std::move(one));
  }
  if (out.empty()) return refused;
  return out;
}

Result<TunerAdvice> costs_under(const TunerQuestion& question, const TunerSettings& settings) {
  TRY_ASSIGN(request, request_of(question));
  TRY_ASSIGN(tuning, checked_tuning(request, settings));
  TunerAdvice out = advice_of(assess(request, tuning));
  out.policy = settings.policy;
  out.memtable_bytes = settings.memtable_bytes;
  out.filter_bits_per_key = settings.filter_bits_per_key;
  out.pages_per_tile = settings.pages_per_tile;
  return out;
}

Result<double> change_cost(const TunerQuestion& question, const TunerSettings& from, const TunerSettings& to) {
  TRY_ASSIGN(request, request_of(question));
  TRY_ASSIGN(before, checked_tuning(request, from));
  TRY_ASSIGN(after, checked_tuning(request, to));
  double entries = entries_moved(request.system, before, after);
  const bool new_files =
      to.filter_bits_per_key > from.filter_bits_per_key + kSameBits || to.pages_per_tile != from.pages_per_tile;
  if (new_files) entries = std::max(entries, request.system.entries);
  return merge_cost(request.system, entries);
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
