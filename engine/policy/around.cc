#include "policy/around.h"

#include <algorithm>
#include <utility>

#include "tree/frozen.h"

namespace ebbtide {
namespace {

bool end_before(Bytes a, Bytes b) { return !a.empty() && (b.empty() || a < b); }

/// Returns the intersection of two ranges that overlap.
KeyRange within(const KeyRange& range, const KeyRange& frozen) {
  return {std::max(range.start, frozen.start), end_before(range.end, frozen.end) ? range.end : frozen.end};
}

Plan cut(const RunShape& run, const FileShape& file, const KeyRange& frozen) {
  Plan plan;
  plan.action = Slice{{{run.id, {file.num}}}, within(file.range(), frozen), {run.id, run.level}};
  plan.reason = Reason::kScrub;
  return plan;
}

struct Layer {
  const RunShape* run;
  PlanInput input;
  std::uint64_t bytes = 0;
  bool busy = false;
};

/// Returns, run by run, the files in a frozen range that are newer than all quarantined files of the range, newest first. Returns
/// an empty list if one of these files must be cut first.
std::vector<Layer> layers_above(const TreeShape& shape, const KeyRange& frozen) {
  std::vector<Layer> layers;
  for (const RunShape& run : shape.runs) {
    Layer layer{&run, {run.id, {}}};
    const auto [first, last] = run.overlapping(frozen.start, frozen.end);
    for (std::size_t i = first; i < last; ++i) {
      const FileShape& file = run.files[i];
      if (file.quarantined) return layers;
      if (within(file.range(), frozen) != file.range()) return {};
      layer.input.files.push_back(file.num);
      layer.bytes += file.bytes;
      layer.busy |= file.busy;
    }
    if (first != last) layers.push_back(std::move(layer));
  }
  return layers;
}

Plan stack(const TreeShape& shape, const KeyRange& frozen) {
  const std::vector<Layer> layers = layers_above(shape, frozen);
  Plan plan;
  if (layers.size() <= kFrozenRuns) return plan;
  Merge merge;
  std::uint64_t bytes = 0;
  for (const Layer& layer : layers) {
    if (merge.inputs.size() >= 2 && bytes < layer.bytes) break;
    if (layer.busy) return {};
    merge.inputs.push_back(layer.input);
    merge.target = {layer.run->id, layer.run->level};
    bytes += layer.bytes;
  }
  plan.action = std::move(merge);
  plan.reason = Reason::kScrub;
  return plan;
}

}  // namespace

Plan plan_cut(const TreeShape& shape, bool* busy) {
  const std::vector<KeyRange> frozen = frozen_ranges(shape);
  if (frozen.empty()) return {};
  for (const RunShape& run : shape.runs) {
    for (const FileShape& file : run.files) {
      if (file.quarantined) continue;
      const KeyRange range = file.range();
      const KeyRange* const met = frozen_at(frozen, range);
      if (met == nullptr || within(range, *met) == range) continue;
      if (!file.busy) return cut(run, file, *met);
      *busy = true;
    }
  }
  return {};
}

Plan plan_around(const TreeShape& shape) {
  bool busy = false;
  if (Plan plan = plan_cut(shape, &busy); !plan.empty()) return plan;
  for (const KeyRange& range : frozen_ranges(shape)) {
    if (Plan plan = stack(shape, range); !plan.empty()) return plan;
  }
  return {};
}

}  // namespace ebbtide
