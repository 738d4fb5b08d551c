#include "filter/bloom.h"

#include <bit>
#include <cmath>

#include <catch2/catch.hpp>

#include "base/random.h"

namespace TEST_FILE {

using namespace ebbtide;

struct Observed {
  double rate;  ///< false columns per absent key and column
  std::uint64_t lost;
};

Observed observe(double bits, std::uint32_t columns, std::uint32_t slices, std::uint64_t keys) {
  Random random(static_cast<std::uint64_t>(bits * 100) + columns);
  BloomBuilder builder(columns);
  std::vector<std::uint64_t> hashes(keys);
  for (std::size_t i = 0; i < keys; ++i) {
    hashes[i] = random.next();
    builder.add(static_cast<std::uint32_t>(i % columns), hashes[i]);
  }
  std::vector<std::string> bytes;
  std::vector<BloomView> views;
  for (std::uint32_t s = 0; s < slices; ++s) bytes.push_back(builder.build(bits / slices, s));
  for (const std::string& slice : bytes) {
    auto view = BloomView::parse(slice);
    REQUIRE(view.is_ok());
    REQUIRE(view->columns() == columns);
    views.push_back(view.value());
  }
  const auto ask = [&](std::uint64_t hash) {
    std::uint64_t mask = ~std::uint64_t{0};
    for (const BloomView& view : views) mask &= view.candidates(hash);
    return mask;
  };
  Observed seen{0, 0};
  for (std::size_t i = 0; i < keys; ++i) seen.lost += (ask(hashes[i]) >> (i % columns) & 1) == 0 ? 1 : 0;
  std::uint64_t false_columns = 0;
  const std::uint64_t questions = 400'000;
  for (std::uint64_t i = 0; i < questions; ++i) false_columns += static_cast<std::uint64_t>(std::popcount(ask(random.next())));
  seen.rate = static_cast<double>(false_columns) / static_cast<double>(questions * columns);
  return seen;
}

TEST_CASE("Bloom filter has random keys: it finds each of them, and has the expected rate of false positives", "[bloom]") {
  for (const double bits : {1.0, 3.3, 5.0, 7.5, 10.0, 14.2}) {
    for (const std::uint32_t columns : {1u, 2u, 3u, 8u, 16u, 57u, 58u, 61u, 64u}) {
      CAPTURE(bits, columns);
      const Observed seen = observe(bits, columns, 1, 60'000);
      REQUIRE(seen.lost == 0);
      const double expected = expected_false_positive_rate(bits);
      REQUIRE(seen.rate > expected * 0.75 - 1e-5);
      REQUIRE(seen.rate < expected * 1.25 + 1e-5);
    }
  }
}

TEST_CASE("filter slices are made of the same keys: their false positives are independent of each other", "[bloom]") {
  for (const std::uint32_t columns : {1u, 8u}) {
    const Observed seen = observe(12, columns, 3, 60'000);
    REQUIRE(seen.lost == 0);
    const double expected = std::pow(expected_false_positive_rate(4), 3);
    REQUIRE(seen.rate > expected * 0.7);
    REQUIRE(seen.rate < expected * 1.3);
  }
}

TEST_CASE("bits per key grow in steps of 0.1: the expected rate of false positives falls, and stays near the ideal", "[bloom]") {
  REQUIRE(expected_false_positive_rate(0) == 1);
  REQUIRE(expected_false_positive_rate(-1) == 1);
  REQUIRE(bloom_probes(0) == 1);
  double last = 1;
  for (double bits = 0.1; bits <= 32; bits += 0.1) {
    const double rate = expected_false_positive_rate(bits);
    REQUIRE(rate < last);
    last = rate;
    // This is compared with one undivided Bloom filter: blocks of 512 bits are somewhat worse, the more so with more bits.
    const double ideal = std::exp(-bits * std::log(2) * std::log(2));
    if (bits >= 1) REQUIRE(rate > ideal * 0.99);
    if (bits >= 1 && bits <= 10) REQUIRE(rate < ideal * 1.5);
  }
  REQUIRE(bloom_probes(10) >= 6);
  REQUIRE(bloom_probes(10) <= 8);
}

TEST_CASE("filter slice is malformed: parsing it returns an error", "[bloom]") {
  BloomBuilder builder(3);
  for (std::uint64_t i = 0; i < 1000; ++i) builder.add(static_cast<std::uint32_t>(i % 3), i * 0x9e3779b97f4a7c15u);
  const std::string good = builder.build(8, 0);
  REQUIRE(BloomView::parse(good).is_ok());
  REQUIRE(!BloomView::parse("").is_ok());
  REQUIRE(!BloomView::parse(Bytes(good).substr(0, good.size() - 1)).is_ok());
  for (const int at : {0, 1, 8, 9, 15}) {
    for (const int value : {0, 65, 255}) {
      std::string bad = good;
      bad[static_cast<std::size_t>(at)] = static_cast<char>(value);
      if (bad == good) continue;
      auto view = BloomView::parse(bad);
      if (view.is_ok()) (void)view->candidates(12345);  // any result will do, but no read may be outside the slice
    }
  }
}

}  // namespace TEST_FILE
