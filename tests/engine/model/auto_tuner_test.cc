// Tests of the automatic tuner in simulated time. The page reads are those of the cost model.
#include <engine/auto_tuner.h>

#include <functional>
#include <random>
#include <set>
#include <vector>

#include <catch2/catch.hpp>
#include "support/long_run.h"

namespace ebbtide {
namespace TEST_FILE {

constexpr Millis kMinute = 60'000;
constexpr OperationFigures kWrites = {0.02, 0.03, 0.0, 0.95}, kReads = {0.5, 0.45, 0.0, 0.05}, kRanges = {0.02, 0.03, 0.9, 0.05},
                           kMixed = {0.25, 0.25, 0.1, 0.4};

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A server with a database of 2 GB, whose tuner decides once a minute. Operations take the minute that has been set.
class Simulation {
 public:
  explicit Simulation(AutoTunerOptions options = {}) : options_(options) {
    workload.table_entries = 10'000'000;
    workload.table_bytes = 200 * workload.table_entries;
    workload.settings.memtable_size = 16 << 20;
    workload.settings.policy = {"one_leveling", {{"size_ratio", 6}, {"level0_runs", 4}}};
  }

  /// Lets one window pass. Applies what is due if `applies`.
  AutoTuner::Decision window(const OperationFigures& mix, double operations = 3e6) {
    const auto part = [&](double share) { return static_cast<std::uint64_t>(share * operations); };
    const OperationCounts counts{part(mix.empty_read), part(mix.read), part(mix.range), part(mix.write), 100 * part(mix.range), 0,
                                 stamp_deletes};
    const Millis start = now;
    now += kMinute;
    AutoTuner::Decision decision = tuner.end_window(start, now, workload, counts, options_);
    if (decision.due && applies) {
      ++changes;
      change_minutes.push_back(now / kMinute);
      tuner.applied(now);
      use(decision.advice);
    }
    return decision;
  }
  AutoTuner::Decision windows(const OperationFigures& mix, int count, double operations = 3e6) {
    AutoTuner::Decision last;
    for (int i = 0; i < count; ++i) last = window(mix, operations);
    return last;
  }
  /// Like the server: sizes are rounded, and parameters with defaults are set.
  void use(const TunerAdvice& advice) {
    workload.settings.policy = advice.policy;
    workload.settings.memtable_size = advice.memtable_bytes / 1024 * 1024;
    workload.settings.filter_bits_per_key = std::floor(advice.filter_bits_per_key * 100) / 100;
    if (advice.measures_tiles) {
      workload.settings.pages_per_tile = 0;
      workload.pages_per_tile = workload.measured_pages_per_tile;
    }
    last_applied = advice;
  }
  [[nodiscard]] double excess() const { return tuner.own_pages() / tuner.base_pages() - 1; }

  AutoTuner tuner;
  Workload workload;
  Millis now = 1000 * kMinute;
  bool applies = true;
  int changes = 0;
  std::uint64_t stamp_deletes = 0;  ///< in each window
  TunerAdvice last_applied;
  std::vector<Millis> change_minutes;

