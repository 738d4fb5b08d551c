// Parses the command line of ebbtide-simulate.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <engine/options.h>
#include <engine/result.h>

namespace ebbtide {

/// Return the engine's name for a policy's or parameter's name in the papers: "tiered", "minlatency"; "T" and "B" for size_ratio,
/// "C", "D", "c", "K". A policy's name may differ in case, - and _. Any other text is returned unchanged.
std::string policy_name_of(const std::string& text);
std::string parameter_name_of(const std::string& text);
/// Returns all flag names of each parameter, by the engine's name of the parameter: "size_ratio", "size-ratio" and "T" for
/// size_ratio.
std::map<std::string, std::vector<std::string>> parameter_flags();

/// Parses "NAME[:parameter=value]..." with commas between parameters and between policies: "binomial,exploring:k=4,lambda=1.3".
/// kInvalidArgument: a parameter without a value, or before the first name.
Result<std::vector<PolicySettings>> parse_policies(const std::string& text);

/// The values of a configuration file that a simulation uses.
struct TreeChoices {
  PolicySettings policy;                               ///< tree.policy
  FileChoice file_choice = FileChoice::kLeastOverlap;  ///< tree.file_choice, if the file has it
};
/// Reads a YAML text. kInvalidArgument: not YAML, no tree.policy.name, a value that is not a number, or an unknown file choice.
Result<TreeChoices> parse_tree_choices(const std::string& yaml);
/// Parses round_robin, least_overlap, most_tombstones or oldest. kInvalidArgument: any other name.
Result<FileChoice> parse_file_choice(const std::string& name);

/// Sets each parameter in `flags` (by the engine's name) for each policy that has the parameter. kInvalidArgument: no policy has
/// a parameter, or make_policy() refuses a policy.
Status apply_flags(const std::map<std::string, double>& flags, std::vector<PolicySettings>* policies);

/// Parses a list of flush numbers; returns them ascending, without repeats. kInvalidArgument: not a list of whole numbers from 1
/// to `flushes`.
Result<std::vector<std::uint64_t>> parse_moments(const std::string& text, std::uint64_t flushes);
/// Returns `count` flush numbers from 1 to `flushes`: with equal ratios if `log` is true, with equal distances if not.
std::vector<std::uint64_t> spread_moments(std::uint64_t flushes, std::uint64_t count, bool log);

/// Returns a label for each policy: its name, and its parameters if another policy has the same name.
std::vector<std::string> labels_of(const std::vector<PolicySettings>& policies);

}  // namespace ebbtide
