// Compares the simulator with formulas and tables of the papers. Also tests its command line, figures and pictures.
#include "tools/simulate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>

#include "policy/registry.h"
#include "policy/stack_schedule.h"
#include "support/datadriven.h"
#include "tools/simulate_arguments.h"
#include "tools/simulate_report.h"
#include "tree/text.h"

namespace ebbtide {
namespace TEST_FILE {

SimulationSettings of(const std::string& name, std::map<std::string, double> parameters = {}) {
  SimulationSettings settings;
  settings.policy = {name, std::move(parameters)};
  return settings;
}

SimulationSample after(const SimulationSettings& settings, std::uint64_t flushes) {
  auto samples = simulate(settings, std::vector<std::uint64_t>{flushes}, nullptr);
  if (!samples.is_ok()) FAIL(samples.status().to_string());
  return samples->back();
}

/// Returns the size of each level with files, in memtables, smallest level first.
std::vector<double> level_sizes(const SimulationSettings& settings, std::uint64_t flushes) {
  auto made = Simulation::make(settings);
  REQUIRE(made.is_ok());
  const std::unique_ptr<Simulation> simulation = std::move(made).value();
  for (std::uint64_t i = 0; i < flushes; ++i) REQUIRE(simulation->flush().is_ok());
  std::map<int, double> sizes;
  for (const RunShape& run : simulation->shape().runs) {
    if (!run.files.empty()) sizes[run.level] += static_cast<double>(run.bytes()) / static_cast<double>(kSimulatedMemtable);
  }
  std::vector<double> out;
  for (const auto& [level, size] : sizes) out.push_back(size);
  return out;
}

/// Returns the exact write amplification of MinLatency after C(m + k, k) - 1 flushes: C(i + j, i) flushes have i smaller and j
/// larger ancestors in the tree t*(m, k), and are written j + 1 times.
double min_latency_write_amp(std::uint64_t m, std::uint64_t k) {
  double written = 0, flushes = 0;
  for (std::uint64_t i = 0; i < k; ++i) {
    for (std::uint64_t j = 0; j < m; ++j) {
      const auto nodes = static_cast<double>(binomial_coefficient(i + j, i));
      written += static_cast<double>(j + 1) * nodes;
      flushes += nodes;
    }
  }
  REQUIRE(flushes == static_cast<double>(binomial_coefficient(m + k, k) - 1));
  return written / flushes;
}

/// Returns the same in closed form: sum over i < k of C(i + j, i) is C(j + k, k - 1), and j C(j + k - 1, k - 1) is k C(j + k - 1,
/// k).
double closed_form(double m, double k, double flushes) { return k * m / (k + 1) * (flushes + 1) / flushes; }

/// Returns the thesis' Eq. 3.1 without its O(1/k): k n^(1/k) / c_k, c_k = (k + 1) / (k!)^(1/k).
double large_n_curve(double k, double n) {
  const double c = (k + 1) / std::exp(std::lgamma(k + 1) / k);
  return k * std::pow(n, 1 / k) / c;
}

TEST_CASE("MinLatency is simulated: it costs as much as its search tree predicts", "[simulate]") {
  for (const auto& [m, k] :
       std::vector<std::pair<std::uint64_t, std::uint64_t>>{{20, 2}, {12, 3}, {9, 4}, {8, 5}, {6, 7}, {5, 10}}) {
    const std::uint64_t flushes = binomial_coefficient(m + k, k) - 1;
    INFO("k " << k << ", m " << m << ", flushes " << flushes);
    const SimulationSample sample = after(of("min_latency", {{"k", k}}), flushes);
    CHECK(sample.write_amp == Approx(min_latency_write_amp(m, k)).epsilon(1e-9));
    const double closed = closed_form(static_cast<double>(m), static_cast<double>(k), static_cast<double>(flushes));
    CHECK(sample.write_amp == Approx(closed).epsilon(1e-9));
    CHECK(sample.max_runs == k);
  }
}

TEST_CASE("number of flushes grows: MinLatency's exact cost approaches k n^(1/k) / c_k", "[simulate]") {
  for (const std::uint64_t k : {2u, 3u, 4u, 5u, 7u, 10u}) {
    // To first order (k! n)^(1/k) is m + (k + 1) / 2, so the difference shrinks as m grows and k stays.
    double last = 0;
    for (const std::uint64_t m : {20 * k, 80 * k}) {
      const auto n = std::exp(std::lgamma(static_cast<double>(m + k + 1)) - std::lgamma(static_cast<double>(m + 1)) -
                              std::lgamma(static_cast<double>(k + 1)));
      const auto parts = static_cast<double>(m) * static_cast<double>(k) / static_cast<double>(k + 1);
      double written = 0, flushes = 0;
      for (std::uint64_t i = 0; i < k; ++i) {
        double nodes = 1;  // C(i + j, i), by j
        for (std::uint64_t j = 0; j < m; ++j) {
          written += static_cast<double>(j + 1) * nodes;
          flushes += nodes;
          nodes *= static_cast<double>(i + j + 1) / static_cast<double>(j + 1);
        }
      }
      const double ratio = written / flushes / large_n_curve(static_cast<double>(k), n);
      INFO("k " << k << ", m " << m << ", ratio " << ratio << ", k / (k + 1) m is " << parts);
      CHECK(ratio > last);
      CHECK(ratio <= 1.02);
      last = ratio;
    }
    CHECK(last > 0.98);
  }
}

TEST_CASE("flushes are many: MinLatency and Binomial cost nearly the same, as theory says", "[simulate]") {
  struct Case {
    std::uint64_t k, m;
    double nearness;  ///< least allowed ratio of the cost to the curve, which the cost approaches from below
  };
  // MinLatency's tree is full at these points, and at 20,000 flushes. Just before the first, Binomial is a write ahead: its trees
  // are full C(2k, k) - (C(1, 1) + C(3, 2) + ... + C(2k - 1, k)) flushes earlier, and then it merges everything.
  for (const Case& c : {Case{2, 198, 0.98}, Case{3, 47, 0.96}, Case{4, 23, 0.90}, Case{5, 15, 0.84}}) {
    const std::uint64_t full = binomial_coefficient(c.m + c.k, c.k) - 1, flushes = 20'000;
    INFO("k " << c.k << ", full at " << full);
    const auto at = std::vector<std::uint64_t>{full, flushes};
    const auto lazy = simulate(of("min_latency", {{"k", c.k}}), at, nullptr),
               other = simulate(of("binomial", {{"k", c.k}}), at, nullptr);
    REQUIRE((lazy.is_ok() && other.is_ok()));
    const auto exact = closed_form(static_cast<double>(c.m), static_cast<double>(c.k), static_cast<double>(full));
    CHECK(lazy->front().write_amp == Approx(exact).epsilon(1e-9));
    CHECK(other->front().write_amp <= exact + 1 + 1e-9);
    const SimulationSample &first = lazy->back(), &second = other->back();
    CHECK(second.write_amp == Approx(first.write_amp).epsilon(0.02));
    const double theory = large_n_curve(static_cast<double>(c.k), static_cast<double>(flushes));
    CHECK(first.write_amp < theory * 1.02);
    CHECK(first.write_amp > theory * c.nearness);
    CHECK(first.max_runs == c.k);
    CHECK(second.max_runs == c.k);
    // Lazy policy: the stack is nearly always full (thesis, 3.2).
    CHECK(first.avg_runs > 0.85 * static_cast<double>(c.k));
  }
}

TEST_CASE("flushes are few: Binomial has fewer runs than its bound k, and MinLatency has k runs", "[simulate]") {
  // There are about log2(n) / 2 runs and merges (thesis, 3.3.2), well below k; MinLatency fills the stack.
  const SimulationSample binomial = after(of("binomial", {{"k", 10}}), 4096);
  const SimulationSample lazy = after(of("min_latency", {{"k", 10}}), 4096);
  CHECK(binomial.avg_runs < 7);
  CHECK(binomial.max_runs <= 8);
  CHECK(lazy.avg_runs > 8);
  CHECK(lazy.write_amp < binomial.write_amp);
}

TEST_CASE("flushes grow in number: cost grows linearly for Constant, logarithmically for tiering and leveling", "[simulate]") {
  // Every k-th flush rewrites everything: n / (2 k) writes on average, k - 1 of k flushes once.
  for (const double k : {2.0, 4.0, 8.0}) {
    for (const std::uint64_t n : {1000u, 4000u}) {
      CHECK(after(of("constant", {{"k", k}}), n).write_amp == Approx(static_cast<double>(n) / (2 * k)).epsilon(0.05));
    }
  }
  // With tiering an entry is written once per level. With T times as many flushes there is one level more, so one write more.
  for (const double t : {2.0, 4.0, 8.0}) {
    double last = 0;
    for (int level = 2; level <= 4; ++level) {
      const auto n = static_cast<std::uint64_t>(std::pow(t, level));
      const double write_amp = after(of("tiering", {{"size_ratio", t}}), n).write_amp;
      CHECK(write_amp == Approx(level + 1).epsilon(1e-9));
      if (level > 2) CHECK(write_amp - last == Approx(1).epsilon(1e-9));
      last = write_amp;
    }
  }
  // With leveling every level costs about as much as the one before, at most T.
  const double t = 4;
  std::vector<double> steps;
  double before = 0;
  for (const std::uint64_t n : {4u * 21, 4u * 85, 4u * 341}) {  // the levels are full
    const double write_amp = after(of("leveling", {{"size_ratio", t}}), n).write_amp;
    steps.push_back(write_amp - before);
    before = write_amp;
  }
  for (std::size_t i = 1; i < steps.size(); ++i) {
    CHECK(steps[i] > 1);
    CHECK(steps[i] < t + 0.5);
  }
}

TEST_CASE("K-LSM is simulated: it writes as many bytes as Endure's equation 9 says", "[simulate]") {
  // Each level costs (T - 1 + K) / (2 K) for runs of (T - 1) / K units, with its arrival and the merge down. The T-th unit has a
  // run of its own here before the level moves down. It is written once, while in the equation it takes part in no merge on its
  // level.
  struct Case {
    double t, k;
  };
  for (const Case& c : {Case{5, 1}, Case{5, 2}, Case{5, 4}, Case{7, 3}, Case{7, 6}}) {
    const auto t = static_cast<std::uint64_t>(c.t);
    const std::uint64_t levels = 3;
    const auto flushes = static_cast<std::uint64_t>(std::pow(t, levels));
    const double write_amp = after(of("klsm", {{"size_ratio", c.t}, {"runs", c.k}}), flushes).write_amp;
    // A run of q units costs 1 + 2 + ... + q. Per T units there are K such runs and the last unit.
    const double q = (c.t - 1) / c.k;
    const double per_level = (c.k * q * (q + 1) / 2 + 1) / c.t;
    INFO("T " << c.t << ", K " << c.k << ", per level " << per_level);
    CHECK(per_level == Approx(((c.t - 1) * (c.t - 1 + c.k) / (2 * c.k) + 1) / c.t));
    // Level 0 first writes its flushes, and then writes those again that join a run.
    const double joins = (c.k * (q * (q + 1) / 2 - 1)) / c.t;
    CHECK(write_amp == Approx(1 + joins + (static_cast<double>(levels) - 1) * per_level + 1).epsilon(0.01));
  }
}

TEST_CASE("leveling is simulated: its lower levels equal those of LEVELED in Mao's thesis (table 4.1)", "[simulate]") {
  // In the thesis every file is one memtable. Here files are cut at cells, so a full level may have up to two files less.
  const std::pair<std::uint64_t, std::vector<double>> rows[] = {
      {20, {4, 14}}, {40, {4, 16, 18}}, {60, {4, 16, 38}}, {80, {4, 16, 58}}, {100, {4, 16, 64, 14}}, {120, {4, 16, 64, 34}}};
  for (const auto& [flushes, sizes] : rows) {
    INFO("after " << flushes << " flushes");
    const std::vector<double> found = level_sizes(of("leveling", {{"size_ratio", 4}}), flushes - 2);
    REQUIRE(found.size() == sizes.size());
    double all = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      INFO("level " << i + 1 << " has " << found[i]);
      if (i + 1 < sizes.size()) CHECK((found[i] <= sizes[i] && found[i] > sizes[i] - 2));
      all += found[i];
    }
    CHECK(all == Approx(flushes - 2));
  }
}

TEST_CASE("merges, updates and deletes are simulated: space amplification matches theory", "[simulate]") {
  // Without updates nothing is stale. A merge of everything needs all its space twice (thesis, 3.4.3), leveling the space of one
  // file.
  const SimulationSample constant = after(of("constant", {{"k", 4}}), 401);
  CHECK(constant.space_amp == Approx(1));
  CHECK(constant.transient_space_amp > 1.97);
  CHECK(constant.transient_space_amp <= 2);
  CHECK(after(of("leveling", {{"size_ratio", 4}}), 401).transient_space_amp < 1.1);
  // With k = 1 there is one run of only the live entries, so deletes and updates make it smaller than the written bytes.
  SimulationSettings one = of("constant", {{"k", 1}});
  one.workload.updates = 0.5;
  one.workload.deletes = 0.2;
  const SimulationSample single = after(one, 300);
  CHECK(single.space_amp == Approx(1).epsilon(0.001));
  // With more runs more stale entries stay.
  SimulationSettings tiered = of("tiering", {{"size_ratio", 4}});
  tiered.workload = one.workload;
  CHECK(after(tiered, 300).space_amp > 1.2);
  // Updates lower write amplification (thesis, 3.4.4).
  SimulationSettings updated = of("min_latency", {{"k", 4}});
  updated.workload.updates = 0.7;
  CHECK(after(updated, 3000).write_amp < after(of("min_latency", {{"k", 4}}), 3000).write_amp);
}

TEST_CASE("size of a run is simulated: it agrees with the number of distinct drawn keys", "[simulate]") {
  // Compares the expectation with drawn keys: 20,000 in a memtable, and half of the operations overwrite.
  WorkloadSettings settings;
  settings.updates = 0.5;
  SimulatedWorkload workload(settings);
  constexpr std::uint64_t kKeys = 20'000;
  Random random(3);
  std::uint64_t live = 0;
  std::vector<std::uint64_t> newest;  // the flush that last wrote each key
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t t = 1; t <= 30; ++t) {
    workload.flush();
    std::uint64_t distinct = 0;
    while (distinct < kKeys) {
      const bool update = live > 0 && random.fraction() < settings.updates;
      const std::uint64_t key = update ? random.uniform(live) : live++;
      if (key == newest.size()) newest.push_back(0);
      distinct += newest[key] != t ? 1 : 0;
      newest[key] = t;
    }
  }
  const auto scale = static_cast<double>(kKeys) / static_cast<double>(kSimulatedMemtable);
  CHECK(workload.live() * scale == Approx(static_cast<double>(live)).epsilon(0.02));
  for (const std::uint64_t since : {0u, 10u, 20u, 29u}) {
    std::uint64_t held = 0;
    for (const std::uint64_t t : newest) held += t > since ? 1 : 0;
    CHECK(workload.bytes(since, 30) * scale == Approx(static_cast<double>(held)).epsilon(0.02));
  }
  CHECK(workload.flushed(30) == Approx(workload.bytes(29, 30)));
}

