// Tests of trees of hundreds of small files: their versions, views and shapes have several chunks (base/shared_list.h).
#include <algorithm>
#include <map>

#include "base/random.h"
#include "engine/db/harness.h"
#include "support/long_run.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr int kKeys = 2000;

/// A database with files of two values each. Its content is known.
struct ManyFiles {
  explicit ManyFiles(const PolicySettings& policy, std::uint64_t seed) : random(seed), h(settings_of(policy)) { h.open(); }

  static Settings settings_of(const PolicySettings& policy) {
    Settings s = Harness::small();
    s.memory_budget = 256 << 20;
    s.tree.memtable_size = 1 << 20;
    s.wal_segment_size = 4 << 20;
    s.tree.file_size = 64 << 10;
    s.tree.policy = policy;
    return s;
  }
  void put(int key) {
    std::string value(28'000 + random.uniform(3000), '\0');
    for (std::size_t i = 0; i < value.size(); i += 64) value[i] = static_cast<char>('a' + random.uniform(26));
    h.put(0, key_of(key), value);
    model[key] = std::move(value);
  }
  void del(int key) {
    if (model.erase(key) != 0) h.del(0, key_of(key));
  }
  void del_range(int from, int to) {
    h.del_range(0, key_of(from), key_of(to));
    model.erase(model.lower_bound(from), model.lower_bound(to));
  }
  [[nodiscard]] std::uint64_t files() const {
    std::uint64_t sum = 0;
    const TreeInfo info = *h.db->tree_info(0);
    for (const RunInfo& run : info.runs) sum += run.files;
    return sum;
  }
  void check() {
    h.settle();
    h.verify(0);
    for (int key = 0; key < kKeys; ++key) {
      const auto known = model.find(key);
      REQUIRE(h.get(0, key_of(key)) == (known == model.end() ? "(absent)" : known->second));
    }
    const ReadView lease = h.db->lease(0);
    const auto walk = h.db->iterate(lease, {});
    std::size_t keys = 0;
    for (walk->seek_to_first(); walk->valid(); walk->next()) ++keys;
    CHECK(walk->status().is_ok());
    CHECK(keys == model.size());
  }

  Random random;
  Harness h;
  std::map<int, std::string> model;
};

TEST_CASE("tree has hundreds of small files: merges, moves, deletes, a crash and a restart change none of the values read") {
  const PolicySettings policies[] = {{"one_leveling", {{"size_ratio", 4}, {"level0_runs", 2}}}, {"tiering", {{"size_ratio", 3}}}};
  for (std::size_t p = first_of_every_nth() % std::size(policies); p < std::size(policies); p += every_nth()) {
    const PolicySettings& policy = policies[p];
    INFO("policy " << policy.name);
    ManyFiles w(policy, 5);
    for (int key = 0; key < kKeys; ++key) {  // keys ascend, so that files are moved
      w.put(key);
      if (key % 20 == 0) w.h.settle();
    }
    w.check();
    CHECK(w.files() > 512);
    CHECK(w.h.db->stats().trivial_moves > 300);
    for (int i = 0; i < 300; ++i) {  // keys are random, so that files are merged
      const auto key = static_cast<int>(w.random.uniform(kKeys));
      if (w.random.one_in(4)) {
        w.del(key);
      } else {
        w.put(key);
      }
      if (i % 10 == 0) w.h.settle();
    }
    w.del_range(500, 700);
    w.check();
    w.h.crash(CrashMode::kEverything, 3);
    w.h.open();
    w.check();
    for (int key = 450; key < 750; key += 2) w.put(key);
    demand_ok(w.h.db->flush(0), "flush");
    w.check();
    w.h.reopen();
    w.check();
    // After the deadline no table may have deleted data.
    w.del_range(0, 400);
    for (int step = 0; step < 26 * 12; ++step) {
      w.h.advance(300'000);
      w.h.settle();
    }
    w.check();
    CHECK(w.h.db->tree_info(0)->oldest_obligation == 0);
  }
}

}  // namespace TEST_FILE
