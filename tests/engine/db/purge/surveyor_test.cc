// Tests that a survey finds everything that may have bytes of deletes, and the age of these deletes.
#include <catch2/catch.hpp>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/purge/surveyor.h"
#include "engine/db/trees/registry_env.h"
#include "io/memory_fs.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

constexpr Millis kNow = 1'000'000, kDeadline = 100'000;

struct Bed {
  MemoryFileSystem files;
  RemovalsFileSystem fs{files, "db"};
  PurgeLedger ledger{fs, "db"};
  SimulatedClock clock;
  Epoch epoch;
  SeqNum last_seq = 7;
  Millis stamped = kNow;  // the time that births get
  Millis now = kNow;      // the time by which lateness is measured
  std::vector<SeqNum> awaited;
  std::vector<LogSegment> segments;
  TreeRegistry trees{registry_env(clock, epoch, kNow, [this] { return last_seq; }), settings()};
  Surveyor surveyor{{.trees = &trees,
                     .ledger = &ledger,
                     .advance_time =
                         [this](SeqNum* last) {
                           *last = last_seq;
                           return stamped;
                         },
                     .await_visible = [this](SeqNum seq) { awaited.push_back(seq); },
                     .now = [this] { return now; },
                     .segments = [this] { return segments; }}};

  /// Returns the settings of databases 0 to 2: database 1 has no deadline, and that of database 2 is longer.
  static std::vector<TreeSettings> settings() {
    std::vector<TreeSettings> all = databases_of(3, 64 << 10);
    all[0].delete_deadline = kDeadline;
    all[1].delete_deadline = 0;
    all[2].delete_deadline = 2 * kDeadline;
    return all;
  }
  Bed() {
    REQUIRE(fs.create_dir("db").is_ok());
    MutexLock lock(trees.commit_mutex);
    trees.settle();
  }

  TreePtr make(TreeId id, DatabaseId database) {
    MutexLock lock(trees.commit_mutex);
    TreePtr tree = trees.make(id, database, StampMode::kWriteTime);
    trees.map(database, tree);
    return tree;
  }
  void erase(Tree& tree, Millis birth) {
    MutexLock lock(trees.commit_mutex);
    tree.active->insert_range({"a", "b", 1, birth});
    trees.mark_active(tree.id, 1, 1);
  }
  void freeze(Tree& tree) {
    MutexLock lock(trees.commit_mutex);
    trees.freeze(tree);
  }
  void drop(const TreePtr& tree, DatabaseId database, Millis birth) {
    MutexLock lock(trees.commit_mutex);
    trees.map(database, nullptr);
    trees.drop(tree, birth);
  }
  /// Gives the tree one table, and records.
  void set_table(Tree& tree, FileMeta file, std::vector<Record> records = {}) {
    auto version = std::make_shared<Version>();
    version->tree = tree.id;
    version->records = std::make_shared<RecordSet>(std::move(records));
    auto tables = std::make_shared<TablesView>();
    tables->oldest_obligation = file.oldest_obligation();
    tables->min_expiry = file.stats.min_expiry;
    version->runs.push_back({1, 0, {std::make_shared<FileMeta>(std::move(file))}});
    tables->version = std::move(version);
    MutexLock lock(trees.state_mutex);
    auto view = std::make_shared<TreeView>(*tree.view_owner);
    view->tables = std::move(tables);
    trees.publish(tree, std::move(view));
  }
  /// Returns one text for each holder, in the survey's order: "place tree floor[ file][ active]".
  std::vector<std::string> holders() {
    std::vector<std::string> out;
    const auto survey = surveyor.draw();
    for (const PurgeHolder& holder : survey->holders) {
      std::string text =
          std::string(purge_place_name(holder.place)) + " " + std::to_string(holder.tree) + " " + std::to_string(holder.floor);
      if (holder.file != kNoFile) text += " file " + std::to_string(holder.file);
      if (holder.active) text += " active";
      out.push_back(text);
    }
    return out;
  }
};

