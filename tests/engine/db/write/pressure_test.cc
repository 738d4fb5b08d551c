// Tests of the pressure that follows from a load.
#include <catch2/catch.hpp>

#include "db/write/pressure.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// Returns the load of one tree of two runs, without pending work.
WriteLoad calm() {
  WriteLoad load;
  load.trees = {{.runs = 2, .slowdown_runs = 20, .stop_runs = 36, .data_bytes = 100 * kMiB}};
  load.memtable_size = 16 * kMiB;
  load.memory_budget = 1024 * kMiB;
  load.memory = {.memtables = 10 * kMiB, .uncharged = 10 * kMiB};
  return load;
}

struct Row {
  const char* name;
  void (*change)(WriteLoad&);
  std::uint32_t permille;
  StallReason reason;
};

TEST_CASE("source of pressure exceeds its first limit: the pressure rises up to 1000 at the second limit") {
  const std::vector<Row> rows = {
      {"nothing is behind", [](WriteLoad&) {}, 0, StallReason::kNone},
      {"runs at the first limit", [](WriteLoad& l) { l.trees[0].runs = 20; }, 0, StallReason::kNone},
      {"runs between the limits", [](WriteLoad& l) { l.trees[0].runs = 24; }, 250, StallReason::kRuns},
      {"runs at the second limit", [](WriteLoad& l) { l.trees[0].runs = 36; }, 1000, StallReason::kRuns},
      {"runs above the second limit", [](WriteLoad& l) { l.trees[0].runs = 90; }, 1000, StallReason::kRuns},
      {"limits that are equal",
       [](WriteLoad& l) {
         l.trees[0].stop_runs = 20;
         l.trees[0].runs = 21;
       },
       1000, StallReason::kRuns},
      {"inherited runs do not count",
       [](WriteLoad& l) {
         l.trees[0].runs = 60;
         l.trees[0].inherited_runs = 40;
       },
       0, StallReason::kNone},
      {"with inherited runs, own ones never stop writes",
       [](WriteLoad& l) {
         l.trees[0].runs = 90;
         l.trees[0].inherited_runs = 40;
       },
       950, StallReason::kRuns},
      {"pending bytes of 64 memtables", [](WriteLoad& l) { l.trees[0].pending_bytes = 1024 * kMiB; }, 0, StallReason::kNone},
      {"pending bytes of 160 memtables", [](WriteLoad& l) { l.trees[0].pending_bytes = 2560 * kMiB; }, 500,
       StallReason::kPendingBytes},
      {"pending bytes never stop writes", [](WriteLoad& l) { l.trees[0].pending_bytes = (1 << 20) * kMiB; }, 950,
       StallReason::kPendingBytes},
      {"pending bytes of half of the data",
       [](WriteLoad& l) {
         l.trees[0].pending_bytes = 2560 * kMiB;
         l.trees[0].data_bytes = 5120 * kMiB;
       },
       0, StallReason::kNone},
      {"pending bytes of two full levels 0",
       [](WriteLoad& l) {
         l.trees[0].pending_bytes = 2560 * kMiB;
         l.trees[0].level0_bytes = 1280 * kMiB;
       },
       0, StallReason::kNone},
      {"pending bytes of five full levels 0",
       [](WriteLoad& l) {
         l.trees[0].pending_bytes = 6400 * kMiB;
         l.trees[0].level0_bytes = 1280 * kMiB;
       },
       500, StallReason::kPendingBytes},
      {"pending bytes that merges do in ten seconds",
       [](WriteLoad& l) {
         l.trees[0].pending_bytes = 2560 * kMiB;
         l.merge_bytes_per_ms = 0.256 * kMiB;
       },
       0, StallReason::kNone},
      {"deadlines need 70 % of the rate", [](WriteLoad& l) { l.deadline_permille = 700; }, 0, StallReason::kNone},
      {"deadlines need 85 % of the rate", [](WriteLoad& l) { l.deadline_permille = 850; }, 500, StallReason::kDeadline},
      {"deadlines never stop writes", [](WriteLoad& l) { l.deadline_permille = 1000; }, 950, StallReason::kDeadline},
      {"frozen memtables at half of their share", [](WriteLoad& l) { l.memory.frozen = 64 * kMiB; }, 0, StallReason::kNone},
      {"frozen memtables at three quarters", [](WriteLoad& l) { l.memory.frozen = 96 * kMiB; }, 500, StallReason::kMemTable},
      {"frozen memtables at their share", [](WriteLoad& l) { l.memory.frozen = 128 * kMiB; }, 1000, StallReason::kMemTable},
      {"small budget: a third of it is the share",
       [](WriteLoad& l) {
         l.memory_budget = 192 * kMiB;
         l.memory.frozen = 48 * kMiB;
       },
       500, StallReason::kMemTable},
      {"last eighth of the budget while a flush is under way",
       [](WriteLoad& l) {
         l.charged_bytes = (896 + 64) * kMiB;
         l.memory = {.uncharged = 0, .frozen = kMiB};
       },
       500, StallReason::kMemTable},
      {"last eighth of the budget with nothing to flush", [](WriteLoad& l) { l.charged_bytes = 1000 * kMiB; }, 0,
       StallReason::kNone},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    WriteLoad load = calm();
    row.change(load);
    const Pressure pressure = pressure_of(load);
    CHECK(pressure.permille == row.permille);
    CHECK(pressure.reason == row.reason);
    CHECK_FALSE(pressure.stuck);
    CHECK_FALSE(pressure.out_of_memory);
  }
}

TEST_CASE("several sources and trees cause pressure: the largest pressure among them counts") {
  WriteLoad load = calm();
  load.trees.push_back(load.trees[0]);
  load.trees[1].runs = 28;
  load.deadline_permille = 760;
  CHECK(pressure_of(load).permille == 500);
  CHECK(pressure_of(load).reason == StallReason::kRuns);
  load.deadline_permille = 940;
  CHECK(pressure_of(load).permille == 800);
  CHECK(pressure_of(load).reason == StallReason::kDeadline);
}

TEST_CASE("tree has as many runs as stop writes, and its compactions fail: stuck is true") {
  WriteLoad load = calm();
  load.trees[0].compactions_fail = true;
  load.trees[0].runs = 35;
  CHECK_FALSE(pressure_of(load).stuck);
  load.trees[0].runs = 36;
  CHECK(pressure_of(load).stuck);
  load.trees[0].compactions_fail = false;
  CHECK_FALSE(pressure_of(load).stuck);
}

TEST_CASE("memory is a tenth above the budget: out_of_memory is true, unless a flush makes room") {
  WriteLoad load = calm();
  load.memory = {.memtables = 10 * kMiB, .uncharged = 10 * kMiB, .tables = 1000 * kMiB};
  load.charged_bytes = 116 * kMiB;
  CHECK_FALSE(pressure_of(load).out_of_memory);
  load.charged_bytes = 117 * kMiB;
  CHECK(pressure_of(load).out_of_memory);
  load.memory.frozen = 1;
  CHECK_FALSE(pressure_of(load).out_of_memory);
  load.memory.frozen = 0;
  load.memory.memtables = 513 * kMiB;  // more than half of the budget, so the next tick flushes some
  CHECK_FALSE(pressure_of(load).out_of_memory);
}

}  // namespace TEST_FILE
