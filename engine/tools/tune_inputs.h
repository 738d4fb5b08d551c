// Reads the inputs of ebbtide-tune: values by key, from a YAML file and from flags.
//
// Each key of tune_keys() can be given in the file, and as a flag with - instead of _. A flag replaces the file's value.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include <engine/options.h>
#include <engine/result.h>
#include "model/what_if.h"

namespace ebbtide {

struct TuneKey {
  const char* name;
  const char* group;  ///< "Data", "Device", "Operations", "Deletes", "Tuning" or "Search"
  const char* help;
};
std::span<const TuneKey> tune_keys();

/// The values, as text, by key.
using TuneValues = std::map<std::string, std::string>;

struct TuneInputs {
  TuneRequest request;
  Tuning tuning;                         ///< for `model` and `what-if`; filters get the memory that the buffer does not use
  std::optional<PolicySettings> policy;  ///< if set, this policy is simulated instead of the tuning's layout
};

/// Returns the values of a YAML file: a map whose values are numbers, words or lists. The value of `workload` may also be a map
/// of empty_read, read, range and write. kInvalidArgument: not YAML, an unknown key, or a value of another kind.
Result<TuneValues> parse_tune_file(const std::string& yaml);

/// Returns the inputs for `values`. The message of kInvalidArgument names the key, its value and the allowed values.
Result<TuneInputs> parse_tune_inputs(const TuneValues& values);

/// Parses one change of a what-if question: "memory=2GiB". Keys: memory, entries, entry_size, page_size, workload,
/// write_asymmetry, sequential_cost, range_selectivity. kInvalidArgument: unknown key, or wrong value.
Result<Change> parse_change(const std::string& text);

/// Parses a history: each line is a window, with four counts (empty reads, reads, ranges, writes) separated by commas. Lines that
/// begin with a letter or # are skipped. The message of kInvalidArgument names the line.
Result<std::vector<PerOperation>> parse_history(const std::string& csv);

/// parse_bytes() parses a number of bytes, which may have a unit, KiB, MiB, GiB or TiB: "64MiB", "4096". parse_count() parses a
/// count, which may have K, M, G or T for powers of 1000: "10G", "1e10". `key` is for error messages.
Result<double> parse_bytes(const std::string& key, const std::string& text);
Result<double> parse_count(const std::string& key, const std::string& text);
/// Parses four shares, "0.5,0.2,0.1,0.2", or percentages that sum to 100, or the name of an expected workload of Endure: "w7".
Result<PerOperation> parse_workload(const std::string& key, const std::string& text);

}  // namespace ebbtide
