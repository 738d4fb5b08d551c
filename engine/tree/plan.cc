#include "tree/plan.h"

namespace ebbtide {

const char* reason_name(Reason reason) {
  switch (reason) {
    case Reason::kFlush:
      return "flush";
    case Reason::kSize:
      return "size";
    case Reason::kRunCount:
      return "run_count";
    case Reason::kDeadline:
      return "deadline";
    case Reason::kManual:
      return "manual";
    case Reason::kSpace:
      return "space";
    case Reason::kScrub:
      return "scrub";
    case Reason::kDropped:
      return "dropped";
  }
  return "unknown";
}

PlanInput whole_run(const RunShape& run) {
  PlanInput input{run.id, {}};
  for (const FileShape& file : run.files) input.files.push_back(file.num);
  return input;
}

std::vector<PlanInput> inputs_of(const Plan& plan) {
  struct Visitor {
    std::vector<PlanInput> operator()(const std::monostate&) const { return {}; }
    std::vector<PlanInput> operator()(const Merge& merge) const { return merge.inputs; }
    std::vector<PlanInput> operator()(const Slice& slice) const { return slice.inputs; }
    std::vector<PlanInput> operator()(const Move& move) const { return {{move.from, move.files}}; }
    std::vector<PlanInput> operator()(const Rewrite& rewrite) const { return {{rewrite.run, {rewrite.file}}}; }
    std::vector<PlanInput> operator()(const Drop& drop) const {
      std::vector<PlanInput> inputs = drop.inputs;
      for (const PageSet& pages : drop.pages) inputs.push_back({pages.run, {pages.file}});
      return inputs;
    }
  };
  return std::visit(Visitor{}, plan.action);
}

const PlanTarget* target_of(const Plan& plan) {
  if (const auto* merge = std::get_if<Merge>(&plan.action)) return &merge->target;
  if (const auto* slice = std::get_if<Slice>(&plan.action)) return &slice->target;
  if (const auto* move = std::get_if<Move>(&plan.action)) return &move->target;
  return nullptr;
}

}  // namespace ebbtide
