// Tests that tunings become settings which the engine accepts and which mean the same tree.
#include "model/engine_settings.h"

#include <catch2/catch.hpp>

#include "model/tuner.h"

namespace ebbtide {
namespace TEST_FILE {

System system_of(double entries) {
  System s;
  s.entries = entries;
  s.entry_bytes = 100;
  s.memory_bits = 10 * entries;
  return s;
}

EngineSettings settings_of(Layout layout, std::vector<double> runs = {}, Equations equations = Equations::kEngine) {
  const System s = system_of(1e6);
  Tuning t;
  t.layout = layout;
  t.size_ratio = 6;
  t.buffer_bits = 8 * (1 << 20) + 100;
  t.filter_bits = 5e6;
  t.runs = std::move(runs);
  return engine_settings(s, t, equations);
}

TEST_CASE("each layout of a tuning is converted to engine settings: the engine accepts their merge policy") {
  for (const Layout layout : kLayouts) {
    for (const Equations equations : {Equations::kEngine, Equations::kPaper}) {
      const EngineSettings settings = settings_of(layout, {4, 1}, equations);
      CAPTURE(settings.policy.name);
      CHECK(validate(settings.policy).is_ok());
      CHECK(settings.policy.parameters.at("size_ratio") == 6);
    }
  }
}

TEST_CASE("tuning is converted to engine settings: memtable_size is its buffer in whole KiB, and filters get bits per key") {
  const EngineSettings settings = settings_of(Layout::kLeveling);
  CHECK(settings.memtable_bytes == 1 << 20);
  CHECK(settings.filter_bits_per_key == 5);
}

TEST_CASE("costs are computed by Endure's equations: leveling and 1-leveling become K-LSM, which also merges whole levels") {
  CHECK(settings_of(Layout::kLeveling).policy.name == "leveling");
  const EngineSettings leveling = settings_of(Layout::kLeveling, {}, Equations::kPaper);
  CHECK(leveling.policy.name == "klsm");
  CHECK(leveling.policy.parameters == std::map<std::string, double>{{"size_ratio", 6}, {"runs", 1}});
  const EngineSettings one = settings_of(Layout::kOneLeveling, {}, Equations::kPaper);
  CHECK(one.policy.parameters == std::map<std::string, double>{{"size_ratio", 6}, {"runs", 1}, {"runs_0", 5}});
}

TEST_CASE("layout is fluid: last_runs sets the runs of the last level, however many levels there are") {
  const auto parameters = settings_of(Layout::kFluid, {4, 1}).policy.parameters;
  CHECK(parameters == std::map<std::string, double>{{"size_ratio", 6}, {"runs", 4}, {"last_runs", 1}});
}

TEST_CASE("tuning has the largest T of a search: the engine accepts the settings of each layout") {
  CHECK(engine_size_ratio_max() == kLargestSizeRatio);
  for (const Layout layout : kLayouts) {
    Tuning t;
    t.layout = layout;
    t.size_ratio = kLargestSizeRatio;
    t.buffer_bits = 8 << 20;
    t.runs = {kLargestSizeRatio - 1, 1};
    const EngineSettings settings = engine_settings(system_of(1e9), t, Equations::kEngine);
    CAPTURE(settings.policy.name);
    CHECK(validate(settings.policy).is_ok());
  }
}

TEST_CASE("layout is K-LSM: each level has its own number of runs, and the last number holds for deeper levels") {
  const auto parameters = settings_of(Layout::kKlsm, {5, 3, 2}).policy.parameters;
  CHECK(parameters == std::map<std::string, double>{{"size_ratio", 6}, {"runs", 2}, {"runs_0", 5}, {"runs_1", 3}});
}

TEST_CASE("tuning is converted to engine settings and back: operations have the same costs as before") {
  System s = system_of(1e7);
  s.range_selectivity = 1e-6;
  for (const Layout layout : kLayouts) {
    Tuning t;
    t.layout = layout;
    t.size_ratio = 6;
    t.level0_runs = 3;
    t.scaling_ratio = 0.7;
    t.buffer_bits = 8 * (1 << 20);
    t.filter_bits = 5e7;
    t.runs = layout == Layout::kKlsm ? std::vector<double>{5, 2, 4, 1} : std::vector<double>{4, 2};
    const EngineSettings settings = engine_settings(s, t, Equations::kEngine);
    const auto back = tuning_of(s, settings.policy, settings.memtable_bytes, settings.filter_bits_per_key);
    CAPTURE(settings.policy.name);
    REQUIRE(back);
    CHECK(check_tuning(*back).is_ok());
    const PerOperation mix = {0.25, 0.25, 0.25, 0.25};
    const CostReport before = costs_of(s, t, mix), after = costs_of(s, *back, mix);
    for (std::size_t i = 0; i < kOperations; ++i) CHECK(after.costs[i] == Approx(before.costs[i]));
  }
}

TEST_CASE("settings leave parameters out: the tuning has the policy's defaults") {
  const System s = system_of(1e6);
  const auto one = tuning_of(s, {"one_leveling", {}}, 1 << 20, 10);
  REQUIRE(one);
  CHECK((one->layout == Layout::kOneLeveling && one->size_ratio == 6 && one->level0_runs == 4));
  CHECK((one->buffer_bits == 8 * (1 << 20) && one->filter_bits == 1e7));
  CHECK(tuning_of(s, {"klsm", {}}, 1 << 20, 10)->runs.back() == 2);
  CHECK_FALSE(tuning_of(s, {"binomial", {}}, 1 << 20, 10));
}

}  // namespace TEST_FILE
}  // namespace ebbtide
