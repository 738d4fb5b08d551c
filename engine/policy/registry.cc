#include "policy/registry.h"

#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "base/invariant.h"
#include "policy/garnering.h"
#include "policy/klsm.h"
#include "policy/leveled.h"
#include "policy/stack.h"

namespace ebbtide {
namespace {

/// The largest size ratio T: the cost model supports it (model/tuner.h), and all runs of a level can merge at once, with 32 KiB
/// of readahead for each run (compaction/part_builder.cc).
constexpr double kMostRatio = 1024;
constexpr double kMostRuns = kMostRatio - 1;

constexpr PolicyParameter kOneLeveling[] = {{"size_ratio", 2, kMostRatio, 6, false}, {"level0_runs", 1, 64, 4, true}};
constexpr PolicyParameter kLeveling[] = {{"size_ratio", 2, kMostRatio, 10, false}};
constexpr PolicyParameter kTiering[] = {{"size_ratio", 2, kMostRatio, 4, true}};
constexpr PolicyParameter kKLsm[] = {
    {"size_ratio", 2, kMostRatio, 6, true}, {"runs", 1, kMostRuns, 2, true},   {"last_runs", 0, kMostRuns, 0, true},
    {"runs_0", 0, kMostRuns, 0, true},      {"runs_1", 0, kMostRuns, 0, true}, {"runs_2", 0, kMostRuns, 0, true},
    {"runs_3", 0, kMostRuns, 0, true},      {"runs_4", 0, kMostRuns, 0, true}, {"runs_5", 0, kMostRuns, 0, true},
    {"runs_6", 0, kMostRuns, 0, true},      {"runs_7", 0, kMostRuns, 0, true}};
constexpr PolicyParameter kGarnering[] = {
    {"size_ratio", 2, kMostRatio, 2, false}, {"scaling_ratio", 0.25, 1, 0.8, false}, {"level0_runs", 1, 64, 4, true}};
constexpr PolicyParameter kDepth[] = {{"k", 1, 64, 4, true}};
constexpr PolicyParameter kGroups[] = {
    {"k", 1, 64, 4, true}, {"lambda", 1, 10, 1.2, false}, {"min_merge", 2, 8, 3, true}, {"max_merge", 8, 64, 10, true}};
constexpr PolicyParameter kConcurrent[] = {
    {"k", 1, 64, 30, true}, {"lambda", 1, 10, 1.2, false}, {"min_merge", 2, 8, 3, true}, {"max_merge", 8, 64, 10, true}};

constexpr PolicyInfo kPolicies[] = {
    {"one_leveling", kOneLeveling, true}, {"leveling", kLeveling, true},  {"tiering", kTiering, false},
    {"lazy_leveling", kTiering, false},   {"klsm", kKLsm, false},         {"garnering", kGarnering, true},
    {"bigtable", kDepth, false},          {"constant", kDepth, false},    {"exploring", kGroups, false},
    {"concurrent", kConcurrent, false},   {"min_latency", kDepth, false}, {"binomial", kDepth, false},
};

std::string number_text(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  return {buffer, end};
}

std::string allowed_text(const PolicyParameter& parameter) {
  return std::string(parameter.whole ? "a whole number from " : "a number from ") + number_text(parameter.min) + " to " +
         number_text(parameter.max);
}

template <typename T>
std::string names_text(std::span<const T> items) {
  std::string out;
  for (const T& item : items) out += (out.empty() ? "" : ", ") + std::string(item.name);
  return out;
}

const PolicyInfo* find_policy(const std::string& name) {
  for (const PolicyInfo& policy : kPolicies) {
    if (name == policy.name) return &policy;
  }
  return nullptr;
}

const PolicyParameter* find_parameter(const PolicyInfo& policy, const std::string& name) {
  for (const PolicyParameter& parameter : policy.parameters) {
    if (name == parameter.name) return &parameter;
  }
  return nullptr;
}

Status check_parameters(const PolicyInfo& policy, const PolicySettings& settings) {
  const std::string who = "policy " + settings.name + ": ";
  for (const auto& [name, value] : settings.parameters) {
    const PolicyParameter* parameter = find_parameter(policy, name);
    if (parameter == nullptr) {
      return Status::invalid_argument(who + "no parameter \"" + name + "\"; allowed: " + names_text(policy.parameters));
    }
    const bool fits = value >= parameter->min && value <= parameter->max && (!parameter->whole || value == std::floor(value));
    if (!fits)
      return Status::invalid_argument(who + name + " is " + number_text(value) + "; allowed: " + allowed_text(*parameter));
  }
  return Status::ok();
}

/// The parameters of one policy, with defaults for parameters that the settings omit.
class Values {
 public:
  Values(const PolicyInfo& policy, const PolicySettings& settings) : policy_(policy), settings_(settings) {}
  [[nodiscard]] double number(const std::string& name) const {
    const auto set = settings_.parameters.find(name);
    return set != settings_.parameters.end() ? set->second : find_parameter(policy_, name)->fallback;
  }
  [[nodiscard]] int whole(const std::string& name) const { return static_cast<int>(number(name)); }

