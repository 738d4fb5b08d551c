// Tests of the plan of a manual merge: its inputs, and its time for trees of many files.
#include <catch2/catch.hpp>

#include <set>

#include "base/random.h"
#include "db/background/full_merge.h"
#include "support/keys.h"

namespace TEST_FILE {

using namespace ebbtide;

/// Returns a tree of `runs` runs with keys below `keys`. The files of each run end at random keys.
TreeShape random_shape(Random& random, int runs, std::uint64_t keys, std::uint64_t longest) {
  TreeShape shape;
  FileNum next = 1;
  for (int r = 0; r < runs; ++r) {
    RunShape run{static_cast<RunId>(r + 1), r, {}};
    for (std::uint64_t at = random.uniform(longest); at < keys;) {
      const std::uint64_t last = at + random.uniform(longest);
      FileShape file;
      file.num = next++;
      file.smallest = key_of(at);
      file.largest = key_of(last);
      file.tombstones = random.one_in(4) ? 1 : 0;
      file.busy = random.one_in(60);
      run.files.push_back(std::move(file));
      at = last + 1 + (random.one_in(2) ? random.uniform(longest) : 0);
    }
    shape.runs.push_back(std::move(run));
  }
  return shape;
}

/// Returns the files that a full merge must take, by its definition: adds overlapping files until there are no more. Empty: no
/// plan.
std::set<FileNum> closure(const TreeShape& shape, const KeyRange& range, bool* busy) {
  std::set<FileNum> taken;
  std::set<RunId> runs;
  bool dirty = false;
  for (const RunShape& run : shape.runs) {
    for (const FileShape& file : run.files) {
      if (!file.overlaps(range.start, range.end)) continue;
      taken.insert(file.num);
      runs.insert(run.id);
      dirty |= file.tombstones != 0;
      *busy |= file.busy;
    }
  }
  if (runs.empty() || *busy || (runs.size() == 1 && !dirty)) return {};
  for (std::size_t before = 0; before != taken.size();) {
    before = taken.size();
    for (const RunShape& a : shape.runs) {
      for (const FileShape& have : a.files) {
        if (!taken.contains(have.num)) continue;
        for (const RunShape& b : shape.runs) {
          if (!runs.contains(b.id)) continue;
          for (const FileShape& file : b.files) {
            if (!file.overlaps(have)) continue;
            taken.insert(file.num);
            *busy |= file.busy;
          }
        }
      }
    }
  }
  return *busy ? std::set<FileNum>{} : taken;
}

std::set<FileNum> files_of(const Plan& plan) {
  std::set<FileNum> files;
  if (plan.empty()) return files;
  for (const PlanInput& input : std::get<Merge>(plan.action).inputs) files.insert(input.files.begin(), input.files.end());
  return files;
}

TEST_CASE("manual merge of a range is planned: it takes the files of the range and all files that overlap them") {
  Random random(7);
  int plans = 0, busy_plans = 0;
  for (int i = 0; i < 400; ++i) {
    INFO("round " << i);
    const TreeShape shape = random_shape(random, 1 + static_cast<int>(random.uniform(4)), 200, 1 + random.uniform(30));
    const std::uint64_t start = random.uniform(200);
    const KeyRange range{random.one_in(5) ? "" : key_of(start), random.one_in(5) ? "" : key_of(start + 1 + random.uniform(40))};
    bool busy = false, expected_busy = false;
    const Plan plan = plan_full_merge(shape, range, &busy);
    REQUIRE(files_of(plan) == closure(shape, range, &expected_busy));
    REQUIRE(busy == expected_busy);
    busy_plans += busy ? 1 : 0;
    if (plan.empty()) continue;
    ++plans;
    const auto& merge = std::get<Merge>(plan.action);
    for (std::size_t k = 0; k < merge.inputs.size(); ++k) {
      const RunShape& run = *shape.run(merge.inputs[k].run);
      if (k > 0) CHECK(merge.inputs[k - 1].run < run.id);
      // The files are in key order, which equals the order of their numbers.
      CHECK(std::is_sorted(merge.inputs[k].files.begin(), merge.inputs[k].files.end()));
    }
    CHECK(merge.target.run == merge.inputs.back().run);
  }
  CHECK(plans > 50);
  CHECK(busy_plans > 50);
}

// The files form a chain: each file of one run overlaps two of the other, so each added file adds one more. Adding one file at a
// time by comparing all pairs would take about 10^13 steps.
TEST_CASE("manual merge has 100,000 files in one overlapping chain: its plan is made quickly") {
  TreeShape shape;
  constexpr std::uint64_t kFiles = 50'000;
  for (std::uint64_t r = 0; r < 2; ++r) {
    RunShape run{static_cast<RunId>(r + 1), static_cast<int>(r), {}};
    for (std::uint64_t i = 0; i < kFiles; ++i) {
      FileShape file;
      file.num = r * kFiles + i + 1;
      file.smallest = key_of(20 * i + 10 * r);
      file.largest = key_of(20 * i + 10 * r + 15);
      run.files.push_back(std::move(file));
    }
    shape.runs.push_back(std::move(run));
  }
  bool busy = false;
  const Plan plan = plan_full_merge(shape, {key_of(0), key_of(11)}, &busy);
  CHECK(files_of(plan).size() == 2 * kFiles);
}

}  // namespace TEST_FILE
