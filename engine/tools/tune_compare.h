// Compares nominal and robust tunings over many workloads: the uncertainty benchmark of Endure (Huynh et al., sections 7 and 8).
//
// For each expected workload, one tuning is computed for the workload itself (nominal), and one for each rho (robust). Every
// tuning is then judged by the same sampled workloads: four counts drawn uniformly from 1 to 9,999, divided by their sum. The
// cost model gives the costs, so a comparison needs no database. The sample depends only on its size and seed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <engine/result.h>
#include "model/tuner.h"

namespace ebbtide {

/// Number and seed of the sampled workloads; Endure has 10,000.
struct BenchmarkSample {
  int size = 10'000;
  std::uint64_t seed = 1;
};
std::vector<PerOperation> sample_workloads(const BenchmarkSample& sample);

struct CompareQuestion {
  TuneRequest request;                                         ///< mix and rho are ignored
  std::vector<std::pair<std::string, PerOperation>> expected;  ///< workloads with their names
  std::vector<double> rhos;
  std::optional<Tuning> given;  ///< one more tuning to compare
  BenchmarkSample sample;
};

/// Sampled workloads whose divergences from the expected workload are similar.
struct DivergenceBin {
  double divergence = 0;  ///< mean divergence of the bin's workloads
  double delta = 0;       ///< mean of delta_throughput() from the nominal tuning to the judged tuning
  int workloads = 0;      ///< number of workloads in the bin
};
inline constexpr double kDivergenceBin = 0.25;  // width of a bin

/// One tuning, and its results on the sampled workloads.
struct Judged {
  std::string name;  ///< "nominal", "rho 0.5" or "given"
  double rho = 0;
  Advice advice;
  double mean_cost = 0;         ///< mean cost of an operation over all sampled workloads, in page reads
  double mean_delta = 0;        ///< mean of delta_throughput() from the nominal tuning to this tuning
  double better = 0;            ///< fraction of the sampled workloads for which this tuning is cheaper than the nominal tuning
  double throughput_range = 0;  ///< largest minus smallest throughput, in operations per page read (section 8.1)
  std::vector<DivergenceBin> by_divergence;
};
struct ComparedWorkload {
  std::string name;
  PerOperation mix{};
  std::vector<Judged> tunings;  ///< the nominal tuning first
};

/// Returns the comparison, in the order of question.expected. kInvalidArgument as for tune().
Result<std::vector<ComparedWorkload>> compare(const CompareQuestion& question);

/// Returns a row per tuning, and means over kinds of workload: uniform, and with one, two or three dominant operations.
std::string compare_text(const CompareQuestion& question, const std::vector<ComparedWorkload>& compared);
std::string compare_json(const CompareQuestion& question, const std::vector<ComparedWorkload>& compared);

/// Returns "uniform", "unimodal", "bimodal" or "trimodal" by the number of shares of at least half of the largest one.
const char* workload_kind(const PerOperation& mix);

}  // namespace ebbtide