TEST_CASE("flush sizes are random: costs change little, and the same seed gives the same sizes", "[simulate]") {
  SimulationSettings settings = of("binomial", {{"k", 4}});
  const SimulationSample even = after(settings, 3000);
  settings.workload.random_sizes = true;
  const SimulationSample random = after(settings, 3000), again = after(settings, 3000);
  CHECK(random.write_amp == again.write_amp);
  CHECK(random.write_amp != even.write_amp);
  CHECK(random.write_amp == Approx(even.write_amp).epsilon(0.03));
  for (const char* name :
       {"bigtable", "exploring", "concurrent", "klsm", "lazy_leveling", "tiering", "garnering", "one_leveling"}) {
    SimulationSettings other = of(name);
    other.workload = {true, 0.3, 0.2, 7};
    CHECK(after(other, 600).flushes == 600);  // the stack is within its bounds after every flush, or there is no sample
  }
}

/// Returns the runs in memtables, newest first, "|" between levels.
std::string runs_text(const TreeShape& shape) {
  std::string out;
  int level = 0;
  for (const RunShape& run : shape.runs) {
    if (run.files.empty()) continue;
    for (; level < run.level; ++level) out += " |";
    char size[32];
    std::snprintf(size, sizeof size, " %.4g", static_cast<double>(run.bytes()) / static_cast<double>(kSimulatedMemtable));
    out += size;
  }
  return out;
}

