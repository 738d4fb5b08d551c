// Parses the command line of ebbtide-simulate.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <engine/options.h>
#include <engine/result.h>

namespace ebbtide {

/// Other names of policies and parameters, those of the papers: "tiered", "minlatency"; "T" and "B" for size_ratio, "C", "D",
/// "c", "K". Case, - and _ do not count in a policy's name. What is no other name comes back as it is.
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
/// kInvalidArgument: no YAML, no tree.policy with a name in it, values that are no numbers, or a file choice that there is not.
Result<TreeChoices> parse_tree_choices(const std::string& yaml);
/// round_robin, least_overlap, most_tombstones or oldest. kInvalidArgument: another.
Result<FileChoice> parse_file_choice(const std::string& name);

/// Gives each policy those of `flags` (by parameter's real name) that it has. kInvalidArgument: a flag that none of them has, or
/// what make_policy says of a policy.
Status apply_flags(const std::map<std::string, double>& flags, std::vector<PolicySettings>* policies);

/// Ascending and without doubles. kInvalidArgument: not a list of whole numbers from 1 to `flushes`.
Result<std::vector<std::uint64_t>> parse_moments(const std::string& text, std::uint64_t flushes);
/// `count` moments from 1 to `flushes`, evenly spread, or by a constant factor if `log`.
std::vector<std::uint64_t> spread_moments(std::uint64_t flushes, std::uint64_t count, bool log);

/// What tells the policies apart: the name, with parameters where a name is there twice.
std::vector<std::string> labels_of(const std::vector<PolicySettings>& policies);

}  // namespace ebbtide
