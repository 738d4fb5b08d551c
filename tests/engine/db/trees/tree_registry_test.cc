// Tests that trees are made, mapped, frozen and dropped, and of the changes that the manifest gets.
#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "db/trees/tree_registry.h"
#include "io/memory_fs.h"

namespace TEST_FILE {

using namespace ebbtide;

constexpr std::uint64_t kMemTableBytes = 64 << 10;

std::vector<TreeSettings> four_databases() {
  std::vector<TreeSettings> settings(4);
  for (TreeSettings& each : settings) {
    each.delete_deadline = 0;
    each.memtable_size = kMemTableBytes;
  }
  settings[0].delete_deadline = 1000;
  settings[3].policy.name = "tiering";
  settings[3].filter_bits_per_key = settings[0].filter_bits_per_key + 1;
  return settings;
}

// The thread-safety analysis does not follow a lock that a fixture holds.
struct Bed {
  SimulatedClock clock;
  Epoch epoch;
  Millis now = 5000;
  SeqNum last_seq = 0;
  std::vector<TreeId> frozen, filters_changed;
  TreeRegistry trees{{.clock = &clock,
                      .epoch = &epoch,
                      .now = [this] { return now; },
                      .last_seq = [this] { return last_seq; },
                      .frozen = [this](const TreePtr& tree) { frozen.push_back(tree->id); },
                      .filters_changed = [this](const TreePtr& tree) { filters_changed.push_back(tree->id); }},
                     four_databases()};
  MemoryFileSystem fs;
  std::unique_ptr<VersionSet> versions;

