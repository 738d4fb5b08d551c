// Tests of concurrent jobs and their conflicts.
#include <catch2/catch.hpp>

#include "compaction/job_registry.h"
#include "engine/compaction/files.h"

namespace ebbtide {
namespace TEST_FILE {

TEST_CASE("several jobs are started: the registry refuses a job that conflicts with a running one") {
  Version version;
  version.next_run = 10;
  version.runs = {{1, 1, {make_file(1, "a", "c"), make_file(2, "f", "h"), make_file(3, "m", "p")}},
                  {2, 2, {make_file(4, "b", "d"), make_file(5, "n", "q")}},
                  {3, 3, {}}};
  const auto merge = [](std::vector<PlanInput> inputs, PlanTarget target) {
    Plan plan;
    plan.action = Merge{std::move(inputs), target};
    return plan;
  };
  JobRegistry registry;
  const auto first = registry.start(merge({{1, {1}}, {2, {4}}}, {2, 2}), version);
  REQUIRE(first);
  REQUIRE(registry.is_busy(4));
  REQUIRE_FALSE(registry.is_busy(5));
  REQUIRE(registry.start(merge({{1, {3}}, {2, {5}}}, {2, 2}), version));
  REQUIRE_FALSE(registry.start(merge({{2, {4}}}, {3, 3}), version));   // the job shares an input with the first job
  REQUIRE_FALSE(registry.start(merge({{1, {99}}}, {2, 2}), version));  // the job does not fit the version
  REQUIRE(registry.running() == 2);
  REQUIRE_FALSE(first->abort->load());

  Plan urgent = merge({{2, {4}}}, {3, 3});
  urgent.urgent = true;
  REQUIRE_FALSE(registry.start(urgent, version));
  REQUIRE(first->abort->load());
  registry.finish(first->id);
  REQUIRE(registry.start(urgent, version));
  registry.abort_all();
}

}  // namespace TEST_FILE
}  // namespace ebbtide
