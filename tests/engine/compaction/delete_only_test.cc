// Tests of files that are dropped as a whole, since range tombstones cover them completely.
#include <map>

#include <catch2/catch.hpp>

#include "compaction/delete_only.h"
#include "engine/compaction/files.h"

namespace ebbtide {
namespace TEST_FILE {

struct DropTree {
  Version version;
  std::map<FileNum, SharedTombstones> sets;
  DeleteOnlyInput input;

  DropTree() {
    input.version = &version;
    input.visible_seq = 1000;
    input.tombstones = [this](const FileMeta& file) { return sets.at(file.data_file); };
  }
  void add(RunId run, FileMetaPtr file) {
    if (version.runs.empty() || version.runs.back().id != run) version.runs.push_back({run, 0, {}});
    version.runs.back().files.push_back(std::move(file));
  }
  void add_tombstones(RunId run, FileNum num, const std::vector<RangeTombstone>& tombstones) {
    auto meta = std::make_shared<FileMeta>();
    meta->data_file = num;
    meta->metadata_file = num + 1000;
    for (const RangeTombstone& t : tombstones) meta->stats.add_range_tombstone(t);
    sets[num] = std::make_shared<FragmentedRangeTombstones>(std::span(tombstones));
    add(run, meta);
  }
  [[nodiscard]] std::vector<FileNum> dropped() const {
    std::vector<FileNum> out;
    for (const PlanInput& in : inputs_of(plan_delete_only(input))) out.insert(out.end(), in.files.begin(), in.files.end());
    return out;
  }
};

TEST_CASE("range tombstones cover files of any run completely: a delete-only plan drops these files") {
  DropTree tree;
  tree.add_tombstones(1, 10, {{"c", "h", 100, 5}});
  tree.add_tombstones(2, 20, {{"h", "m", 90, 5}});
  tree.add(3, make_file(30, "a", "c", 100, 50));
  tree.add(3, make_file(31, "d", "g", 100, 50));
  tree.add(3, make_file(32, "g1", "l", 100, 50));  // two runs together cover it
  tree.add(3, make_file(33, "l1", "m", 100, 50));  // m is not covered
  tree.add(4, make_file(40, "e", "f", 100, 20));
  REQUIRE(tree.dropped() == std::vector<FileNum>{31, 32, 40});

  SECTION("readers cannot see the tombstone yet: no file is dropped") {
    tree.input.visible_seq = 95;
    REQUIRE(tree.dropped().empty());
  }
  SECTION("running job reads the file: the plan does not drop it") {
    tree.input.busy = [](FileNum file) { return file == 31; };
    REQUIRE(tree.dropped() == std::vector<FileNum>{32, 40});
  }
}

TEST_CASE("covered file has pending deletes older than the tombstone: it is dropped only if no older file overlaps it") {
  enum Kind { kTombstone, kDebt, kRecord };
  const Kind kind = GENERATE(kTombstone, kDebt, kRecord);
  DropTree tree;
  tree.add_tombstones(1, 10, {{"a", "z", 100, 500}});
  auto owing = std::make_shared<FileMeta>(*make_file(20, "c", "d", 100, 50));
  if (kind == kTombstone) owing->stats.oldest_tombstone = 400;
  if (kind == kDebt) owing->stats.oldest_debt = 400;
  if (kind == kRecord) {
    owing->stats.min_delete_key = 5, owing->stats.max_delete_key = 9;
    tree.version.records = std::make_shared<const RecordSet>(std::vector<Record>{{9, 10, 60, 400}});
  }
  tree.add(2, owing);
  REQUIRE(tree.dropped() == std::vector<FileNum>{20});
  tree.add(3, make_file(30, "c1", "zz", 100, 20));  // the file stays, since zz is not covered
  REQUIRE(tree.dropped().empty());
  tree.version.runs.back().files = {make_file(31, "c1", "c2", 100, 20)};  // the same plan drops it
  REQUIRE(tree.dropped() == std::vector<FileNum>{20, 31});
}

TEST_CASE("file has versions newer than the range tombstone: the file is kept") {
  DropTree tree;
  tree.add_tombstones(1, 10, {{"a", "z", 100, 5}});
  tree.add(2, make_file(20, "c", "d", 100, 100));
  REQUIRE(tree.dropped().empty());
}

}  // namespace TEST_FILE
}  // namespace ebbtide
