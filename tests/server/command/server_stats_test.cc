// The histogram of calls: every duration is in the bucket that its bounds say, and what is shown of it agrees with itself.
#include <catch2/catch.hpp>

#include "command/server_stats.h"

using namespace ebbtide;

namespace {

std::size_t bucket_by_search(std::uint64_t nanos) {
  std::size_t i = 0;
  while (i < kCallBounds.size() && nanos > kCallBounds[i]) ++i;
  return i;
}

}  // namespace

TEST_CASE("a call is in the first bucket whose bound is not below its time") {
  CHECK(bucket_of(0) == 0);
  CHECK(bucket_of(~std::uint64_t{0}) == kCallBuckets - 1);
  for (const std::uint64_t bound : kCallBounds) {
    for (const std::uint64_t nanos : {bound - 1, bound, bound + 1}) CHECK(bucket_of(nanos) == bucket_by_search(nanos));
  }
  for (int shift = 0; shift < 64; ++shift) {
    const std::uint64_t power = std::uint64_t{1} << shift;
    for (const std::uint64_t nanos : {power - 1, power, power + 1}) CHECK(bucket_of(nanos) == bucket_by_search(nanos));
  }
}

TEST_CASE("buckets of all dispatchers add up to the calls, and begin anew after a reset") {
  ServerStats stats(3);
  DispatchCounters* a = stats.add_dispatcher();
  DispatchCounters* b = stats.add_dispatcher();
  a->call(1, 900);
  a->call(1, 2'000'000);
  b->call(1, 901);
  b->call(2, 20'000'000'000);
  auto counts = stats.commands();
  CHECK(counts[0].calls == 0);
  CHECK(counts[1].calls == 3);
  CHECK(counts[1].nanos == 2'001'801);
  CHECK(counts[1].buckets[0] == 2);
  CHECK(counts[1].buckets[bucket_of(2'000'000)] == 1);
  CHECK(counts[2].buckets[kCallBuckets - 1] == 1);
  CHECK(stats.totals().commands == 4);
  stats.reset();
  b->call(1, 902);
  counts = stats.commands();
  CHECK(counts[1].calls == 1);
  CHECK(counts[1].buckets[0] == 1);
  CHECK(counts[1].buckets[bucket_of(2'000'000)] == 0);
  CHECK(stats.totals().commands == 1);
}

TEST_CASE("scans of all dispatchers add up, each in the first bucket whose bound is not below what it looked at") {
  ServerStats stats(1);
  DispatchCounters* a = stats.add_dispatcher();
  DispatchCounters* b = stats.add_dispatcher();
  a->scan(0);
  a->scan(10);
  b->scan(11);
  b->scan(100'001);
  const ScanCounts scans = stats.scans();
  CHECK(scans.steps == 100'022);
  CHECK(scans.buckets == std::array<std::uint64_t, kScanBounds.size() + 1>{1, 1, 1, 0, 0, 0, 0, 0, 1});
}

TEST_CASE("quantiles lie within the bucket that holds them") {
  CommandCounts counts;
  CHECK(counts.quantile_nanos(0.5) == 0);
  counts.calls = 100;
  counts.buckets[0] = 50;  // up to 1,000 ns
  counts.buckets[3] = 49;  // 5,000 to 10,000 ns
  counts.buckets[kCallBuckets - 1] = 1;
  CHECK(counts.quantile_nanos(0.25) == Approx(500));
  CHECK(counts.quantile_nanos(0.5) == Approx(1000));
  CHECK(counts.quantile_nanos(0.745) == Approx(7500));
  CHECK(counts.quantile_nanos(0.99) == Approx(10'000));
  CHECK(counts.quantile_nanos(1) == Approx(1e10));
}
