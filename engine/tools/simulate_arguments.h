// Parses the command line of ebbtide-simulate.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <engine/options.h>
#include <engine/result.h>

namespace ebbtide {

/// Other names of policies and parameters, those of the papers: "tiered", "minlatency"; "T" and "B" for size_ratio, "C", "D",
/// "c", "K". A policy's name may differ in case, - and _. A text that is no other name is returned unchanged.
std::string policy_name_of(const std::string& text);
std::string parameter_name_of(const std::string& text);
/// Every name that a parameter of any policy goes by, for flags: "size_ratio", "size-ratio", "T", ... by its real name.
std::map<std::string, std::vector<std::string>> parameter_flags();

/// "NAME[:parameter=value]..." with commas between parameters and between policies: "binomial,exploring:k=4,lambda=1.3".
/// kInvalidArgument: a parameter without a value, or before any name.
Result<std::vector<PolicySettings>> parse_policies(const std::string& text);

/// The values of a configuration file that a simulation uses.
struct TreeChoices {
  PolicySettings policy;                               ///< tree.policy
  FileChoice file_choice = FileChoice::kLeastOverlap;  ///< tree.file_choice, if it is there
};
/// kInvalidArgument: not YAML, no tree.policy.name, a value that is not a number, or an unknown file choice.
Result<TreeChoices> parse_tree_choices(const std::string& yaml);
/// round_robin, least_overlap, most_tombstones or oldest. kInvalidArgument: another.
Result<FileChoice> parse_file_choice(const std::string& name);

/// Sets the parameters in `flags` (by real name) for each policy that has them. kInvalidArgument: no policy has the parameter, or
/// make_policy() refuses a policy.
Status apply_flags(const std::map<std::string, double>& flags, std::vector<PolicySettings>* policies);

/// Ascending, without repeats. kInvalidArgument: not a list of whole numbers from 1 to `flushes`.
Result<std::vector<std::uint64_t>> parse_moments(const std::string& text, std::uint64_t flushes);
/// `count` moments from 1 to `flushes`, evenly spread, or by a constant factor if `log`.
std::vector<std::uint64_t> spread_moments(std::uint64_t flushes, std::uint64_t count, bool log);

/// A label for each policy: its name, with parameters if another policy has the same name.
std::vector<std::string> labels_of(const std::vector<PolicySettings>& policies);

}  // namespace ebbtide
