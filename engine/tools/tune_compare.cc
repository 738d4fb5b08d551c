#include "tools/tune_compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "tools/json.h"
#include "tools/tune_json.h"
#include "tools/tune_report.h"

namespace ebbtide {
namespace {

constexpr std::uint64_t kMostOperations =
    9'999;  // of one kind in a sampled workload: Endure draws from the open range (0, 10000)

/// Returns the results of one tuning on the sample, relative to the nominal tuning.
Judged judge(std::string name, const Advice& nominal, Advice advice, const PerOperation& expected,
             const std::vector<PerOperation>& sample) {
  Judged out;
  out.name = std::move(name);
  double least = std::numeric_limits<double>::infinity(), most = 0;
  int better = 0;
  for (const PerOperation& mix : sample) {
    const double cost = mean_cost(mix, advice.report.costs), before = mean_cost(mix, nominal.report.costs);
    const double delta = delta_throughput(before, cost);
    out.mean_cost += cost;
    out.mean_delta += delta;
    better += cost < before ? 1 : 0;
    least = std::min(least, 1 / cost);
    most = std::max(most, 1 / cost);
    const double divergence = kl_divergence(mix, expected);
    const auto bin = static_cast<std::size_t>(std::min(divergence / kDivergenceBin, 1000.0));
    if (out.by_divergence.size() <= bin) out.by_divergence.resize(bin + 1);
    out.by_divergence[bin].divergence += divergence;
    out.by_divergence[bin].delta += delta;
    ++out.by_divergence[bin].workloads;
  }
  const auto count = static_cast<double>(sample.size());
  out.mean_cost /= count;
  out.mean_delta /= count;
  out.better = better / count;
  out.throughput_range = most - least;
  std::erase_if(out.by_divergence, [](const DivergenceBin& bin) { return bin.workloads == 0; });
  for (DivergenceBin& bin : out.by_divergence) {
    bin.divergence /= bin.workloads;
    bin.delta /= bin.workloads;
  }
  out.advice = std::move(advice);
  return out;
}

/// Returns means over the workloads of `kind`, or over all workloads if `kind` is empty: the mean delta, then the throughput
/// range.
std::pair<double, double> means(const std::vector<ComparedWorkload>& compared, const std::string& kind, std::size_t tuning) {
  double delta = 0, range = 0, count = 0;
  for (const ComparedWorkload& one : compared) {
    if (!kind.empty() && kind != workload_kind(one.mix)) continue;
    delta += one.tunings[tuning].mean_delta;
    range += one.tunings[tuning].throughput_range;
    ++count;
  }
  return {delta / count, range / count};
}

}  // namespace

std::vector<PerOperation> sample_workloads(const BenchmarkSample& sample) {
  Random random(sample.seed);
  std::vector<PerOperation> mixes;
  for (int i = 0; i < sample.size; ++i) {
    PerOperation counts{};
    for (double& count : counts) count = 1 + static_cast<double>(random.uniform(kMostOperations));
    mixes.push_back(mix_of_counts(counts));
  }
  return mixes;
}

const char* workload_kind(const PerOperation& mix) {
  const double most = *std::max_element(mix.begin(), mix.end());
  const auto large = std::count_if(mix.begin(), mix.end(), [&](double share) { return share >= most / 2; });
  constexpr const char* kKinds[] = {"unimodal", "bimodal", "trimodal", "uniform"};
  return kKinds[large - 1];
}

Result<std::vector<ComparedWorkload>> compare(const CompareQuestion& question) {
  const std::vector<PerOperation> sample = sample_workloads(question.sample);
  std::vector<ComparedWorkload> compared;
  for (const auto& [name, mix] : question.expected) {
    ComparedWorkload one{name, mix, {}};
    TuneRequest request = question.request;
    request.mix = mix;
    request.rho = 0;
    TRY_ASSIGN(nominal, tune(request));
    one.tunings.push_back(judge("nominal", nominal.front(), nominal.front(), mix, sample));
    for (const double rho : question.rhos) {
      request.mix = with_smallest_share(mix);
      request.rho = rho;
      TRY_ASSIGN(robust, tune(request));
      one.tunings.push_back(judge("rho " + formatted(rho, "%g"), nominal.front(), robust.front(), mix, sample));
      one.tunings.back().rho = rho;
    }
    request.mix = mix;
    request.rho = 0;
    if (question.given) one.tunings.push_back(judge("given", nominal.front(), assess(request, *question.given), mix, sample));
    compared.push_back(std::move(one));
  }
  return compared;
}

std::string compare_text(const CompareQuestion& question, const std::vector<ComparedWorkload>& compared) {
  std::string out =
      "Judged by " + std::to_string(question.sample.size) +
      " sampled workloads. delta: mean gain in throughput over the nominal tuning; better: share of the workloads with a\n"
      "gain; range: highest minus lowest throughput, in operations per page read.\n\n";
  std::vector<std::vector<std::string>> rows = {
      {"workload", "tuning", "layout", "T", "filter bits", "own cost", "worst", "mean cost", "delta", "better", "range"}};
  for (const ComparedWorkload& one : compared) {
    for (const Judged& judged : one.tunings) {
      const Tuning& t = judged.advice.tuning;
      rows.push_back({one.name, judged.name, std::string(layout_name(t.layout)), formatted(t.size_ratio, "%g"),
                      formatted(t.filter_bits / question.request.system.entries, "%.2f"),
                      formatted(mean_cost(one.mix, judged.advice.report.costs), "%.3g"),
                      formatted(judged.advice.worst.cost, "%.3g"), formatted(judged.mean_cost, "%.3g"),
                      formatted(judged.mean_delta * 100, "%+.1f %%"), formatted(judged.better * 100, "%.0f %%"),
                      formatted(judged.throughput_range, "%.3g")});
    }
  }
  out += aligned_table(rows) + "\n";
  rows = {{"mean", "tuning", "workloads", "delta", "range"}};
  for (const char* kind : {"uniform", "unimodal", "bimodal", "trimodal", ""}) {
    const auto count = std::count_if(compared.begin(), compared.end(), [&](const ComparedWorkload& one) {
      return *kind == '\0' || std::string(kind) == workload_kind(one.mix);
    });
    for (std::size_t i = 0; count > 0 && i < compared.front().tunings.size(); ++i) {
      const auto [delta, range] = means(compared, kind, i);
      rows.push_back({*kind == '\0' ? "all" : kind, compared.front().tunings[i].name, std::to_string(count),
                      formatted(delta * 100, "%+.1f %%"), formatted(range, "%.3g")});
    }
  }
  return out + aligned_table(rows);
}

std::string compare_json(const CompareQuestion& question, const std::vector<ComparedWorkload>& compared) {
  JsonArray workloads;
  for (const ComparedWorkload& one : compared) {
    JsonArray tunings;
    for (const Judged& judged : one.tunings) {
      TuneRequest request = question.request;
      request.mix = one.mix;
      request.rho = judged.rho;
      JsonArray bins;
      for (const DivergenceBin& bin : judged.by_divergence)
        bins.add(json_numbers(std::vector<double>{bin.divergence, bin.delta, static_cast<double>(bin.workloads)}).str());
      JsonObject json;
      json.add("name", judged.name).raw("rho", json_number(judged.rho)).raw("advice", advice_json(request, judged.advice));
      json.raw("own_cost", json_number(mean_cost(one.mix, judged.advice.report.costs)));
      json.raw("mean_cost", json_number(judged.mean_cost)).raw("mean_delta", json_number(judged.mean_delta));
      json.raw("better", json_number(judged.better)).raw("throughput_range", json_number(judged.throughput_range));
      tunings.add(json.add("delta_by_divergence", bins).str());
    }
    JsonObject json;
    json.add("name", one.name).add("kind", workload_kind(one.mix)).add("workload", json_numbers(one.mix));
    workloads.add(json.add("tunings", tunings).str());
  }
  JsonObject out;
  out.add("sampled", static_cast<std::uint64_t>(question.sample.size)).add("seed", question.sample.seed);
  return out.add("workloads", workloads).str() + "\n";
}

}  // namespace ebbtide
