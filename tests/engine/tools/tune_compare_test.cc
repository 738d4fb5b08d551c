// Tests of the comparison of tunings over sampled workloads, and of Endure's claims about it (Huynh et al., section 8.3).
#include "tools/tune_compare.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace ebbtide {
namespace TEST_FILE {

/// Returns the question of section 8: 10 billion entries of 1 KB, 10 bits an entry, leveling and tiering, the 15 workloads.
CompareQuestion endure_question(std::vector<double> rhos, int sample = 2000) {
  CompareQuestion question;
  question.request.system.entries = 1e10;
  question.request.system.entry_bytes = 1024;
  question.request.system.memory_bits = 1e11;
  question.request.layouts = {Layout::kLeveling, Layout::kTiering};
  question.request.equations = Equations::kPaperRelaxed;
  question.rhos = std::move(rhos);
  question.sample.size = sample;
  for (std::size_t i = 0; i < std::size(kEndureWorkloads); ++i)
    question.expected.emplace_back("w" + std::to_string(i), kEndureWorkloads[i]);
  return question;
}

std::vector<ComparedWorkload> compared_of(const CompareQuestion& question) {
  auto compared = compare(question);
  if (!compared.is_ok()) FAIL(compared.status().to_string());
  return std::move(compared).value();
}

TEST_CASE("workloads are sampled: their shares sum to 1, and the same seed gives the same workloads") {
  const auto first = sample_workloads({100, 7});
  CHECK(first == sample_workloads({100, 7}));
  CHECK(first != sample_workloads({100, 8}));
  REQUIRE(first.size() == 100);
  PerOperation mean{};
  for (const PerOperation& mix : sample_workloads({10'000, 1})) {
    CHECK(check_mix(mix).is_ok());
    for (std::size_t i = 0; i < kOperations; ++i) mean[i] += mix[i] / 10'000;
  }
  for (const double share : mean) CHECK(share == Approx(0.25).margin(0.01));
}

TEST_CASE("Endure's workloads w0 to w14 are classified: the kinds are those of its Table 4") {
  const char* kinds[15] = {"uniform", "unimodal", "unimodal", "unimodal", "unimodal", "bimodal",  "bimodal", "bimodal",
                           "bimodal", "bimodal",  "bimodal",  "trimodal", "trimodal", "trimodal", "trimodal"};
  for (std::size_t i = 0; i < 15; ++i) CHECK(std::string(workload_kind(kEndureWorkloads[i])) == kinds[i]);
}

TEST_CASE("tunings are compared: the results equal costs computed for each sampled workload") {
  CompareQuestion question = endure_question({1}, 300);
  question.expected = {{"w7", kEndureWorkloads[7]}};
  Tuning given;
  given.size_ratio = 10;
  given.buffer_bits = given.filter_bits = question.request.system.memory_bits / 2;
  question.given = given;
  const auto compared = compared_of(question);
  REQUIRE(compared.size() == 1);
  REQUIRE(compared[0].tunings.size() == 3);
  const PerOperation nominal = compared[0].tunings[0].advice.report.costs;
  for (const Judged& judged : compared[0].tunings) {
    double cost = 0, delta = 0, least = 1e300, most = 0, better = 0;
    int binned = 0;
    for (const PerOperation& mix : sample_workloads(question.sample)) {
      const double here = mean_cost(mix, judged.advice.report.costs), there = mean_cost(mix, nominal);
      cost += here / 300;
      delta += (there / here - 1) / 300;
      better += here < there ? 1.0 / 300 : 0;
      least = std::min(least, here);
      most = std::max(most, here);
    }
    for (const DivergenceBin& bin : judged.by_divergence) binned += bin.workloads;
    CAPTURE(judged.name);
    CHECK(judged.mean_cost == Approx(cost));
    CHECK(judged.mean_delta == Approx(delta).margin(1e-12));
    CHECK(judged.better == Approx(better));
    CHECK(judged.throughput_range == Approx(1 / least - 1 / most));
    CHECK(binned == 300);
  }
  CHECK(compared[0].tunings[2].advice.tuning.size_ratio == 10);
}

// Section 8.3: "As the value of rho increases, the interval size between the lowest and the highest throughputs for the robust
// tunings consistently decreases" (Fig. 8 b, a mean over all expected workloads).
TEST_CASE("rho grows: the mean throughput range of the robust tunings shrinks") {
  const auto compared = compared_of(endure_question({0.25, 0.5, 1, 2, 4}));
  double before = 1e300;
  for (std::size_t i = 0; i < compared[0].tunings.size(); ++i) {
    double range = 0;
    for (const ComparedWorkload& one : compared) range += one.tunings[i].throughput_range / 15;
    CAPTURE(compared[0].tunings[i].name);
    CHECK(range < before);
    before = range;
  }
}

// Section 8.3: unimodal, bimodal and trimodal workloads gain much from rho >= 0.5; the uniform one loses a little.
TEST_CASE("rho is 0.5 or more: workloads with dominant operations gain throughput, and the uniform one loses little") {
  const auto compared = compared_of(endure_question({0.5, 1, 2}));
  for (std::size_t i = 1; i < compared[0].tunings.size(); ++i) {
    std::map<std::string, double> sum, count;
    for (const ComparedWorkload& one : compared) {
      sum[workload_kind(one.mix)] += one.tunings[i].mean_delta;
      ++count[workload_kind(one.mix)];
    }
    for (const char* kind : {"unimodal", "bimodal", "trimodal"}) CHECK(sum[kind] / count[kind] > 0.45);
    CHECK(sum["uniform"] < 0);
    CHECK(sum["uniform"] > -0.15);
  }
}

// Section 8.3 and Fig. 7: the gain of a robust tuning is larger where the workload is farther from the expected one.
TEST_CASE("workload is far from the expected one: the robust tuning gains more throughput than near it") {
  CompareQuestion question = endure_question({1}, 10'000);
  question.expected = {{"w11", kEndureWorkloads[11]}};
  const std::vector<DivergenceBin> bins = compared_of(question)[0].tunings[1].by_divergence;
  REQUIRE(bins.size() > 4);
  CHECK(bins[0].delta < 0.5);
  CHECK(bins[bins.size() / 2].delta > bins[0].delta + 0.2);
}

TEST_CASE("comparison has a wrong field: compare() returns an error") {
  CompareQuestion question = endure_question({-1}, 10);
  CHECK(compare(question).status().to_string().find("rho is -1") != std::string::npos);
}

}  // namespace TEST_FILE
}  // namespace ebbtide