/// ~trace policy=NAME [parameter=...] flushes=N [cells=C] [as_engine] [brief]
/// Prints after each flush the runs, in memtables, and the merges that the flush caused; `brief`: only the runs.
std::string trace(const test::DataCase& data) {
  REQUIRE(data.command == "trace");
  SimulationSettings settings = of(data.arg("policy"));
  settings.cells = static_cast<std::uint32_t>(std::stoul(data.arg("cells", "0")));
  settings.as_engine = data.args.count("as_engine") != 0;
  for (const auto& [name, value] : data.args) {
    const bool own = name == "policy" || name == "flushes" || name == "cells" || name == "as_engine" || name == "brief";
    if (!own) settings.policy.parameters[name] = std::stod(value);
  }
  auto made = Simulation::make(settings);
  if (!made.is_ok()) return made.status().to_string();
  const std::unique_ptr<Simulation> simulation = std::move(made).value();
  std::string out;
  const std::uint64_t flushes = std::stoull(data.arg("flushes"));
  for (std::uint64_t flush = 1; flush <= flushes; ++flush) {
    if (const Status status = simulation->flush(); !status.is_ok()) return status.to_string();
    out += std::to_string(flush) + ":" + runs_text(simulation->shape()) + "\n";
    if (data.args.count("brief") != 0) continue;
    for (const Plan& plan : simulation->plans()) out += "    " + to_text(plan) + "\n";
  }
  return out;
}

