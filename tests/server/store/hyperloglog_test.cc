// Compares sketches with those that redis-server 7.0.15 made of the same elements: bytes and counts.
#include "store/hyperloglog.h"

#include <catch2/catch.hpp>
#include <memory>

#include "store/dump.h"

namespace TEST_FILE {

using namespace ebbtide;

std::string sketch_of(int from, int to) {
  std::string value = hll::make_empty();
  for (int i = from; i < to; ++i) REQUIRE(hll::add(&value, std::to_string(i)));
  return value;
}

TEST_CASE("hyperloglog: elements are added, from sparse to dense form: bytes and counts are Redis's") {
  struct Step {
    int elements;
    std::size_t bytes;
    std::uint64_t count, crc, crc_with_count;
  };
  // The steps are PFADD h 0 1 2 ... up to `elements`; GET h; PFCOUNT h; GET h. The checksums are crc64() of the values.
  constexpr Step kSteps[] = {
      {0, 18, 0, 0x9bd91be86807a6dd, 0x4a81473f7d9280dc},
      {1, 21, 1, 0x630045c4e6317a70, 0xef438d0b81727432},
      {2, 24, 2, 0xd52419d1c95b4e3a, 0x880b7d0f859d9a07},
      {10, 48, 10, 0x9537a8e132c77a04, 0x49e249f8e53b276},
      {100, 287, 100, 0xb9430e17755e04b8, 0x625dff7eeff5deb9},
      {500, 1061, 503, 0x879c335f4261b448, 0xb66d47b3c4b75621},
      {1000, 1923, 1001, 0xa322ba9d98a75288, 0xe678a4fcbea15edd},
      {1500, 2766, 1512, 0xf5e0839a11216755, 0x7b76dded0b935da3},
      {2000, 12304, 2007, 0x31a16a0bd893ca2e, 0x396b4f68b47bf63c},
      {10000, 12304, 9987, 0x8d3f73649a78e574, 0x18f9c846aff8e781},
      {100000, 12304, 99565, 0x816ce8baabb0a5cd, 0xf25cd7dd16884bda},
  };
  std::string value = hll::make_empty();
  hll::forget_cached_count(&value);
  int added = 0;
  for (const Step& step : kSteps) {
    INFO(step.elements);
    for (; added < step.elements; ++added) {
      const auto changed = hll::add(&value, std::to_string(added));
      REQUIRE(changed);
      if (*changed) hll::forget_cached_count(&value);
    }
    CHECK(hll::is_valid(value));
    CHECK(value.size() == step.bytes);
    CHECK(crc64(value) == step.crc);
    CHECK(hll::cached_count(value) == std::nullopt);
    REQUIRE(hll::count(value));
    CHECK(*hll::count(value) == step.count);
    hll::set_cached_count(&value, step.count);
    CHECK(hll::cached_count(value) == step.count);
    CHECK(crc64(value) == step.crc_with_count);
  }
}

TEST_CASE("hyperloglog: sketches in either form are merged: the result counts the elements of both") {
  const std::string few = sketch_of(0, 300), other = sketch_of(200, 500), many = sketch_of(0, 5000);
  REQUIRE(!hll::is_dense(few));
  REQUIRE(hll::is_dense(many));
  auto registers = std::make_unique<hll::Registers>();
  REQUIRE(hll::merge_into(few, registers.get()));
  REQUIRE(hll::merge_into(other, registers.get()));
  CHECK(hll::count(*registers) == *hll::count(sketch_of(0, 500)));
  std::string target = hll::make_empty();
  REQUIRE(hll::raise(&target, *registers, false));
  CHECK(!hll::is_dense(target));
  CHECK(*hll::count(target) == hll::count(*registers));
  REQUIRE(hll::merge_into(many, registers.get()));
  REQUIRE(hll::raise(&target, *registers, true));
  CHECK(target == many);
}

TEST_CASE("hyperloglog: sketch is invalid or corrupted: it is refused") {
  CHECK(!hll::is_valid(""));
  CHECK(!hll::is_valid("HYLL"));
  CHECK(!hll::is_valid(std::string("HYLL\x02") + std::string(11, '\0')));
  CHECK(!hll::is_valid(std::string("HYLL") + std::string(12, '\0')));  // a dense sketch that is too short
  const std::string header = hll::make_empty().substr(0, 16);
  auto registers = std::make_unique<hll::Registers>();
  for (const std::string& runs : {std::string(), std::string("\x7f\xfe"), std::string("\x7f\xff\x00", 3), std::string("\x7f"),
                                  std::string("\x7f\xfe\x83"), std::string(5000, '\x3f')}) {
    INFO(runs.size());
    std::string value = header + runs;
    REQUIRE(hll::is_valid(value));
    CHECK(!hll::count(value));
    CHECK(!hll::merge_into(value, registers.get()));
    // Whatever the code makes of these bytes, it must not read or write out of bounds.
    for (int i = 0; i < 2000; ++i) {
      if (!hll::add(&value, std::to_string(i))) break;
    }
  }
}

TEST_CASE("hyperloglog: registers have values that no element can give: the count does not overflow") {
  std::string value = sketch_of(0, 5000);
  for (std::size_t i = 16; i < value.size(); ++i) value[i] = '\xff';
  CHECK(*hll::count(value) == std::uint64_t{1} << 63);
}

}  // namespace TEST_FILE
