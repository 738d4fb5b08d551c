#include "tools/simulate_arguments.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "policy/registry.h"

namespace ebbtide {
namespace {

/// Returns the name in lower case, without - and _.
std::string bare(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (c != '-' && c != '_') out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

constexpr std::pair<const char*, const char*> kOtherParameters[] = {
    {"T", "size_ratio"}, {"B", "size_ratio"}, {"c", "scaling_ratio"}, {"C", "min_merge"},
    {"D", "max_merge"},  {"K", "runs"},       {"K_L", "last_runs"}};

std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Result<double> parse_number(const std::string& what, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Status::invalid_argument(what + " is \"" + text + "\"; allowed: a number");
  }
  return value;
}

Status add_parameter(const std::string& text, PolicySettings* policy) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return Status::invalid_argument("\"" + text + "\": expected parameter=value");
  const std::string name = parameter_name_of(text.substr(0, equals));
  TRY_ASSIGN(value, parse_number("policy " + policy->name + ": " + name, text.substr(equals + 1)));
  policy->parameters[name] = value;
  return Status::ok();
}

std::string number_text(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr};
}

}  // namespace

std::string policy_name_of(const std::string& text) {
  const std::string wanted = bare(text);
  if (wanted == "tiered") return "tiering";
  if (wanted == "leveled") return "leveling";
  for (const PolicyInfo& policy : all_policies()) {
    if (wanted == bare(policy.name)) return policy.name;
  }
  return text;
}

std::string parameter_name_of(const std::string& text) {
  for (const auto& [other, name] : kOtherParameters) {
    if (text == other) return name;
  }
  std::string name = text;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::map<std::string, std::vector<std::string>> parameter_flags() {
  std::map<std::string, std::vector<std::string>> flags;
  for (const PolicyInfo& policy : all_policies()) {
    for (const PolicyParameter& parameter : policy.parameters) {
      const std::string name = parameter.name;
      flags[name] = {with_dashes(name)};
      if (with_dashes(name) != name) flags[name].push_back(name);
    }
  }
  for (const auto& [other, name] : kOtherParameters) flags[name].emplace_back(other);
  return flags;
}

Result<std::vector<PolicySettings>> parse_policies(const std::string& text) {
  std::vector<PolicySettings> policies;
  for (const std::string& part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    const std::string name = part.substr(0, colon);
    if (name.find('=') == std::string::npos) {
      if (name.empty()) return Status::invalid_argument("\"" + text + "\": expected the name of a policy");
      policies.push_back({policy_name_of(name), {}});
      if (colon != std::string::npos) TRY(add_parameter(part.substr(colon + 1), &policies.back()));
    } else {
      if (policies.empty())
        return Status::invalid_argument("\"" + part + "\": expected the name of a policy before its parameters");
      TRY(add_parameter(part, &policies.back()));
    }
  }
  return policies;
}

Result<FileChoice> parse_file_choice(const std::string& name) {
  constexpr std::pair<const char*, FileChoice> kChoices[] = {{"round_robin", FileChoice::kRoundRobin},
                                                             {"least_overlap", FileChoice::kLeastOverlap},
                                                             {"most_tombstones", FileChoice::kMostTombstones},
                                                             {"oldest", FileChoice::kOldest}};
  std::string names;
  for (const auto& [known, choice] : kChoices) {
    if (name == known) return choice;
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  return Status::invalid_argument("file choice \"" + name + "\"; allowed: " + names);
}

Result<TreeChoices> parse_tree_choices(const std::string& yaml) {
  TreeChoices choices;
  try {
    const YAML::Node root = YAML::Load(yaml);
    // yaml-cpp throws if the code reads the value of a missing node, so the code first checks that the node exists.
    const YAML::Node tree = root.IsMap() && root["tree"] ? root["tree"] : YAML::Node();
    const YAML::Node policy = tree.IsMap() && tree["policy"] ? tree["policy"] : YAML::Node();
    if (!policy.IsMap() || !policy["name"]) return Status::invalid_argument("tree.policy.name is missing");
    choices.policy.name = policy_name_of(policy["name"].as<std::string>());
    for (const auto& item : policy) {
      const auto name = item.first.as<std::string>();
      if (name == "name") continue;
      TRY_ASSIGN(value, parse_number("tree.policy." + name, item.second.as<std::string>()));
      choices.policy.parameters[name] = value;
    }
    if (tree["file_choice"]) {
      TRY_ASSIGN(choice, parse_file_choice(tree["file_choice"].as<std::string>()));
      choices.file_choice = choice;
    }
  } catch (const YAML::Exception& error) {
    return Status::invalid_argument(error.what());
  }
  return choices;
}

Status apply_flags(const std::map<std::string, double>& flags, std::vector<PolicySettings>* policies) {
  std::set<std::string> used;
  for (PolicySettings& settings : *policies) {
    for (const PolicyInfo& policy : all_policies()) {
      if (settings.name != policy.name) continue;
      for (const PolicyParameter& parameter : policy.parameters) {
        const auto flag = flags.find(parameter.name);
        if (flag == flags.end()) continue;
        used.insert(flag->first);
        settings.parameters.try_emplace(flag->first, flag->second);
      }
    }
    TRY(make_policy(settings).status());
  }
  for (const auto& [name, value] : flags) {
    if (used.count(name) == 0)
      return Status::invalid_argument("--" + with_dashes(name) + ": none of the named policies has this parameter");
  }
  return Status::ok();
}

Result<std::vector<std::uint64_t>> parse_moments(const std::string& text, std::uint64_t flushes) {
  std::set<std::uint64_t> moments;
  for (const std::string& part : split(text, ',')) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size() || value < 1 || value > flushes) {
      return Status::invalid_argument("--at has \"" + part + "\"; allowed: whole numbers from 1 to " + std::to_string(flushes) +
                                      ", commas between them");
    }
    moments.insert(value);
  }
  return std::vector<std::uint64_t>(moments.begin(), moments.end());
}

std::vector<std::uint64_t> spread_moments(std::uint64_t flushes, std::uint64_t count, bool log) {
  std::set<std::uint64_t> moments;
  for (std::uint64_t i = 1; i <= count; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(count);
    const double moment = log ? std::pow(static_cast<double>(flushes), part) : static_cast<double>(flushes) * part;
    moments.insert(std::clamp<std::uint64_t>(static_cast<std::uint64_t>(std::llround(moment)), 1, flushes));
  }
  return {moments.begin(), moments.end()};
}

std::vector<std::string> labels_of(const std::vector<PolicySettings>& policies) {
  std::vector<std::string> labels;
  for (const PolicySettings& one : policies) {
    const auto same =
        std::count_if(policies.begin(), policies.end(), [&](const PolicySettings& p) { return p.name == one.name; });
    std::string label = one.name;
    if (same > 1) {
      for (const auto& [name, value] : one.parameters) label += " " + name + "=" + number_text(value);
    }
    labels.push_back(std::move(label));
  }
  return labels;
}

}  // namespace ebbtide
