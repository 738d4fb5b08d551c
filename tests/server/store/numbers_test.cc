#include "store/numbers.h"

#include <catch2/catch.hpp>
#include <limits>

#include "store/expiry.h"

namespace TEST_FILE {

using namespace ebbtide;

TEST_CASE("text is parsed as an integer: it is accepted only if Redis accepts it") {
  CHECK(parse_integer("0") == 0);
  CHECK(parse_integer("-1") == -1);
  CHECK(parse_integer("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  CHECK(parse_integer("-9223372036854775808") == std::numeric_limits<std::int64_t>::min());
  for (const Bytes text : {"", "-", "-0", "+1", " 1", "1 ", "01", "-01", "1e400", "nan", "inf", "0x1", "1.0",
                           "9223372036854775808", "-9223372036854775809", "99999999999999999999999"}) {
    INFO(text);
    CHECK_FALSE(parse_integer(text).has_value());
  }
  CHECK_FALSE(parse_integer(Bytes("1\0", 2)).has_value());
  CHECK(parse_unsigned("18446744073709551615") == std::numeric_limits<std::uint64_t>::max());
  CHECK_FALSE(parse_unsigned("-1").has_value());
  CHECK_FALSE(parse_unsigned("18446744073709551616").has_value());
}

TEST_CASE("float is parsed or printed: the result is that of Redis") {
  CHECK(parse_long_double("1e3") == 1000.0L);
  CHECK(parse_long_double("-.5") == -0.5L);
  CHECK(parse_long_double("inf").has_value());
  CHECK(parse_long_double("0x10") == 16.0L);
  for (const Bytes text : {"", " 1", "1 ", "nan", "1e5000", "1e-5000", "abc", "1,5"}) {
    INFO(text);
    CHECK_FALSE(parse_long_double(text).has_value());
  }
  CHECK(to_text(3.0L) == "3");
  CHECK(to_text(10.5L + 0.1L) == "10.6");
  CHECK(to_text(-0.0L) == "0");
  CHECK(to_text(5.0e3L) == "5000");
  CHECK(to_text(100.0L) == "100");
  CHECK(to_text(std::int64_t{-42}) == "-42");
}

TEST_CASE("expiry overflows, is in the past or has to be rounded: the result is that of Redis") {
  constexpr Millis kNow = 1'700'000'000'000;
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  constexpr ExpiryForm kIn{ExpiryUnit::kSeconds, true}, kAtMilli{ExpiryUnit::kMilliseconds, false};
  CHECK(absolute_expiry(10, kIn, kNow) == std::int64_t{kNow} + 10'000);
  CHECK(absolute_expiry(-10, kIn, kNow) == std::int64_t{kNow} - 10'000);
  CHECK_FALSE(absolute_expiry(kMax, kIn, kNow).has_value());
  CHECK_FALSE(absolute_expiry(kMax / 1000, kIn, kNow).has_value());
  CHECK_FALSE(absolute_expiry(std::numeric_limits<std::int64_t>::min(), kIn, kNow).has_value());
  CHECK(absolute_expiry(kMax, kAtMilli, kNow) == kMax);
  CHECK_FALSE(positive_absolute_expiry(0, kIn, kNow).has_value());
  CHECK_FALSE(positive_absolute_expiry(-1, kAtMilli, kNow).has_value());
  CHECK(has_passed(kNow, kNow));
  CHECK_FALSE(has_passed(kNow + 1, kNow));
  CHECK(describe_expiry(0, kIn, kNow) == -1);
  CHECK(describe_expiry(kNow + 1499, kIn, kNow) == 1);
  CHECK(describe_expiry(kNow + 1500, kIn, kNow) == 2);
  CHECK(describe_expiry(kNow + 5, kAtMilli, kNow) == kNow + 5);
}

}  // namespace TEST_FILE
