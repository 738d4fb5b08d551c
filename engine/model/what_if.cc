#include "model/what_if.h"

namespace ebbtide {
namespace {

Status check_both(const TuneRequest& request, const Tuning& tuning) {
  TRY(check_system(request.system));
  TRY(check_mix(request.mix));
  return check_tuning(tuning);
}

}  // namespace

TuneRequest changed(const TuneRequest& request, const Change& change) {
  TuneRequest out = request;
  System& s = out.system;
  s.entries = change.entries.value_or(s.entries);
  s.entry_bytes = change.entry_bytes.value_or(s.entry_bytes);
  s.page_bytes = change.page_bytes.value_or(s.page_bytes);
  s.write_asymmetry = change.write_asymmetry.value_or(s.write_asymmetry);
  s.sequential_cost = change.sequential_cost.value_or(s.sequential_cost);
  s.range_selectivity = change.range_selectivity.value_or(s.range_selectivity);
  out.mix = change.mix.value_or(out.mix);
  if (!change.memory_bits) return out;
  const double factor = *change.memory_bits / s.memory_bits;
  s.memory_bits = *change.memory_bits;
  if (out.filter_bits) *out.filter_bits *= factor;
  if (out.buffer_bits) *out.buffer_bits *= factor;
  return out;
}

Result<WhatIf> what_if(const TuneRequest& request, const Tuning& tuning, const Change& change) {
  TRY(check_both(request, tuning));
  const TuneRequest after = changed(request, change);
  Tuning kept = tuning;
  const double factor = after.system.memory_bits / request.system.memory_bits;
  kept.filter_bits *= factor;
  kept.buffer_bits *= factor;
  TRY(check_both(after, kept));
  WhatIf out{assess(request, tuning), assess(after, kept), std::nullopt};
  if (auto best = tune(after); best.is_ok()) out.retuned = best->front();
  return out;
}

}  // namespace ebbtide
