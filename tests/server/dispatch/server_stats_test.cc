// Tests of the histograms of calls: each duration is in its bucket, and the shown numbers are consistent.
#include <catch2/catch.hpp>

#include <cmath>

#include "dispatch/rate_meter.h"
#include "dispatch/server_stats.h"

namespace TEST_FILE {

using namespace ebbtide;

std::size_t bucket_by_search(std::uint64_t nanos) {
  std::size_t i = 0;
  while (i < kCallBounds.size() && nanos > kCallBounds[i]) ++i;
  return i;
}

TEST_CASE("command is called: the call is added to the first latency bucket whose bound is at least its time") {
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

TEST_CASE("several dispatchers count calls: the buckets are sums, and start from zero after a reset") {
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

TEST_CASE("several dispatchers count scans: each bucket, a range of steps per scan, has the sum of their counts") {
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

TEST_CASE("time falls into a latency bucket: the middle of the bucket is within 2 % of the time") {
  for (int shift = 0; shift < CallTimes::kMaxBits; ++shift) {
    for (const double part : {1.0, 1.01, 1.3, 1.77, 1.999}) {
      const auto nanos = static_cast<std::uint64_t>(part * static_cast<double>(std::uint64_t{1} << shift));
      const double middle = CallTimes::middle_of(CallTimes::bucket_of(nanos));
      INFO(nanos << " " << middle);
      CHECK(std::abs(middle - static_cast<double>(nanos)) <= 0.02 * static_cast<double>(nanos));
    }
  }
  CHECK(CallTimes::bucket_of(~std::uint64_t{0}) == CallTimes::kBuckets - 1);
  std::size_t last = 0;
  for (std::uint64_t nanos = 1; nanos < 100'000; ++nanos) {
    const std::size_t bucket = CallTimes::bucket_of(nanos);
    REQUIRE((bucket == last || bucket == last + 1));
    last = bucket;
  }
}

TEST_CASE("several dispatchers count calls: latency percentiles cover all of them, and start again after a reset") {
  ServerStats stats(2);
  DispatchCounters* a = stats.add_dispatcher();
  DispatchCounters* b = stats.add_dispatcher();
  const std::vector<double> asked = {0, 50, 99, 100};
  CHECK(stats.percentiles(1, asked) == std::vector<double>{0, 0, 0, 0});
  for (std::uint64_t i = 1; i <= 50; ++i) a->call(1, i * 1'000);
  for (std::uint64_t i = 51; i <= 100; ++i) b->call(1, i * 1'000);
  const std::vector<double> got = stats.percentiles(1, asked);
  CHECK(got[0] == Approx(1'000).epsilon(0.02));
  CHECK(got[1] == Approx(50'000).epsilon(0.02));
  CHECK(got[2] == Approx(99'000).epsilon(0.02));
  CHECK(got[3] == Approx(100'000).epsilon(0.02));
  CHECK(stats.percentiles(0, asked)[1] == 0);
  stats.reset();
  CHECK(stats.percentiles(1, asked)[1] == 0);
  b->call(1, 7'000'000);
  CHECK(stats.percentiles(1, asked)[1] == Approx(7'000'000).epsilon(0.02));
}

TEST_CASE("counter is sampled: its rate is the mean of the last 16 samples, without the sample after a reset") {
  RateMeter meter;
  CHECK(meter.per_second() == 0);
  std::uint64_t now = 1'000'000'000, total = 500;
  meter.sample(now, total);
  for (std::size_t i = 0; i < RateMeter::kSamples; ++i) meter.sample(now += 100'000'000, total += 100);
  CHECK(meter.per_second() == Approx(1'000));
  meter.sample(now += 100'000'000, total = 0);
  CHECK(meter.per_second() == Approx(1'000));
  for (std::size_t i = 0; i < RateMeter::kSamples; ++i) meter.sample(now += 100'000'000, total);
  CHECK(meter.per_second() == 0);
}

}  // namespace TEST_FILE