TEST_CASE("policies get the same flushes: each one's merges equal the recorded ones, and no two policies merge alike",
          "[simulate]") {
  std::map<std::string, std::string> traces;  // for each trace, the policy that made it
  std::set<std::string> policies;
  test::run_datadriven(std::string(EBBTIDE_TEST_DIR) + "/testdata/traces.txt", [&](const test::DataCase& data) {
    const std::string answer = trace(data);
    if (data.args.count("brief") == 0) {
      INFO(data.where << ": " << data.arg("policy") << " does what " << traces[answer] << " does");
      CHECK(traces[answer].empty());
      traces[answer] = data.arg("policy");
      policies.insert(data.arg("policy"));
    }
    return answer;
  });
  for (const PolicyInfo& policy : all_policies()) CHECK(policies.count(policy.name) == 1);
}

TEST_CASE("simulation works as the engine does (as_engine): each flush is written before the merges that it causes",
          "[simulate]") {
  // The runs are the same, but more bytes are written: a flush is written first, and then again by the merges that it causes. In
  // the paper, only the result of these merges is written.
  for (const char* name : {"min_latency", "binomial", "bigtable", "constant"}) {
    SimulationSettings settings = of(name, {{"k", 4}});
    const SimulationSample paper = after(settings, 500);
    settings.as_engine = true;
    const SimulationSample engine = after(settings, 500);
    INFO(name);
    CHECK(engine.avg_runs == paper.avg_runs);
    CHECK(engine.write_amp > paper.write_amp);
    CHECK(engine.write_amp <= paper.write_amp + 1);
    CHECK(engine.transient_space_amp >= paper.transient_space_amp);
  }
  // These policies write each flush first in any case. If called again, they may choose other files.
  SimulationSettings settings = of("exploring");
  const SimulationSample paper = after(settings, 500);
  settings.as_engine = true;
  CHECK(after(settings, 500).avg_runs <= paper.avg_runs);
  settings = of("tiering");
  const double once = after(settings, 500).write_amp;
  settings.as_engine = true;
  CHECK(after(settings, 500).write_amp == once);
}

