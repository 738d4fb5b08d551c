// The scrub: which table it takes when, and what it makes of damage.
#include <set>

#include "db/scrub.h"
#include "engine/db/harness.h"

namespace ebbtide {
namespace {

constexpr Millis kHour = 3'600'000, kDay = 24 * kHour;

/// Runs the walk for `time` with a look every minute; the numbers of the tables that it took.
std::vector<std::uint64_t> walk(ScrubWalk* scrub, const std::vector<ScrubWalk::Table>& tables, Millis* now, Millis time,
                                Millis interval) {
  std::vector<std::uint64_t> taken;
  for (const Millis end = *now + time; *now < end; *now += 60'000) {
    if (!scrub->due(*now, interval)) continue;
    if (const auto* table = scrub->next(tables, *now)) taken.push_back(table->number);
  }
  return taken;
}

void fill(Harness& h) {
  for (int i = 0; i < 3000; ++i) h.put(i % 2, "key" + std::to_string(i), std::string(200, 'v'));
  for (DatabaseId d = 0; d < 2; ++d) REQUIRE(h.db->flush(d).is_ok());
  h.settle();
}

/// Time passes with a look every few minutes.
void live(Harness& h, Millis time) {
  for (Millis passed = 0; passed < time; passed += 300'000) {
    h.advance(300'000);
    h.settle();
  }
}

Settings scrubbed_daily() {
  Settings s = Harness::small();
  s.scrub_interval = kDay;
  s.tree.delete_deadline = 0;
  return s;
}

}  // namespace

TEST_CASE("a walk takes each table once in the interval, larger ones for a larger part of it") {
  std::vector<ScrubWalk::Table> tables = {{9, 500}, {4, 100}, {30, 300}, {12, 100}};
  ScrubWalk scrub(4);  // behind table 4
  Millis now = 1'000'000;
  CHECK(walk(&scrub, tables, &now, 10 * 60'000, kDay) == std::vector<std::uint64_t>{9});
  CHECK(walk(&scrub, tables, &now, kDay / 2, kDay) == std::vector<std::uint64_t>{12});
  CHECK(walk(&scrub, tables, &now, kDay / 2 - kHour, kDay) == std::vector<std::uint64_t>{30, 4});
  // From then on each day has all of them. One that comes is taken in its turn, one that goes is not missed.
  for (int day = 0; day < 3; ++day) {
    const auto taken = walk(&scrub, tables, &now, kDay + 10 * 60'000, kDay);
    CHECK(std::set(taken.begin(), taken.end()) == std::set<std::uint64_t>{4, 9, 12, 30});
    CHECK(taken.size() <= 6);
  }
  tables = {{9, 500}, {31, 500}};
  const auto taken = walk(&scrub, tables, &now, 2 * kDay, kDay);
  CHECK(std::set(taken.begin(), taken.end()) == std::set<std::uint64_t>{9, 31});
}

TEST_CASE("a walk over nothing looks again later, and a shorter interval counts at once") {
  ScrubWalk scrub(0);
  Millis now = 1'000'000;
  CHECK(walk(&scrub, {}, &now, kDay, kDay).empty());
  CHECK(walk(&scrub, {{3, 10}}, &now, 2 * 60'000, 30 * kDay) == std::vector<std::uint64_t>{3});
  CHECK(walk(&scrub, {{3, 10}}, &now, kDay, 30 * kDay).empty());
  CHECK(walk(&scrub, {{3, 10}}, &now, 3 * kHour, kHour).size() >= 2);
}

TEST_CASE("what the scrub reads in its interval is everything, and all of it is right") {
  Harness h(scrubbed_daily());
  h.open();
  fill(h);
  const std::uint64_t bytes = h.table_bytes().size();
  live(h, kDay + kHour);
  CHECK(h.db->stats().scrub_bytes >= bytes);
  CHECK(h.db->stats().scrub_bytes < 2 * bytes);
  CHECK(h.db->stats().scrub_errors == 0);
  CHECK_FALSE(h.events.heard("scrub"));
}

TEST_CASE("the scrub names what a drive has lost, and nothing else stops") {
  Harness h(scrubbed_daily());
  h.open();
  fill(h);
  const std::string damaged = h.paths(".data")[1], cut = h.paths(".meta")[2];
  REQUIRE(h.files->punch_hole(damaged, 4096, 1024).is_ok());  // reads as zeros
  REQUIRE(h.files->truncate(cut, 100).is_ok());
  live(h, kDay + kHour);
  CHECK(h.db->stats().scrub_errors >= 2);
  CHECK(h.events.heard(damaged));
  CHECK(h.events.heard(cut));
  CHECK(h.get(0, "key0") == std::string(200, 'v'));
  h.put(0, "new", "1");
  CHECK(h.get(0, "new") == "1");
}

TEST_CASE("0 switches the scrub off, while it runs, too") {
  Settings s = scrubbed_daily();
  s.scrub_interval = 0;
  Harness h(s);
  h.open();
  fill(h);
  live(h, kDay);
  CHECK(h.db->stats().scrub_bytes == 0);
  s.scrub_interval = kHour;
  REQUIRE(h.db->reconfigure(s).is_ok());
  live(h, 2 * kHour);
  const std::uint64_t bytes = h.db->stats().scrub_bytes;
  CHECK(bytes > 0);
  s.scrub_interval = 0;
  REQUIRE(h.db->reconfigure(s).is_ok());
  live(h, 2 * kHour);
  CHECK(h.db->stats().scrub_bytes == bytes);
}

TEST_CASE("a table that is merged away while the scrub waits for its turn is no error") {
  Harness h(scrubbed_daily());
  h.open();
  fill(h);
  for (int hour = 0; hour < 26; ++hour) {
    h.advance(kHour);  // the scrub queues a table, if it is due
    REQUIRE(h.db->compact(hour % 2, {}).is_ok());
    h.settle();
  }
  CHECK(h.db->stats().scrub_errors == 0);
  CHECK(h.db->stats().scrub_bytes > 0);
}

}  // namespace ebbtide
