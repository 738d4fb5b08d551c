// Tests of what-if questions: the direction of each effect.
#include "model/what_if.h"

#include <catch2/catch.hpp>

namespace ebbtide {
namespace TEST_FILE {

TuneRequest request() {
  TuneRequest r;
  r.system.entries = 1e8;
  r.system.entry_bytes = 256;
  r.system.memory_bits = 1e9;
  r.mix = {.3, .3, .2, .2};
  r.layouts = {Layout::kTiering, Layout::kLazyLeveling};
  return r;
}

Tuning tuning() {
  Tuning t;
  t.layout = Layout::kLazyLeveling;
  t.size_ratio = 4;
  t.filter_bits = 8e8;
  t.buffer_bits = 2e8;
  return t;
}

WhatIf effect(const Change& change) {
  auto found = what_if(request(), tuning(), change);
  REQUIRE(found.is_ok());
  REQUIRE(found->retuned);
  CHECK(found->retuned->score <= found->after.score * (1 + 1e-6));
  return *found;
}

TEST_CASE("nothing changes: what_if() returns equal costs before and after") {
  const WhatIf same = effect({});
  CHECK(same.before.report.costs == same.after.report.costs);
}

TEST_CASE("memory grows: it is divided in the same ratio, and reads and writes become cheaper") {
  Change change;
  change.memory_bits = 3e9;
  const WhatIf more = effect(change);
  CHECK(more.after.tuning.filter_bits == Approx(2.4e9));
  CHECK(more.after.report.costs[kEmptyRead] < more.before.report.costs[kEmptyRead]);
  CHECK(more.after.report.costs[kWrite] <= more.before.report.costs[kWrite]);
}

TEST_CASE("device, sizes or mix change: the costs that depend on them change, and no others") {
  Change change;
  change.write_asymmetry = 3;
  const WhatIf device = effect(change);
  CHECK(device.after.report.costs[kWrite] == Approx(2 * device.before.report.costs[kWrite]));
  CHECK(device.after.report.costs[kRead] == device.before.report.costs[kRead]);
  change = {};
  change.entries = 1e9;
  const WhatIf data = effect(change);
  for (std::size_t i = 0; i < kOperations; ++i) CHECK(data.after.report.costs[i] > data.before.report.costs[i]);
  change = {};
  change.mix = PerOperation{0, 0, 0, 1};
  const WhatIf mix = effect(change);
  CHECK(mix.after.mean == Approx(mix.before.report.costs[kWrite]));
  CHECK(mix.retuned->tuning.layout == Layout::kTiering);
}

TEST_CASE("change or tuning has a wrong field: what_if() returns an error") {
  Change change;
  change.entries = 0;
  CHECK(what_if(request(), tuning(), change).status().to_string().find("entries is 0") != std::string::npos);
  Tuning wrong = tuning();
  wrong.size_ratio = 1;
  CHECK_FALSE(what_if(request(), wrong, {}).is_ok());
}

}  // namespace TEST_FILE
}  // namespace ebbtide