TEST_CASE("file size is four memtables: 100 memtables are in 25 to 50 files, none of more than seven memtables", "[simulate]") {
  SimulationSettings settings = of("leveling", {{"size_ratio", 4}});
  settings.file_size = 4;
  auto made = Simulation::make(settings);
  REQUIRE(made.is_ok());
  const std::unique_ptr<Simulation> simulation = std::move(made).value();
  for (int i = 0; i < 100; ++i) REQUIRE(simulation->flush().is_ok());
  std::uint64_t files = 0;
  for (const RunShape& run : simulation->shape().runs) {
    for (const FileShape& file : run.files)
      CHECK(file.bytes <= 7 * kSimulatedMemtable);  // aligned: half as large again, plus a cell
    files += run.files.size();
  }
  CHECK(files >= 25);
  CHECK(files <= 50);
}

TEST_CASE("results of a simulation are printed: CSV and table equal the recorded texts, and plots have every policy",
          "[simulate]") {
  const std::vector<SimulationSeries> series = {{"tiering", {{4, 2.5, 1.25, 3, 1, 1.5}, {8, 3, 1.5, 3, 1, 2}}},
                                                {"k<4", {{4, 1, 1, 1, 1, 1}}}};
  CHECK(csv_text(series) ==
        "policy,flushes,write_amp,avg_runs,max_runs,space_amp,transient_space_amp\n"
        "tiering,4,2.500000,1.250000,3,1.000000,1.500000\n"
        "tiering,8,3.000000,1.500000,3,1.000000,2.000000\n"
        "k<4,4,1.000000,1.000000,1,1.000000,1.000000\n");
  CHECK(table_text(series) ==
        "policy      flushes  write amp  avg runs  max runs  space amp  transient\n"
        "tiering           4      2.500     1.250         3      1.000      1.500\n"
        "tiering           8      3.000     1.500         3      1.000      2.000\n"
        "k<4               4      1.000     1.000         1      1.000      1.000\n");
  const SimulationMetric* metric = find_simulation_metric("write_amp");
  REQUIRE(metric != nullptr);
  CHECK(find_simulation_metric("policy") == nullptr);
  const std::string plot = plot_text(series, *metric, false);
  CHECK(plot.find("         3 |" + std::string(71, ' ') + "a\n") != std::string::npos);
  CHECK(plot.find("  b  k<4\n") != std::string::npos);
  const std::string svg = svg_text(series, *metric, true);
  CHECK(svg.find("<svg ") == 0);
  CHECK(svg.find("k&lt;4") != std::string::npos);
  CHECK(svg.find("</svg>\n") != std::string::npos);
}

