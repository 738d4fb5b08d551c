// Tests of advice from a database's own history.
#include <engine/tuner.h>

#include <algorithm>

#include <catch2/catch.hpp>

namespace ebbtide {
namespace TEST_FILE {

constexpr Millis kMinute = 60'000;

WorkloadWindow window_of(std::uint64_t minute, OperationCounts counts) { return {minute * kMinute, kMinute, counts}; }

/// A database of 10 GB without a cache, whose tuning is a poor one for its workload.
Workload write_heavy() {
  Workload workload;
  workload.database = 3;
  workload.table_entries = 50'000'000;
  workload.table_bytes = 200 * workload.table_entries;
  workload.settings.memtable_size = 64 << 20;
  workload.settings.policy = {"leveling", {{"size_ratio", 10}}};
  for (std::uint64_t minute = 1; minute <= 10; ++minute)
    workload.windows.push_back(window_of(minute, {.empty_reads = 100'000, .reads = 400'000, .writes = 4'500'000}));
  return workload;
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("windows are summarized: mean, rho, range length and rate equal those computed by hand") {
  const WorkloadWindow windows[] = {
      window_of(0, {.empty_reads = 4000, .reads = 4000, .ranges = 1000, .writes = 1000, .range_entries = 7000}),
      window_of(9, {.empty_reads = 1000, .reads = 1000, .ranges = 4000, .writes = 4000, .range_entries = 43'000})};
  const WorkloadSummary summary = summarize(windows);
  CHECK(summary.enough);
  CHECK(summary.total.total() == 20'000);
  CHECK(summary.mean.write == Approx(0.25));
  CHECK(summary.rho == Approx(0.193).margin(0.001));
  CHECK(summary.divergence == Approx(summary.rho));
  CHECK(summary.entries_per_range == 10);
  CHECK(summary.operations_per_day == Approx(20'000 * 144.0));  // in ten minutes
}

TEST_CASE("newest window has too few operations: divergence is that of the newest thousand operations") {
  std::vector<WorkloadWindow> windows = {window_of(0, {.reads = 5000, .writes = 5000}),
                                         window_of(1, {.reads = 5000, .writes = 5000})};
  const double calm = summarize(windows).divergence;
  windows.push_back(window_of(2, {.writes = 10}));
  CHECK(summarize(windows).divergence == Approx(calm).margin(1e-4));
  windows.push_back(window_of(3, {.writes = 2000}));
  CHECK(summarize(windows).divergence > 0.1);
}

TEST_CASE("history has few or no operations: `enough` is false, and rho is 0") {
  CHECK_FALSE(summarize({}).enough);
  const WorkloadWindow few[] = {window_of(0, {.reads = 900})};
  CHECK_FALSE(summarize(few).enough);
  CHECK(summarize(few).mean.read == 1);
  CHECK(summarize(few).rho == 0);
}

TEST_CASE("workload is steady and today's tuning is poor: a change is worthwhile, and the engine accepts its settings") {
  const auto advice = recommend(write_heavy(), {});
  REQUIRE(advice.is_ok());
  REQUIRE(advice->today);
  REQUIRE(advice->nominal);
  CHECK(advice->nominal->worthwhile);
  CHECK(says(advice->nominal->verdict, "worth a change: an operation costs"));
  CHECK(advice->nominal->advice.mean_cost < 0.9 * advice->today->mean_cost);
  CHECK(advice->nominal->advice.transient_space <= kMostTransientSpace * (1 + 1e-9));
  CHECK(validate(advice->nominal->advice.policy).is_ok());
  CHECK(advice->nominal->saved_per_day > advice->nominal->change_cost);
  CHECK(advice->judged() == &*advice->nominal);
  CHECK(advice->nominal->change_cost == change_cost(advice->question, advice->settings,
                                                    {advice->nominal->advice.policy, advice->nominal->advice.memtable_bytes,
                                                     advice->nominal->advice.filter_bits_per_key})
                                            .value());
  CHECK(advice->question.rho == Approx(0).margin(1e-12));
  const auto config = database_config(3, advice->nominal->advice);
  CHECK(config.front().first == "databases.3.policy.name");
  CHECK(config.back().first == "databases.3.filters.bits_per_key");
}

TEST_CASE("mix changes between windows: the tuning with the lowest worst cost for the measured rho is advised") {
  Workload workload = write_heavy();
  for (std::uint64_t minute = 11; minute <= 20; ++minute)
    workload.windows.push_back(window_of(minute, {.empty_reads = 4'500'000, .reads = 400'000, .writes = 100'000}));
  const auto advice = recommend(workload, {});
  REQUIRE(advice.is_ok());
  CHECK(advice->question.rho == Approx(summarize(workload.windows).rho));
  CHECK(advice->question.rho > 0.3);
  REQUIRE(advice->robust);
  CHECK(advice->verdict == advice->robust->verdict);
  TunerQuestion at_rho = advice->question;
  const TunerSettings nominal{advice->nominal->advice.policy, advice->nominal->advice.memtable_bytes,
                              advice->nominal->advice.filter_bits_per_key};
  CHECK(advice->robust->advice.worst_cost <= 1.02 * costs_under(at_rho, nominal)->worst_cost);
}

TEST_CASE("rho, workload and memory are given: the advice uses them instead of the measured ones") {
  const RecommendOptions options{.rho = 0.5, .workload = OperationFigures{0.25, 0.25, 0.25, 0.25}, .memory_bytes = 1e9};
  const auto advice = recommend(write_heavy(), options);
  REQUIRE(advice.is_ok());
  CHECK((advice->question.rho == 0.5 && advice->question.memory_bytes == 1e9 && advice->question.workload.range == 0.25));
  REQUIRE(advice->robust);
  CHECK(static_cast<double>(advice->robust->advice.memtable_bytes) + advice->robust->advice.filter_bits_per_key * 5e7 / 8 <=
        1e9 + 1);
  CHECK(says(recommend(write_heavy(), {.rho = -1, .workload = {}, .memory_bytes = {}}).status().to_string(), "rho is -1"));
  CHECK(says(
      recommend(write_heavy(), {.rho = {}, .workload = OperationFigures{1, 1, 0, 0}, .memory_bytes = {}}).status().to_string(),
      "the shares sum to 2"));
}

TEST_CASE("workload lacks an operation: nominal costs are those of this mix, worst costs those of the mixes within rho") {
  const RecommendOptions options{.rho = 0.5, .workload = OperationFigures{0.05, 0.05, 0, 0.9}, .memory_bytes = {}};
  const auto advice = recommend(write_heavy(), options);
  REQUIRE(advice.is_ok());
  for (const TunerAdvice* each : {&*advice->today, &advice->nominal->advice, &advice->robust->advice}) {
    const OperationFigures& costs = each->costs;
    CHECK(each->mean_cost == Approx(0.05 * costs.empty_read + 0.05 * costs.read + 0.9 * costs.write));
    CHECK(each->worst_cost > each->mean_cost);
  }
  CHECK(advice->robust->advice.worst_cost < advice->nominal->advice.worst_cost);
  CHECK(advice->nominal->advice.mean_cost < advice->robust->advice.mean_cost);
}

TEST_CASE("advice is written as CONFIG SET parameters: defaults are among them, so that older values are overwritten") {
  TunerAdvice advice;
  advice.policy = {"one_leveling", {{"size_ratio", 8.5}}};
  advice.memtable_bytes = 32 << 20;
  advice.filter_bits_per_key = 9.7599;
  CHECK(database_config(3, advice) ==
        std::vector<std::pair<std::string, std::string>>{{"databases.3.policy.name", "one_leveling"},
                                                         {"databases.3.policy.size_ratio", "8.5"},
                                                         {"databases.3.policy.level0_runs", "4"},
                                                         {"databases.3.memtable_size", "32768KiB"},
                                                         {"databases.3.filters.memory", "auto"},
                                                         {"databases.3.filters.bits_per_key", "9.75"}});
}

TEST_CASE("database has deletes by stamp: the advice is to use measured tiles, and its costs are those with such tiles") {
  Workload workload = write_heavy();
  workload.measured_pages_per_tile = 8;
  const auto without = recommend(workload, {});
  REQUIRE(without.is_ok());
  CHECK((without->nominal->advice.pages_per_tile == 1 && !without->nominal->advice.measures_tiles));
  for (WorkloadWindow& window : workload.windows) window.counts.stamp_deletes = 10;
  workload.measured_pages_per_tile = 1;
  CHECK_FALSE(recommend(workload, {})->nominal->advice.measures_tiles);
  workload.measured_pages_per_tile = 8;
  const auto advice = recommend(workload, {});
  REQUIRE(advice.is_ok());
  const TunerAdvice &today = *advice->today, &best = advice->nominal->advice;
  CHECK((today.pages_per_tile == 1 && best.pages_per_tile == 8 && best.measures_tiles));
  CHECK(today.stamp_delete_cost == Approx(2.0 * 50e6 * 200 / 4096));
  CHECK(best.stamp_delete_cost == Approx(today.stamp_delete_cost / 8));
  CHECK(today.mean_cost == Approx(without->today->mean_cost + 2e-6 * today.stamp_delete_cost));
  CHECK(advice->nominal->change_cost >= today.stamp_delete_cost);  // all data gets new tiles
  const auto config = database_config(3, best);
  CHECK(std::find(config.begin(), config.end(), std::pair<std::string, std::string>("databases.3.pages_per_tile", "auto")) !=
        config.end());
  workload.settings.pages_per_tile = 0;
  workload.pages_per_tile = 8;
  const auto again = recommend(workload, {});
  REQUIRE(again.is_ok());
  CHECK((again->nominal->advice.pages_per_tile == 8 && !again->nominal->advice.measures_tiles));
}

TEST_CASE("database has deletes and a deadline: present and advised costs include merges for the deadline") {
  Workload workload = write_heavy();
  for (WorkloadWindow& window : workload.windows) window.counts.deletes = window.counts.writes / 10;
  workload.settings.policy = {"tiering", {{"size_ratio", 20}}};
  workload.settings.delete_deadline = 3'600'000;
  workload.entries_per_file = 300'000;
  const auto urgent = recommend(workload, {});
  REQUIRE(urgent.is_ok());
  CHECK(urgent->question.delete_share == Approx(0.1));
  CHECK(urgent->question.entries_per_file == 300'000);
  // Five million operations in each of ten minutes.
  CHECK(urgent->question.writes_per_deadline == Approx(60 * 5e6 * urgent->summary.mean.write));
  workload.settings.delete_deadline = 60'000;
  const auto sooner = recommend(workload, {});
  REQUIRE(sooner.is_ok());
  CHECK(sooner->today->delete_work > 5 * urgent->today->delete_work);
  CHECK(sooner->today->costs.write > urgent->today->costs.write);
  CHECK(sooner->nominal->advice.delete_work < sooner->today->delete_work);
  workload.settings.delete_deadline = 0;
  CHECK(recommend(workload, {})->today->delete_work == 0);
}

TEST_CASE("device has measured costs: the advice uses its write asymmetry and sequential cost") {
  Workload workload = write_heavy();
  const double before = recommend(workload, {})->today->costs.write;
  workload.device = {.write_asymmetry = 3, .sequential_cost = 0.25};
  const auto advice = recommend(workload, {});
  REQUIRE(advice.is_ok());
  CHECK((advice->question.write_asymmetry == 3 && advice->question.sequential_cost == 0.25));
  CHECK(advice->today->costs.write == Approx(before / 2));
}

TEST_CASE("change costs more than it saves in a day: it is not worthwhile") {
  Workload workload = write_heavy();
  workload.settings.policy = {"tiering", {{"size_ratio", 10}}};
  for (WorkloadWindow& window : workload.windows) window.counts = {.reads = 100, .writes = 1};
  const auto advice = recommend(workload, {});
  REQUIRE(advice.is_ok());
  REQUIRE(advice->nominal);
  CHECK_FALSE(advice->nominal->worthwhile);
  CHECK(says(advice->verdict, "keep the settings: with the best ones"));
  CHECK(says(advice->verdict, "but the merges to their shape cost "));
  CHECK(advice->nominal->saved_per_day < advice->nominal->change_cost);
}

TEST_CASE("new tuning lets levels have more runs: the change costs nothing") {
  Workload workload = write_heavy();
  for (WorkloadWindow& window : workload.windows) window.counts = {.reads = 5, .writes = 100};
  const auto advice = recommend(workload, {});
  REQUIRE(advice.is_ok());
  REQUIRE(advice->nominal);
  CHECK(advice->nominal->change_cost == 0);
  CHECK(advice->nominal->worthwhile);
}

TEST_CASE("today's tuning is the best one: the gain is too small for a change") {
  Workload workload = write_heavy();
  const auto first = recommend(workload, {});
  REQUIRE(first.is_ok());
  workload.settings.policy = first->nominal->advice.policy;
  workload.settings.memtable_size = first->nominal->advice.memtable_bytes;
  workload.settings.filter_bits_per_key = first->nominal->advice.filter_bits_per_key;
  const auto again = recommend(workload, {});
  REQUIRE(again.is_ok());
  CHECK(again->today->mean_cost == Approx(first->nominal->advice.mean_cost).epsilon(0.02));
  CHECK_FALSE(again->nominal->worthwhile);
  CHECK(says(again->verdict, "within the model's error"));
}

TEST_CASE("advice is applied and the data grows by 5 %: the mean cost is at most 10 % above the predicted one") {
  Workload workload = write_heavy();
  const auto first = recommend(workload, {});
  REQUIRE(first.is_ok());
  workload.settings.policy = first->nominal->advice.policy;
  workload.settings.memtable_size = first->nominal->advice.memtable_bytes;
  workload.settings.filter_bits_per_key = first->nominal->advice.filter_bits_per_key;
  for (const double growth : {1.0, 1.01, 1.05}) {
    workload.table_entries = static_cast<std::uint64_t>(50'000'000 * growth);
    workload.table_bytes = 200 * workload.table_entries;
    CAPTURE(growth);
    CHECK(costs_now(workload)->mean_cost <= 1.1 * first->nominal->advice.mean_cost);
    CHECK(costs_now(workload)->mean_cost < 0.5);  // with another level it would be 0.65
  }
}

TEST_CASE("nothing can be advised: the verdict has the reason") {
  Workload few = write_heavy();
  few.windows = {window_of(1, {.reads = 999})};
  CHECK(recommend(few, {})->verdict == "no advice: the history has 999 operations, and needs 1000");
  CHECK_FALSE(recommend(few, {})->nominal);
  CHECK(recommend(few, {.rho = {}, .workload = OperationFigures{0.1, 0.1, 0, 0.8}, .memory_bytes = {}})->nominal);

  Workload small = write_heavy();
  small.table_bytes = small.settings.memtable_size;
  CHECK(says(recommend(small, {})->verdict, "not more than a memtable"));
  small.table_entries = small.table_bytes = 0;
  CHECK(says(recommend(small, {})->verdict, "the tables have 0 bytes"));

  Workload cached = write_heavy();
  cached.cache_miss_ratio = 0.04;
  CHECK(says(recommend(cached, {})->verdict, "keep the settings: the block cache serves 96 % of the page reads"));
  CHECK_FALSE(recommend(cached, {})->nominal);
}

TEST_CASE("today's policy is a stack: the advice is given without a comparison with today's costs") {
  Workload workload = write_heavy();
  workload.settings.policy = {"binomial", {{"k", 4}}};
  const auto advice = recommend(workload, {});
  REQUIRE(advice.is_ok());
  CHECK_FALSE(advice->today);
  REQUIRE(advice->nominal);
  CHECK_FALSE(advice->nominal->worthwhile);
  CHECK(says(advice->verdict, "no formula for today's policy binomial"));
  CHECK_FALSE(costs_now(workload));
}

TEST_CASE("cache serves a part of the page reads: read costs are multiplied by the miss ratio") {
  Workload workload = write_heavy();
  const auto dry = costs_now(workload);
  workload.cache_miss_ratio = 0.5;
  const auto cached = costs_now(workload);
  REQUIRE((dry && cached));
  CHECK(cached->costs.read == Approx(dry->costs.read / 2));
  CHECK(cached->costs.write == Approx(dry->costs.write));
  workload.windows.clear();
  CHECK_FALSE(costs_now(workload));
}

}  // namespace TEST_FILE
}  // namespace ebbtide