  Bed() {
    REQUIRE(fs.create_dir("db").is_ok());
    versions = VersionSet::create(fs, "db").value();
  }
  TreePtr make(TreeId id, DatabaseId database) {
    versions->mark_tree_used(id);
    MutexLock lock(trees.commit_mutex);
    TreePtr tree = trees.make(id, database, trees.settings_of(database).stamp);
    trees.map(database, tree);
    trees.note_mapping(++last_seq);
    return tree;
  }
  void settle() {
    MutexLock lock(trees.commit_mutex);
    trees.settle();
  }
  void write(Tree& tree, SeqNum first, SeqNum last) {
    MutexLock lock(trees.commit_mutex);
    const std::string key = "k";
    Entry e;
    e.key = key;
    e.seq = last;
    tree.active->insert({e.key, hash_key(e.key)}, e);
    trees.mark_active(tree.id, first, last);
    last_seq = last;
  }
  void freeze(Tree& tree) {
    MutexLock lock(trees.commit_mutex);
    trees.freeze(tree);
  }
  void drop(const TreePtr& tree) {
    MutexLock lock(trees.commit_mutex);
    for (DatabaseId d = 0; d < trees.databases(); ++d) {
      if (trees.mapped(d) == tree) trees.map(d, nullptr);
    }
    trees.drop(tree, now);
    trees.note_mapping(++last_seq);
  }
  void swap(DatabaseId a, DatabaseId b) {
    MutexLock lock(trees.commit_mutex);
    trees.swap(a, b);
  }
  MappingChanges commit_changes() {
    VersionEdit edit;
    MappingChanges changes = trees.collect_changes(*versions, &edit);
    REQUIRE(versions->commit(std::move(edit)).is_ok());
    trees.changes_committed(changes);
    return changes;
  }
  bool mapping_changed() {
    MutexLock lock(trees.commit_mutex);
    return trees.mapping_changed();
  }
};

TEST_CASE("tree is made: it is live and empty, and has the settings of its database") {
  Bed bed;
  const TreePtr tree = bed.make(7, 3);
  CHECK(bed.trees.tree_of(3) == tree);
  CHECK(bed.trees.tree_with(7) == tree);
  CHECK(bed.trees.live_trees() == std::vector<TreePtr>{tree});
  CHECK((bed.trees.tree_of(0) == nullptr && bed.trees.tree_of(99) == nullptr && bed.trees.tree_with(8) == nullptr));
  CHECK(tree->policy->name() == "tiering");
  REQUIRE(bed.trees.view_of(*tree) != nullptr);
  CHECK(tree->view.load() == bed.trees.view_of(*tree).get());
  CHECK((bed.trees.configured_policy(3) == "tiering" && bed.trees.configured_policy(99).empty()));
  MutexLock lock(bed.trees.commit_mutex);
  CHECK(bed.trees.is_empty(*tree));
}

TEST_CASE("tree is dropped: neither its tables nor a lease of it is returned") {
  Bed bed;
  const TreePtr a = bed.make(7, 0), b = bed.make(8, 3);
  CHECK(bed.trees.live_tables(7) == bed.trees.view_of(*a)->tables);
  CHECK((bed.trees.live_tables().size() == 2 && bed.trees.live_tables()[1]->version->tree == 8));
  LeaseRegistry leases;
  const auto lease = [&](const TreePtr& tree) {
    return bed.trees.lease(
        tree, leases, [] { return SeqNum{4}; }, [] { return Millis{6}; });
  };
  const auto held = lease(a);
  REQUIRE(held != nullptr);
  CHECK((held->view() == bed.trees.view_of(*a).get() && held->seq() == 4 && held->taken() == 6 && leases.count() == 1));
  bed.drop(a);
  CHECK((bed.trees.live_tables(7) == nullptr && bed.trees.live_tables(99) == nullptr && bed.trees.live_tables().size() == 1));
  CHECK((lease(a) == nullptr && lease(nullptr) == nullptr));
}

TEST_CASE("memtable is frozen: it keeps its seqs, and readers see a new active memtable") {
  Bed bed;
  const TreePtr tree = bed.make(1, 0);
  bed.freeze(*tree);
  // There is nothing to freeze, but a flush may still be due.
  CHECK((tree->frozen.empty() && bed.frozen == std::vector<TreeId>{1}));
  bed.write(*tree, 2, 3);
  const TreeView* before = tree->view.load();
  MemTable* full = tree->active;
  bed.freeze(*tree);
  REQUIRE(tree->frozen.size() == 1);
  CHECK((tree->frozen[0].first_seq == 2 && tree->frozen[0].last_seq == 3 && tree->frozen[0].memtable.get() == full));
  CHECK((tree->view.load() != before && tree->active != full && tree->active_first_seq == 0));
  CHECK(bed.trees.view_of(*tree)->memtables.size() == 2);
  CHECK(bed.frozen == std::vector<TreeId>{1, 1});
  bed.write(*tree, 4, 4);
  {
    MutexLock lock(bed.trees.commit_mutex);
    bed.trees.freeze_quietly(*tree);
    CHECK_FALSE(bed.trees.is_empty(*tree));
  }
  CHECK((tree->frozen.size() == 2 && bed.frozen.size() == 2));
}

TEST_CASE("staged memtable is adopted: it is placed after the active one, and waits for a flush while small") {
  Bed bed;
  const TreePtr tree = bed.make(1, 0);
  bed.write(*tree, 2, 2);
  const auto staged = std::make_shared<MemTable>(1024);
  {
    MutexLock lock(bed.trees.commit_mutex);
    bed.trees.adopt(*tree, staged, 3, 9);
  }
  const auto view = bed.trees.view_of(*tree);
  REQUIRE((tree->frozen.size() == 2 && view->memtables.size() == 3));
  CHECK((tree->frozen[0].last_seq == 2 && tree->frozen[1].first_seq == 3 && tree->frozen[1].last_seq == 9));
  CHECK((view->memtables[0].get() == tree->active && view->memtables[1] == staged));
  CHECK(tree->frozen_rest);
  const auto large = std::make_shared<MemTable>(kMemTableBytes);
  for (SeqNum seq = 1; large->memory_bytes() < kMemTableBytes; ++seq)
    large->insert_range({"a" + std::to_string(seq), "b", seq, 1000});
  {
    MutexLock lock(bed.trees.commit_mutex);
    bed.trees.adopt(*tree, large, 10, 10);
  }
  CHECK_FALSE(tree->frozen_rest);  // together they fill a memtable
}

TEST_CASE("tree is dropped: it is found by its number until it is retired, and takes no writes") {
  Bed bed;
  bed.settle();
  TreePtr tree = bed.make(1, 0);
  bed.write(*tree, 2, 2);
  bed.freeze(*tree);
  bed.commit_changes();
  bed.drop(tree);
  CHECK((tree->dropped && tree->dropped_at == bed.now && bed.trees.pending_drops() == 1));
  CHECK((bed.trees.live_trees().empty() && bed.trees.tree_with(1) == tree));
  bed.freeze(*tree);
  CHECK(bed.frozen.size() == 1);
  {
    MutexLock lock(bed.trees.commit_mutex);
    bed.trees.mark_active(1, 5, 5);
    CHECK(tree->active_first_seq == 0);
  }
  {
    MutexLock lock(bed.trees.state_mutex);
    CHECK(bed.trees.dropped_deadlines().at(1).deadline() == 1000);
  }
  CHECK(bed.commit_changes().dropped == std::vector<TreePtr>{tree});
  CHECK((bed.trees.tree_with(1) == nullptr && bed.trees.pending_drops() == 0));
  const std::weak_ptr<const TreeView> view = bed.trees.view_of(*tree);
  const std::weak_ptr<const int> work = tree->work;
  bed.trees.retire(std::move(tree));
  CHECK((view.expired() && work.expired()));
}

TEST_CASE("tree is retired: its view is freed once no reader is in the epoch") {
  Bed bed;
  TreePtr tree = bed.make(1, 0);
  bed.drop(tree);
  const std::weak_ptr<const TreeView> view = bed.trees.view_of(*tree);
  {
    EpochGuard reader(bed.epoch);
    bed.trees.retire(std::move(tree));
    CHECK_FALSE(view.expired());
  }
  bed.epoch.collect();
  CHECK(view.expired());
}

TEST_CASE("trees are swapped: each takes over the settings of its new database, except for the stamp mode") {
  Bed bed;
  const TreePtr a = bed.make(1, 0), b = bed.make(2, 3);
  bed.settle();
  const StampMode stamp = a->stamp;
  bed.swap(0, 3);
  CHECK((bed.trees.tree_of(0) == b && bed.trees.tree_of(3) == a));
  CHECK((a->policy->name() == "tiering" && b->policy->name() != "tiering"));
  CHECK((a->settings.stamp == stamp && a->deadlines.deadline() == 0 && b->deadlines.deadline() == 1000));
  CHECK(bed.filters_changed == std::vector<TreeId>{2, 1});
  CHECK(bed.trees.deadlines_changed());
  bed.filters_changed.clear();
  bed.swap(0, 1);  // the settings for filters are equal
  CHECK(bed.filters_changed.empty());
}

TEST_CASE("deadline is configured before the database is open: it takes effect once the database is open") {
  Bed bed;
  const TreePtr tree = bed.make(1, 0);
  TreeSettings shorter = four_databases()[0];
  shorter.delete_deadline = 10;
  {
    MutexLock lock(bed.trees.commit_mutex);
    bed.trees.change_settings(0, shorter);
  }
  CHECK((tree->deadlines.deadline() == 1000 && !bed.trees.deadlines_changed()));
  bed.settle();
  CHECK((tree->deadlines.deadline() == 10 && tree->deadlines.earlier().size() == 1));
  shorter.delete_deadline = 20;
  {
    MutexLock lock(bed.trees.commit_mutex);
    bed.trees.change_settings(0, shorter);
  }
  CHECK((tree->deadlines.deadline() == 20 && bed.trees.deadlines_changed()));
}

TEST_CASE("tree is dropped during replay: its deadline is that in the manifest, or unknown if only the log has it") {
  Bed bed;
  const TreePtr known = bed.make(1, 0), unknown = bed.make(2, 1);
  auto version = std::make_shared<Version>();
  version->deadlines = DeadlineRule(20);
  auto tables = std::make_shared<TablesView>();
  tables->version = std::move(version);
  {
    MutexLock lock(bed.trees.state_mutex);
    auto view = std::make_shared<TreeView>(*known->view_owner);
    view->tables = std::move(tables);
    bed.trees.publish(*known, std::move(view));
  }
  bed.drop(known);
  bed.drop(unknown);
  MutexLock lock(bed.trees.state_mutex);
  const auto& rules = bed.trees.dropped_deadlines();
  REQUIRE((rules.size() == 1 && rules.count(1) == 1));
  CHECK((rules.at(1).deadline() == 1000 && rules.at(1).due(4000) == 4020));
}

TEST_CASE("edit is made: it gets the trees that were made, mapped and dropped since the last edit") {
  Bed bed;
  const TreePtr a = bed.make(bed.versions->new_tree(), 0), b = bed.make(bed.versions->new_tree(), 2);
  CHECK(bed.mapping_changed());
  bed.commit_changes();
  CHECK_FALSE(bed.mapping_changed());
  CHECK(bed.versions->databases() == std::map<DatabaseId, TreeId>{{0, a->id}, {2, b->id}});
  CHECK(bed.versions->databases_seq() == bed.last_seq);
  VersionEdit none;
  CHECK((bed.trees.collect_changes(*bed.versions, &none).seq == 0 && none.trees.empty()));
  bed.drop(b);
  bed.commit_changes();
  CHECK(bed.versions->databases() == std::map<DatabaseId, TreeId>{{0, a->id}});
  CHECK(bed.versions->tree(b->id) == nullptr);
}

TEST_CASE("oldest needed operation is searched: it is in no table, or changes the mapping and is not in the manifest") {
  Bed bed;
  const TreePtr a = bed.make(1, 0), b = bed.make(2, 1);
  CHECK(bed.trees.oldest_needed({}, {}) == 1);
  bed.commit_changes();
  CHECK(bed.trees.oldest_needed({}, {}) == 3);  // the manifest has everything
  bed.write(*a, 3, 4);
  bed.freeze(*a);
  bed.write(*a, 5, 6);
  bed.write(*b, 7, 7);
  CHECK(bed.trees.oldest_needed({}, {}) == 3);
  CHECK(bed.trees.oldest_needed({{a.get(), 1}}, {}) == 5);
  bed.drop(a);  // operation 8, which the manifest does not have: the log from operation 3 on has the mapping
  CHECK(bed.trees.oldest_needed({{a.get(), 1}}, {}) == 3);
  VersionEdit edit;
  const MappingChanges changes = bed.trees.collect_changes(*bed.versions, &edit);
  CHECK(bed.trees.oldest_needed({}, changes) == 7);  // the edit drops the tree, so the log from operation 3 on is not needed
}

TEST_CASE("manifest lacks deadlines of trees: the next edit gets them") {
  Bed bed;
  const TreePtr tree = bed.make(bed.versions->new_tree(), 0);
  VersionEdit edit;
  bed.trees.add_deadlines(*bed.versions, &edit);
  CHECK(edit.trees.empty());  // the edit that creates the tree will have the rule
  MappingChanges changes = bed.trees.collect_changes(*bed.versions, &edit);
  bed.trees.note_deadlines_changed();
  bed.trees.add_deadlines(*bed.versions, &edit);
  CHECK_FALSE(bed.trees.deadlines_changed());
  REQUIRE(edit.trees.size() == 1);
  CHECK((edit.trees[0].create && edit.trees[0].deadlines == tree->deadlines));
  REQUIRE(bed.versions->commit(std::move(edit)).is_ok());
  VersionEdit next;
  bed.trees.add_deadlines(*bed.versions, &next);
  CHECK(next.trees.empty());
  MutexLock lock(bed.trees.state_mutex);
  tree->deadlines.change(6000, 10);
  bed.trees.forget_deadline_changes(*tree, 5999);
  CHECK_FALSE(bed.trees.deadlines_changed());
  bed.trees.forget_deadline_changes(*tree, 6001);
  CHECK(bed.trees.deadlines_changed());
}

TEST_CASE("loads of trees are listed: each live tree has its deadline flag, and whether its compactions fail") {
  Bed bed;
  const TreePtr a = bed.make(1, 0), b = bed.make(2, 1), c = bed.make(3, 2);
  bed.drop(c);
  b->inherited_runs = 3;
  const auto loads = bed.trees.loads([](TreeId id) { return id == 2; });
  REQUIRE(loads.size() == 2);
  CHECK((loads[0].tree == a && !loads[0].compactions_fail && loads[0].has_deadlines));
  CHECK((loads[1].tree == b && loads[1].compactions_fail && !loads[1].has_deadlines));
  CHECK(b->inherited_runs == 0);  // the tree has no run
}

TEST_CASE("index tree is made: it is mapped apart from its database's tree, and swaps do not move it") {
  Bed bed;
  const DatabaseId index = index_tree(3, 2);
  CHECK((bed.trees.has_number(index) && bed.trees.has_number(index_tree(0, kMaxIndexTrees))));
  CHECK_FALSE((bed.trees.has_number(index_tree(4, 1)) || bed.trees.has_number(index_tree(0, kMaxIndexTrees + 1))));
  CHECK(bed.trees.tree_of(index) == nullptr);
  const TreePtr primary = bed.make(7, 3), tree = bed.make(8, index);
  CHECK((bed.trees.tree_of(3) == primary && bed.trees.tree_of(index) == tree && bed.trees.tree_of(index_tree(3, 1)) == nullptr));
  CHECK(bed.trees.mapping() == std::vector<std::pair<DatabaseId, TreeId>>{{3, 7}, {index, 8}});
  CHECK((tree->policy->name() == "tiering" && tree->settings.filter_bits_per_key == 0));
  CHECK((primary->stamp == StampMode::kWriteTime && tree->stamp == StampMode::kGiven));
  bed.settle();
  bed.commit_changes();
  CHECK(bed.versions->databases() == std::map<DatabaseId, TreeId>{{3, 7}, {index, 8}});
  bed.swap(3, 0);
  CHECK((bed.trees.tree_of(0) == primary && bed.trees.tree_of(index) == tree));
  CHECK(primary->settings.delete_deadline == 1000);
  CHECK(tree->settings.delete_deadline == 0);
}

TEST_CASE("settings of a database change: its index trees follow, except for settings of their own") {
  Bed bed;
  const TreePtr follows = bed.make(7, index_tree(3, 1)), own = bed.make(8, index_tree(3, 2)),
                other = bed.make(9, index_tree(0, 1));
  bed.settle();
  {
    MutexLock lock(bed.trees.commit_mutex);
    TreeSettings settings = bed.trees.settings_of(3);
    settings.policy.name = "leveling";
    bed.trees.change_settings(index_tree(3, 2), settings);
    settings.policy.name = "lazy_leveling";
    settings.delete_deadline = 9000;
    bed.trees.change_settings(3, settings);
  }
  CHECK((follows->policy->name() == "lazy_leveling" && follows->settings.delete_deadline == 9000));
  CHECK((own->policy->name() == "leveling" && own->settings.delete_deadline == 9000));
  CHECK((other->policy->name() != "lazy_leveling" && other->settings.delete_deadline == 1000));
}

}  // namespace TEST_FILE