TEST_CASE("policies of the command line are parsed: an error names the wrong part", "[simulate]") {
  const auto policies = *parse_policies("MinLatency:k=3,exploring:k=4,lambda=1.5,C=4,tiered");
  REQUIRE(policies.size() == 3);
  CHECK(policies[0].name == "min_latency");
  CHECK(policies[1].parameters == std::map<std::string, double>{{"k", 4}, {"lambda", 1.5}, {"min_merge", 4}});
  CHECK(policies[2].name == "tiering");
  CHECK(labels_of({{"klsm", {{"runs", 2}}}, {"klsm", {}}, {"leveling", {}}}) ==
        std::vector<std::string>{"klsm runs=2", "klsm", "leveling"});
  CHECK(!parse_policies("k=3").is_ok());
  CHECK(!parse_policies("").is_ok());
  CHECK(!parse_policies("binomial:k").is_ok());
  CHECK(!parse_policies("binomial:k=three").is_ok());

  std::vector<PolicySettings> chosen = {{"binomial", {}}, {"bigtable", {{"k", 7}}}, {"tiering", {}}};
  REQUIRE(apply_flags({{"k", 6}}, &chosen).is_ok());
  CHECK(chosen[0].parameters.at("k") == 6);
  CHECK(chosen[1].parameters.at("k") == 7);  // the policy's own parameter
  CHECK(chosen[2].parameters.empty());
  CHECK(apply_flags({{"lambda", 2}}, &chosen).to_string().find("--lambda: none of the named policies has this parameter") !=
        std::string::npos);
  chosen = {{"binomial", {}}};
  CHECK(apply_flags({{"k", 65}}, &chosen).to_string().find("k is 65; allowed: a whole number from 1 to 64") != std::string::npos);
  CHECK(parameter_flags().at("size_ratio") == std::vector<std::string>{"size-ratio", "size_ratio", "T", "B"});
}