 private:
  const PolicyInfo& policy_;
  const PolicySettings& settings_;
};

using PolicyPtr = std::shared_ptr<const Policy>;

PolicyPtr make_klsm(const std::string& name, const Values& values) {
  const int size_ratio = values.whole("size_ratio");
  if (name != "klsm") {  // tiering and lazy leveling, which differ only in the last level
    return std::make_shared<KLsmPolicy>(name, klsm_vectors(size_ratio, {size_ratio - 1}), name == "lazy_leveling" ? 1 : 0);
  }
  std::vector<int> runs;
  for (const char* level : {"runs_0", "runs_1", "runs_2", "runs_3", "runs_4", "runs_5", "runs_6", "runs_7"}) {
    const int limit = values.whole(level);
    runs.push_back(limit == 0 ? values.whole("runs") : limit);
  }
  runs.push_back(values.whole("runs"));
  return std::make_shared<KLsmPolicy>(name, klsm_vectors(size_ratio, std::move(runs)), values.whole("last_runs"));
}

PolicyPtr make_stack(const std::string& name, const Values& values) {
  constexpr std::pair<const char*, StackRule> kRules[] = {
      {"bigtable", StackRule::kBigtable},     {"constant", StackRule::kConstant},      {"exploring", StackRule::kExploring},
      {"concurrent", StackRule::kConcurrent}, {"min_latency", StackRule::kMinLatency}, {"binomial", StackRule::kBinomial}};
  StackParameters parameters;
  parameters.k = values.whole("k");
  for (const auto& [rule_name, rule] : kRules) {
    if (name != rule_name) continue;
    if (rule == StackRule::kExploring || rule == StackRule::kConcurrent) {
      parameters.lambda = values.number("lambda");
      parameters.min_merge = values.whole("min_merge");
      parameters.max_merge = values.whole("max_merge");
    }
    return std::make_shared<StackPolicy>(name, rule, parameters);
  }
  return nullptr;
}

PolicyPtr make(const std::string& name, const Values& values) {
  if (name == "leveling") return std::make_shared<LeveledPolicy>(name, leveling_vectors(values.number("size_ratio"), 1));
  if (name == "one_leveling") {
    return std::make_shared<LeveledPolicy>(name, leveling_vectors(values.number("size_ratio"), values.whole("level0_runs")));
  }
  if (name == "tiering" || name == "lazy_leveling" || name == "klsm") return make_klsm(name, values);
  if (name == "garnering") {
    const GarneringParameters parameters{values.number("size_ratio"), values.number("scaling_ratio"),
                                         values.whole("level0_runs")};
    return std::make_shared<GarneringPolicy>(name, parameters);
  }
  return make_stack(name, values);
}

}  // namespace

std::span<const PolicyInfo> all_policies() { return kPolicies; }

Result<PolicyPtr> make_policy(const PolicySettings& settings) {
  const PolicyInfo* policy = find_policy(settings.name);
  if (policy == nullptr) {
    return Status::invalid_argument("no policy \"" + settings.name + "\"; allowed: " + names_text(all_policies()));
  }
  TRY(check_parameters(*policy, settings));
  PolicyPtr made = make(settings.name, Values(*policy, settings));
  ASSERT(made != nullptr);
  return made;
}

std::string check_at_rest(const Policy& policy, const TreeShape& shape) {
  for (const RunShape& run : shape.runs) {
    for (const FileShape& file : run.files) {
      if (file.busy) return "";
    }
  }
  return policy.levels(shape) == shape.levels ? policy.check(shape) : "";
}

std::string check_bounds(const Policy& policy, const TreeShape& shape, const PolicyContext& context) {
  std::string wrong = check_at_rest(policy, shape);
  return wrong.empty() || !policy.next(shape, context).empty() ? "" : wrong;
}

}  // namespace ebbtide