 private:
  AutoTunerOptions options_;
};

TEST_CASE("settings are poor for a steady workload: the tuner changes them once, and operations are cheaper from then on") {
  Simulation s;
  const double before = s.window(kWrites).cost_now;
  s.windows(kWrites, 60);
  CHECK(s.changes == 1);
  const auto after = s.window(kWrites);
  CHECK(after.cost_now < (1 - kLeastGain) * before);
  CHECK(says(after.why, "keep the settings"));
  CHECK(s.excess() < 0);
}

TEST_CASE("workload changes three times: the tuner changes settings at most once per mix, and beats the operator's settings") {
  for (const double rho : {0.0, 0.25, 0.5}) {
    CAPTURE(rho);
    Simulation s({.rho = rho, .expected = {}});
    for (const OperationFigures& mix : {kWrites, kReads, kWrites, kRanges}) {
      const int before = s.changes;
      const double first = s.window(mix).cost_now;
      s.windows(mix, 14);
      CHECK(s.changes - before <= 1);  // no oscillation
      CHECK(s.window(mix).cost_now <= first * 1.001);
    }
    UNSCOPED_INFO("changes: " << s.changes << ", excess: " << s.excess());
    // Settings for exactly one mix (rho = 0) may cost more in one bad window than the tuner may lose in all (its ledger).
    if (rho > 0) CHECK(s.changes >= 2);
    CHECK(s.excess() < 0);
  }
}

TEST_CASE("mix alternates faster than changes pay: the tuner makes few changes, and its total loss stays within the bound") {
  const int minutes = every_nth() == 1 ? 120 : 60;
  for (const int period : {1, 7}) {
    CAPTURE(period);
    Simulation s({.rho = 0, .expected = {}});
    for (int minute = 0; minute < minutes; ++minute) s.window((minute / period) % 2 == 0 ? kWrites : kReads);
    CHECK(s.excess() <= AutoTuner::kMostLoss);
    if (period == 1) CHECK(s.changes <= 1);
    for (std::size_t i = 1; i < s.change_minutes.size(); ++i)
      CHECK(s.change_minutes[i] - s.change_minutes[i - 1] >= AutoTuner::kStayWindows);
  }
}

TEST_CASE("workloads are random: after an hour or more, the tuner has cost at most 5 % more than the operator's settings") {
  const OperationFigures mixes[] = {kWrites, kReads, kRanges, kMixed};
  for (unsigned seed = 1; seed <= 8; seed += static_cast<unsigned>(every_nth())) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Simulation s({.rho = seed % 3 * 0.25, .expected = {}});
    s.workload.table_entries /= 1 + seed % 4;
    s.workload.table_bytes = 200 * s.workload.table_entries;
    for (int minute = 0; minute < 100;) {
      const OperationFigures& mix = mixes[random() % 4];
      for (unsigned left = 1 + random() % 20; left > 0; --left, ++minute) {
        s.window(mix, 1e6);
        if (minute >= 59) CHECK(s.excess() <= AutoTuner::kMostLoss);
      }
    }
  }
}

TEST_CASE("workload turns back after settings have followed it: at most three changes are made in all") {
  Simulation s({.rho = 0.25, .expected = {}});
  s.windows(kWrites, 2);
  while (s.changes == 0 && s.now < 1100 * kMinute) s.window(kWrites);
  REQUIRE(s.changes == 1);
  s.windows(kReads, 90);
  CHECK(s.changes <= 3);
  CHECK(s.excess() <= AutoTuner::kMostLoss);
}

TEST_CASE("mix lasts for only one window: the tuner advises no change") {
  Simulation s;
  s.windows(kMixed, 40);
  const int before = s.changes;
  CHECK_FALSE(s.window(kWrites).advised);
  s.windows(kMixed, 5);
  CHECK(s.changes == before);
}

TEST_CASE("decisions are not applied: the change stays advised, with its costs and settings") {
  Simulation s;
  s.applies = false;
  const auto decision = s.windows(kWrites, 30);
  CHECK(decision.advised);
  CHECK(decision.due);
  CHECK(says(decision.why, "change: an operation costs"));
  CHECK(validate(decision.advice.policy).is_ok());
  CHECK(decision.advice.mean_cost < decision.cost_now);
  CHECK(s.excess() == Approx(0).margin(1e-12));
}

TEST_CASE("change costs merges: it is made in the first window in which its savings would have paid for them") {
  Simulation s({.rho = 0.25, .expected = {}});
  s.workload.settings.policy = {"tiering", {{"size_ratio", 8}}};
  s.windows(kWrites, 100);  // now the tuner may lose something, as the ledger counts it
  REQUIRE(s.changes == 0);
  double saved = 0, needed = 0;
  int windows = 0;
  for (; windows < 60 && s.changes == 0; ++windows) {
    const double operations = 1e4;
    const auto decision = s.window(kRanges, operations);
    CHECK((windows < 2 || saved < needed));  // else the change came too late
    saved += (decision.cost_now - decision.advice.mean_cost) * operations;
    needed = decision.change_cost;
    UNSCOPED_INFO(windows << ": " << decision.why);
  }
  CHECK(s.changes == 1);
  CHECK(windows > 3);
  CHECK(saved >= needed);
  CHECK(needed == Approx(2 * 2e9 / 4096).epsilon(0.1));  // all data, read and written
}

TEST_CASE("workload turns just after a change of settings: the next change waits for five windows") {
  Simulation s({.rho = 0.25, .expected = {}});
  s.windows(kReads, 400);  // now the tuner may lose something, as the ledger counts it
  REQUIRE(s.changes == 0);
  while (s.changes == 0 && s.now < 1500 * kMinute) s.window(kWrites);
  REQUIRE(s.changes == 1);
  for (int i = 1; i < AutoTuner::kStayWindows; ++i) {
    const auto decision = s.window(kReads);
    UNSCOPED_INFO(i << ": " << decision.why);
    if (i > 1) CHECK(says(decision.why, "the last change is recent"));
    CHECK(s.changes == 1);
  }
  s.window(kReads);
  CHECK(s.changes == 2);
}

TEST_CASE("change costs more than it saves in a day: it is not advised") {
  Simulation s({.rho = 0, .expected = {}});
  // Filters grow, so that all data must be written again: at 40 operations a minute that takes longer than a day.
  s.workload.settings.filter_bits_per_key = 0.5;
  s.workload.settings.memtable_size = 64 << 20;
  AutoTuner::Decision decision;
  for (int i = 0; i < 200; ++i) decision = s.window({0.9, 0.1, 0, 0}, 40);
  if (!decision.why.starts_with("no decision")) CHECK_FALSE(decision.advised);
  CHECK(s.changes == 0);
}

TEST_CASE("window has too few operations: the decision waits, and counts them with those of the next windows") {
  Simulation s;
  CHECK(says(s.window(kWrites, 400).why, "no decision: "));
  s.window(kWrites, 400);
  CHECK(s.window(kWrites, 400).cost_now > 0);
}

TEST_CASE("operator changes the settings: costs are compared with the new settings, and savings count from 0") {
  Simulation s;
  s.windows(kWrites, 60);
  REQUIRE(s.changes == 1);
  s.workload.settings.policy = {"tiering", {{"size_ratio", 10}}};
  s.window(kWrites);
  CHECK(s.excess() == Approx(0).margin(1e-12));
  const double ledger = s.tuner.base_pages();
  s.window(kWrites);
  CHECK(s.tuner.base_pages() == Approx(2 * ledger));
}

TEST_CASE("database has deletes by stamp: the tuner sets measured tiles once, and their later changes are no operator's change") {
  Simulation s;
  s.workload.measured_pages_per_tile = 16;
  s.stamp_deletes = 40;
  s.windows(kMixed, 30);
  REQUIRE(s.changes == 1);
  CHECK(s.last_applied.measures_tiles);
  CHECK(s.last_applied.pages_per_tile == 16);
  CHECK(s.workload.settings.pages_per_tile == 0);
  // Tiles that `auto` changes are no change by an operator: the ledger goes on.
  const double pages = s.tuner.own_pages();
  s.workload.pages_per_tile = 12;
  s.window(kMixed);
  CHECK(s.tuner.own_pages() > pages);
  CHECK(s.changes == 1);
}

TEST_CASE("expected mix is configured: advice is for that mix, and divergence is the distance from it") {
  Simulation s({.rho = 0.5, .expected = kReads});
  s.applies = false;
  const auto decision = s.windows(kReads, 3);
  CHECK(decision.divergence == Approx(0).margin(1e-9));
  CHECK(s.window(kWrites).divergence > 1);
}

TEST_CASE("policy is a stack, data is small, or all reads are cached: nothing is advised, and `why` has the reason") {
  Simulation s;
  s.workload.settings.policy = {"binomial", {{"k", 4}}};
  CHECK(says(s.windows(kWrites, 3).why, "no formula for the policy binomial"));
  Simulation small;
  small.workload.table_bytes = 1000;
  CHECK(says(small.windows(kWrites, 3).why, "not more than a memtable"));
  Simulation cached;
  cached.workload.cache_miss_ratio = 0.01;
  CHECK(says(cached.windows(kReads, 3).why, "block cache serves 99 %"));
}

}  // namespace TEST_FILE
}  // namespace ebbtide