FileMeta table(FileNum file, Millis oldest_tombstone, Millis min_expiry = 0) {
  FileMeta meta;
  meta.data_file = file;
  meta.data_bytes = 100;
  meta.stats.entries = 2;
  meta.stats.tombstones = oldest_tombstone == 0 ? 0 : 1;
  meta.stats.oldest_tombstone = oldest_tombstone;
  meta.stats.min_expiry = meta.stats.max_expiry = min_expiry;
  return meta;
}

using Texts = std::vector<std::string>;

TEST_CASE("survey begins: earlier operations are visible to it, and later deletes are born after its time") {
  Bed bed;
  SeqNum up_to = 0;
  CHECK(bed.surveyor.fence(&up_to) == kNow);
  CHECK(up_to == 7);
  CHECK(bed.awaited == std::vector<SeqNum>{7});
}

TEST_CASE("tree has no deletes: the survey lists no holder of the tree") {
  Bed bed;
  const TreePtr tree = bed.make(1, 0);
  bed.set_table(*tree, table(5, 0, kNow + 1));
  CHECK(bed.holders().empty());
  CHECK(bed.surveyor.floor_of(tree) == kNow);
  CHECK(bed.surveyor.floor_of(nullptr) == kNow);
}

TEST_CASE("memtables and tables have pending deletes: the survey lists each of them with its oldest birth") {
  Bed bed;
  const TreePtr tree = bed.make(1, 0);
  bed.erase(*tree, 700);
  bed.freeze(*tree);
  bed.erase(*tree, 800);
  bed.set_table(*tree, table(5, 600));
  CHECK(bed.holders() == Texts{"memtable 1 800 active", "memtable 1 700", "table 1 600 file 5"});
  CHECK(bed.surveyor.floor_of(tree) == 600);
}

TEST_CASE("entry expires in the survey's millisecond, not later: the survey lists its table") {
  Bed bed;
  const TreePtr tree = bed.make(1, 0);
  bed.set_table(*tree, table(5, 0, kNow));
  CHECK(bed.holders() == Texts{"table 1 " + std::to_string(kNow) + " file 5"});
  bed.stamped = kNow - 2;
  CHECK(bed.holders().empty());
}

TEST_CASE("delete by stamp may cover a table's entries, or names linger: the survey lists the table") {
  Bed bed;
  const TreePtr tree = bed.make(1, 0);
  FileMeta covered = table(5, 0);
  covered.stats.min_seq = 1;
  covered.stats.min_delete_key = 10;
  covered.stats.max_delete_key = 20;
  bed.set_table(*tree, covered, {{.lo = 0, .hi = 100, .seq = 9, .birth = 500}});
  CHECK(bed.holders() == Texts{"table 1 500 file 5"});
  FileMeta named = table(6, 0);
  named.lingering_birth = 400;
  bed.set_table(*tree, named);
  CHECK(bed.holders() == Texts{"table 1 400 file 6"});
}

TEST_CASE("tree is dropped: the survey lists all its memtables and tables with the birth of the FLUSHDB") {
  Bed bed;
  const TreePtr tree = bed.make(1, 0);
  bed.erase(*tree, 900);
  bed.set_table(*tree, table(5, 0));
  bed.drop(tree, 0, 800);
  CHECK(bed.holders() == Texts{"memtable 1 800 active", "table 1 800 file 5"});
  CHECK(bed.surveyor.draw()->databases.empty());
}

TEST_CASE("log segments have deletes: the survey lists each segment with the oldest delete in it or in a later segment") {
  Bed bed;
  bed.segments.push_back({.file = 3, .last_seq = 1, .bytes = 10, .notes = {{1, 0, 0}, {2, 0, kNow + 1}}});
  bed.segments.push_back({.file = 4, .last_seq = 2, .bytes = 10, .notes = {{1, 900, 0}}});
  CHECK(bed.holders() == Texts{"log 1 900 file 3", "log 1 900 file 4"});
}

