// Tests that memtables which keep a log segment are flushed, and leases which keep files are revoked, once deletes in these are
// due.
#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/purge/log_retirer.h"
#include "db/purge/survey.h"
#include "engine/db/background/tables.h"
#include "engine/db/trees/registry_env.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

struct Bed {
  SimulatedClock clock;
  Epoch epoch;
  SeqNum last_seq = 0;
  std::vector<FileNum> ended;
  std::vector<LogSegment> segments;
  std::vector<TreeId> hurried;
  TreeRegistry trees{registry_env(clock, epoch, Millis{1000}, [this] { return last_seq; }), databases_of(4, 64 << 10)};
  LogRetirer retirer{{.trees = &trees,
                      .end_segment = [this](FileNum file) { ended.push_back(file); },
                      .segments = [this] { return segments; },
                      .hurry = [this](const TreePtr& tree) { hurried.push_back(tree->id); }}};

  /// Makes a tree whose memtable has operations from `first` on. It is the active memtable unless `frozen`.
  TreePtr make(TreeId id, SeqNum first, bool frozen = false) {
    MutexLock lock(trees.commit_mutex);
    TreePtr tree = trees.make(id, static_cast<DatabaseId>(id), StampMode::kWriteTime);
    tree->active->insert_range({"a", "b", first, 1000});
    trees.mark_active(id, first, first);
    if (frozen) trees.freeze(*tree);
    last_seq = std::max(last_seq, first);
    return tree;
  }
};

TEST_CASE("memtable is due: a flush is requested, and the active memtable is frozen only if it is due, too") {
  Bed bed;
  const TreePtr tree = bed.make(1, 5);
  bed.retirer.flush(1, false);
  CHECK((bed.hurried == std::vector<TreeId>{1} && tree->frozen.empty()));
  bed.retirer.flush(1, true);
  CHECK((bed.hurried == std::vector<TreeId>{1, 1} && tree->frozen.size() == 1));
}

TEST_CASE("tree was dropped: its memtable is not flushed") {
  Bed bed;
  const TreePtr tree = bed.make(1, 5);
  {
    MutexLock lock(bed.trees.commit_mutex);
    bed.trees.drop(tree, 1000);
  }
  bed.retirer.flush(1, true);
  bed.segments = {{.file = 3, .last_seq = 20}};
  bed.retirer.retire_until(3);
  CHECK(bed.hurried.empty());
}

TEST_CASE("segment is retired: it is ended, and memtables that need it or an older segment are flushed") {
  Bed bed;
  bed.segments = {{.file = 3, .last_seq = 10}, {.file = 4, .last_seq = 20}, {.file = 5, .last_seq = 30}};
  const TreePtr active = bed.make(1, 20), frozen = bed.make(2, 10, true), later = bed.make(3, 21);
  bed.retirer.retire_until(4);
  CHECK(bed.ended == std::vector<FileNum>{4});
  CHECK(bed.hurried == std::vector<TreeId>{1, 2});
  CHECK((active->frozen.size() == 1 && later->frozen.empty()));
}

TEST_CASE("segment has pieces of a batch: the batch's memtable is flushed, though the commit record is in a later segment") {
  Bed bed;
  bed.segments = {{.file = 3, .last_seq = 10, .pieces_seq = 25}, {.file = 4, .last_seq = 30}};
  bed.make(1, 25);
  bed.retirer.retire_until(3);
  CHECK(bed.hurried == std::vector<TreeId>{1});
}

TEST_CASE("replaced table has a due delete: leases that read it are revoked, leases on current tables are not") {
  TreeFixture fixture(1);
  fixture.context.visible_seq = 1;
  Source source;
  source.entries.push_back(entry("a", 1));
  fixture.flush(source);
  const ObsoleteSink sink = [](const ObsoleteFiles&) {};
  auto view = std::make_shared<TreeView>();
  view->tree = 1;
  view->tables = open_tables(fixture, &sink);
  const OpenTable& table = *view->tables->runs.front().tables().front();
  table.floor = 1'000;
  PurgeSurvey survey{.now = 8'999, .looked_at = 8'999};
  survey.trees[1] = {DeadlineRule(8'000), 0};
  LeaseRegistry leases;
  const auto lease = leases.lease(view, 1, 500);
  revoke_hindering_leases(&leases, survey);
  CHECK_FALSE(lease->revoked());  // the table is in the tree
  table.obsolete = true;
  survey.looked_at = 7'999;
  revoke_hindering_leases(&leases, survey);
  CHECK_FALSE(lease->revoked());  // seven eighths of the time are over at 8,000
  survey.looked_at = 8'000;
  revoke_hindering_leases(&leases, survey);
  CHECK(lease->revoked());
}

}  // namespace TEST_FILE
