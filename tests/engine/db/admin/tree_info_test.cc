// Tests of the description of a tree in numbers.
#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "db/admin/tree_info.h"
#include "engine/db/background/tables.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

struct Bed {
  TreeFixture files{1};
  ObsoleteSink sink = [](const ObsoleteFiles&) {};
  std::shared_ptr<const Policy> policy = make_policy({}).value();
  DeadlineRule rule{1000};
  LookupsByLevel lookups{};
  TreeView view;
  std::shared_ptr<std::atomic<bool>> recorded = std::make_shared<std::atomic<bool>>(false);

  Bed() {
    view.tree = 9;
    view.recorded = recorded;
    view.memtables.push_back(std::make_shared<MemTable>(4096));
    Source source;
    for (int i = 0; i < 4; ++i) source.entries.push_back(entry("k" + std::to_string(i), ++files.context.visible_seq));
    files.flush(source);
    open();
  }
  void open() { view.tables = open_tables(files, &sink); }
  TreeInfo describe(Millis now = 5000) {
    TreeInfo info;
    describe_tree({.view = view,
                   .policy = *policy,
                   .rule = rule,
                   .lookups = lookups,
                   .memtable_size = 4096,
                   .file_size = 16384,
                   .delete_io_budget = 77,
                   .deadline_work_bytes = 88,
                   .now = now},
                  &info);
    return info;
  }
};

TEST_CASE("tree has memtables and runs: tree info lists them with their filters, and estimates the number of keys") {
  Bed bed;
  bed.view.memtables.push_back(std::make_shared<MemTable>(4096));
  const TreeInfo info = bed.describe();
  CHECK((info.tree == 9 && info.policy == bed.policy->name()));
  CHECK((info.frozen_memtables == 1 && info.memtable_entries == 0 && info.memtable_bytes != 0));
  REQUIRE(info.runs.size() == 1);
  CHECK((info.runs[0].entries == 4 && info.runs[0].files != 0 && info.runs[0].filter_bits != 0));
  CHECK(info.estimated_keys == 4);
  REQUIRE(info.filters.size() == 1);
  CHECK((info.filters[0].entries == 4 && info.filters[0].bits == info.runs[0].filter_bits));
  CHECK((info.oldest_obligation == 0 && info.oldest_obligation_deadline == 0));
  CHECK((info.delete_deadline == 1000 && info.delete_io_budget == 77 && info.deadline_work_bytes == 88));
}

TEST_CASE("lookups were measured: tree info lists those of a level beside the level's filters") {
  Bed bed;
  bed.lookups[lookup_level(bed.view.tables->runs[0].level())] = {.denied = 3, .in_vain = 2, .found = 1};
  const TreeInfo info = bed.describe();
  REQUIRE(info.filters.size() == 1);
  CHECK((info.filters[0].denied == 3 && info.filters[0].in_vain == 2 && info.filters[0].found == 1));
}

TEST_CASE("deletes are pending: tree info has the oldest birth and its deadline") {
  Bed bed;
  bed.view.memtables[0]->insert_range({"x", "y", 20, 3000});
  const std::string key = "k0";
  Entry tombstone;
  tombstone.key = key;
  tombstone.seq = 21;
  tombstone.kind = EntryKind::kTombstone;
  tombstone.delete_key = 2000;  // the tombstone's birth
  bed.view.memtables[0]->insert({tombstone.key, hash_key(tombstone.key)}, tombstone);
  const TreeInfo info = bed.describe();
  CHECK((info.oldest_obligation == 2000 && info.oldest_obligation_deadline == 3000));
  CHECK(info.estimated_keys == 3);
  bed.rule = DeadlineRule(0);
  CHECK(bed.describe().oldest_obligation_deadline == 0);
}

TEST_CASE("file is quarantined: tree info lists it with its damage") {
  Bed bed;
  TreeEdit edit;
  edit.tree = 1;
  const FileNum file = bed.files.version->runs.front().files.front()->data_file;
  edit.quarantined.emplace_back(file, "bad page");
  bed.files.install(edit);
  bed.open();
  const TreeInfo info = bed.describe();
  REQUIRE(info.quarantined.size() == 1);
  CHECK((info.quarantined[0].file == file && info.quarantined[0].damage == "bad page"));
}

TEST_CASE("several databases have quarantined files: each file is listed with its database and its damage") {
  Bed bed;
  std::vector<std::string> lines;
  list_damage(3, *bed.view.tables, &lines);
  CHECK(lines.empty());
  TreeEdit edit;
  edit.tree = 1;
  edit.quarantined.emplace_back(bed.files.version->runs.front().files.front()->data_file, "bad page");
  bed.files.install(edit);
  auto tables = std::make_shared<TablesView>(*bed.view.tables);
  tables->quarantined.push_back(bed.files.version->runs.front().files.front());
  list_damage(3, *tables, &lines);
  CHECK(lines == std::vector<std::string>{"database 3: bad page"});
}

TEST_CASE("tree has tables: its described workload counts the entries and bytes of all of them") {
  Bed bed;
  Workload workload;
  measure_tables(*bed.files.version, &workload);
  CHECK((workload.table_entries == 4 && workload.table_bytes == 4 * (2 + 800)));
  Source source;
  source.entries.push_back(entry("more", ++bed.files.context.visible_seq));
  bed.files.flush(source);
  measure_tables(*bed.files.version, &workload);
  CHECK((workload.table_entries == 5 && workload.table_bytes == 4 * (2 + 800) + 4 + 800));
}

TEST_CASE("cache had no lookups: its miss ratio is 1, as if every page came from the device") {
  CHECK(miss_ratio(0, 0) == 1);
  CHECK(miss_ratio(3, 1) == 0.25);
  CHECK(miss_ratio(5, 0) == 0);
}

}  // namespace TEST_FILE
