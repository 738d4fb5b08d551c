// Tests of the reports of expirations: which are sent in a slice, and what is left for the next one.
#include "dispatch/expiry_reports.h"

#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <vector>

#include "one_loop.h"

namespace ebbtide::test {
namespace TEST_FILE {

/// Expired events are on. Each reading of the clock takes `step_ns`.
struct Bed {
  Observers observers;
  Millis now = 1000;
  std::uint64_t nanos = 1, step_ns = 0;
  std::vector<std::string> published;
  ExpiryReports reports{{&observers, [this] { return now; }, [this] { return nanos += step_ns; }}};

  Bed() {
    observers.notifications.publish = [this](Bytes, Bytes message, ClientLoop*, SeqNum) { published.emplace_back(message); };
    observers.notifications.set_flags(*parse_notify_flags("Ex"));
    observers.refresh_expiries(1);
    const auto sweep = observers.expiries.begin_sweep(1);
    REQUIRE(sweep);
    observers.expiries.end_sweep(sweep->until);
  }
  void put(const std::string& key, Millis expiry) { observers.expiries.written(0, key, expiry, 1); }
};

TEST_CASE("keys have expired: each is published once, in the order of expiries, and no other key is published") {
  Bed bed;
  bed.put("second", 900);
  bed.put("first", 800);
  bed.put("later", 1001);
  CHECK_FALSE(bed.reports.report_some());
  CHECK(bed.published == std::vector<std::string>{"first", "second"});
  CHECK_FALSE(bed.reports.report_some());
  bed.now = 1001;
  CHECK_FALSE(bed.reports.report_some());
  CHECK(bed.published == std::vector<std::string>{"first", "second", "later"});
}

TEST_CASE("slice ends before all expired keys are published: the next slice continues after the last one") {
  Bed bed;
  bed.step_ns = 2'000'000;
  for (int i = 0; i < 10; ++i) bed.put("k" + std::to_string(i), 900 + static_cast<Millis>(i));
  int slices = 1;
  for (; bed.reports.report_some(); ++slices) REQUIRE(slices < 20);
  CHECK(slices > 2);
  CHECK((bed.published.size() == 10 && bed.published.front() == "k0" && bed.published.back() == "k9"));
}

TEST_CASE("message about an expired key is sent in parts: the next slice begins with the remaining parts") {
  Bed bed;
  int parts = 0;
  bed.observers.notifications.work = [](std::size_t) { return std::uint64_t{1} << 30; };
  bed.observers.notifications.publish_in_parts = [&](Bytes, Bytes message, ClientLoop*, SeqNum) {
    return [&, text = std::string(message)](const Slice&) {
      if (++parts < 3) return false;
      bed.published.push_back(text);
      return true;
    };
  };
  bed.put("k", 900);
  CHECK(bed.reports.report_some());
  CHECK(bed.reports.report_some());
  CHECK(bed.published.empty());
  CHECK_FALSE(bed.reports.report_some());
  CHECK(bed.published == std::vector<std::string>{"k"});
}

}  // namespace TEST_FILE
}  // namespace ebbtide::test