TEST_CASE("manifest and replaced files have deleted data: the survey lists them until they are removed") {
  Bed bed;
  REQUIRE(bed.fs.create("db/000009.data").is_ok());
  bed.ledger.supersede(1, 300, 400);
  bed.ledger.leave({"000009.data", 7, {{1, 200}}});
  CHECK(bed.holders() == Texts{"manifest 1 300", "leaving 1 200"});
  REQUIRE((bed.fs.unlink("db/000009.data").is_ok() && bed.fs.sync_dir("db").is_ok()));
  CHECK(bed.holders() == Texts{"manifest 1 300"});
}

TEST_CASE("tree was dropped before the start: its data is due at once, and late after the longest deadline") {
  Bed bed;
  const bool none = GENERATE(false, true);  // true: a database has no deadline
  if (!none) {
    MutexLock lock(bed.trees.commit_mutex);
    TreeSettings changed;
    changed.delete_deadline = 3 * kDeadline;
    bed.trees.change_settings(1, changed);
  }
  const TreePtr tree = bed.make(1, 2);
  bed.drop(tree, 2, kNow);
  bed.trees.retire(tree);
  {
    MutexLock lock(bed.trees.commit_mutex);
    bed.trees.clear();
  }
  bed.ledger.supersede(1, kNow - 1, 400);
  bed.ledger.supersede(2, kNow - 1, 400);
  const auto survey = bed.surveyor.draw();
  CHECK(survey->trees.at(1).known);
  CHECK(survey->trees.at(1).deadlines.deadline() == 2 * kDeadline);
  CHECK_FALSE(survey->is_due(1, kNow - 1, 1));
  CHECK_FALSE(survey->trees.at(2).known);
  CHECK(survey->trees.at(2).deadlines.deadline() == (none ? 0 : 3 * kDeadline));
  CHECK(survey->trees.at(2).promised(kNow - 1));
  CHECK(survey->is_due(2, kNow - 1, 8));
}

TEST_CASE("no memtable, file or log segment has data of a dropped tree any more: its deadline is forgotten") {
  Bed bed;
  const TreePtr tree = bed.make(1, 2);
  bed.drop(tree, 2, kNow);
  {
    MutexLock lock(bed.trees.commit_mutex);
    bed.trees.clear();
  }
  bed.surveyor.draw();
  MutexLock lock(bed.trees.state_mutex);
  CHECK(bed.trees.dropped_deadlines().empty());
}

TEST_CASE("deadline changes: the survey keeps the change as long as a delete from before it is pending") {
  Bed bed;
  const TreePtr tree = bed.make(1, 0);
  bed.erase(*tree, kNow - 10);
  tree->deadlines.change(kNow - 5, 2 * kDeadline);
  bed.surveyor.draw();
  CHECK(tree->deadlines.earlier().size() == 1);
  CHECK_FALSE(bed.trees.deadlines_changed());
  tree->deadlines = DeadlineRule(2 * kDeadline, {{kNow - 15, kDeadline}});
  bed.surveyor.draw();
  CHECK(tree->deadlines.earlier().empty());
  CHECK(bed.trees.deadlines_changed());
}

TEST_CASE("mark of engine time cannot be written: the survey judges lateness by the current time, births by the mark") {
  Bed bed;
  bed.make(1, 0);
  bed.now = kNow + 500;
  const auto survey = bed.surveyor.draw();
  CHECK((survey->now == kNow && survey->looked_at == kNow + 500));
  CHECK(survey->databases == std::vector<std::pair<DatabaseId, TreeId>>{{0, 1}});
}

TEST_CASE("PURGE.NOW is called for a ticket: deletes of its tree, or of all trees and dropped ones, are overdue") {
  Bed bed;
  const TreePtr a = bed.make(1, 0), b = bed.make(2, 1);
  bed.surveyor.make_overdue({.born_by = 500, .tree = 1});
  CHECK((a->purge_before == 500 && b->purge_before == 0));
  bed.surveyor.make_overdue({.born_by = 400});
  CHECK((a->purge_before == 500 && b->purge_before == 400));  // purge_before can only grow
  bed.ledger.supersede(9, 300, 400);
  CHECK(bed.surveyor.draw()->trees.at(9).purge_before == 500);
}

}  // namespace TEST_FILE
