// Tests that the pressure's inputs follow the current trees.
#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "db/write/load_meter.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kMemTableBytes = 64 << 10;

/// Counts how often its debt is computed.
class CountingPolicy final : public Policy {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Plan next(const TreeShape&, const PolicyContext&) const override { return {}; }
  [[nodiscard]] std::uint64_t debt_bytes(const TreeShape&) const override { return 100 * ++asked; }
  [[nodiscard]] double capacity_bytes(const TreeShape&, int level) const override { return level == 0 ? 77 : 0; }
  [[nodiscard]] int slowdown_runs() const override { return 5; }
  [[nodiscard]] int stop_runs() const override { return 9; }
  [[nodiscard]] std::string check(const TreeShape&) const override { return ""; }
  mutable std::uint64_t asked = 0;

 private:
  const std::string name_ = "counting";
};

struct Bed {
  SimulatedClock clock;
  bool paused = false;
  std::vector<TreeLoad> loads;
  LoadMeter meter{{.memtable_size = [] { return std::uint64_t{kMemTableBytes}; },
                   .loads = [this] { return loads; },
                   .empty_memtable_bytes = [] { return MemTable(kMemTableBytes).memory_bytes(); },
                   .memory_budget = [] { return std::uint64_t{64} << 20; },
                   .charged_bytes = [] { return std::uint64_t{12}; },
                   .merge_bytes_per_ms = [] { return 3.5; },
                   .deadline_permille = [] { return 40u; },
                   .compactions_paused = [this] { return paused; }}};

  void add(std::size_t memtables, const std::shared_ptr<const Policy>& policy) {
    auto tables = std::make_shared<TablesView>();
    tables->version = std::make_shared<Version>();
    tables->memory_bytes = 1000;
    tables->level0_runs = 3;
    auto view = std::make_shared<TreeView>();
    view->tables = tables;
    for (std::size_t i = 0; i < memtables; ++i) view->memtables.push_back(std::make_shared<MemTable>(kMemTableBytes));
    TreeLoad load;
    load.tree = std::make_shared<Tree>(clock);
    load.view = view;
    load.policy = policy;
    load.memtable_size = kMemTableBytes;
    load.inherited_runs = 1;
    load.compactions_fail = true;
    loads.push_back(load);
  }
};

TEST_CASE("there are several trees: their memory is summed, and each is listed with its runs and its policy's limits") {
  Bed bed;
  const auto policy = std::make_shared<CountingPolicy>();
  bed.add(1, policy);
  bed.add(3, policy);
  const std::uint64_t empty = MemTable(kMemTableBytes).memory_bytes();
  const WriteLoad load = bed.meter.measure();
  CHECK((load.memory.memtables == 4 * empty && load.memory.frozen == 2 * empty && load.memory.tables == 2000));
  CHECK(load.memory.kept == 2 * empty);
  CHECK((load.merge_bytes_per_ms == 3.5 && load.deadline_permille == 40 && load.charged_bytes == 12));
  REQUIRE(load.trees.size() == 2);
  CHECK((load.trees[0].runs == 3 && load.trees[0].inherited_runs == 1 && load.trees[0].compactions_fail));
  CHECK((load.trees[0].slowdown_runs == 5 && load.trees[0].stop_runs == 9));
  CHECK(load.trees[0].level0_bytes == 77);
}

TEST_CASE("memtable has left its tree: its memory counts as long as a reader has the memtable") {
  Bed bed;
  bed.add(3, std::make_shared<CountingPolicy>());
  const std::uint64_t empty = MemTable(kMemTableBytes).memory_bytes();
  CHECK(bed.meter.measure().memory.uncharged == 3 * empty);
  std::shared_ptr<const TreeView> reader = bed.loads[0].view;
  auto flushed = std::make_shared<TreeView>(*reader);
  flushed->memtables.resize(1);
  bed.loads[0].view = flushed;
  for (int i = 0; i < 2; ++i) {
    const WriteLoad load = bed.meter.measure();
    CHECK((load.memory.uncharged == 3 * empty && load.memory.memtables == 3 * empty && load.memory.frozen == 0));
  }
  reader = nullptr;
  CHECK(bed.meter.measure().memory.uncharged == empty);
}

TEST_CASE("tables, policy or file size change: pending bytes are computed again, otherwise not") {
  Bed bed;
  const auto policy = std::make_shared<CountingPolicy>();
  bed.add(1, policy);
  CHECK(bed.meter.measure().trees[0].pending_bytes == 100);
  CHECK(bed.meter.measure().trees[0].pending_bytes == 100);
  bed.loads[0].file_size = 4096;
  CHECK(bed.meter.measure().trees[0].pending_bytes == 200);
  const auto other = std::make_shared<CountingPolicy>();
  bed.loads[0].policy = other;
  CHECK(bed.meter.measure().trees[0].pending_bytes == 100);
  CHECK((policy->asked == 2 && other->asked == 1));
}

TEST_CASE("compactions are paused: runs of trees cause no pressure, but memory does") {
  Bed bed;
  bed.add(2, std::make_shared<CountingPolicy>());
  bed.paused = true;
  const WriteLoad load = bed.meter.measure();
  CHECK((load.trees.empty() && load.memory.frozen != 0));
}

}  // namespace TEST_FILE
