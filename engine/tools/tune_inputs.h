// Reads what ebbtide-tune works on: values by key, from a YAML file and from flags.
//
// Every key of kTuneKeys is a key of the file and a flag, with - for _. Flags replace values of the file.
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

/// Values as text, by key.
using TuneValues = std::map<std::string, std::string>;

struct TuneInputs {
  TuneRequest request;
  Tuning tuning;  ///< for `model` and `what-if`; the buffer is set, and the rest of the memory is for filters
  std::optional<PolicySettings> policy;  ///< simulated instead of the tuning's layout
};

/// The values of a YAML file: a map whose values are numbers, words, lists, or for `mix` a map of empty_read, read, range and write.
/// kInvalidArgument: no YAML, an unknown key, or a value of another kind.
Result<TuneValues> parse_tune_file(const std::string& yaml);

/// kInvalidArgument names the key, its value and what is allowed.
Result<TuneInputs> parse_tune_inputs(const TuneValues& values);

/// "memory=2GiB": one change of a what-if question. Keys: memory, entries, entry_size, page_size, mix, write_asymmetry, sequential_cost,
/// range_selectivity. kInvalidArgument: no such key, or a wrong value.
Result<Change> parse_change(const std::string& text);

/// Windows of a history: a line each of four counts (empty reads, reads, ranges, writes) separated by commas; lines that begin with a letter
/// or # are skipped. kInvalidArgument names the line.
Result<std::vector<PerOperation>> parse_history(const std::string& csv);

/// "64MiB", "4096": bytes, with KiB, MiB, GiB or TiB. "10G", "1e10": a count, with K, M, G or T for powers of 1000.
Result<double> parse_bytes(const std::string& key, const std::string& text);
Result<double> parse_count(const std::string& key, const std::string& text);
/// "0.5,0.2,0.1,0.2", or percentages that sum to 100.
Result<PerOperation> parse_mix(const std::string& key, const std::string& text);

}  // namespace ebbtide
