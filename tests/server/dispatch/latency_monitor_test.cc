// Tests of LATENCY's samples.
#include "dispatch/latency_monitor.h"

#include <catch2/catch.hpp>

namespace ebbtide::test {
namespace TEST_FILE {

TEST_CASE("command is faster than the threshold, or the threshold is 0: the command is not recorded") {
  LatencyMonitor monitor;
  monitor.add("command", 1000, 1);
  CHECK(monitor.events().empty());
  monitor.set_threshold(10);
  monitor.add("command", 9, 1);
  CHECK(monitor.events().empty());
  monitor.add("command", 10, 1);
  CHECK(monitor.event("command").samples.size() == 1);
  CHECK(monitor.event("other").samples.empty());
}

TEST_CASE("several commands are slow in one second: the slowest is recorded") {
  LatencyMonitor monitor;
  monitor.set_threshold(1);
  for (const std::uint64_t ms : {5, 20, 7}) monitor.add("command", ms, 100);
  monitor.add("command", 3, 101);
  const auto event = monitor.event("command");
  REQUIRE(event.samples.size() == 2);
  CHECK(event.samples[0].unix_seconds == 100);
  CHECK(event.samples[0].ms == 20);
  CHECK(event.samples[1].ms == 3);
  CHECK(event.max_ms == 20);
}

TEST_CASE("samples exceed their limit: the oldest are removed, and the maximum since the start stays") {
  LatencyMonitor monitor;
  monitor.set_threshold(1);
  for (std::size_t i = 0; i <= LatencyMonitor::kSamples; ++i) {
    monitor.add("command", i == 0 ? 99 : 2, static_cast<std::int64_t>(i));
  }
  const auto event = monitor.event("command");
  CHECK(event.samples.size() == LatencyMonitor::kSamples);
  CHECK(event.samples.front().unix_seconds == 1);
  CHECK(event.max_ms == 99);
}

TEST_CASE("LATENCY RESET is called: it removes the samples of the named events, or all if it names none") {
  LatencyMonitor monitor;
  monitor.set_threshold(1);
  for (const char* event : {"a", "b", "c"}) monitor.add(event, 5, 1);
  CHECK(monitor.reset("a"));
  CHECK_FALSE(monitor.reset("a"));
  CHECK(monitor.reset_all() == 2);
  CHECK(monitor.events().empty());
}

}  // namespace TEST_FILE
}  // namespace ebbtide::test
