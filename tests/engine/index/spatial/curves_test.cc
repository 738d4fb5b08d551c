// Tests of the curves: golden codes, and the properties that key ranges need.
#include <catch2/catch.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/random.h"
#include "index/spatial/curves.h"

namespace TEST_FILE {

using namespace ebbtide;

/// The inverse of hilbert_code(), from the lowest digit up: another algorithm than that of the code under test.
std::pair<std::uint64_t, std::uint64_t> hilbert_cell(std::uint64_t code) {
  std::uint64_t x = 0, y = 0;
  for (int bit = 0; bit < 32; ++bit, code >>= 2) {
    const std::uint64_t side = std::uint64_t{1} << bit, right = code >> 1 & 1, top = (code ^ right) & 1;
    if (top == 0) {
      if (right == 1) {
        x = side - 1 - x;
        y = side - 1 - y;
      }
      std::swap(x, y);
    }
    x += right * side;
    y += top * side;
  }
  return {x, y};
}

std::uint64_t apart(std::uint64_t a, std::uint64_t b) { return std::max(a, b) - std::min(a, b); }

TEST_CASE("place on the earth is encoded: column, row and codes on both curves are the recorded ones") {
  struct Golden {
    double lon, lat;
    std::uint32_t column, row;
    std::uint64_t hilbert, zorder;
  };
  constexpr Golden kGolden[] = {
      {0, 0, 754974720, 754974720, 0x08a2000000000000ULL, 0x0cf3000000000000ULL},
      {-180, -90, 0, 0, 0, 0},
      {179.9999999, 90, 1509949439, 1509949440, 0x228d555555555555ULL, 0x33c6aaaaaaaaaaaaULL},
      {13.361389, 38.115556, 811016447, 1074711177, 0x35aa99e9f44e3fbeULL, 0x1a00227e5844eaebULL},
      {-122.27652, 37.805186, 242109823, 1072107605, 0x05a9686b9b5384ecULL, 0x05fd7cbd21a23bbbULL},
      {-0.1, 51.5, 754555289, 1186988032, 0x36460fc3c3c3c3c3ULL, 0x18b4fa8282828282ULL},
      {5e-324, -5e-324, 754974720, 754974719, 0x08a3555555555555ULL, 0x0cf2555555555555ULL},
      {-5e-324, 5e-324, 754974719, 754974720, 0x08a1ffffffffffffULL, 0x0cf1aaaaaaaaaaaaULL},
  };
  for (const Golden& g : kGolden) {
    CAPTURE(g.lon, g.lat);
    CHECK(column_of(g.lon) == g.column);
    CHECK(row_of(g.lat) == g.row);
    CHECK(hilbert_code(g.column, g.row) == g.hilbert);
    CHECK(zorder_code(g.column, g.row) == g.zorder);
  }
}

TEST_CASE("code of a Hilbert curve is decoded: encoding the cell returns the code, and the next code is of a neighbour cell") {
  Random random(1);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t code = random.next() >> 1;
    const auto [x, y] = hilbert_cell(code);
    REQUIRE(hilbert_code(static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y)) == code);
    const auto [next_x, next_y] = hilbert_cell(code + 1);
    REQUIRE(apart(x, next_x) + apart(y, next_y) == 1);
  }
}

TEST_CASE("cells form an aligned square: their codes are one aligned range, on both curves") {
  Random random(2);
  for (int i = 0; i < 2000; ++i) {
    const std::uint32_t side = 1u << random.uniform(4);
    const auto x = static_cast<std::uint32_t>(random.next()) & ~(side - 1),
               y = static_cast<std::uint32_t>(random.next()) & ~(side - 1);
    for (const auto code_of : {hilbert_code, zorder_code}) {
      std::vector<std::uint64_t> codes;
      for (std::uint32_t column = 0; column < side; ++column) {
        for (std::uint32_t row = 0; row < side; ++row) codes.push_back(code_of(x + column, y + row));
      }
      std::sort(codes.begin(), codes.end());
      REQUIRE(codes.front() % codes.size() == 0);
      for (std::size_t c = 0; c < codes.size(); ++c) REQUIRE(codes[c] == codes.front() + c);
    }
  }
}

}  // namespace TEST_FILE
