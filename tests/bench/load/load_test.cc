// Tests of the calculations of bench_load in which a bug would give a wrong figure.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "arrivals.h"
#include "histogram.h"
#include "wire_format.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::bench;

TEST_CASE("histogram buckets: they are adjacent, and each contains its highest value") {
  for (std::size_t bucket = 0; bucket + 1 < Histogram::kBuckets; ++bucket) {
    const std::uint64_t highest = Histogram::highest_in(bucket);
    REQUIRE(Histogram::bucket_of(highest) == bucket);
    REQUIRE(Histogram::bucket_of(highest + 1) == bucket + 1);
  }
  CHECK(Histogram::highest_in(Histogram::kBuckets - 1) == ~std::uint64_t{0});
  CHECK(Histogram::bucket_of(~std::uint64_t{0}) == Histogram::kBuckets - 1);
}

TEST_CASE("histogram quantiles: they equal the quantiles of the sorted values to 0.8 %") {
  Random random(7);
  std::vector<std::uint64_t> values;
  Histogram histogram;
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(random.next() >> random.uniform(60));
    histogram.record(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double q : {0.0001, 0.01, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(q * 20'000)));
    const double exact = static_cast<double>(values[rank - 1]), said = static_cast<double>(histogram.quantile(q));
    INFO("q = " << q);
    CHECK(said >= exact);
    CHECK(said <= exact * 1.008 + 1);
  }
  CHECK(histogram.max() == values.back());
  CHECK(histogram.quantile(1) == values.back());
  CHECK(histogram.min() == values.front());
}

TEST_CASE("quantile(q) of a histogram: it is the smallest value v such that at least a share q of the values are v or less") {
  Histogram histogram;
  for (std::uint64_t value = 1; value <= 10; ++value) histogram.record(value);
  CHECK(histogram.quantile(0) == 1);
  CHECK(histogram.quantile(0.1) == 1);
  CHECK(histogram.quantile(0.11) == 2);
  CHECK(histogram.quantile(0.5) == 5);
  CHECK(histogram.quantile(0.999) == 10);
  CHECK(histogram.quantile(1) == 10);
}

TEST_CASE("histograms are merged: the result equals one histogram of all values") {
  Random random(8);
  Histogram one, other, all;
  for (int i = 0; i < 5'000; ++i) {
    const std::uint64_t value = random.uniform(10'000'000);
    (i % 3 == 0 ? one : other).record(value);
    all.record(value);
  }
  one.merge(other);
  CHECK(one.count() == all.count());
  CHECK(one.quantile(0.5) == all.quantile(0.5));
  CHECK(one.quantile(0.999) == all.quantile(0.999));
  CHECK(one.mean() == Approx(all.mean()));
}

TEST_CASE("histogram is empty: its quantiles are 0") {
  const Histogram empty;
  CHECK(empty.quantile(0.5) == 0);
  CHECK(empty.max() == 0);
  CHECK(empty.min() == 0);
  CHECK(empty.mean() == 0);
}

TEST_CASE("requests arrive at even or random intervals: their mean rate is the requested rate") {
  for (const bool poisson : {false, true}) {
    Arrivals arrivals(50'000, poisson, 1'000, 3);
    std::int64_t last = 1'000, longest = 0;
    for (int i = 0; i < 100'000; ++i) {
      REQUIRE(arrivals.next_ns() >= last);
      longest = std::max(longest, arrivals.next_ns() - last);
      last = arrivals.next_ns();
      arrivals.pop();
    }
    CHECK(static_cast<double>(last) / 1e9 == Approx(2.0).epsilon(0.02));
    // The gaps are 20 us, or exponential; of 100,000 exponential gaps the longest is about ln(100,000) times the mean.
    if (poisson) {
      CHECK(longest > 100'000);
    } else {
      CHECK(longest <= 20'001);
    }
  }
}

TEST_CASE("numbers are shuffled: the result has the same numbers in another order") {
  for (const std::uint64_t n : {1, 2, 3, 16, 1000, 4097}) {
    const Shuffle shuffle(n, 5);
    std::set<std::uint64_t> seen;
    std::uint64_t in_place = 0;
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t at = shuffle(i);
      REQUIRE(at < n);
      seen.insert(at);
      in_place += at == i ? 1 : 0;
    }
    CHECK(seen.size() == n);
    if (n >= 1000) CHECK(in_place < 20);
  }
}

TEST_CASE("stream of replies is cut anywhere: each reply is parsed whole") {
  const std::string stream = "+OK\r\n$5\r\nhe\r\no\r\n$-1\r\n:42\r\n-ERR no\r\n$0\r\n\r\n_\r\n";
  using Kind = ReplyView::Kind;
  const std::vector<std::pair<Kind, std::string>> expected = {{Kind::kSimple, "OK"},  {Kind::kBulk, "he\r\no"}, {Kind::kNull, ""},
                                                              {Kind::kInteger, "42"}, {Kind::kError, "ERR no"}, {Kind::kBulk, ""},
                                                              {Kind::kNull, ""}};
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    std::string buffered;
    std::vector<std::pair<Kind, std::string>> got;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      buffered += stream.substr(at, piece);
      for (;;) {
        const auto reply = parse_reply(buffered);
        REQUIRE(reply);
        if (reply->bytes == 0) break;
        got.emplace_back(reply->kind, reply->body);
        buffered.erase(0, reply->bytes);
      }
    }
    INFO("pieces of " << piece);
    CHECK(buffered.empty());
    CHECK(got == expected);
  }
}

TEST_CASE("input is no reply to GET or SET: parsing fails") {
  CHECK_FALSE(parse_reply("*1\r\n$1\r\na\r\n"));
  CHECK_FALSE(parse_reply("$x\r\n"));
  CHECK_FALSE(parse_reply("$-2\r\n"));
  CHECK_FALSE(parse_reply("HTTP/1.1 400 Bad Request\r\n"));
  CHECK_FALSE(parse_reply(std::string(600, '+')));
}

TEST_CASE("value is checked: it is accepted for its own key only") {
  const Requests requests(100, 0, 1);
  std::string value, set, get, absent;
  requests.append_value(42, value);
  CHECK(value.size() == 100);
  CHECK(requests.belongs(42, value));
  CHECK_FALSE(requests.belongs(43, value));
  CHECK_FALSE(requests.belongs(42, value.substr(1)));
  requests.append_set(42, set);
  CHECK(set == "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000042\r\n$100\r\n" + value + "\r\n");
  requests.append_get(42, false, get);
  CHECK(get == "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000042\r\n");
  requests.append_get(42, true, absent);
  CHECK(absent == "*2\r\n$3\r\nGET\r\n$16\r\nkey:00000000004C\r\n");
}

TEST_CASE("values have a compressible share: the compressible part has the requested size") {
  for (const double part : {0.0, 0.5, 1.0}) {
    const Requests requests(1000, part, 1);
    std::string values;
    for (std::uint64_t key = 0; key < 500; ++key) requests.append_value(key, values);
    std::size_t constant = 0;
    for (std::size_t i = 1; i < values.size(); ++i) constant += values[i] == 'x' && values[i - 1] == 'x' ? 1 : 0;
    CHECK(static_cast<double>(constant) / static_cast<double>(values.size()) == Approx(part).margin(0.05));
  }
}

}  // namespace TEST_FILE
