// Tests of the slow log: its entries, and how arguments are shown.
#include "dispatch/slow_log.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace ebbtide::test {
namespace TEST_FILE {

using Strings = std::vector<std::string>;

SlowLog::Entry entry(const char* name, bool has_arguments = false) {
  SlowLog::Entry entry;
  entry.arguments = {name};
  entry.has_arguments = has_arguments;
  return entry;
}

TEST_CASE("commands exceed the slow log's limit: the latest entries stay, newest first, and ids are not used again") {
  Switches switches;
  SlowLog log(switches);
  log.configure(10'000, 2, false);
  for (const char* name : {"a", "b", "c"}) log.add(entry(name));
  const auto kept = log.latest(10);
  REQUIRE(kept.size() == 2);
  CHECK(kept[0].arguments == Strings{"c"});
  CHECK(kept[0].id == 2);
  CHECK(kept[1].arguments == Strings{"b"});
  CHECK(log.latest(1).size() == 1);
  log.configure(10'000, 1, false);
  CHECK(log.size() == 1);
  log.reset();
  CHECK(log.size() == 0);
  log.add(entry("d"));
  CHECK(log.latest(1)[0].id == 3);
}

TEST_CASE("slow log has thousands of entries: SLOWLOG GET lists each once, in order") {
  Switches switches;
  SlowLog log(switches);
  log.configure(10'000, 5000, false);
  for (int i = 0; i < 6000; ++i) log.add(entry("a"));
  const auto kept = log.latest(3000);
  REQUIRE(kept.size() == 3000);
  for (std::size_t i = 0; i < kept.size(); ++i) REQUIRE(kept[i].id == 5999 - i);
  CHECK(log.latest(~std::size_t{0}).size() == 5000);
}

TEST_CASE("slow log entries are many or large: they take at most a part of the memory budget, and are charged to it") {
  Switches switches;
  SlowLog log(switches);
  std::size_t charged = 0;
  log.memory.charge = [&](std::size_t bytes) { charged += bytes; };
  log.memory.release = [&](std::size_t bytes) { charged -= bytes; };
  constexpr std::uint64_t kBudget = std::uint64_t{64} << 20;
  log.set_budget(kBudget);
  log.configure(0, 1'000'000, true);
  SlowLog::Entry large;
  large.has_arguments = true;
  large.arguments.assign(SlowLog::kMaxArguments, std::string(SlowLog::kMaxArgumentBytes, 'x'));
  for (int i = 0; i < 10'000; ++i) log.add(large);  // 50 MB in all
  CHECK(log.memory_bytes() <= kBudget / SlowLog::kBudgetPart);
  CHECK(log.size() > 100);
  CHECK(log.latest(1)[0].id == 9'999);
  CHECK(charged <= log.memory_bytes() + (64 << 10));
  CHECK(charged + (64 << 10) >= log.memory_bytes());
  log.set_budget(kBudget / 4);
  CHECK(log.memory_bytes() <= kBudget / 4 / SlowLog::kBudgetPart);
  log.configure(0, 1'000'000, false);  // this removes all entries
  CHECK(charged == 0);
  log.configure(0, 1'000'000, true);
  log.add(large);
  log.reset();
  CHECK(charged == 0);
  CHECK(log.memory_bytes() == 0);
}

TEST_CASE("slow log's threshold is below a millisecond: the server measures the time of every command") {
  Switches switches;
  SlowLog log(switches);
  log.configure(999, 10, false);
  CHECK(log.threshold_nanos() == 999'000);
  CHECK(switches.has(Switches::kEveryTime));
  log.configure(1000, 10, false);
  CHECK_FALSE(switches.has(Switches::kEveryTime));
  log.configure(SlowLog::kMaxMicros + 1, 10, false);
  CHECK(log.threshold_nanos() == ~std::uint64_t{0});
}

TEST_CASE("slow log's arguments are switched off: entries with arguments are removed, and no such entry is added") {
  Switches switches;
  SlowLog log(switches);
  log.configure(10'000, 10, true);
  log.add(entry("a", true));
  CHECK(log.size() == 1);
  log.configure(10'000, 10, false);
  CHECK(log.size() == 0);
  log.add(entry("a", true));
  CHECK(log.size() == 0);
}

TEST_CASE("slow log shows arguments: their number and length are limited, and passwords are redacted") {
  const std::string long_text(SlowLog::kMaxArgumentBytes + 7, 'x');
  std::vector<Bytes> words{"auth", "user", "secret"};
  Args args;
  args.list = words;
  CHECK(SlowLog::shorten(args, 2) == Strings{"auth", "user", "(redacted)"});
  words = {"get", long_text};
  args.list = words;
  CHECK(SlowLog::shorten(args, 2)[1] == std::string(SlowLog::kMaxArgumentBytes, 'x') + "... (7 more bytes)");
  words.assign(SlowLog::kMaxArguments + 3, "x");
  args.list = words;
  const Strings shown = SlowLog::shorten(args, words.size());
  CHECK(shown.size() == SlowLog::kMaxArguments);
  CHECK(shown.back() == "... (4 more arguments)");
}

}  // namespace TEST_FILE
}  // namespace ebbtide::test
