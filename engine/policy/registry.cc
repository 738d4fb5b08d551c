#include "policy/registry.h"

#include <charconv>
#include <cmath>

#include "policy/leveled.h"

namespace ebbtide {
namespace {

constexpr PolicyParameter kOneLeveling[] = {{"size_ratio", 2, 32, 6, false}, {"level0_runs", 1, 64, 4, true}};
constexpr PolicyParameter kLeveling[] = {{"size_ratio", 2, 32, 10, false}};
constexpr PolicyInfo kPolicies[] = {{"one_leveling", kOneLeveling}, {"leveling", kLeveling}};

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

double value_of(const PolicyInfo& policy, const PolicySettings& settings, const char* name) {
  const auto set = settings.parameters.find(name);
  return set != settings.parameters.end() ? set->second : find_parameter(policy, name)->fallback;
}

}  // namespace

std::span<const PolicyInfo> all_policies() { return kPolicies; }

Result<std::shared_ptr<const Policy>> make_policy(const PolicySettings& settings) {
  const PolicyInfo* policy = find_policy(settings.name);
  if (policy == nullptr) {
    return Status::invalid_argument("no policy \"" + settings.name + "\"; allowed: " + names_text(all_policies()));
  }
  TRY(check_parameters(*policy, settings));
  const double size_ratio = value_of(*policy, settings, "size_ratio");
  const int level0_runs = settings.name == "one_leveling" ? static_cast<int>(value_of(*policy, settings, "level0_runs")) : 1;
  return std::shared_ptr<const Policy>(std::make_shared<LeveledPolicy>(settings.name, leveling_vectors(size_ratio, level0_runs)));
}

}  // namespace ebbtide