TEST_CASE("configuration file has tree.policy: the policy and its file_choice are read", "[simulate]") {
  const auto tree = parse_tree_choices("server: { port: 1 }\ntree:\n  policy: { name: klsm, size_ratio: 6, runs_1: 3 }\n");
  REQUIRE(tree.is_ok());
  CHECK(tree->policy.name == "klsm");
  CHECK(tree->policy.parameters == std::map<std::string, double>{{"size_ratio", 6}, {"runs_1", 3}});
  CHECK(tree->file_choice == FileChoice::kLeastOverlap);
  CHECK(parse_tree_choices("tree: { policy: { name: leveling }, file_choice: oldest }")->file_choice == FileChoice::kOldest);
  for (const char* bad : {"", "tree: 3", "tree: { policy: { size_ratio: 6 } }", "tree: { policy: { name: klsm, runs: many } }",
                          "tree: { policy: { name: klsm }, file_choice: best }", "{"}) {
    INFO(bad);
    CHECK(parse_tree_choices(bad).status().code() == Code::kInvalidArgument);
  }
  for (const char* without : {"server: { port: 1 }", "tree: { file_choice: oldest }", "tree: 3"}) {
    INFO(without);
    CHECK(parse_tree_choices(without).status().to_string().find("tree.policy.name is missing") != std::string::npos);
  }
  std::ifstream in(std::string(EBBTIDE_TEST_DIR) + "/../../../config/ebbtide.yaml");
  REQUIRE(in.is_open());
  const auto shipped = parse_tree_choices(std::string{std::istreambuf_iterator<char>(in), {}});
  REQUIRE(shipped.is_ok());
  CHECK(Simulation::make(of(shipped->policy.name, shipped->policy.parameters)).is_ok());
}

TEST_CASE("moments of samples are listed or spread evenly: they are sorted and within the number of flushes", "[simulate]") {
  CHECK(*parse_moments("30,10,30", 40) == std::vector<std::uint64_t>{10, 30});
  for (const char* bad : {"", "0", "41", "x", "1,", "-1", "1.5"}) CHECK(!parse_moments(bad, 40).is_ok());
  CHECK(spread_moments(10, 5, false) == std::vector<std::uint64_t>{2, 4, 6, 8, 10});
  CHECK(spread_moments(1000, 3, true) == std::vector<std::uint64_t>{10, 100, 1000});
  CHECK(spread_moments(2, 10, false) == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("settings of a simulation are invalid: the error has the reason", "[simulate]") {
  CHECK(!Simulation::make(of("binomial", {{"k", 0}})).is_ok());
  SimulationSettings settings = of("leveling");
  settings.cells = 48;
  CHECK(Simulation::make(settings).status().to_string().find("cells is 48") != std::string::npos);
  settings.cells = 0;
  for (const double bad : {0.0, -1.0, 1e7, std::nan("")}) {
    settings.file_size = bad;
    CHECK(Simulation::make(settings).status().to_string().find("the size of files is") != std::string::npos);
  }
}

}  // namespace TEST_FILE
}  // namespace ebbtide
