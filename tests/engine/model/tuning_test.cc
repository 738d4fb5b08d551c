// Tests of the names of layouts, and of which systems and tunings are refused.
#include "model/tuning.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace ebbtide {
namespace TEST_FILE {

System good_system() {
  System s;
  s.entries = 1e6;
  s.entry_bytes = 1024;
  s.memory_bits = 1e7;
  return s;
}
Tuning good_tuning() {
  Tuning t;
  t.filter_bits = 8e6;
  t.buffer_bits = 2e6;
  return t;
}

TEST_CASE("text is parsed as a layout: the name of a layout gives this layout, any other text gives nothing") {
  for (const Layout layout : kLayouts) CHECK(parse_layout(layout_name(layout)) == layout);
  CHECK_FALSE(parse_layout("levelling"));
}

TEST_CASE("parameter of the modelled system is out of range: the error names the field") {
  CHECK(check_system(good_system()).is_ok());
  System s = good_system();
  s.entries = 0;
  CHECK(check_system(s).to_string().find("entries is 0") != std::string::npos);
  s = good_system();
  s.miss_ratios = {0.5, 1.5};
  CHECK(check_system(s).to_string().find("miss_ratios is 1.5") != std::string::npos);
  s = good_system();
  s.range_selectivity = std::nan("");
  CHECK_FALSE(check_system(s).is_ok());
  s = good_system();
  s.deletes.entries_per_file = 0;
  CHECK_FALSE(check_system(s).is_ok());
}

TEST_CASE("parameter of a tuning is out of range: the error names the field") {
  CHECK(check_tuning(good_tuning()).is_ok());
  Tuning t = good_tuning();
  t.size_ratio = 1.5;
  CHECK(check_tuning(t).to_string().find("size_ratio is 1.5") != std::string::npos);
  t = good_tuning();
  t.layout = Layout::kFluid;
  t.runs = {3};
  CHECK(check_tuning(t).to_string().find("runs has 1 values; fluid needs 2") != std::string::npos);
  t.runs = {3, 0};
  CHECK(check_tuning(t).to_string().find("runs is 0") != std::string::npos);
  t = good_tuning();
  t.scaling_ratio = 0;
  CHECK_FALSE(check_tuning(t).is_ok());
  t = good_tuning();
  t.buffer_bits = 0;
  CHECK_FALSE(check_tuning(t).is_ok());
}

}  // namespace TEST_FILE
}  // namespace ebbtide
