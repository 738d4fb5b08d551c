// Tests of a view's knowledge of its tables and memtables: the table with a key, files without readers, deletes in memory.
#include "db/trees/tree_view.h"

#include <catch2/catch.hpp>

#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "engine/db/background/tables.h"

namespace TEST_FILE {

using namespace ebbtide;
using namespace ebbtide::testing;

// A run of tables with one entry or more each.
struct Bed {
  TreeFixture tree{1};
  std::vector<std::pair<FileNum, FileNum>> obsolete;  // data file, metadata file
  ObsoleteSink sink = [this](const ObsoleteFiles& files) { obsolete.emplace_back(files.data_file, files.metadata_file); };
  SeqNum seq = 0;

  // Writes a run of one table with these keys.
  void flush(const std::vector<std::string>& keys) {
    Source source;
    for (const std::string& key : keys) source.entries.push_back(entry(key, ++seq));
    tree.context.visible_seq = seq;
    tree.flush(source);
  }
  // Returns a run with the tables of all runs, oldest first: their keys must not overlap.
  RunView one_run() {
    Run run{9, 1, {}};
    std::vector<OpenTablePtr> tables;
    for (auto at = tree.version->runs.rbegin(); at != tree.version->runs.rend(); ++at) {
      const FileMetaPtr& file = at->files.front();
      run.files.push_back(file);
      tables.push_back(std::make_shared<OpenTable>(file, tree.env.open_table(*file).value(),
                                                   std::make_shared<DataFile>(file->data_file, &sink), &sink));
    }
    return {run, std::move(tables)};
  }
  TreeView view() {
    TreeView view;
    view.recorded = std::make_shared<std::atomic<bool>>(true);
    view.memtables.push_back(std::make_shared<MemTable>(4096));
    view.tables = open_tables(tree, &sink);
    return view;
  }
};

void insert(MemTable& memtable, const std::string& key, SeqNum seq, EntryKind kind, DeleteKey stamp = kNoStamp) {
  Entry entry;
  entry.key = key;
  entry.seq = seq;
  entry.kind = kind;
  entry.value = "a value of some bytes";
  entry.delete_key = stamp;
  memtable.insert({key, hash_key(key)}, entry);
}

LookupKey lookup(const std::string& key) { return {key, hash_key(key)}; }

TEST_CASE("run is searched for a key: the table whose bounds contain the key is found, and none for a key between tables") {
  Bed bed;
  bed.flush({"user:1000000001", "user:1000000005"});
  bed.flush({"user:1000000007", "user:1000000009"});
  bed.flush({"user:2", "user:3"});
  const RunView run = bed.one_run();
  CHECK((run.find("user:1000000001") == 0 && run.find("user:1000000003") == 0 && run.find("user:1000000005") == 0));
  CHECK((run.find("user:1000000007") == 1 && run.find("user:1000000009") == 1));
  CHECK((run.find("user:2") == 2 && run.find("user:29") == 2 && run.find("user:3") == 2));
  for (const std::string none : {"", "a", "user:", "user:1000000000", "user:1000000006", "user:15", "user:30", "zzz"}) {
    INFO(none);
    CHECK(run.find(none) == -1);
  }
  CHECK((run.lower_bound("") == 0 && run.lower_bound("user:1000000005") == 0 && run.lower_bound("user:1000000006") == 1));
  CHECK((run.lower_bound("user:3") == 2 && run.lower_bound("user:30") == 3));
}

TEST_CASE("table of a file is looked up in a run: it is found only in the run that has the file") {
  Bed bed;
  bed.flush({"a", "c"});
  bed.flush({"b"});
  const auto tables = open_tables(bed.tree, &bed.sink);
  const FileMeta& newer = *bed.tree.version->runs[0].files.front();
  REQUIRE(tables->runs[0].table_of(newer) != nullptr);
  CHECK(tables->runs[0].table_of(newer)->meta->data_file == newer.data_file);
  CHECK(tables->runs[1].table_of(newer) == nullptr);
  CHECK(tables->readers_of(newer.data_file).size() == 1);
  CHECK(tables->readers_of(999).empty());
}

TEST_CASE("file becomes obsolete: it is reported when the last table that uses it is destroyed, and only once") {
  Bed bed;
  bed.flush({"a"});
  const FileMetaPtr file = bed.tree.version->runs.front().files.front();
  auto data = std::make_shared<DataFile>(file->data_file, &bed.sink);
  auto first = std::make_shared<OpenTable>(file, bed.tree.env.open_table(*file).value(), data, &bed.sink);
  auto second = std::make_shared<OpenTable>(file, bed.tree.env.open_table(*file).value(), data, &bed.sink);
  data->retire();
  data.reset();
  first->obsolete = true;
  first.reset();
  CHECK(bed.obsolete == std::vector<std::pair<FileNum, FileNum>>{{kNoFile, file->metadata_file}});
  second.reset();
  CHECK(bed.obsolete.back() == std::pair<FileNum, FileNum>{file->data_file, kNoFile});
  CHECK(bed.obsolete.size() == 2);
}

TEST_CASE("two readers have a data file open: read_only_by() is true for one once the other is destroyed") {
  Bed bed;
  bed.flush({"a"});
  const FileMetaPtr file = bed.tree.version->runs.front().files.front();
  const std::shared_ptr<TableReader> first = bed.tree.env.open_table(*file).value();
  std::shared_ptr<TableReader> second = bed.tree.env.open_table(*file).value();
  DataFile data(file->data_file, &bed.sink);
  data.add_reader(first);
  data.add_reader(second);
  CHECK((data.readers().size() == 2 && !data.read_only_by(first.get())));
  second.reset();
  CHECK((data.readers().size() == 1 && data.read_only_by(first.get()) && !data.read_only_by(nullptr)));
}

TEST_CASE("may_have_collection() is called: the key's newest version decides, in memtables and tables") {
  Bed bed;
  Source source;
  source.entries = {{.key = "compact", .seq = 1, .kind = EntryKind::kCompact, .value = "v", .first = true},
                    {.key = "string", .seq = 2, .value = "v", .first = true}};
  bed.tree.context.visible_seq = 2;
  bed.tree.flush(source);
  TreeView view = bed.view();
  auto tables = std::make_shared<TablesView>(*view.tables);
  CHECK_FALSE(view.may_have_collections());
  CHECK_FALSE(view.may_have_collection(lookup("compact"), 9));  // TablesView::collections says that there is none
  tables->collections = true;
  view.tables = tables;
  CHECK(view.may_have_collection(lookup("compact"), 9));
  insert(*view.memtables.front(), "compact", 5, EntryKind::kValue);
  insert(*view.memtables.front(), "string", 6, EntryKind::kCompact);
  CHECK_FALSE(view.may_have_collection(lookup("compact"), 9));
  CHECK(view.may_have_collection(lookup("compact"), 4));
  CHECK(view.may_have_collection(lookup("string"), 9));
  CHECK_FALSE(view.may_have_headers());
  insert(*view.memtables.front(), "large", 7, EntryKind::kHeader);
  CHECK(view.may_have_headers());
}

TEST_CASE("two deletes by stamp cover an entry: readers from the first one's seq on do not see the entry") {
  Bed bed;
  TreeView view = bed.view();
  Entry entry;
  entry.seq = 3;
  entry.delete_key = 5;
  CHECK((!view.deleted_by_record(entry, 99) && view.record_birth(entry, 99) == 0 && view.record_sets().empty()));
  view.memtables.front()->insert_record({0, 10, 8, 700});
  view.memtables.push_back(std::make_shared<MemTable>(4096));
  view.memtables.back()->insert_record({4, 6, 6, 600});
  CHECK(view.record_sets().size() == 2);
  CHECK((!view.deleted_by_record(entry, 5) && view.deleted_by_record(entry, 6)));
  CHECK((view.record_birth(entry, 5) == 0 && view.record_birth(entry, 99) == 600));
  entry.seq = 7;  // newer than one of the two
  CHECK((!view.deleted_by_record(entry, 7) && view.deleted_by_record(entry, 8) && view.record_birth(entry, 99) == 700));
  entry.delete_key = 11;
  CHECK_FALSE(view.deleted_by_record(entry, 99));
  entry.delete_key = 5;
  entry.kind = EntryKind::kTombstone;
  CHECK_FALSE(view.deleted_by_record(entry, 99));
}

TEST_CASE("entry in a memtable has expired: its expiry is among the births of the memtable's deletes") {
  MemTable memtable(4096);
  CHECK(oldest_birth(memtable, 1000) == 0);
  Entry entry;
  entry.key = "a";
  entry.seq = 1;
  entry.value = "v";
  entry.expiry = 500;
  memtable.insert(lookup("a"), entry);
  CHECK((oldest_birth(memtable, 499) == 0 && oldest_birth(memtable, 500) == 500));
  memtable.insert_range({"x", "y", 2, 300});
  CHECK((oldest_birth(memtable, 499) == 300 && oldest_birth(memtable, 900) == 300));
}

}  // namespace TEST_FILE
