#include "policy/around.h"

#include <catch2/catch.hpp>

#include "tree/frozen.h"

namespace ebbtide {
namespace TEST_FILE {

FileShape file(FileNum num, const std::string& smallest, const std::string& largest, std::uint64_t bytes = 100) {
  FileShape out;
  out.num = num;
  out.smallest = smallest;
  out.largest = largest;
  out.bytes = bytes;
  return out;
}
FileShape damaged(FileShape shape) {
  shape.quarantined = true;
  return shape;
}

TEST_CASE("no file is quarantined: plan_around() returns no plan") {
  TreeShape shape{.runs = {{1, 0, {file(1, "a", "z")}}}};
  CHECK(plan_around(shape).empty());
  leave_out_frozen(&shape);
  CHECK(shape.frozen.empty());
  CHECK(shape.runs[0].files.size() == 1);
}

TEST_CASE("quarantined files overlap or touch: their joined range is one frozen range") {
  FileShape touching = damaged(file(3, "m", "n"));
  FileShape first = damaged(file(1, "c", "m"));
  first.largest_exclusive = true;
  const TreeShape shape{.runs = {{1, 0, {first, damaged(file(2, "x", "y"))}}, {2, 1, {file(4, "a", "b"), touching}}}};
  const auto frozen = frozen_ranges(shape);
  REQUIRE(frozen.size() == 2);
  CHECK(frozen[0] == KeyRange{"c", std::string("n\0", 2)});
  CHECK(frozen[1] == KeyRange{"x", std::string("y\0", 2)});
  CHECK(frozen_at(frozen, {"a", "c"}) == nullptr);
  CHECK(frozen_at(frozen, {"a", ""}) == &frozen[0]);
  CHECK(frozen_at(frozen, {"o", "x"}) == nullptr);
  CHECK(frozen_at(frozen, {"o", "xx"}) == &frozen[1]);
}

TEST_CASE("file reaches into a quarantined file's range: it is cut at the range's ends before other plans take it") {
  TreeShape shape{
      .runs = {{1, 0, {file(1, "a", "z")}}, {2, 1, {file(2, "b", "c"), damaged(file(3, "f", "h")), file(4, "k", "p")}}}};
  const Plan plan = plan_around(shape);
  const auto* slice = std::get_if<Slice>(&plan.action);
  REQUIRE(slice != nullptr);
  CHECK(slice->inputs == std::vector<PlanInput>{{1, {1}}});
  CHECK(slice->range == KeyRange{"f", std::string("h\0", 2)});
  CHECK(slice->target == PlanTarget{1, 0});
  shape.runs[0].files.edit(0).busy = true;
  CHECK(plan_around(shape).empty());
  leave_out_frozen(&shape);
  CHECK(shape.runs[0].files.empty());
  CHECK(shape.runs[1].files.size() == 2);
}

TEST_CASE("too many runs lie over a quarantined file: the newest are merged, and none older than the file's run") {
  TreeShape shape;
  for (FileNum n = 1; n <= kFrozenRuns; ++n) shape.runs.push_back({n, 0, {file(n, "f", "g", n == 4 ? 10'000 : 100)}});
  shape.runs.push_back({50, 0, {damaged(file(50, "f", "h"))}});
  shape.runs.push_back({60, 1, {file(60, "f", "g")}});
  CHECK(plan_around(shape).empty());
  shape.runs.insert(shape.runs.begin(), {99, 0, {file(99, "f", "g")}});
  const Plan plan = plan_around(shape);
  const auto* merge = std::get_if<Merge>(&plan.action);
  REQUIRE(merge != nullptr);
  CHECK(merge->inputs == std::vector<PlanInput>{{99, {99}}, {1, {1}}, {2, {2}}, {3, {3}}});
  CHECK(merge->target == PlanTarget{3, 0});
}

}  // namespace TEST_FILE
}  // namespace ebbtide
